// Where branches without a fixed target go: gem5's SimpleIndirectPredictor with its defaults and
// ReturnAddrStack.  Both are mended when a misprediction is resolved, before the next branch of the
// path is fetched: what they get wrong depends on the path alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/predictors/direction_predictor.hpp"

namespace tracekit::bp {

class IndirectTargets {
 public:
  // Of every branch of the path; true of those that are none of its own.  Learns the target.
  bool right(const BranchEvent& branch);

 private:
  struct Entry {
    std::uint64_t target{};
    std::uint16_t tag{};
    bool filled{};
  };
  bool indirect(const BranchEvent& branch);

  static constexpr std::size_t sets = 256, ways = 2;
  std::vector<Entry> entry_ = std::vector<Entry>(sets * ways);
  std::uint64_t path_[3]{};  // the last indirect targets, the newest first
  std::uint32_t history_{}, random_{1};
};

// A ring: calls beyond its size overwrite the oldest, returns beyond its calls read them again.
class ReturnStack {
 public:
  explicit ReturnStack(std::size_t entries) : call_(entries) {}
  bool right(const BranchEvent& branch);  // of every branch; true of those that are no returns

 private:
  std::vector<std::uint64_t> call_;
  std::size_t top_{};
};

}  // namespace tracekit::bp
