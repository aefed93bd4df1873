// Caches and memory of a reference core, as latencies: tags are exact, time is not simulated but
// computed access by access, in trace order.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/cache.hpp"
#include "reference/core_parameters.hpp"
#include "reference/cycle.hpp"
#include "reference/memory_model.hpp"
#include "reference/prefetchers.hpp"

namespace tracekit {

class CacheHierarchy {
 public:
  explicit CacheHierarchy(const CoreParameters& p);

  Cycle fetch(std::uint64_t address, Cycle at);  // when the instruction line is there
  Cycle load(std::uint64_t address, Cycle at, std::uint64_t pc);   // when the data is there
  Cycle store(std::uint64_t address, Cycle at, std::uint64_t pc);  // when the line can be written
  Cycle zero_line(std::uint64_t address, Cycle at, std::uint64_t pc);  // DC ZVA: no data is read
  Cycle taken_at() const { return taken_; }  // when the first cache took the last load or store

 private:
  Cycle data(std::uint64_t address, Cycle at, std::uint64_t pc, bool store);
  Cycle second_level(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand);
  Cycle over_the_bus(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand);
  Cycle below_second(std::uint64_t line, Cycle at);
  Cycle passes_on(int latency) const;
  void put_first(std::uint64_t line, Cycle asked, Cycle ready, bool dirty, bool prefetched = false);
  void put_second(std::uint64_t line, Cycle ready, bool dirty, bool prefetched = false);
  void put_third(std::uint64_t line, Cycle ready, bool dirty);
  void write_back(Cycle at, std::uint64_t line);
  Cycle from_memory(Cycle at, std::uint64_t line);
  void prefetch_first(std::uint64_t address, Cycle at, std::uint64_t pc);
  void prefetch_second(std::uint64_t line, Cycle at, std::uint64_t pc);

  const CoreParameters p_;
  Cache l1i_, l1d_, l2_, l3_;
  // Stores wait until they retire, so their misses are later than those of loads around them:
  // apart.
  MissRegisters first_load_, first_store_, second_load_, second_store_;
  Memory memory_;
  // The crossbars: requests with the lines that are written back, and answers.
  Channel to_second_, from_second_, to_third_, from_third_, to_memory_, from_memory_;
  std::vector<Stride> stride1_{64}, stride2_{64};
  AccessMaps maps_;
  Cycle now_{}, written_{}, taken_{};
  // While a line has all the targets that it may have, the first cache takes nothing.
  Cycle blocked_{}, blocked_until_{};
  bool storing_{}, zeroing_{};
};

}  // namespace tracekit
