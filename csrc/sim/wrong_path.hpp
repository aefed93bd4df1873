// How many rows of a wrong path are in flight when its branch is resolved, where it is not known
// which they are: it is taken for code like that before it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/cycle.hpp"
#include "sim/ring.hpp"

namespace tracekit {

// How fast rows are fetched of late, but for what fetch waits for.
class FetchSpeed {
 public:
  // The row `row`, as they are counted from the first one on, is fetched so much later.
  void took(Cycle cycles, std::uint64_t row) {
    count_to(row);
    cycles_ += cycles;
  }
  // Behind `row` rows.  Wrong paths have mispredicted branches, too: a tenth of the rows that gem5
  // would fetch without.
  Cycle rows_of_wrong_path(Cycle cycles, std::uint64_t row) {
    count_to(row);
    return std::max<Cycle>(0, cycles) * static_cast<Cycle>(row - from_) * 9 / (cycles_ * 10);
  }

 private:
  static constexpr std::uint64_t window = 512;
  void count_to(std::uint64_t row) {
    while (row - from_ >= window) [[unlikely]] {
      from_ += window / 2;
      cycles_ = (cycles_ + 1) / 2;
    }
  }
  std::uint64_t from_{};
  Cycle cycles_{1};
};

// How many of the rows take an entry of a queue, or a register: of the last 256 rows and more.
class QueueShares {
 public:
  enum Of : std::uint8_t { rows, loads, stores, ints, vecs, count };
  using Counts = std::array<std::uint64_t, count>;

  // What there was of each until now.
  void count_to(const Counts& now) {
    if (now[rows] - until_[rows] < window) return;
    for (std::size_t k = 0; k < count; ++k) late_[k] = now[k] - until_[k];
    until_ = now;
  }
  // After how many rows `entries` are taken; at most `most`.
  Cycle rows_for(Of what, int entries, Cycle most) const {
    const auto taken = static_cast<Cycle>(late_[what]);
    if (taken == 0) return most;
    return std::min(most, entries * static_cast<Cycle>(late_[rows]) / taken);
  }

 private:
  static constexpr std::uint64_t window = 256;
  Counts until_{}, late_{};
};

// How many of the last `size` entries are not free before `then`: entries are taken and freed in
// order, the `n`-th is next, and `freed` has when.
inline int entries_held(const Ring<Cycle>& freed, std::uint64_t n, int size, Cycle then) {
  std::uint64_t held = 0, most = std::min(n, static_cast<std::uint64_t>(size));
  while (held < most) {
    const std::uint64_t some = (held + most + 1) / 2;
    if (freed[n - some] >= then)
      held = some;
    else
      most = some - 1;
  }
  return static_cast<int>(held);
}

}  // namespace tracekit
