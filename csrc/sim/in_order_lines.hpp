// Lines of code as gem5's Minor CPU asks for them (src/cpu/minor/fetch1.cc): one at a time, and
// while there is room for two that have not been worked off, the next one unasked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "sim/cache_model.hpp"
#include "sim/cycle.hpp"
#include "sim/in_order_clock.hpp"

namespace tracekit {

class InOrderLines {
 public:
  // Behind a taken branch, asked for before Fetch1 learns of it.
  static constexpr std::uint64_t lines_ahead = 2;
  static constexpr Cycle never = std::numeric_limits<Cycle>::max();
  // `clock` outlives it.
  InOrderLines(Cycle latency, const InOrderClock& clock) : latency_(latency), clock_(clock) {}
  std::uint64_t line() const { return line_; }
  // The line of `pc` is asked for by a branch that the next stage foresees at `at`: in the cycle
  // behind, or when the line in flight is there.  That stage drops its lines at once, and before
  // Fetch1 learns of the branch it asks for the line behind them.  On a wrong path, from which
  // Fetch1 is redirected at `redirected`, nothing is requested from then on: `redirected`.
  Cycle foreseen(CacheHierarchy& caches, std::uint64_t pc, Cycle at, Cycle redirected = never) {
    drop(caches, at);
    return std::max(at + 1, free_) < redirected ? jump(caches, pc, at + 1) : redirected;
  }
  // As by a branch that is foreseen at `at`, of which nobody knows where it leads.
  void missed(CacheHierarchy& caches, Cycle at, Cycle redirected) {
    drop(caches, at);
    if (std::max(at + 1, free_) < redirected) free_ = std::max(at + 1, free_) + latency_ + 1;
    line_ = no_line;
  }
  // The line of `pc` follows; the one before is worked off at `worked_off`.
  Cycle follow(CacheHierarchy& caches, std::uint64_t pc, Cycle worked_off,
               Cycle redirected = never) {
    const Cycle asked = std::max(free_, worked_off_);
    if (asked >= redirected) return redirected;
    worked_off_ = worked_off;
    return ask(caches, pc, asked);
  }
  // The line of `pc` is requested at `at`, when a resolved branch redirects Fetch1.  The line
  // behind the last one was, too, if there was time.
  Cycle redirect(CacheHierarchy& caches, std::uint64_t pc, Cycle at) {
    ahead(caches, at - 1, at);
    return jump(caches, pc, at);
  }
  void forget() { line_ = no_line; }

 private:
  // The next stage drops its lines at `at`.
  void drop(CacheHierarchy& caches, Cycle at) {
    for (std::uint64_t k = 0; k < lines_ahead; ++k) ahead(caches, at, at);
  }
  Cycle jump(CacheHierarchy& caches, std::uint64_t pc, Cycle at) {
    worked_off_ = at;
    return ask(caches, pc, std::max(at, free_));
  }
  // Asks for the next line, if that is before `until` is over; the one before it is worked off at
  // `worked_off`.
  void ahead(CacheHierarchy& caches, Cycle until, Cycle worked_off) {
    const Cycle asked = std::max(free_, std::min(worked_off_, worked_off));
    if (line_ == no_line || asked > until) return;
    ask(caches, (line_ + 1) << line_bits, asked);
    worked_off_ = worked_off;
  }
  Cycle ask(CacheHierarchy& caches, std::uint64_t pc, Cycle at) {
    line_ = pc >> line_bits;
    const Cycle there = clock_.line(caches.fetch(pc, at), at);
    free_ = there + 1;
    return there;
  }

  Cycle latency_;  // of a hit
  const InOrderClock& clock_;
  std::uint64_t line_{no_line};
  Cycle free_{}, worked_off_{};  // by the line before this one
};

}  // namespace tracekit
