#include "sim/branch_unit.hpp"

#include "sim/core_parameters.hpp"
#include "sim/predictors/make.hpp"

namespace tracekit {

BranchUnit::BranchUnit(unsigned predictor, std::size_t btb_entries, std::size_t return_entries)
    : BranchUnit(make_predictor(predictor), std::vector<std::uint64_t>(btb_entries, no_line),
                 bp::ReturnStack(return_entries)) {}

BranchUnit::Guess BranchUnit::fetch(const BranchEvent& branch, bool indirect_right, Cycle now) {
  while (!commits_.empty() && commits_.oldest() < now) {  // heard of in the next cycle
    commits_.pop();
    predictor_->commit();
  }
  std::uint64_t& entry = btb_[btb_entry_(branch.pc >> 2)];
  // What behind a compressed branch that was wrongly thought taken the target buffer has.
  const bool straight = branch.compressed && entry == (branch.pc | 1);
  const bool known = entry == branch.pc || straight;
  BranchEvent seen = branch;
  seen.compressed = branch.compressed && known;
  const bool taken = predictor_->fetch(seen);
  const bool target_right = returns_.right(branch) && indirect_right;
  if (!in_btb(branch)) return target_right && taken == branch.taken ? Guess::right : Guess::wrong;
  if (branch.taken)
    entry = branch.pc;  // it is new, or replaces what made a taken branch fail
  else if (seen.compressed && taken)
    entry = branch.pc | 1;
  // Without a target it is fetched straight on, whatever the direction.
  if ((taken && known) == branch.taken) return straight && taken ? Guess::resteer : Guess::right;
  return branch.conditional() ? Guess::wrong : Guess::resteer;
}

BranchUnit BranchUnit::settled() const {
  auto p = predictor_->clone();
  for (std::size_t k = 0; k < commits_.size(); ++k) p->commit();
  return {std::move(p), btb_, returns_};
}

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
