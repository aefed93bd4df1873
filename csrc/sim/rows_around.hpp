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
  // All divisions of the block that is walked next, and behind it, in their order.
  void know(std::span<const CoreRow* const> divisions) { divisions_ = divisions; }
  // The block that is walked next; behind it are rows ahead, and one of no instruction.
  void begin(std::span<const CoreRow> rows) {
    rows_ = rows;
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

  // The divisions behind `row`.  Rows are asked for in their order.
  std::span<const CoreRow* const> divisions_behind(const CoreRow& row) {
    while (passed_ < divisions_.size() && divisions_[passed_] <= &row) ++passed_;
    return divisions_.subspan(passed_);
  }
  // Where the branch goes when it is taken, if that is soon.
  std::uint32_t target(const CoreRow& row, const CoreInst& branch) const {
    for (const CoreRow* at = &row + 1; at <= &row + most && at->inst; ++at)
      if (at->inst == &branch && at->taken) return at->target;
    return CodeMap::nowhere;
  }

 private:
  std::span<const CoreRow> rows_;
  std::span<const CoreRow* const> divisions_;
  std::size_t passed_{};  // of them
  std::vector<CoreRow> before_;
};

}  // namespace tracekit
