// What a squash leaves behind: how many rows of the wrong path there were, how long they hold the
// reorder buffer, and from when on rename takes rows again.
#include <algorithm>
#include <utility>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {

// How many rows of a wrong path find room by `at`, behind a row that was dispatched at
// `dispatched`; its entry of the reorder buffer is the one before `next`.  The last ones are
// renamed the cycle before `at`, and rename knows then what has been free for a while (gem5's
// Rename::readFreeEntries).
template <bool Why>
Cycle OutOfOrderCore<Why>::room(Cycle at, Cycle dispatched, std::uint64_t next) {
  const Cycle entries = p_.rob() - entries_held(retired_, next, p_.rob(), at - freed_delay);
  Cycle most = entries;
  // Of the rows that are in flight with the branch, so many still wait once those that had just
  // come are issued; as many wait of the wrong path's.
  const int waiting = calendar_.waiting(dispatched);
  const int stuck = calendar_.waiting(std::min(dispatched + settles, at), dispatched, waiting);
  if (stuck > 0) {
    const Cycle rows = entries_held(retired_, next, p_.rob(), dispatched);
    const auto fit = [&](int still_waiting) {
      const Cycle free = p_.iq() - still_waiting;
      return std::max(free, (free - waiting + stuck) * rows / stuck);
    };
    const Cycle refilled = std::max(dispatched, at - queue_refills);
    const int then = calendar_.waiting(refilled, dispatched, waiting);
    most = std::min(most, fit(then));
  }
  send_stores(at);
  const auto &ints = files_[CoreInst::int_file], &vecs = files_[CoreInst::vec_file];
  shares_.count_to({row_, loads_, store_count_, ints.taken, vecs.taken});
  const auto queue = [&](QueueShares::Of what, const auto& when, std::uint64_t n, int size,
                         Cycle delay) {
    const Cycle free = size - entries_held(when, n, size, at - delay);
    most = shares_.rows_for(what, free, most);
  };
  queue(QueueShares::loads, load_retired_, loads_, p_.lq(), committed_delay);
  queue(QueueShares::stores, store_drained_, store_count_, p_.sq(), drained_delay);
  queue(QueueShares::ints, ints.retired, ints.taken, ints.size, committed_delay);
  queue(QueueShares::vecs, vecs.retired, vecs.taken, vecs.size, committed_delay);
  return most;
}

// How many rows are renamed until `at` behind one that was dispatched at `dispatched`, where it is
// not known which: `fetched` is when the last one was that is.
template <bool Why>
Cycle OutOfOrderCore<Why>::rows_behind(Cycle fetched, Cycle dispatched, Cycle at) {
  // Fetch has gone on as fast as it did before; rename has had no more than its width a cycle.
  const Cycle renamed = at - 1 - (dispatched - p_.rename_to_iew());
  const Cycle supplied = at - 1 - p_.front_delay() - p_.decode_to_rename() - fetched;
  return std::min(std::max<Cycle>(0, renamed) * p_.width(),
                  fetch_speed_.rows_of_wrong_path(supplied, row_ + 1));
}

// What was dispatched behind `dispatched` leaves the reorder buffer from `at` on, `width` rows a
// cycle; until it has, nothing is renamed, and nothing retires, older rows neither.  Its entries
// stay taken until all older rows have retired (gem5's Commit::commit, ROB::doSquash).  `first`:
// the first of these entries.
template <bool Why>
void OutOfOrderCore<Why>::squash(Cycle dispatched, At squashed, std::uint64_t first, Cycle rows) {
  const Cycle at = squashed.at();
  const Cycle older = entries_held(retired_, entry_, p_.rob(), at);
  const Cycle cycles = std::max<Cycle>(0, rows - 1) / p_.width();
  front_end_.squash();
  rename_held_ = {};
  if (cycles > 0) {
    rename_held_ = squashed + squash_blocks + cycles;
    front_end_.squash(at + squash_blocks, rename_held_);
  }
  squashed_ = {row_, row_};
  if (!std::exchange(stores_told_, false))
    squashed_.to +=
        static_cast<std::uint64_t>(std::clamp<Cycle>((at + 1 - dispatched) * p_.width(), 0, rows));
  const At until = squashed + (1 + cycles + older / p_.width());
  if (until.after(retire_)) retires(until, 1);
  for (Cycle k = 0; k < rows; ++k) retired_[first + static_cast<std::uint64_t>(k)] = retire_.at();
  entry_ += static_cast<std::uint64_t>(rows);
}

#define ALL(Why)                                                         \
  template Cycle OutOfOrderCore<Why>::room(Cycle, Cycle, std::uint64_t); \
  template Cycle OutOfOrderCore<Why>::rows_behind(Cycle, Cycle, Cycle);  \
  template void OutOfOrderCore<Why>::squash(Cycle, At, std::uint64_t, Cycle);
ALL(false)
ALL(true)
#undef ALL

}  // namespace tracekit
