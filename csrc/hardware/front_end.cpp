#include "hardware/front_end.hpp"

#include <algorithm>
#include <utility>

#include "sim/predictors/make.hpp"

namespace tracekit::hardware {
namespace {

// A key whose low bits differ where instructions are aligned, too.
std::uint64_t spread(std::uint64_t pc) { return pc ^ pc >> 2; }

// The same of entries, whose sets are no power of two: lines' first ones fill all of them.
std::uint64_t entry_key(std::uint64_t pc) { return pc * 0x9e3779b97f4a7c15ULL >> 16; }

}  // namespace

FrontEnd::FrontEnd(const MachineParameters& p, DataMemory& memory)
    : p_(p),
      memory_(memory),
      direction_(make_predictor(static_cast<unsigned>(p.predictor))),
      returns_(static_cast<std::size_t>(p.return_stack)),
      indirect_(static_cast<std::size_t>(p.indirect_entries),
                static_cast<std::size_t>(p.indirect_history)),
      btb_l1_(static_cast<std::size_t>(p.btb_l1), 8),
      btb_l2_(std::max<std::size_t>(1, static_cast<std::size_t>(p.btb_l2)), 8),
      op_cache_(
          std::max<std::size_t>(1, static_cast<std::size_t>(p.op_cache_ops / p.op_cache_entry)), 8),
      entry_ops_(static_cast<unsigned>(p.op_cache_entry)),
      taken_cost_(parts(1 / p.taken_per_cycle)),
      cached_cost_(parts(1 / p.op_cache_width)),
      entry_cost_(parts(p.op_cache_entry / p.op_cache_width)),
      later_cost_(parts(1 + p.op_cache_more)),
      each_cost_(parts(p.op_cache_entry_cycles)),
      decode_cost_(parts(1 / p.decode_width)),
      byte_cost_(parts(1 / p.fetch_bytes)),
      next_line_cost_(parts(p.next_line_cycles)),
      ahead_(static_cast<std::size_t>(p.fetch_ahead), 0) {}

// The prediction comes to another line: at most so far ahead of what is delivered.
void FrontEnd::next_block(std::uint64_t line, bool jumped) {
  line_ = line;
  Cycle& before = ahead_[blocks_++ % ahead_.size()];
  predicted_ = std::max(predicted_, before);
  before = delivered_;
  line_ready_ = memory_.fetch(line, predicted_ / unit) * unit;
  if (!jumped) predicted_ += next_line_cost_;
}

// Places in an entry.  One of them has room for one displacement or immediate; a branch that is one
// slot with the instruction before it has its displacement there.
unsigned FrontEnd::places(const Op& op, unsigned slots) {
  const bool before = std::exchange(field_, op.fields != 0);
  if (slots == 0) return op.branch != 0 && before ? 1 : 0;
  return std::max(slots, std::min<unsigned>(op.fields, 2));
}

Cycle FrontEnd::deliver(const Op& op, unsigned slots, Cycle room) {
  delivered_ = std::max(delivered_, room * unit);
  const std::uint64_t line = op.pc >> line_bits;
  const bool other = jumped_ || line != line_;
  if (other) {
    // One in which no entry began, because one of the line before went on into it, took a cycle.
    if (entries_ == 0 && cached_ && p_.op_cache_more != 0) delivered_ += unit;
    next_block(line, jumped_);
    entries_ = 0;
  }
  // A branch's prediction is that of the line that has its last byte.
  const std::uint64_t last = (op.pc + op.length - 1) >> line_bits;
  if (op.branch != 0 && last != line && next_line_cost_ != 0) next_block(last, false);
  const unsigned held = places(op, slots);
  // Where what entries take is modelled, one goes on into the next line.
  const bool ends = other && p_.op_cache_more == 0 && each_cost_ == 0;
  const bool enters = jumped_ || in_entry_ + held > entry_ops_ || ends;
  if (enters) {
    ++entries_;
    in_entry_ = 0;
    cached_ = p_.op_cache_ops != 0 && op_cache_.find(entry_key(op.pc)) != nullptr;
    if (!cached_ && p_.op_cache_ops != 0) op_cache_.put(entry_key(op.pc));
  }
  in_entry_ += held;
  jumped_ = false;
  delivered_ = std::max(delivered_, predicted_);
  if (cached_) {
    from_op_cache(slots, enters);
  } else {
    delivered_ = std::max(delivered_, line_ready_);
    delivered_ += std::max(decode_cost_, byte_cost_ * op.length);
  }
  if (op.is(op_bit::microcoded)) delivered_ += parts(p_.microcode_stall);
  return delivered_ / unit;
}

// Entries come side by side, so many micro-ops a cycle.  Where more entries begin in a line than
// that, each further group of them takes its cycle and `op_cache_more` besides.  Where each takes
// `op_cache_entry_cycles`, it takes them however few micro-ops it holds.
void FrontEnd::from_op_cache(unsigned slots, bool entered) {
  if (each_cost_ != 0) {
    if (entered) delivered_ += each_cost_;
    if (slots > entry_ops_) delivered_ += cached_cost_ * (slots - entry_ops_);
    return;
  }
  if (p_.op_cache_more == 0) {
    delivered_ += cached_cost_ * slots;
    return;
  }
  if (!entered) return;
  const unsigned group = std::max(1U, static_cast<unsigned>(p_.op_cache_width) / entry_ops_);
  if (entries_ <= group)
    delivered_ += entry_cost_;
  else if ((entries_ - 1) % group == 0)
    delivered_ += later_cost_;
}

void FrontEnd::redirect(Cycle at) {
  // What the first entry takes is part of the penalty.
  const Cycle from = at * unit - std::min(each_cost_, at * unit);
  predicted_ = std::max(predicted_, from);
  delivered_ = std::max(delivered_, from);
  jumped_ = true;
}

// The target buffers' part of a taken branch.
void FrontEnd::follow_taken(const BranchEvent& branch) {
  jumped_ = true;
  // A loop of one block is not followed twice a cycle.
  predicted_ += branch.pc == last_taken_ ? std::max(taken_cost_, unit) : taken_cost_;
  last_taken_ = branch.pc;
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

bool FrontEnd::has_several_targets(const BranchEvent& branch) {
  Target& t = target_[(branch.pc ^ branch.pc >> 11) % target_.size()];
  if (t.pc != branch.pc) t = {branch.pc, branch.next, false};
  t.several |= t.first != branch.next;
  return t.several;
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
    const Cycle more = parts(p_.indirect_penalty);
    predicted_ += has_several_targets(branch)
                      ? std::max(more, parts(p_.indirect_cycles) -
                                           std::min(taken_cost_, parts(p_.indirect_cycles)))
                      : more;
  } else if (branch.kind == BranchKind::ret) {
    predicted_ += parts(p_.return_penalty);
  }
  follow_taken(branch);
  return !right;
}

}  // namespace tracekit::hardware
