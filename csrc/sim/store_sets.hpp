// Memory dependences: which store a load has to wait for (store sets, Chrysos and Emer 1998, with
// the sizes and the granularity of gem5's O3 core).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/cycle.hpp"

namespace tracekit {

class StoreSets {
 public:
  // A store, and a load that ran before it and read what it writes.
  struct Pair {
    std::uint64_t store_pc{}, load_pc{};
  };
  static constexpr int no_set = -1;
  static constexpr std::size_t size = 1024;
  static constexpr std::uint64_t never = 1 << 20;
  struct Last {
    Cycle issue{-1}, done{-1};
    std::uint64_t row{};
    bool squashed{};  // a younger one was
    std::uint64_t store_distance{never},
        store_distance_before{never};  // rows from the store before
    // By which row another store of the set is likely.
    std::uint64_t next() const { return row + std::max(store_distance, store_distance_before); }
  };
  // The set of a memory instruction.
  int of(std::uint64_t pc, bool stores) {
    if (stores) store_comes();
    return now(pc);
  }
  int now(std::uint64_t pc) const { return set_[slot(pc)]; }
  // Rows that were squashed: from the one until before the other.
  struct Squashed {
    std::uint64_t from{}, to{};
  };
  // Until when a memory instruction of the set waits that is dispatched at `dispatched`: for the
  // set's last store, unless a store that was squashed since had taken its place; then for none
  // (gem5's StoreSet::squash).  What a violation squashed are the rows that follow.
  Cycle waits_for(int set, Cycle dispatched, const Squashed& rows) const {
    const Last& store = last_[static_cast<std::size_t>(set)];
    const bool forgotten = store.squashed || (store.row < rows.from && store.next() <= rows.to);
    return store.issue >= dispatched && !forgotten ? store.done : 0;
  }
  void put(int set, Cycle issue, Cycle done, std::uint64_t row) {
    Last& l = last_[static_cast<std::size_t>(set)];
    l = {issue, done, row, false, l.issue < 0 ? never : row - l.row, l.store_distance};
  }
  // A store of a wrong path was its set's last one when it was squashed: then there is none (gem5's
  // StoreSet::squash).
  void squashed(std::uint64_t pc) {
    store_comes();
    if (const int set = now(pc); set != no_set)
      last_[static_cast<std::size_t>(set)].squashed = true;
  }
  void violation(const Pair& pair) {
    std::int16_t &load = set_[slot(pair.load_pc)], &store = set_[slot(pair.store_pc)];
    if (load < 0 && store < 0)
      load = store = static_cast<std::int16_t>((pair.load_pc ^ (pair.load_pc >> 10)) & (size - 1));
    else if (load < 0)
      load = store;
    else if (store < 0)
      store = load;
    else
      load = store = std::min(load, store);
  }
  // As behind so many stores of the program, most of which were not seen here.  What has a set are
  // stores and loads that were seen in the wrong order since all were last forgotten.  Others that
  // have been before are likely to be soon, but not sure to: to take that for granted would keep
  // each pair for ever that was wrong once.
  void go_on_behind(std::uint64_t stores) {
    const std::uint64_t turn = stores / (period + 1);
    if (std::exchange(turn_, turn) != turn) forget();
    seen_ = stores % (period + 1);
  }

 private:
  // Sets are forgotten every 250,000 stores; loads are not counted (nothing calls gem5's
  // StoreSet::insertLoad).
  static constexpr std::uint64_t period = 250'000;
  void store_comes() {
    if (++seen_ <= period) return;
    forget();
    ++turn_;
  }
  void forget() {
    seen_ = 0;
    std::fill(set_.begin(), set_.end(), std::int16_t{no_set});
    std::fill(last_.begin(), last_.end(), Last{});
  }

  static std::size_t slot(std::uint64_t pc) { return pc >> 2 & (size - 1); }
  std::vector<std::int16_t> set_ = std::vector<std::int16_t>(size, std::int16_t{no_set});
  std::vector<Last> last_ = std::vector<Last>(size);
  std::uint64_t seen_{};  // since all were forgotten
  std::uint64_t turn_{};  // so often they were
};

}  // namespace tracekit
