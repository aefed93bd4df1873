// A cache's outstanding misses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "sim/cycle.hpp"

namespace tracekit {

// Miss registers.  While all of them are in use a cache takes no access at all, hits neither
// (gem5's BaseCache::setBlocked).  Rows come in the program's order, their misses do not: one that
// comes long enough before what a register is taken for has it in between.  What it takes of that
// is added behind, so that there are never more misses than registers.
class Mshrs {
 public:
  explicit Mshrs(int n) : registers_(static_cast<std::size_t>(n)) {}

  // The first cycle from `at` on in which one is free, for as long as the last miss took.
  Cycle free_from(Cycle at) const {
    if (registers_[first_].until <= at) [[likely]]
      return at;
    Cycle free = never;
    for (const Register& r : registers_) free = std::min(free, r.free_from(at, took_));
    return free;
  }
  // When an access is taken that comes at `at`, and comes `again` behind where it was refused.
  Cycle taken_at(Cycle at, Cycle again) const {
    const Cycle free = free_from(at);
    return free > at ? free + again : at;
  }
  // A prefetch leaves two for others (gem5's MSHRQueue::canPrefetch).
  bool spare(Cycle at) const { return free(at) > 2; }
  // From when on, `at` or later, there are so many; `more`: one more is in use.
  Cycle spare_from(Cycle at, bool more) const {
    const std::size_t left = more ? 3 : 2;
    if (registers_.size() <= left) return never;
    while (free(at) <= left) at = next_free(at);
    return at;
  }
  // One is taken at `from`, until `until`.
  void take(Cycle from, Cycle until) {
    Register* taken = &registers_[first_];
    // Of those that are free in between the one whose turn for something else comes last.
    if (taken->until > from)
      for (Register& r : registers_)
        if (r.free_from(from, took_) == from &&
            (taken->free_from(from, took_) != from || r.from > taken->from))
          taken = &r;
    taken->take(from, until);
    took_ = until - from;
    const auto first = std::ranges::min_element(registers_, {}, &Register::until);
    first_ = static_cast<std::size_t>(first - registers_.begin());
  }

 private:
  static constexpr Cycle never = std::numeric_limits<Cycle>::max();
  // Taken from `from` until `until`, and free before that since `since`.
  struct Register {
    Cycle since{}, from{}, until{};
    // When it is free for `cycles`, from `at` on.
    Cycle free_from(Cycle at, Cycle cycles) const {
      if (at >= until) return at;
      const Cycle between = std::max(at, since);
      return between + cycles < from ? between : until;
    }
    void take(Cycle at, Cycle end) {
      if (at >= until) {
        since = until;
        from = at;
        until = end;
      } else {
        until += std::max<Cycle>(0, end - std::max(from, at));
        since = std::max(since, end);
        from = std::max(from, since);
      }
    }
  };
  std::size_t free(Cycle at) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        registers_, [&](const Register& r) { return r.free_from(at, took_) == at; }));
  }
  // The first cycle behind `at` in which one is free that was not then.
  Cycle next_free(Cycle at) const {
    Cycle next = never;
    for (const Register& r : registers_)
      if (const Cycle free = r.free_from(at, took_); free > at) next = std::min(next, free);
    return next;
  }

  std::vector<Register> registers_;
  std::size_t first_{};  // whose last use ends first
  Cycle took_{};         // the last miss
};

}  // namespace tracekit
