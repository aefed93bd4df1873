// The rows around the one that a core walks: what they say of a register there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
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
  // What the register holds behind `row` of the block: from the accesses by it and the numbers that
  // it is told before.  What a call of the system writes no row tells.
  std::optional<std::int64_t> value_before(const CoreRow& row, std::uint16_t r,
                                           const CodeMap& code) const {
    const auto writes = [r](const CoreInst& inst) {
      const std::span<const std::uint16_t> written = inst.written();
      return std::ranges::find(written, r) != written.end();
    };
    std::int64_t moved = 0;  // since, by what is added to it
    const auto before = [&](const CoreRow& at) -> std::optional<std::optional<std::int64_t>> {
      const RegisterValue& says = code.value(code.number(*at.inst));
      if (at.inst->serializes()) return std::optional<std::int64_t>{};
      if (writes(*at.inst)) {
        if (says.kind == RegisterValue::constant) return says.number + moved;
        if (says.kind != RegisterValue::sum || says.base != r) return std::optional<std::int64_t>{};
        moved += says.number;
      } else if (says.kind == RegisterValue::access && says.base == r) {
        return static_cast<std::int64_t>(at.addr) - says.number + moved;
      }
      return {};
    };
    std::size_t n = most_before;
    for (const CoreRow* at = &row; n > 0; --n, --at) {
      if (const auto told = before(*at)) return *told;
      if (at == rows_.data()) break;
    }
    for (auto at = before_.rbegin(); at != before_.rend() && n > 1; --n, ++at)
      if (const auto told = before(*at)) return *told;
    return {};
  }

  // Where the branch goes when it is taken, if that is soon.
  std::uint32_t target(const CoreRow& row, const CoreInst& branch) const {
    for (const CoreRow* at = &row + 1; at <= &row + most && at->inst; ++at)
      if (at->inst == &branch && at->taken) return at->target;
    return CodeMap::nowhere;
  }

 private:
  std::span<const CoreRow> rows_;
  std::vector<CoreRow> before_;
};

}  // namespace tracekit
