#include "hardware/front_end.hpp"

#include <algorithm>

#include "sim/predictors/make.hpp"

namespace tracekit::hardware {
namespace {

// A key whose low bits differ where instructions are aligned, too.
std::uint64_t spread(std::uint64_t pc) { return pc ^ pc >> 2; }

}  // namespace

FrontEnd::FrontEnd(const MachineParameters& p, DataMemory& memory)
    : p_(p),
      memory_(memory),
      direction_(make_predictor(static_cast<unsigned>(p.predictor))),
      returns_(static_cast<std::size_t>(p.return_stack)),
      indirect_(static_cast<std::size_t>(p.indirect_entries)),
      btb_l1_(static_cast<std::size_t>(p.btb_l1), 8),
      btb_l2_(std::max<std::size_t>(1, static_cast<std::size_t>(p.btb_l2)), 8),
      op_cache_(std::max<std::size_t>(1, static_cast<std::size_t>(p.op_cache_ops) / entry_ops), 8),
      taken_cost_(parts(1 / p.taken_per_cycle)),
      cached_cost_(parts(1 / p.op_cache_width)),
      decode_cost_(parts(1 / p.decode_width)),
      byte_cost_(parts(1 / p.fetch_bytes)),
      ahead_(static_cast<std::size_t>(p.fetch_ahead), 0) {}

// The prediction comes to another line: at most so far ahead of what is delivered.
void FrontEnd::next_block(std::uint64_t line) {
  line_ = line;
  Cycle& before = ahead_[blocks_++ % ahead_.size()];
  predicted_ = std::max(predicted_, before);
  before = delivered_;
  line_ready_ = memory_.fetch(line, predicted_ / unit) * unit;
  if (!jumped_) predicted_ += unit / 2;
}

Cycle FrontEnd::deliver(const Op& op, unsigned slots, Cycle room) {
  delivered_ = std::max(delivered_, room * unit);
  const std::uint64_t line = op.pc >> line_bits;
  if (jumped_ || line != line_) next_block(line);
  if (jumped_ || in_entry_ + slots > entry_ops || op.pc >> line_bits != entry_) {
    entry_ = line;
    in_entry_ = 0;
    cached_ = p_.op_cache_ops != 0 && op_cache_.find(spread(op.pc)) != nullptr;
    if (!cached_ && p_.op_cache_ops != 0) op_cache_.put(spread(op.pc));
  }
  in_entry_ += slots;
  jumped_ = false;
  delivered_ = std::max(delivered_, predicted_);
  if (cached_) {
    delivered_ += cached_cost_ * slots;
  } else {
    delivered_ = std::max(delivered_, line_ready_);
    delivered_ += std::max(decode_cost_, byte_cost_ * op.length);
  }
  if (op.is(op_bit::microcoded)) delivered_ += parts(p_.microcode_stall);
  return delivered_ / unit;
}

void FrontEnd::redirect(Cycle at) {
  predicted_ = std::max(predicted_, at * unit);
  delivered_ = std::max(delivered_, at * unit);
  jumped_ = true;
}

// The target buffers' part of a taken branch.
void FrontEnd::follow_taken(const BranchEvent& branch) {
  jumped_ = true;
  predicted_ += taken_cost_;
  indirect_.push(branch.pc, branch.next);
  const std::uint64_t key = spread(branch.pc);
  if (btb_l1_.find(key)) return;
  btb_l1_.put(key);
  if (p_.btb_l2 != 0) {
    if (btb_l2_.find(key)) {
      predicted_ += parts(p_.btb_l2_penalty);
      return;
    }
    btb_l2_.put(key);
  }
  // Decoding tells where it goes.
  predicted_ = std::max(predicted_, delivered_) + parts(p_.decode_resteer);
}

bool FrontEnd::wrong(const BranchEvent& branch) {
  const bool taken = direction_->fetch(branch);
  direction_->commit();
  bool right = returns_.right(branch);
  if (branch.conditional()) right = right && taken == branch.taken;
  if (!branch.taken) return !right;
  if (branch.kind == BranchKind::indirect || branch.kind == BranchKind::indirect_call ||
      branch.kind == BranchKind::indirect_conditional) {
    right = indirect_.right(branch.pc, branch.next) && right;
    predicted_ += parts(p_.indirect_penalty);
  } else if (branch.kind == BranchKind::ret) {
    predicted_ += parts(p_.indirect_penalty);
  }
  follow_taken(branch);
  return !right;
}

}  // namespace tracekit::hardware
