// What the predictors of the TAGE family are made of: saturating counters, random draws, and the
// history of outcomes with its folds.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>

#include "sim/predictors/in_flight.hpp"

namespace tracekit::bp {

// One step of a signed counter of `bits` bits, which stays at its ends.
template <class Counter>
void nudge(Counter& counter, bool up, int bits) {
  const int most = (1 << (bits - 1)) - 1;
  if (up ? counter < most : counter >= -most)
    counter = static_cast<Counter>(counter + (up ? 1 : -1));
}

// |2c + 1|: 1 of the two weakest values of a counter.
inline int strength(int counter) { return counter >= 0 ? 2 * counter + 1 : -2 * counter - 1; }

// gem5's draws are of a Mersenne twister that its whole simulator shares; only how often an event
// comes is kept here.
class Random {
 public:
  unsigned operator()(unsigned mask) { return static_cast<unsigned>(engine_()) & mask; }

 private:
  std::minstd_rand engine_{1};
};

// The last `capacity` bits of the global history.  A branch shifts in up to three, so each place
// holds its bit and the two older ones: what leaves a fold is then one byte.
template <std::size_t capacity>
class OutcomeHistory {
  static_assert(std::has_single_bit(capacity));

 public:
  // `bits`, the first one of them the most significant.
  void push(unsigned bits, int count) {
    for (int i = count - 1; i >= 0; --i) {
      const unsigned window = window_[at_] << 1 | (bits >> i & 1);
      at_ = (at_ - 1) & (capacity - 1);
      window_[at_] = static_cast<std::uint8_t>(window & 7);
    }
  }
  // The last bit becomes the other one.
  void turn_last() { window_[at_] ^= 1; }
  std::size_t at() const { return at_; }
  void back_to(std::size_t at) { at_ = at; }
  // What `count` further bits will push out of the last `length`.
  unsigned leaving(std::size_t length, int count) const {
    return window_[(at_ + length - static_cast<std::size_t>(count)) & (capacity - 1)] &
           ((1u << count) - 1);
  }

 private:
  std::array<std::uint8_t, capacity> window_{};
  std::size_t at_{};
};

// A history of `length` bits XORed down to `width`, with `count` bits shifted in and out at once.
template <int length, int width>
void fold(std::uint32_t& folded, unsigned in, unsigned out, int count) {
  const std::uint32_t wide = folded << count ^ in ^ out << (length % width);
  folded = (wide & ((1u << width) - 1)) ^ wide >> width;
}

// f<0>(), f<1>(), ... f<count - 1>(): loops whose shifts are constants.
template <int count, class Body>
void unrolled(Body&& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (body.template operator()<i>(), ...);
  }(std::make_integer_sequence<int, count>{});
}

}  // namespace tracekit::bp
