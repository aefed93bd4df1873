// Why a core's rows retire when they do, and what they met on their way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "sim/branch_unit.hpp"
#include "sim/cache_model.hpp"
#include "sim/cause.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

// What a row met on its way, as bits: 1 + the level that had its data, 1 + the one that had its
// fetched line (0: it asked for none), and what became of its prediction.
namespace row_event {
enum : std::uint8_t { fetch_shift = 3, level_mask = 7, mispredicted = 64, resteered = 128 };
}  // namespace row_event

// Adds up why a core's rows retire when they do.
template <bool Why>
class CauseLedger {
 public:
  explicit CauseLedger(int width) : width_(width) {}
  void put_into(double* spent) { spent_ = spent; }
  // A row more: each `width` of them have a cycle that width alone would take.
  void row() {
    if constexpr (Why) ++rows_;
  }
  // The level that is farthest away counts, of an instruction of several accesses.
  void data_from(CacheLevel level) { from(level, 0); }
  void fetched_from(CacheLevel level) { from(level, row_event::fetch_shift); }
  void guessed(BranchUnit::Guess guess) {
    if constexpr (Why) {
      if (guess == BranchUnit::Guess::wrong) events_ |= row_event::mispredicted;
      if (guess == BranchUnit::Guess::resteer) events_ |= row_event::resteered;
    }
  }
  std::uint8_t take_events() { return std::exchange(events_, std::uint8_t{0}); }
  // The last retirement moves by `cycles`.
  void charge(Cause why, Cycle cycles) {
    if constexpr (Why) {
      if (cycles <= 0) return;
      const Cycle base = why == Cause::base ? cycles : std::clamp<Cycle>(rows_ / width_, 0, cycles);
      rows_ -= base * width_;
      spent_[static_cast<std::size_t>(Cause::base)] += static_cast<double>(base);
      spent_[static_cast<std::size_t>(why)] += static_cast<double>(cycles - base);
    }
  }

 private:
  void from(CacheLevel level, unsigned shift) {
    if constexpr (Why) {
      const unsigned known = (events_ >> shift) & row_event::level_mask;
      const unsigned now = std::max(known, 1U + static_cast<unsigned>(level));
      events_ = static_cast<std::uint8_t>(events_ ^ ((known ^ now) << shift));
    }
  }

  Cycle width_, rows_{};
  double* spent_{};
  std::uint8_t events_{};
};

}  // namespace tracekit
