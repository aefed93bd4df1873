// Memory dependences: which store a load has to wait for (store sets, Chrysos and Emer 1998, with
// the sizes and the granularity of gem5's O3 core).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cycle.hpp"

namespace tracekit {

class StoreSets {
 public:
  static constexpr int no_set = -1;
  static constexpr std::uint64_t never = 1 << 20;
  struct Last {
    Cycle issue{-1}, done{-1};
    std::uint64_t row{};
    std::uint64_t store_distance{never},
        store_distance_before{never};  // rows from the store before
    // By which row another store of the set is likely.
    std::uint64_t next() const { return row + std::max(store_distance, store_distance_before); }
  };
  // The set of a memory instruction; sets are forgotten every 250,000 of them.
  int of(std::uint64_t pc) {
    if (++seen_ > 250'000) {
      seen_ = 0;
      std::fill(set_.begin(), set_.end(), std::int16_t{no_set});
      std::fill(last_.begin(), last_.end(), Last{});
    }
    return now(pc);
  }
  int now(std::uint64_t pc) const { return set_[slot(pc)]; }
  const Last& last_store(int set) const { return last_[static_cast<std::size_t>(set)]; }
  void put(int set, Cycle issue, Cycle done, std::uint64_t row) {
    Last& l = last_[static_cast<std::size_t>(set)];
    l = {issue, done, row, l.issue < 0 ? never : row - l.row, l.store_distance};
  }
  void violation(std::uint64_t store_pc, std::uint64_t load_pc) {
    std::int16_t &load = set_[slot(load_pc)], &store = set_[slot(store_pc)];
    if (load < 0 && store < 0)
      load = store = static_cast<std::int16_t>((load_pc ^ (load_pc >> 10)) & (size - 1));
    else if (load < 0)
      load = store;
    else if (store < 0)
      store = load;
    else
      load = store = std::min(load, store);
  }

 private:
  static constexpr std::size_t size = 1024;
  static std::size_t slot(std::uint64_t pc) { return pc >> 2 & (size - 1); }
  std::vector<std::int16_t> set_ = std::vector<std::int16_t>(size, std::int16_t{no_set});
  std::vector<Last> last_ = std::vector<Last>(size);
  std::size_t seen_{};
};

}  // namespace tracekit
