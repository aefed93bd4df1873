// Caches and memory of a reference core, as latencies: tags are exact (set-associative, LRU), time
// is not simulated but computed access by access, in trace order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/core_parameters.hpp"

namespace tracekit {

using Cycle = std::int64_t;
inline constexpr std::uint64_t no_line = ~std::uint64_t{0};

class Cache {
 public:
  struct Way {
    std::uint64_t line{no_line};
    Cycle ready{};  // when the line's data is there
    bool dirty{};
  };
  Cache() = default;
  Cache(int kb, int ways);

  // The line's way, made the most recent one; null on a miss.
  Way* find(std::uint64_t line);
  bool has(std::uint64_t line) const;
  // Puts a line in; the line that had to go where it was dirty, else no_line.
  std::uint64_t put(std::uint64_t line, Cycle ready, bool dirty);

 private:
  Way* set(std::uint64_t line) { return &way_[(line & mask_) * ways_]; }
  std::size_t ways_{}, mask_{};
  std::vector<Way> way_;
};

// Outstanding misses: a miss starts when one of n registers is free.
class MissRegisters {
 public:
  explicit MissRegisters(int n) : busy_(static_cast<std::size_t>(n), 0) {}
  std::size_t first_free() const {
    return static_cast<std::size_t>(std::min_element(busy_.begin(), busy_.end()) - busy_.begin());
  }
  Cycle& operator[](std::size_t i) { return busy_[i]; }

 private:
  std::vector<Cycle> busy_;
};

// Main memory: a latency, less for the row that is open, and a bandwidth, kept as the load of
// intervals of 64 cycles so that requests may come in any order of time.
class Memory {
 public:
  explicit Memory(const CoreParameters& p) : p_(p), interval_(8192, -1), load_(8192, 0.0f) {}
  Cycle read(Cycle at, std::uint64_t line, bool store);
  Cycle write(Cycle at) { return place(at, p_.memory_write_); }  // when its turn comes

 private:
  Cycle place(Cycle at, double cost);
  const CoreParameters p_;
  std::vector<Cycle> interval_;
  std::vector<float> load_;
  std::uint64_t open_[16]{};
};

class CacheHierarchy {
 public:
  explicit CacheHierarchy(const CoreParameters& p);

  Cycle fetch(std::uint64_t address, Cycle at);  // when the instruction line is there
  Cycle load(std::uint64_t address, Cycle at, std::uint64_t pc);   // when the data is there
  Cycle store(std::uint64_t address, Cycle at, std::uint64_t pc);  // when the line can be written
  Cycle zero_line(std::uint64_t address, Cycle at);                // DC ZVA: no data is read
  bool was_pending() const { return pending_; }  // the last load or store met its line on the way

 private:
  struct Stride {
    std::uint64_t pc{}, last{};
    std::int64_t step{};
    int confidence{};
    bool see(std::uint64_t pc, std::uint64_t at);  // is the step to be trusted
  };
  Cycle data(std::uint64_t address, Cycle at, std::uint64_t pc, bool store);
  Cycle second_level(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand);
  Cycle below_second(std::uint64_t line, Cycle at);
  void put_first(std::uint64_t line, Cycle ready, bool dirty);
  void put_second(std::uint64_t line, Cycle ready, bool dirty);
  void put_third(std::uint64_t line, Cycle ready, bool dirty);
  void write_back(Cycle at) { written_ = std::max(written_, memory_.write(at)); }
  void prefetch_first(std::uint64_t address, Cycle at, std::uint64_t pc);
  void prefetch_second(std::uint64_t line, Cycle at, std::uint64_t pc);

  const CoreParameters p_;
  Cache l1i_, l1d_, l2_, l3_;
  // Stores wait until they retire, so their misses are later than those of loads around them:
  // apart.
  MissRegisters first_load_, first_store_, second_load_, second_store_;
  Memory memory_;
  std::vector<Stride> stride1_{64}, stride2_{64};
  Cycle now_{}, written_{};
  bool storing_{}, pending_{};
};

}  // namespace tracekit
