// When gem5's Minor CPU commits, and when it sends accesses to its load/store queue, which it does
// in the same loop (src/cpu/minor/execute.cc, Execute::commit and getCommittingThread).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/cycle.hpp"

namespace tracekit {

class InOrderCommits {
 public:
  explicit InOrderCommits(int width) : width_(width) {}

  // The number of the row that commits next.
  std::uint64_t next() const { return count_; }
  // When it does, which could at `ready`.  `costs`: it counts as one of the cycle's.
  Cycle commit(Cycle ready, bool memory, bool costs) {
    Cycle at = std::max(ready, last_);
    if (at == last_ && (now_ >= width_ || (memory && accesses_ > 0))) ++at;
    if (at > last_) now_ = accesses_ = 0;
    last_ = at;
    now_ += costs;
    accesses_ += memory;
    held_[count_++ % ring] = {at, memory, costs};
    return at;
  }
  Cycle last() const { return last_; }
  // When an access goes, and that rows before `head` have committed by then.
  struct Sent {
    Cycle at;
    std::uint64_t head;
  };
  // Of one that could go at `at`: rows before `after` have to be committed first.
  Sent sends(Cycle at, std::uint64_t after) const {
    for (;;) {
      const Sent then = tried(at, after);
      if (then.at == at) return then;
      at = then.at;
    }
  }

 private:
  static constexpr std::size_t ring = 64;  // more than are in the units and queues
  struct Row {
    Cycle at{};
    bool memory{}, costs{};
  };
  const Row& row(std::uint64_t k) const { return held_[k % ring]; }

  // `at` if an access goes in that cycle; else the next one in which it may.
  Sent tried(Cycle at, std::uint64_t after) const {
    std::uint64_t head = count_;
    while (head > 0 && count_ - head < ring && row(head - 1).at >= at) --head;
    // Nothing is done while the oldest row waits for its access, or for its unit where the access
    // waits for that row.
    if (head < count_ && row(head).at > at && (row(head).memory || head < after))
      return {row(head).at, head};
    int committed = 0;
    bool answered = false;
    for (;; ++head) {
      if (committed >= width_) return {at + 1, head};
      if (head == count_) return {at, head};
      const Row& r = row(head);
      const bool answer = r.memory && r.at == at && !answered;
      if (!answer && head >= after) return {at, head};
      if (r.at > at) return {r.at, head};
      committed += r.costs;
      answered |= r.memory;
    }
  }

  int width_, now_{}, accesses_{};
  Cycle last_{};
  std::uint64_t count_{};
  std::array<Row, ring> held_{};
};

}  // namespace tracekit
