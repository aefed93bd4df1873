// Which cycles have room to issue an instruction, and how many wait for theirs in the issue queue.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "sim/cache_model.hpp"

namespace tracekit {

enum class Unit : std::uint8_t { any, int_alu, int_mul, fp, simd, load, store };

class IssueCalendar {
 public:
  IssueCalendar(const CoreParameters& p)
      : room_{p.int_alu(),    p.int_mul(),     p.fp(), p.simd(),
              p.load_ports(), p.store_ports(), 0,      p.issue_width()},
        used_(horizon, 0),
        issued_(horizon, 0) {}

  // Forget everything before `to`: dispatch has come that far.
  void advance(Cycle to) {
    while (at_ < to) {
      if (waiting_ == 0 && to - at_ > horizon) {
        std::fill(used_.begin(), used_.end(), 0);
        at_ = to;
        break;
      }
      std::uint16_t& n = issued_[slot(at_)];
      waiting_ -= n;
      n = 0;
      used_[slot(at_)] = 0;
      ++at_;
    }
    while (!far_.empty() && far_.top() < to) {
      --waiting_;
      far_.pop();
    }
  }
  int waiting() const { return waiting_; }
  int waiting(Cycle then) const {
    int n = waiting_;
    for (Cycle c = at_; c < std::min(then, at_ + horizon); ++c) n -= issued_[slot(c)];
    return n;
  }

  // The first cycle from `ready` on that has room; a unit that is not pipelined is held for
  // `latency`.
  Cycle book(Cycle ready, Unit unit, int latency, bool pipelined) {
    const Cycle end = at_ + horizon - 64;
    const int lane = static_cast<int>(unit) - 1;
    const int held = pipelined || unit == Unit::any ? 1 : latency;
    while (ready < end && !fits(ready, lane, held)) ++ready;
    if (ready >= end) return ready;  // too far ahead to be planned
    if (lane >= 0)
      for (int k = 0; k < held; ++k) used_[slot(ready + k)] += std::uint64_t{1} << (8 * lane);
    used_[slot(ready)] += std::uint64_t{1} << 56;
    return ready;
  }
  // An instruction's place in the queue is free from the cycle behind `at` on.
  void leave(Cycle at) {
    ++waiting_;
    if (at < at_ + horizon - 64)
      ++issued_[slot(at)];
    else
      far_.push(at);
  }

 private:
  static constexpr Cycle horizon = 1 << 14;
  static std::size_t slot(Cycle c) { return static_cast<std::size_t>(c & (horizon - 1)); }
  int used(Cycle c, int lane) const { return static_cast<int>(used_[slot(c)] >> (8 * lane) & 255); }
  bool fits(Cycle c, int lane, int held) const {
    if (used(c, 7) >= room_[7]) return false;
    if (lane < 0) return true;
    for (int k = 0; k < held; ++k)
      if (used(c + k, lane) >= room_[static_cast<std::size_t>(lane)]) return false;
    return true;
  }

  std::array<int, 8> room_;
  std::vector<std::uint64_t> used_;    // eight counters of a byte: units, and all of them
  std::vector<std::uint16_t> issued_;  // how many leave the queue in a cycle
  std::priority_queue<Cycle, std::vector<Cycle>, std::greater<>> far_;
  Cycle at_{};
  int waiting_{};
};

}  // namespace tracekit
