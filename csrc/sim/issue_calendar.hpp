// Which cycles have room to issue an instruction, and how many wait for theirs in the issue queue.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "sim/cache_model.hpp"

namespace tracekit {

enum class Unit : std::uint8_t { any, int_alu, int_mul, fp, simd, load, store };

class IssueCalendar {
  static constexpr Cycle horizon = 1 << 14;
  static constexpr int full = 128;
  static std::size_t slot(Cycle c) { return static_cast<std::size_t>(c & (horizon - 1)); }
  // What is known of a cycle: counters of a byte, of units and of all of them; how many leave the
  // queue in it; how many results are there to be written back, how many of those that are of long
  // operations, and whose the first one of these is.
  struct OfCycle {
    std::uint64_t used;
    std::uint16_t issued, results, longer, whose;
  };
  // How many leave the queue in some cycles, as many as it holds at most: the last 16 bits of the
  // sum of the words whose last 16 bits are `issued`, which takes an addition a cycle.
  class Issued {
   public:
    void add(const OfCycle& cycle) { sum_ += std::bit_cast<Words>(cycle)[1]; }
    int count() const { return static_cast<std::uint16_t>(sum_); }

   private:
    using Words = std::array<std::uint64_t, 2>;
    static_assert(offsetof(OfCycle, issued) == 8 && std::endian::native == std::endian::little);
    std::uint64_t sum_{};
  };

 public:
  explicit IssueCalendar(const CoreParameters& p)
      : empty_{empty({p.int_alu(), p.int_mul(), p.fp(), p.simd(), p.load_ports(), p.store_ports(),
                      full, p.issue_width()}),
               0, 0, 0, 0},
        width_(static_cast<unsigned>(p.issue_width())) {
    cycle_.fill(empty_);
  }

  // Forget everything before `to`: dispatch has come that far.
  void advance(Cycle to) {
    if (to <= at_) return;
    if (to - at_ > 8) [[unlikely]] {
      skip(to);
    } else {
      int left = 0;
      for (Cycle at = at_; at < to; ++at) {
        OfCycle& gone = cycle_[slot(at)];
        left += gone.issued;
        gone = empty_;
      }
      waiting_ -= left;
      at_ = to;
    }
    end_ = at_ + planned;
    if (first_far_ < to) [[unlikely]]
      leave_far(to);
  }
  int waiting() const { return waiting_; }
  // How many still wait at `then`, of `waiting` that do at the earlier `from`.
  int waiting(Cycle then, Cycle from, int waiting) const {
    const Cycle end = std::min(then, at_ + horizon);
    for (Cycle at = std::max(from, at_); at < end; ++at) waiting -= cycle_[slot(at)].issued;
    return waiting;
  }
  int waiting(Cycle then) const { return waiting(then, at_, waiting_); }

  // The queue in a later cycle: how many wait then.
  struct Queue {
    Cycle at;
    int waiting;
  };
  Queue queue() const { return {at_, waiting_}; }
  // The first cycle from `from` on, at most `end`, in which fewer than `most` wait.
  Cycle fewer_wait(int most, Cycle from, Cycle end, Queue& queue) const {
    if (from > queue.at) {
      queue.waiting = waiting(from, queue.at, queue.waiting);
      queue.at = from;
    }
    for (end = std::min(end, end_); queue.waiting >= most && queue.at < end; ++queue.at)
      queue.waiting -= cycle_[slot(queue.at)].issued;
    return std::max(from, queue.at);
  }
  // Another one waits until `at`; whether the calendar has to be told when it does no more.
  bool leaves(Cycle at, Queue& queue) {
    if (at < queue.at) return false;
    ++queue.waiting;
    if (at >= end_) return false;
    ++cycle_[slot(at)].issued;
    return true;
  }
  void leaves_not(Cycle at) { --cycle_[slot(at)].issued; }

  // What an instruction of a unit counts up in its cycle: its unit, and all of them together.
  static constexpr std::uint64_t all = std::uint64_t{1} << 56;
  static constexpr std::uint64_t counts(Unit unit) {
    return unit == Unit::any ? all : all | std::uint64_t{1} << (8 * (static_cast<int>(unit) - 1));
  }
  // The first cycle from `ready` on that has room; the unit is held for `held` cycles.
  Cycle book(Cycle ready, std::uint64_t counted, int held) {
    if (held > 1) [[unlikely]]
      return book_held(ready, counted, held);
    for (; ready < end_; ++ready) {  // what is too far ahead is not planned
      if (used(ready) & counted * full) [[unlikely]]
        continue;
      used(ready) += counted;
      break;
    }
    return ready;
  }
  // The first cycles from `from` on and before `end` in which a unit is free; at most `most`.
  struct Gap {
    Cycle from, cycles;
  };
  Gap gap(Cycle from, std::uint64_t counted, Cycle most, Cycle end) const {
    end = std::min(end, end_);
    from = std::max(from, at_);
    while (from < end && taken(from, counted)) ++from;
    Cycle cycles = 0;
    while (cycles < most && from + cycles < end && !taken(from + cycles, counted)) ++cycles;
    return {from, cycles};
  }
  // Units of a kind, and those that are left in a cycle.
  int units(std::uint64_t counted) const { return left(empty_.used, counted & ~all); }
  int left(Cycle at, std::uint64_t counted) const {
    const bool planned_at = at >= at_ && at < end_;
    return left(planned_at ? cycle_[slot(at)].used : empty_.used, counted & ~all);
  }
  // The first cycle from `from` on in which more than so many units are left; at most `end`.
  Cycle more_left(Cycle from, Cycle end, std::uint64_t counted, int than) const {
    while (from < end && left(from, counted) <= than) ++from;
    return from;
  }
  // Whether anything issues in a cycle, as far as that is known.
  bool issues(Cycle at) const {
    return at < at_ || (at < end_ && (cycle_[slot(at)].used ^ empty_.used) >= all);
  }
  // Whether all units of a kind are taken in a cycle.
  bool taken(Cycle at, std::uint64_t counted) const {
    return at >= at_ && at < end_ && (cycle_[slot(at)].used & (counted & ~all) * full) != 0;
  }
  // When a result that is there at `done` is written back: as many are in a cycle as issue.  What
  // was left of the cycle before goes first, then loads and operations of one cycle, then those of
  // more (`longer`), whatever their age (gem5's InstructionQueue::processFUCompletion comes behind
  // scheduleReadyInsts).  The rows that will take a longer one's place are not known yet when its
  // own turn comes: it is late if it was the last time that the instruction at `pc` ran.
  Cycle write_back(Cycle done, bool longer, std::uint64_t pc) {
    if (done >= end_) return done;
    OfCycle& here = cycle_[slot(done)];
    const unsigned before = here.results++;
    if (longer || before >= width_) [[unlikely]]
      return write_back_late(done, before, longer, pc);
    return done;
  }
  // An instruction's place in the queue is free from the cycle behind `at` on.
  [[gnu::always_inline]] void leave(Cycle at) {
    ++waiting_;
    if (at < end_) [[likely]]
      ++cycle_[slot(at)].issued;
    else
      leave_far_behind(at);
  }

 private:
  static constexpr Cycle planned = horizon - 64;  // from the first cycle on

  // Of a longer operation, or one of more than may be written back in a cycle.
  [[gnu::noinline]] Cycle write_back_late(Cycle done, unsigned before, bool longer,
                                          std::uint64_t pc) {
    OfCycle& here = cycle_[slot(done)];
    const auto who = static_cast<std::uint16_t>(pc >> 1 & (late_.size() - 1));
    const bool late = longer && std::exchange(late_[who], false);
    if (before < width_) {
      if (longer && here.longer++ == 0) here.whose = who;
      return done + late;
    }
    // One of them stays for the next cycle.
    for (Cycle next = done + 1; next < end_; ++next) {
      OfCycle& then = cycle_[slot(next)];
      if (then.results++ < width_) break;
      displace(then);
    }
    return !longer && displace(here) ? done : done + before / width_;
  }
  // Whether a longer operation has the place of another result from now on.
  bool displace(OfCycle& cycle) {
    if (cycle.longer == 0) return false;
    --cycle.longer;
    late_[cycle.whose] = true;
    return true;
  }
  [[gnu::noinline]] void skip(Cycle to) {
    Issued gone;
    for (Cycle left = std::min(to - at_, horizon); left > 0;) {
      const std::size_t first = slot(at_);  // of those whose entries lie side by side
      const auto cycles = std::span(cycle_).subspan(
          first, std::min(static_cast<std::size_t>(left), cycle_.size() - first));
      for (OfCycle& cycle : cycles) {
        gone.add(cycle);
        cycle = empty_;
      }
      at_ += static_cast<Cycle>(cycles.size());
      left -= static_cast<Cycle>(cycles.size());
    }
    waiting_ -= gone.count();
    at_ = to;
  }
  [[gnu::noinline]] void leave_far_behind(Cycle at) {
    far_.push(at);
    first_far_ = far_.top();
  }
  [[gnu::noinline]] void leave_far(Cycle to) {
    for (; !far_.empty() && far_.top() < to; far_.pop()) --waiting_;
    first_far_ = far_.empty() ? std::numeric_limits<Cycle>::max() : far_.top();
  }
  // It takes a unit that is free in its first cycle.  Older rows that were not ready then, and have
  // booked later cycles, do not keep it back (gem5's InstructionQueue::scheduleReadyInsts).  They
  // would come behind it, and what they have booked stays: it holds as many later cycles that are
  // free instead.
  [[gnu::noinline]] Cycle book_held(Cycle ready, std::uint64_t counted, int held) {
    const std::uint64_t unit = counted & ~all;
    while (ready < end_ && (used(ready) & counted * full)) ++ready;
    if (ready >= end_) return ready;
    used(ready) += counted;
    int left = held - 1;
    for (Cycle at = ready + 1; left > 0 && at < end_; ++at) {
      std::uint64_t& there = used(at);
      if (there & unit * full) continue;
      there += unit;
      --left;
    }
    return ready;
  }
  // A cycle in which nothing issues: each byte of the units and of all of them, counted up by one
  // for each instruction, has its highest bit when there is no more room.
  static std::uint64_t empty(const std::array<int, 8>& room) {
    std::uint64_t word = 0;
    for (std::size_t k = 0; k < room.size(); ++k)
      word |= static_cast<std::uint64_t>(full - room[k]) << (8 * k);
    return word;
  }

  static int left(std::uint64_t used, std::uint64_t unit) {
    return std::max(0, full - static_cast<int>((used & unit * 255) >> std::countr_zero(unit)));
  }
  std::uint64_t& used(Cycle c) { return cycle_[slot(c)].used; }

  OfCycle empty_;
  unsigned width_;
  std::array<OfCycle, horizon> cycle_;
  std::array<bool, 1024> late_{};  // by pc: its last result was
  std::priority_queue<Cycle, std::vector<Cycle>, std::greater<>> far_;
  Cycle first_far_{std::numeric_limits<Cycle>::max()};  // of them
  Cycle at_{}, end_{planned};  // what is planned: from the one until before the other
  int waiting_{};
};

}  // namespace tracekit
