// How many rows were renamed in each of the last cycles.
#pragma once

#include <array>
#include <cstddef>

#include "sim/cycle.hpp"

namespace tracekit {

class RenamedRows {
 public:
  void add(Cycle at) {
    OfCycle& cycle = of_[slot(at)];
    if (cycle.at != at) cycle = {at, 0};
    ++cycle.rows;
  }
  // In the cycles from `from` until before `to`, of the last 64.
  int in(Cycle from, Cycle to) const {
    int rows = 0;
    for (; from < to; ++from) {
      const OfCycle& cycle = of_[slot(from)];
      if (cycle.at == from) rows += cycle.rows;
    }
    return rows;
  }

 private:
  struct OfCycle {
    Cycle at{-1};
    int rows{};
  };
  static std::size_t slot(Cycle at) { return static_cast<std::size_t>(at) % 64; }
  std::array<OfCycle, 64> of_{};
};

}  // namespace tracekit
