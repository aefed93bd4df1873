// The rows around the one that a core walks, of its block and of the one before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/code_map.hpp"
#include "sim/core_inst.hpp"

namespace tracekit {

class RowsAround {
 public:
  // Rows that are looked at: ahead, and before.
  static constexpr std::size_t most = 256, most_before = 64;
  // The block that is walked next; behind it are rows ahead, and one of no instruction.
  void begin(std::span<const CoreRow> rows) {
    rows_ = rows;
    looked_at_ = rows.data();
    ahead_.clear();
    passed_ = 0;
    if (!before_.empty() && !rows.empty() && before_.back().next != rows.front().inst->pc)
      before_.clear();
  }
  // It has been: its last rows are those before the next one.
  void end() {
    const std::size_t n = std::min(rows_.size(), most_before), left = most_before - n;
    if (before_.size() > left)
      before_.erase(before_.begin(), before_.end() - static_cast<std::ptrdiff_t>(left));
    before_.insert(before_.end(), rows_.end() - static_cast<std::ptrdiff_t>(n), rows_.end());
    rows_ = {};
  }
  // do_row of rows up to `row` of the block, the earliest one first.
  template <class DoRow>
  void each_before(const CoreRow& row, const DoRow& do_row) const {
    const auto own = std::min(static_cast<std::size_t>(&row - rows_.data()) + 1, most_before);
    const std::size_t earlier = std::min(before_.size(), most_before - own);
    std::for_each(before_.end() - static_cast<std::ptrdiff_t>(earlier), before_.end(), do_row);
    std::for_each(&row + 1 - own, &row + 1, do_row);
  }

  // The rows behind `row` that are `wanted`, of the `most` next ones.  Rows are asked for in their
  // order, and always by the same `wanted`.
  template <class Wanted>
  std::span<const CoreRow* const> ahead(const CoreRow& row, const Wanted& wanted) {
    looked_at_ = std::max(looked_at_, &row + 1);
    for (; looked_at_ < &row + most && looked_at_->inst; ++looked_at_)
      if (wanted(*looked_at_->inst)) ahead_.push_back(looked_at_);
    while (passed_ < ahead_.size() && ahead_[passed_] <= &row) ++passed_;
    if (passed_ > most) {
      ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(passed_));
      passed_ = 0;
    }
    return std::span(ahead_).subspan(passed_);
  }
  // Where the branch goes when it is taken, if that is soon.
  std::uint32_t target(const CoreRow& row, const CoreInst& branch) const {
    for (const CoreRow* at = &row + 1; at <= &row + most && at->inst; ++at)
      if (at->inst == &branch && at->taken) return at->target;
    return CodeMap::nowhere;
  }

 private:
  std::span<const CoreRow> rows_;
  const CoreRow* looked_at_{};
  std::vector<const CoreRow*> ahead_;  // the first ones of it have been passed
  std::size_t passed_{};
  std::vector<CoreRow> before_;
};

}  // namespace tracekit
