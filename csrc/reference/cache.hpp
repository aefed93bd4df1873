// One cache's tags (set-associative, LRU) and its outstanding misses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

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

}  // namespace tracekit
