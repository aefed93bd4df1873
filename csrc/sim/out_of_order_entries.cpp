// What rename believes of a full reorder buffer and a full load queue.
#include <algorithm>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"
#include "sim/wrong_path.hpp"

namespace tracekit {

// When rename lets a load go for which it is ready at `at`, and whose entry is free at `free`,
// later than that.  Rename counts the load before as in flight until its dispatch, and learns of
// free entries only in cycles in which something executes, or behind one that heard of retirements
// (gem5's Rename::calcFreeLQEntries, IEW::tick): between the two it finds one entry too many, and
// the load waits for its own at dispatch.
template <bool Why>
Cycle OutOfOrderCore<Why>::load_entry_seen(Cycle at, Cycle free) const {
  const Cycle dispatched = last_load_ + p_.rename_to_iew();
  const Cycle seen = std::max({at, dispatched + 1, free - p_.rename_to_iew()});
  if (seen >= free) return free;
  for (Cycle c = dispatched; c < seen; ++c)
    if (calendar_.issues(c - p_.issue_to_exec())) return free;
  const auto retired_since = [&](Cycle then) {
    return entries_held(retired_, entry_, p_.rob(), then - committed_delay);
  };
  return retired_since(dispatched) > retired_since(seen) ? free : seen;
}

template <bool Why>
Cycle OutOfOrderCore<Why>::entry_counted(Cycle at) const {
  const auto seen = [&](Cycle then) {
    const int twice = renamed_.in(then - p_.rename_to_iew(), then - 1);
    const auto rows = static_cast<unsigned>(std::min(twice, counted_twice_));
    return freed(retired_, entry_ + rows, p_.rob(), freed_delay);
  };
  while (seen(at) > at) ++at;
  return at;
}

// There is room for the next row from `room` on, or later: rename blocks until then, or in a cycle
// behind the next one.
template <bool Why>
void OutOfOrderCore<Why>::wait_for_entries(At& room) {
  const Cycle next = renames_.at.at() + 1;
  Cycle from = next, until = entry_counted(std::max(room.at(), next));
  if (until > next) {
    room.wait_for({until, Cause::rob_full});
    rename_held_ = later(rename_held_, room);
  } else {
    while (until == from && from < next + p_.rename_to_iew() - 1) until = entry_counted(++from);
  }
  if (until > from) front_end_.block(from, {until, room.cause()});
}

template Cycle OutOfOrderCore<false>::load_entry_seen(Cycle, Cycle) const;
template Cycle OutOfOrderCore<true>::load_entry_seen(Cycle, Cycle) const;
template Cycle OutOfOrderCore<false>::entry_counted(Cycle) const;
template Cycle OutOfOrderCore<true>::entry_counted(Cycle) const;
template void OutOfOrderCore<false>::wait_for_entries(At&);
template void OutOfOrderCore<true>::wait_for_entries(At&);

}  // namespace tracekit
