// What a core asks its caches for behind a branch that it predicts wrongly, until it is told.
#include <algorithm>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {

// Until it is told otherwise, or the reorder buffer is full, the front end goes straight on behind
// `pc`, which it fetched just now, and brings the lines that it comes to.
template <bool Why>
void OutOfOrderCore<Why>::run_past(std::uint64_t pc, Cycle resolved) {
  const auto block = static_cast<std::uint64_t>(p_.fetch_buffer());
  const Cycle each = std::max(p_.l1i_lat() + 1, p_.fetch_buffer() / 4 / p_.width());
  const auto left = static_cast<int>((block - 1 - pc % block) / 4);
  const std::uint64_t full = pc + static_cast<std::uint64_t>(p_.rob()) * 4;
  Cycle at = fetch_.at() + (fetched_ + left) / p_.width();
  for (std::uint64_t next = (pc / block + 1) * block; next < full && at < resolved; next += block)
    at = std::max(at + each, next % 64 ? at : caches_.fetch(next, at));
}

// Where a branch goes, for the next time.
template <bool Why>
void OutOfOrderCore<Why>::remember(const CoreRow& row) {
  if (!code_.known()) return;
  const std::uint32_t part = code_.number(*row.inst);
  history_.see(part, row.taken, row.target);
  const auto kind = static_cast<BranchKind>(row.inst->branch);
  if (kind == BranchKind::ret)
    history_.returned();
  else if (kind == BranchKind::call || kind == BranchKind::indirect_call)
    history_.call(code_.behind(part));
}

// The branch `row` is predicted wrongly, which is known at `resolved`; `rows` of the wrong path
// find room.
template <bool Why>
void OutOfOrderCore<Why>::run_wrong(const CoreRow& row, Cycle dispatched, Cycle resolved,
                                    Cycle rows) {
  std::uint32_t goes = CodeMap::nowhere;
  if (code_.known()) {
    const std::uint32_t part = code_.number(*row.inst);
    const auto* const before = history_.find(part);
    if (row.taken && static_cast<BranchKind>(row.inst->branch) == BranchKind::conditional)
      goes = code_.behind(part);
    else if (before)
      goes = before->target;
  }
  if (goes != CodeMap::nowhere) {
    known_.forget();
    walk_wrong(row, goes, dispatched - fetch_.at() + 1, resolved, rows);
  } else if (row.taken) {  // an indirect jump of unknown target, too (gem5's BPredUnit::predict)
    run_past(row.inst->pc, resolved);
  }
}

// Whether it is known what the register holds, on the path behind `branch`.
template <bool Why>
bool OutOfOrderCore<Why>::knows(const CoreRow& branch, std::uint16_t r) {
  if (!known_.decided(r)) known_.put(r, this->around_.value(branch, r, code_));
  return known_.known(r);
}

// A load of the wrong path behind `branch`, whose operands are read at `at`.
template <bool Why>
void OutOfOrderCore<Why>::load_wrong(const CoreRow& branch, const CoreInst& inst,
                                     const RegisterValue& value, Cycle at, Cycle resolved) {
  if (value.kind != RegisterValue::access || !knows(branch, value.base)) return;
  if (!known_.written(value.base)) at = std::max(at, register_[value.base].at());
  const Cycle executes = at + p_.issue_to_exec() - 1 + latency(inst.op);
  // In the cycle in which the branch is resolved, and in the next one, what is younger still
  // executes (gem5's IEW::executeInsts).
  if (executes <= resolved + 1)
    caches_.load(static_cast<std::uint64_t>(known_.value(value.base) + value.number), executes,
                 inst.pc);
}

// Behind `branch` the front end goes on at `part`; what it fetches may issue `to_issue` cycles
// later.  Branches go where they went the last time.
template <bool Why>
void OutOfOrderCore<Why>::walk_wrong(const CoreRow& branch, std::uint32_t part, Cycle to_issue,
                                     Cycle resolved, Cycle rows) {
  Cycle at = fetch_.at();
  int fetched = fetched_;
  std::uint64_t block = block_, pc = no_line;
  WrongCalls calls;
  bool taken = part != code_.behind(code_.number(*branch.inst));
  for (Cycle row = 0; row < rows + p_.fetch_queue() && at < resolved; ++row) {
    const CoreInst& inst = code_.insts()[part];
    const bool next_block = inst.pc != pc && fetch_block(inst.pc) != block;
    if (next_block) {
      block = fetch_block(inst.pc);
      at = std::max(at + 1, caches_.fetch(inst.pc, at));
      if (at >= resolved) return;
    } else if (taken || fetched >= p_.width()) {
      ++at;
    }
    fetched = next_block || taken || fetched >= p_.width() ? 1 : fetched + 1;
    taken = false;
    pc = inst.pc;
    const RegisterValue& value = code_.value(part);
    if (row < rows && inst.is(CoreInst::load) && !inst.is(CoreInst::store))
      load_wrong(branch, inst, value, at + to_issue, resolved);
    if (value.kind == RegisterValue::sum) knows(branch, value.base);
    known_.run(inst, value);

    const auto kind = static_cast<BranchKind>(inst.branch);
    const std::uint32_t behind = code_.behind(part);
    const auto* const before = history_.find(part);
    if (kind == BranchKind::none) {
      part = behind;
    } else if (kind == BranchKind::ret) {
      taken = true;
      part = calls.returned(history_);
    } else {
      taken = kind != BranchKind::conditional || (before && before->taken);
      if (kind == BranchKind::call || kind == BranchKind::indirect_call) calls.call(behind);
      if (before && taken) {
        part = before->target;
      } else if (kind == BranchKind::call || kind == BranchKind::jump) {
        part = this->around_.target(branch, inst);  // which decode finds out
        at += 1 + decode_redirect;
      } else {
        part = taken ? CodeMap::nowhere : behind;
      }
    }
    if (part == CodeMap::nowhere) {  // code that never ran
      if (!taken) run_past(pc, resolved);
      return;
    }
  }
}

#define ALL(Why)                                                                     \
  template void OutOfOrderCore<Why>::run_past(std::uint64_t, Cycle);                 \
  template void OutOfOrderCore<Why>::remember(const CoreRow&);                       \
  template void OutOfOrderCore<Why>::run_wrong(const CoreRow&, Cycle, Cycle, Cycle); \
  template bool OutOfOrderCore<Why>::knows(const CoreRow&, std::uint16_t);           \
  template void OutOfOrderCore<Why>::load_wrong(const CoreRow&, const CoreInst&,     \
                                                const RegisterValue&, Cycle, Cycle); \
  template void OutOfOrderCore<Why>::walk_wrong(const CoreRow&, std::uint32_t, Cycle, Cycle, Cycle);
ALL(false)
ALL(true)
#undef ALL

}  // namespace tracekit
