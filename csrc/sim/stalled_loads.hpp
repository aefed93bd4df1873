// Loads that wait for a store which holds only a part of what they read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/cycle.hpp"

namespace tracekit {

// The oldest one that waits says for which store: when that is sent all of them issue again, and
// none before (gem5's LSQUnit::read, storePostSend, MemDepUnit::replay).  Rows come in the
// program's order, so that those before are older.
class StalledLoads {
 public:
  // When one issues again that finds at `from` that it has to wait, and whose own store is sent at
  // `own`.
  Cycle released(Cycle from, Cycle own) {
    Cycle until = own, first = own;
    for (const Stall& s : stalls_) {
      if (s.until < from || s.from > first) continue;
      first = std::max(s.from, from);
      until = s.until;
    }
    stalls_[next_++ % stalls_.size()] = {from, until};
    return until;
  }

 private:
  struct Stall {
    Cycle from{-1}, until{-1};
  };
  std::array<Stall, 8> stalls_{};
  std::size_t next_{};
};

}  // namespace tracekit
