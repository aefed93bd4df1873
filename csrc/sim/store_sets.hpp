// Memory dependences: which store a load has to wait for (store sets, Chrysos and Emer 1998, with
// the sizes and the granularity of gem5's O3 core).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "sim/cycle.hpp"
#include "sim/memory_meetings.hpp"

namespace tracekit {

class StoreSets {
 public:
  // A store, and a load that ran before it and read what it writes.
  using Pair = MemoryMeetings::Pair;
  static constexpr int no_set = -1;
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
    if (known_.insert(pair).second) violated_.push_back(pair);
    join(pair);
  }
  // Pairs that were in the wrong order, and have not been told yet, are to be watched.
  void tell(MemoryMeetings& meetings) {
    for (; told_ < violated_.size(); ++told_) meetings.watch(violated_[told_]);
  }
  // As behind all stores that `meetings` has counted, most of which were not seen here: what has a
  // set are stores and loads of pairs that have met since all would last have been forgotten. Which
  // sets have become one in the meantime nobody knows; it is taken for about what has become of
  // them in as many stores that were seen.
  void recall(const MemoryMeetings& meetings) {
    if (walked_ > period) forget();
    seen_ = meetings.counted() % (period + 1);
    std::vector<std::int16_t> before(size, std::int16_t{no_set});
    std::swap(before, set_);
    std::vector<Pair> lately;
    for (const Pair& pair : violated_) {
      if (!meetings.met(pair, meetings.counted() - seen_)) continue;
      lately.push_back(pair);
      for (const std::size_t s : {slot(pair.store_pc), slot(pair.load_pc)}) set_[s] = before[s];
    }
    for (const Pair& pair : lately)
      if (now(pair.store_pc) < 0 || now(pair.load_pc) < 0) join(pair);
  }

 private:
  // Sets are forgotten every 250,000 stores; loads are not counted (nothing calls gem5's
  // StoreSet::insertLoad).
  static constexpr std::uint64_t period = 250'000;
  void store_comes() {
    ++walked_;
    if (++seen_ > period) forget();
  }
  void forget() {
    seen_ = walked_ = 0;
    std::fill(set_.begin(), set_.end(), std::int16_t{no_set});
    std::fill(last_.begin(), last_.end(), Last{});
  }
  void join(const Pair& pair) {
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

  static constexpr std::size_t size = 1024;
  static std::size_t slot(std::uint64_t pc) { return pc >> 2 & (size - 1); }
  std::vector<std::int16_t> set_ = std::vector<std::int16_t>(size, std::int16_t{no_set});
  std::vector<Last> last_ = std::vector<Last>(size);
  std::uint64_t seen_{};        // since all were forgotten
  std::uint64_t walked_{};      // the same, of those that came to of()
  std::vector<Pair> violated_;  // at any time, each once
  std::unordered_set<Pair, MemoryMeetings::PairHash> known_;  // the same
  std::size_t told_{};                                        // of the first ones
};

}  // namespace tracekit
