// What the timed rows of a core are written as.
#include "sim/core.hpp"

#include <algorithm>

namespace tracekit {

void Core::put_times(float* out, Cycle cycles, const Times& t, Cycle gap_origin) {
  const Cycle commit_slack = t.done + 1 - t.retired_before;
  out[core_timing::cycles] = static_cast<float>(cycles);
  out[core_timing::commit_slack] = static_cast<float>(
      std::clamp(commit_slack, -core_timing::most_commit_slack, core_timing::most_commit_slack));
  out[core_timing::dispatch_gap] = static_cast<float>(t.dispatched - gap_origin);
  out[core_timing::issue_delay] = static_cast<float>(t.issued - t.dispatched);
  out[core_timing::latency] = static_cast<float>(t.done - t.issued);
}

}  // namespace tracekit
