#include "sim/predictors/targets.hpp"

namespace tracekit::bp {

bool IndirectTargets::indirect(const BranchEvent& branch) {
  std::uint64_t hash = (branch.pc >> 2) ^ history_;
  for (int p = 0; p < 3; ++p) hash ^= path_[p] >> (2 + 2 * p);
  Entry* const set = &entry_[(hash & (sets - 1)) * ways];
  const auto tag = static_cast<std::uint16_t>(branch.pc >> 2);
  Entry* found = nullptr;
  for (std::size_t way = 0; way < ways && !found; ++way)
    if (set[way].filled && set[way].tag == tag) found = &set[way];
  const bool right = found && found->target == branch.next;
  if (!found) {
    random_ = random_ * 1103515245u + 12345u;
    found = &set[random_ >> 16 & (ways - 1)];
  }
  *found = {branch.next, tag, true};
  path_[2] = path_[1];
  path_[1] = path_[0];
  path_[0] = branch.next;
  return right;
}

bool IndirectTargets::right(const BranchEvent& branch) {
  const bool own = branch.kind == BranchKind::indirect ||
                   branch.kind == BranchKind::indirect_call ||
                   branch.kind == BranchKind::indirect_conditional;
  const bool right = !own || !branch.taken || indirect(branch);
  history_ = (history_ << 1 | unsigned{branch.taken}) & 8191;
  return right;
}

bool ReturnStack::right(const BranchEvent& branch) {
  if (branch.kind == BranchKind::call || branch.kind == BranchKind::indirect_call) {
    top_ = top_ + 1 == call_.size() ? 0 : top_ + 1;
    call_[top_] = branch.pc;
  }
  if (branch.kind != BranchKind::ret) return true;
  // The return address is just behind the call, by at most an X86 instruction's 15 bytes.
  const bool right = branch.next - call_[top_] - 1 < 15;
  top_ = (top_ == 0 ? call_.size() : top_) - 1;
  return right;
}

}  // namespace tracekit::bp
