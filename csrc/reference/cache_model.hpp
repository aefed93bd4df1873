// Caches and memory of a reference core, as latencies: tags are exact (set-associative, LRU), time
// is not simulated but computed access by access, in trace order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/core_parameters.hpp"
#include "reference/cycle.hpp"

namespace tracekit {

class Cache {
 public:
  struct Way {
    std::uint64_t line{no_line};
    Cycle ready{};         // when the line's data is there
    std::int32_t taken{};  // from its request until then
    bool dirty{};
  };
  Cache() = default;
  Cache(int kb, int ways);

  // The line's way, made the most recent one; null on a miss.
  Way* find(std::uint64_t line);
  bool has(std::uint64_t line) const;
  // Puts a line in; the line that had to go where it was dirty, else no_line.
  std::uint64_t put(std::uint64_t line, Cycle ready, bool dirty, Cycle taken = 0);

 private:
  Way* set(std::uint64_t line) { return &way_[(line & mask_) * ways_]; }
  std::size_t ways_{}, mask_{};
  std::vector<Way> way_;
};

// Outstanding misses.  While all registers are in use a cache takes no access at all, hits neither
// (gem5's BaseCache::setBlocked).
class MissRegisters {
 public:
  explicit MissRegisters(int n) : busy_(static_cast<std::size_t>(n), 0) {}
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

// Wires or a bus: how much of each 64 cycles is taken, so that requests may come in any order of
// time.
class Channel {
 public:
  // When something that takes `cost` cycles may start, from `at` on.
  Cycle place(Cycle at, double cost);

 private:
  static constexpr std::size_t kept = 1024;
  struct Interval {
    Cycle number{-1};
    float load{};
  };
  Interval* interval(Cycle number);  // null: longer ago than is kept
  std::vector<Interval> ring_ = std::vector<Interval>(kept);
};

// Main memory as gem5's controllers time it (src/mem/dram_interface.cc): banks with an open row,
// activations, one data bus; reads as they come, writes when there is time.
class Memory {
 public:
  explicit Memory(const CoreParameters& p);
  Cycle read(Cycle at, std::uint64_t line);   // when its data is there
  Cycle write(Cycle at, std::uint64_t line);  // when its turn comes

 private:
  struct Bank {
    std::uint64_t row{no_line};
    Cycle asked{};            // when the last access to it came
    double column{}, idle{};  // when the next column access, and the next precharge, may begin
    int accesses{};           // of the open row
  };
  const CoreParameters p_;
  std::size_t row_lines_, banks_;
  std::vector<Bank> bank_;
  std::vector<std::uint64_t> written_;  // by bank: the row of the last write
  Channel bus_, activations_;
  bool reads_{};  // since the last write
};

class CacheHierarchy {
 public:
  explicit CacheHierarchy(const CoreParameters& p);

  Cycle fetch(std::uint64_t address, Cycle at);  // when the instruction line is there
  Cycle load(std::uint64_t address, Cycle at, std::uint64_t pc);   // when the data is there
  Cycle store(std::uint64_t address, Cycle at, std::uint64_t pc);  // when the line can be written
  Cycle zero_line(std::uint64_t address, Cycle at, std::uint64_t pc);  // DC ZVA: no data is read
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
  Cycle over_the_bus(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand);
  Cycle below_second(std::uint64_t line, Cycle at);
  void put_first(std::uint64_t line, Cycle asked, Cycle ready, bool dirty);
  void put_second(std::uint64_t line, Cycle ready, bool dirty);
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
  Cycle now_{}, written_{};
  bool storing_{}, pending_{};
};

}  // namespace tracekit
