// Which ports are taken in which cycles, and how many micro-ops wait in each scheduler.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "hardware/op.hpp"
#include "sim/cycle.hpp"

namespace tracekit::hardware {

class PortCalendar {
 public:
  // Forget everything before `to`.
  void advance(Cycle to) {
    if (to - at_ > horizon) {
      std::ranges::fill(busy_, 0);
      at_ = to;
    }
    for (; at_ < to; ++at_) busy_[slot(at_)] = 0;
  }
  // The first cycle from `ready` on in which one of `ports` is free for `cycles` in a row; it is
  // taken.  Of several the one that was taken least often.
  Cycle book(Cycle ready, std::uint32_t ports, int cycles) {
    Cycle at = std::max(ready, at_);
    const Cycle end = at_ + horizon - cycles;
    for (; at < end; ++at) {
      std::uint32_t free = ports & ~busy_[slot(at)];
      for (int k = 1; k < cycles && free; ++k) free &= ~busy_[slot(at + k)];
      if (!free) continue;
      const std::uint32_t chosen = choose(free);
      for (int k = 0; k < cycles; ++k) busy_[slot(at + k)] |= chosen;
      return at;
    }
    return std::max(ready, at);  // too far ahead to be planned
  }

 private:
  static constexpr Cycle horizon = 1 << 13;
  static std::size_t slot(Cycle c) { return static_cast<std::size_t>(c & (horizon - 1)); }
  std::uint32_t choose(std::uint32_t free) {
    if (std::has_single_bit(free)) return free;
    int best = std::countr_zero(free);
    for (std::uint32_t left = free & (free - 1); left; left &= left - 1) {
      const int k = std::countr_zero(left);
      if (taken_[static_cast<std::size_t>(k)] < taken_[static_cast<std::size_t>(best)]) best = k;
    }
    ++taken_[static_cast<std::size_t>(best)];
    return std::uint32_t{1} << best;
  }

  std::vector<std::uint32_t> busy_ = std::vector<std::uint32_t>(horizon, 0);
  std::array<std::uint64_t, 32> taken_{};
  Cycle at_{};
};

// How many micro-ops wait at a time: each from its allocation until it issues.
class Scheduler {
 public:
  explicit Scheduler(int entries) : entries_(entries) {}
  // The first cycle from `at` on in which it has room; forgets what was before.
  Cycle room(Cycle at) {
    advance(at);
    while (waiting_ >= entries_) advance(at_ + 1);
    return at_;
  }
  // One more waits until it issues at `until`.
  void wait(Cycle until) {
    if (until < at_) return;
    ++waiting_;
    if (until < at_ + horizon)
      ++leaves_[slot(until)];
    else
      far_.push(until);
  }
  // How many wait at `at`; forgets what was before.
  int waiting(Cycle at) {
    advance(at);
    return waiting_;
  }

 private:
  static constexpr Cycle horizon = 1 << 12;
  static std::size_t slot(Cycle c) { return static_cast<std::size_t>(c & (horizon - 1)); }
  // What issued before `to` has left.
  void advance(Cycle to) {
    for (; at_ < to; ++at_) {
      if (waiting_ == 0 && far_.empty()) {
        at_ = to;
        return;
      }
      std::uint16_t& n = leaves_[slot(at_)];
      waiting_ -= n;
      n = 0;
      for (; !far_.empty() && far_.top() <= at_; far_.pop()) --waiting_;
    }
  }

  int entries_, waiting_{};
  Cycle at_{};
  std::vector<std::uint16_t> leaves_ = std::vector<std::uint16_t>(horizon, 0);
  std::priority_queue<Cycle, std::vector<Cycle>, std::greater<>> far_;
};

}  // namespace tracekit::hardware
