// The lines of code that a front end comes to behind a branch that it foresees wrongly, where
// nothing else of the core is simulated.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cycle.hpp"
#include "sim/wrong_path_code.hpp"

namespace tracekit {

inline constexpr int line_insts = 16;  // about

// From `at` on, until the branch, a part, is resolved; `width` instructions a cycle.
// `fetch(line, at)`: when that line is there.
template <typename Fetch>
void fetch_wrong_lines(const CodeMap& code, const BranchHistory& history, std::uint32_t branch,
                       bool taken, int width, Cycle at, Cycle resolved, const Fetch& fetch) {
  std::uint64_t line = code.insts()[branch].pc >> line_bits;
  const auto straight_on = [&] {
    while (at < resolved) at = std::max(at + line_insts / width, fetch(++line, at));
  };
  WrongPathCode way(code, history);
  std::uint32_t part = way.begin(branch, taken);
  if (part == CodeMap::nowhere && taken) straight_on();
  for (int fetched = 0; part != CodeMap::nowhere && at < resolved;) {
    const std::uint64_t own = code.insts()[part].pc >> line_bits;
    if (own != line) {
      line = own;
      at = std::max(at + 1, fetch(line, at));
      fetched = 1;
    } else if (way.taken() || ++fetched > width) {
      ++at;
      fetched = 1;
    }
    part = way.behind(part, [](const CoreInst&) { return CodeMap::nowhere; });
    if (part == CodeMap::nowhere && !way.taken()) straight_on();
  }
}

}  // namespace tracekit
