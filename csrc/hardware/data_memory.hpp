// Caches, TLBs, prefetchers and memory of a real processor, as latencies: tags are exact, time is
// computed access by access, in the trace's order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hardware/lines.hpp"
#include "hardware/machine_parameters.hpp"
#include "hardware/prefetch.hpp"
#include "sim/cycle.hpp"
#include "sim/memory_model.hpp"

namespace tracekit::hardware {

// Misses that a cache waits for at a time.
class Misses {
 public:
  explicit Misses(double n) : busy_(static_cast<std::size_t>(n), 0) {}
  Cycle free_at() const { return busy_[first_]; }
  // The one that is free first is taken until `until`.
  void take(Cycle until) {
    busy_[first_] = until;
    first_ = static_cast<std::size_t>(std::min_element(busy_.begin(), busy_.end()) - busy_.begin());
  }

 private:
  std::vector<Cycle> busy_;
  std::size_t first_{};
};

class DataMemory {
 public:
  explicit DataMemory(const MachineParameters& p);

  struct Access {
    std::uint64_t address;
    unsigned size;
    std::uint64_t pc;
    Cycle at;
  };
  Cycle fetch(std::uint64_t line, Cycle at);       // when the instruction line is there
  Cycle load(const Access& a, Cycle latency);      // when the data is there
  Cycle store(const Access& a, bool nontemporal);  // when the line can be written
  void prefetch(std::uint64_t address, Cycle at);  // what an instruction asks for
  std::uint64_t page_of(std::uint64_t address) const { return address / page_bytes_; }

 private:
  Cycle line_in_l1(std::uint64_t line, Cycle at, std::uint64_t pc, std::uint64_t address,
                   bool store);
  Cycle from_l2(std::uint64_t line, Cycle at, bool demand, bool keep = true);
  Cycle below_l2(std::uint64_t line, Cycle at);
  Cycle translate(std::uint64_t address, Cycle at);
  Cycle walk(std::uint64_t page, Cycle at);
  void fill_l1(std::uint64_t line, Cycle ready, bool dirty, bool prefetched);
  void fill_l2(std::uint64_t line, Cycle ready, bool dirty, bool prefetched);
  void train_l1(std::uint64_t line, std::uint64_t address, std::uint64_t pc, Cycle at, bool missed);
  void train_l2(std::uint64_t line, Cycle at);
  void bring_l1(std::uint64_t from, std::uint64_t line, Cycle at);
  void bring_l2(std::uint64_t from, std::uint64_t line, Cycle at);
  bool within(std::uint64_t from, std::uint64_t line) const;

  const MachineParameters p_;
  std::uint64_t page_bytes_;
  Cycle l2_latency_, l3_latency_, memory_latency_;
  double l2_line_, l3_line_, memory_line_;  // cycles of a line on each way
  Lines l1i_, l1d_, l2_, l3_, itlb_, dtlb_, tlb_;
  Misses load_misses_, store_misses_, l2_misses_, prefetch_misses_, walkers_;
  Channel l2_way_, l3_way_, memory_way_;
  StridePrefetcher stride_;
  StreamPrefetcher l1_stream_, l2_stream_;
  RegionPrefetcher region_;
};

}  // namespace tracekit::hardware
