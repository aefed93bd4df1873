#include "reference/predictors/targets.hpp"

namespace tracekit::bp {

bool Targets::indirect(const BranchEvent& branch) {
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

// The return address is just behind the call, by at most an X86 instruction's 15 bytes.
bool Targets::returns_to(std::uint64_t next) {
  if (returns_.empty()) return false;
  const bool right = next - returns_.back() - 1 < 15;
  returns_.pop_back();
  return right;
}

bool Targets::right(const BranchEvent& branch) {
  bool right = true;
  switch (branch.kind) {
    case BranchKind::indirect:
    case BranchKind::indirect_call:
    case BranchKind::indirect_conditional:
      if (branch.taken) right = indirect(branch);
      break;
    case BranchKind::ret:
      right = returns_to(branch.next);
      break;
    default:
      break;
  }
  if (branch.kind == BranchKind::call || branch.kind == BranchKind::indirect_call) {
    if (returns_.size() == return_stack) returns_.erase(returns_.begin());
    returns_.push_back(branch.pc);
  }
  history_ = (history_ << 1 | unsigned{branch.taken}) & 8191;
  return right;
}

}  // namespace tracekit::bp
