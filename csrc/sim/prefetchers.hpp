// What gem5's prefetchers (src/mem/cache/prefetch) would bring.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

// StridePrefetcher.
class Strides {
 public:
  // Gives `want` the lines that it wants when the instruction at `pc` asks for `address`.
  template <typename Want>
  void see(std::uint64_t pc, std::uint64_t address, Want&& want) {
    std::int64_t step = of_[pc >> 2 & 63].see(pc, address);
    if (!step) return;
    constexpr std::int64_t line = std::int64_t{1} << line_bits;
    if (std::abs(step) < line) step = step < 0 ? -line : line;
    for (std::uint64_t k = 1; k <= degree; ++k)
      want((address + static_cast<std::uint64_t>(step) * k) >> line_bits);
  }

 private:
  static constexpr std::uint64_t degree = 4;
  struct Stride {
    std::uint64_t pc{}, last{};
    std::int64_t step{};
    int confidence{};
    std::int64_t see(std::uint64_t pc, std::uint64_t at);  // the step if it is to be trusted, or 0
  };
  std::vector<Stride> of_ = std::vector<Stride>(64);
};

// What gem5's AMPM prefetcher (src/mem/cache/prefetch/access_map_pattern_matching.cc) would bring:
// lines at the other end of strides that were accessed before, in zones of 32 lines.
class AccessMaps {
 public:
  explicit AccessMaps(const CoreParameters& p)
      : latency_(static_cast<Cycle>(1.5 * p.memory_controller_)) {}
  // Gives `want` the lines that it wants when `line` is accessed; at most 30.
  template <typename Want>
  void see(std::uint64_t line, Cycle at, const Want& want) {
    for (const int d : distances(line, at))
      want(line + static_cast<std::uint64_t>(static_cast<std::int64_t>(d)));
  }
  // What is counted from `at` on stands for more: no epoch ends before passed().
  void begin_counting(Cycle at) {
    counted_from_ = at;
    next_epoch_ = never;
    good_ = total_ = misses_ = hits_ = 0;
  }
  // It is `at`, and so many cycles have passed, all of them like those that were counted.
  void passed(Cycle at, double cycles);

 private:
  static constexpr std::size_t sets = 32, ways = 8;
  static constexpr Cycle epoch = 256'000, never = std::numeric_limits<Cycle>::max();
  struct Map {
    std::uint64_t zone{no_line};
    std::uint32_t accessed{}, prefetched{};
  };
  Map& map(std::uint64_t zone);
  std::span<const int> distances(std::uint64_t line, Cycle at);
  void end_epoch();
  void prefetch(std::uint64_t line);

  std::vector<Map> map_ = std::vector<Map>(sets * ways);
  Cycle latency_, next_epoch_{epoch}, counted_from_{};
  double good_{}, total_{}, misses_{}, hits_{};
  unsigned degree_{4}, useful_{4};
  std::array<int, 32> found_{};
};

}  // namespace tracekit
