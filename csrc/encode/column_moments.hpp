// Sums, extremes and counts of each column of features, of the rows that have a value: what a
// summary of many traces tells of one, taken while the rows are in the cache.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "encode/chunk_codec.hpp"

namespace tracekit {

struct Moments {
  std::uint64_t count{};  // rows that have a value, distances of first touches left out
  std::uint64_t never{};  // those
  double total{}, squares{};
  double least{std::numeric_limits<double>::infinity()};
  double most{-std::numeric_limits<double>::infinity()};
};

class ColumnMoments {
 public:
  // Rows [begin, end) of a batch, in the order of the trace.
  void add(const FeatureBatch& rows, std::size_t begin, std::size_t end,
           const std::vector<HotStatic>& statics);
  const Moments& of(unsigned id) const { return moments_[id]; }
  // The columns that have moments: what features are made of.
  static bool has(unsigned id) { return id >= column::fetch_distance && id <= column::p_global; }
  // Ticks of retirement: the first that is not 0, and the largest.
  std::uint64_t first_retired() const { return first_retired_; }
  std::uint64_t last_retired() const { return last_retired_; }
  // Instructions of rows of the micro level, by the rules that join them (macro/macro_join.hpp).
  std::uint64_t instructions() const { return begun_ - (open_ && ends_known_); }

 private:
  void count_instructions(const FeatureBatch& rows, std::size_t begin, std::size_t end,
                          const std::vector<HotStatic>& statics);

  std::array<Moments, column::count> moments_{};
  std::uint64_t first_retired_{}, last_retired_{};
  std::uint64_t begun_{}, pc_{};  // instructions so far, and where the last one stands
  bool open_{}, faulted_{}, ends_known_{};
  std::vector<std::uint32_t> memory_, branch_;  // scratch of one call: the rows of these domains
};

}  // namespace tracekit
