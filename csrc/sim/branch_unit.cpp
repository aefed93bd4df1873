#include "sim/branch_unit.hpp"

#include "sim/core_parameters.hpp"
#include "sim/predictors/make.hpp"

namespace tracekit {

BranchUnit::BranchUnit(unsigned predictor, std::size_t btb_entries, std::size_t return_entries)
    : BranchUnit(make_predictor(predictor), TargetBuffer(btb_entries),
                 bp::ReturnStack(return_entries)) {}

BranchUnit::Guess BranchUnit::fetch(const BranchEvent& branch, bool indirect_right, Cycle now) {
  predictor_.learn(now);
  TargetBuffer::Entry& entry = btb_.of(branch.pc);
  const bool known = entry.hit(branch.pc);
  BranchEvent seen = branch;
  seen.compressed = branch.compressed && known;
  const bool taken = predictor_->fetch(seen);
  predicted_taken_ = taken && known;
  const bool target_right = returns_.right(branch) && indirect_right;
  if (!in_btb(branch.kind))
    return target_right && taken == branch.taken ? Guess::right : Guess::wrong;
  const bool right = entry.right(branch.pc, branch.next);
  if (branch.taken || (seen.compressed && taken))
    entry.put(branch.pc, branch.next);  // it is new, or replaces what made the branch fail
  else if (predicted_taken_)
    entry.put_own(branch.pc);  // decode knows its target
  // Without a target it is fetched straight on, whatever the direction.
  if (predicted_taken_ == branch.taken)
    return predicted_taken_ && !right ? Guess::resteer : Guess::right;
  return branch.conditional() ? Guess::wrong : Guess::resteer;
}

BranchUnit BranchUnit::settled() const { return {predictor_.settled(), btb_, returns_}; }

BranchDifficulty::BranchDifficulty() {
  for (unsigned k = 0; k < predictor::first_kinds; ++k) predictor_.push_back(make_predictor(k));
}

std::uint8_t BranchDifficulty::wrong(const BranchEvent& branch, bool indirect_right) {
  const bool target_right = returns_.right(branch) && indirect_right;
  unsigned out = 0;
  for (unsigned k = 0; k < predictor_.size(); ++k) {
    out |= unsigned{predictor_[k]->fetch(branch) != branch.taken || !target_right} << k;
    predictor_[k]->commit();
  }
  return static_cast<std::uint8_t>(out);
}

}  // namespace tracekit
