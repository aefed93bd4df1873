// Where branches without a fixed target go: gem5's SimpleIndirectPredictor and ReturnAddrStack with
// their defaults.  Both are mended when a wrong guess is found out, before the next branch of the
// path is fetched: what they get wrong depends on the path alone, and is the same for all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/predictors/direction_predictor.hpp"

namespace tracekit::bp {

class Targets {
 public:
  bool right(const BranchEvent& branch);  // true of direct branches; learns the target

 private:
  struct Entry {
    std::uint64_t target{};
    std::uint16_t tag{};
    bool filled{};
  };
  bool indirect(const BranchEvent& branch);
  bool returns_to(std::uint64_t next);

  static constexpr std::size_t sets = 256, ways = 2, return_stack = 16;
  std::vector<Entry> entry_ = std::vector<Entry>(sets * ways);
  std::uint64_t path_[3]{};  // the last indirect targets, the newest first
  std::uint32_t history_{}, random_{1};
  std::vector<std::uint64_t> returns_;
};

}  // namespace tracekit::bp
