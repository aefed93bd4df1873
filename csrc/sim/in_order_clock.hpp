// The clock of gem5's Minor CPU, which stops while there is nothing to do.
#pragma once

#include "sim/cycle.hpp"

namespace tracekit {

// When the core looks at what comes from its caches at `there`, with nothing else to do since
// `since`: the answer wakes the clock, which ticks in the next cycle (gem5's
// MinorActivityRecorder and Pipeline::evaluate).
inline Cycle woken(Cycle there, Cycle since) {
  constexpr Cycle until_idle = 10;  // until all stages are empty, or full
  return there + (there - since >= until_idle);
}

}  // namespace tracekit
