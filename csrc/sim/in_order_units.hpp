// Functional units of gem5's Minor CPU (buffers.hh, SelfStallingPipeline; func_unit.cc).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/cycle.hpp"

namespace tracekit {

// A pipeline that stands still while what is in its last place has not left.
class InOrderUnit {
 public:
  // `alone`: nothing enters before the last one has left.
  constexpr InOrderUnit(int depth, bool alone) : depth_(depth), alone_(alone) {}

  // When it takes one that could enter at `at`.
  Cycle takes(Cycle at) const {
    at = std::max(at, next_);
    std::size_t k = since(at);
    for (; k < count_; ++k)
      if (held(k).last <= at) at = std::max(at, held(k).left);
    return at;
  }
  // One enters, when it takes it; when that is in the last place.
  Cycle enters(Cycle at) {
    next_ = at + 1;
    last_ = at + depth_;
    for (std::size_t k = since(at); k < count_; ++k) last_ += held(k).left - held(k).last;
    return last_;
  }
  // It leaves.
  void leaves(Cycle at) {
    held_[count_++ % ring] = {last_, at};
    if (alone_) next_ = std::max(next_, at);
  }

 private:
  static constexpr std::size_t ring = 8;  // more than a pipeline's places
  struct Held {
    Cycle last{}, left{};
  };
  const Held& held(std::size_t k) const { return held_[k % ring]; }
  // The first one that has not left at `at`.
  std::size_t since(Cycle at) const {
    std::size_t k = count_;
    while (k > 0 && count_ - k < ring && held(k - 1).left > at) --k;
    return k;
  }

  int depth_;
  bool alone_;
  Cycle next_{}, last_{};
  std::size_t count_{};
  std::array<Held, ring> held_{};
};

}  // namespace tracekit
