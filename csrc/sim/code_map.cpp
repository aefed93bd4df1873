#include "sim/code_map.hpp"

#include <algorithm>
#include <numeric>

namespace tracekit {

CodeMap::CodeMap(std::vector<CoreInst> insts, std::vector<RegisterValue> values, unsigned reach)
    : insts_(std::move(insts)), values_(std::move(values)) {
  if (values_.empty()) return;
  // Parts of one instruction are in their order; an instruction that is there twice is its first.
  std::vector<std::uint32_t> order(insts_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [this](std::uint32_t i) { return insts_[i].pc; });
  std::size_t places = 1;
  for (std::size_t k = 0; k + 1 < order.size(); ++k)
    places += insts_[order[k]].pc != insts_[order[k + 1]].pc;
  parts_ = static_cast<double>(order.size()) / static_cast<double>(places);
  behind_.assign(insts_.size(), nowhere);
  for (std::size_t k = 0; k + 1 < order.size(); ++k) {
    const std::uint64_t pc = insts_[order[k]].pc, next = insts_[order[k + 1]].pc;
    if (next - pc <= reach) behind_[order[k]] = order[k + 1];
  }
}

}  // namespace tracekit
