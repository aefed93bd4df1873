// The clock of gem5's Minor CPU, which stops while there is nothing to do.
#pragma once

#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

class InOrderClock {
 public:
  explicit InOrderClock(const CoreParameters& p) : until_idle_(6 + p.l1i_lat() + p.front_delay()) {}
  // When the core looks at what comes from its caches at `there`, with nothing else to do since
  // `since`: the answer wakes the clock, which ticks in the next cycle (gem5's
  // MinorActivityRecorder and Pipeline::evaluate).
  Cycle woken(Cycle there, Cycle since) const { return there + (there - since >= until_idle_); }

 private:
  // Until all stages are empty, or full, and the longest delay between two of them has passed.
  Cycle until_idle_;
};

}  // namespace tracekit
