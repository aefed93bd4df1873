// What a wrong path executes on units that are not pipelined, before its branch is resolved.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cycle.hpp"
#include "sim/issue_calendar.hpp"

namespace tracekit {

// A unit goes to whatever is ready when it is free.  Where the operations that the branch waits for
// follow each other with a cycle in between, one of the wrong path gets in there, and holds the
// unit (gem5's InstructionQueue::scheduleReadyInsts): the branch is resolved so much later.
// Until then cycles are those that the older rows have booked, without what comes in between.
class WrongPathUnits {
 public:
  void begin() {
    delay_ = taken_until_ = 0;
    none_behind_ = never;
  }
  // An operation is ready at `ready` that holds a unit for `held` cycles.  From when on its readers
  // could issue if a result were there at once; `never` if the branch is resolved before it issues.
  Cycle issue(const IssueCalendar& calendar, Cycle ready, std::uint64_t counted, int held,
              Cycle resolved) {
    const Cycle from = std::max(ready, taken_until_);
    if (counted == none_of_ && from >= none_behind_) return never;
    const auto gap = calendar.gap(from, counted, held, resolved);
    if (gap.cycles == 0) {
      none_of_ = counted;
      none_behind_ = from;
      return never;
    }
    taken_until_ = gap.from + gap.cycles;
    if (taken_until_ < resolved) delay_ += held - gap.cycles;
    counted_ = counted;
    return taken_until_;
  }
  // How much later it is by now.
  Cycle delay() const { return delay_; }
  // How much later the branch is resolved: if the unit was held until its operands were there, in
  // the cycle `operands`.
  Cycle delay(const IssueCalendar& calendar, Cycle operands) const {
    return delay_ > 0 && calendar.taken(operands, counted_) ? delay_ : 0;
  }

  static constexpr Cycle never = Cycle{1} << 60;

 private:
  Cycle delay_{}, taken_until_{};
  std::uint64_t counted_{}, none_of_{};
  Cycle none_behind_{never};  // no unit of that kind is free from then on
};

}  // namespace tracekit
