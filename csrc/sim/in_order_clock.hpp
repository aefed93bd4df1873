// The clock of gem5's Minor CPU, which stops while there is nothing to do.
#pragma once

#include <algorithm>

#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

class InOrderClock {
 public:
  explicit InOrderClock(const CoreParameters& p)
      : stops_(p.front_delay() + 1), fills_(5 + p.l1i_lat()) {}
  // A row retires, or is dropped, at `at`.
  void works(Cycle at) { works_until_ = std::max(works_until_, at); }
  // When the core looks at what its caches answer at `there`, which it asked for at `asked`: the
  // answer wakes the clock, which ticks in the next cycle (gem5's MinorActivityRecorder and
  // Pipeline::evaluate).  While a load is on its way lines are fetched until all stages are full.
  Cycle line(Cycle there, Cycle asked) const { return woken(there, asked, stops_); }
  Cycle load(Cycle there, Cycle asked) const { return woken(there, asked, stops_ + fills_); }

 private:
  Cycle woken(Cycle there, Cycle asked, Cycle until_idle) const {
    return there + (there - std::max(asked, works_until_) >= until_idle);
  }
  Cycle stops_;  // so long behind its last work, which has passed the longest way between stages
  Cycle fills_;
  Cycle works_until_{};
};

}  // namespace tracekit
