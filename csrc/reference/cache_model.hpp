// Caches and memory of a reference core, as latencies: tags are exact (set-associative, LRU), time
// is not simulated but computed access by access, in trace order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
    bool prefetched{};       // and not asked for since
    std::uint8_t targets{};  // accesses that wait, or waited, for it
  };
  Cache() = default;
  Cache(int kb, int ways);

  // The line's way, made the most recent one; null on a miss.
  Way* find(std::uint64_t line);
  bool has(std::uint64_t line) const;
  // Puts a line in; the line that had to go where it was dirty, else no_line.
  std::uint64_t put(std::uint64_t line, Cycle ready, bool dirty, Cycle taken = 0,
                    bool prefetched = false);

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
  // A prefetch leaves two for others (gem5's MSHRQueue::canPrefetch).
  bool spare(Cycle at) const {
    return std::count_if(busy_.begin(), busy_.end(), [at](Cycle b) { return b > at; }) + 2 <
           static_cast<std::ptrdiff_t>(busy_.size());
  }
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
    Cycle asked{};             // when the last access to it came
    double decided{}, turn{};  // when its turn came, and after which refresh
    double column{}, idle{};   // when the next column access, and the next precharge, may begin
    int accesses{};            // of the open row
  };
  struct Refreshed {
    double at;    // when something that comes at a time can be served
    double turn;  // which refresh was the last one
  };
  Refreshed refreshed(double t) const;

  const CoreParameters p_;
  std::size_t row_lines_, banks_;
  std::vector<Bank> bank_;
  std::vector<std::uint64_t> written_;  // by bank: the row of the last write
  Channel bus_, activations_;
  double waiting_{};  // what the writes in the queue cost
  int writes_{};
  double next_decision_{};  // no read's commands are chosen before
  bool reads_{};            // since the last write
};

// What gem5's AMPM prefetcher (src/mem/cache/prefetch/access_map_pattern_matching.cc) would bring:
// lines at the other end of strides that were accessed before, in zones of 32 lines.
class AccessMaps {
 public:
  explicit AccessMaps(Cycle latency) : latency_(latency) {}
  // The distances in lines at which to prefetch, for an access to `line`; at most 30.
  std::span<const int> see(std::uint64_t line, Cycle at);

 private:
  static constexpr std::size_t sets = 32, ways = 8;
  static constexpr Cycle epoch = 256'000;
  struct Map {
    std::uint64_t zone{no_line};
    std::uint32_t accessed{}, prefetched{};
  };
  Map& map(std::uint64_t zone);
  void end_epoch();
  void prefetch(std::uint64_t line);

  std::vector<Map> map_ = std::vector<Map>(sets * ways);
  Cycle latency_, next_epoch_{epoch};
  double good_{}, total_{}, misses_{}, hits_{};
  unsigned degree_{4}, useful_{4};
  std::array<int, 32> found_{};
};

class CacheHierarchy {
 public:
  explicit CacheHierarchy(const CoreParameters& p);

  Cycle fetch(std::uint64_t address, Cycle at);  // when the instruction line is there
  Cycle load(std::uint64_t address, Cycle at, std::uint64_t pc);   // when the data is there
  Cycle store(std::uint64_t address, Cycle at, std::uint64_t pc);  // when the line can be written
  Cycle zero_line(std::uint64_t address, Cycle at, std::uint64_t pc);  // DC ZVA: no data is read
  Cycle taken_at() const { return taken_; }  // when the first cache took the last load or store

 private:
  struct Stride {
    std::uint64_t pc{}, last{};
    std::int64_t step{};
    int confidence{};
    std::int64_t see(std::uint64_t pc, std::uint64_t at);  // the step if it is to be trusted, or 0
  };
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
