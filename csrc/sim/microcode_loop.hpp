// Loops of X86's microcode: divisions.  How often one turns follows from values, which a trace does
// not have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/split_mix.hpp"

namespace tracekit {

// The parts from `from` to `branch`, which goes back while the loop turns.
struct MicrocodeLoop {
  static constexpr std::size_t cases = 64;
  std::uint32_t from, branch;
  std::array<std::uint8_t, cases> turns;  // each as likely as any other

  // Of the nth execution of such a loop: the same wherever a walk begins.
  unsigned turns_of(std::uint64_t n) const { return turns[(split_mix(n) >> 32) % cases]; }
};

// The loops of a program's static instructions.
class MicrocodeLoops {
 public:
  MicrocodeLoops() = default;
  // loops[k] is instruction sids[k]'s.
  MicrocodeLoops(const std::vector<std::uint32_t>& sids, std::vector<MicrocodeLoop> loops,
                 std::size_t statics)
      : loops_(std::move(loops)) {
    if (loops_.empty()) return;
    of_.assign(statics, 0);
    for (std::size_t k = 0; k < sids.size(); ++k) of_[sids[k]] = static_cast<std::uint32_t>(k + 1);
  }
  const MicrocodeLoop* of(std::uint32_t sid) const {
    if (of_.empty() || of_[sid] == 0) return nullptr;
    return &loops_[of_[sid] - 1];
  }

 private:
  std::vector<MicrocodeLoop> loops_;
  std::vector<std::uint32_t> of_;  // by static instruction: 0, or its loop's number and 1
};

}  // namespace tracekit
