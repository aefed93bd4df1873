// What is fetched behind a branch before it is resolved, and the loads that are sent of it.
#include <algorithm>
#include <utility>

#include "sim/in_order_core.hpp"
#include "sim/op_use.hpp"

namespace tracekit {
namespace {

constexpr int most_loads = 2;  // on their way
// Bytes of an instruction: on average, and of most.
constexpr std::uint64_t mean_length = 4, longest = 8;

}  // namespace

// Behind `branch` fetch goes on at `part`: straight on, or where it was led (`jumps`), until Fetch1
// and Fetch2 hear that it is wrong.  What has come to decode by then goes through it, and is
// dropped before it issues once the branch has retired (gem5's Execute::issue).  Of code that never
// ran nobody knows more than how long instructions are, and of how many parts, on average.
template <bool Why>
void InOrderCore<Why>::run_wrong(const CoreRow& branch, std::uint32_t part, bool jumps,
                                 Cycle retired) {
  const Cycle redirected = redirect_.at();
  WrongPathCode way(code_, history_);
  WrongIssue issues{.at = issue_.at(), .now = issued_now_};
  const BranchUnit::Astray astray(branches_, static_cast<BranchKind>(branch.inst->branch),
                                  branch.taken);
  wrong_.begin();
  std::uint64_t pc = branch.inst->pc;
  At line_at = line_at_;
  double parts = 0;  // of instructions that are not known, so far
  // Fetch hands the instruction at `next` over, if it does before it is redirected.
  const auto fetches = [&](std::uint64_t next, std::uint64_t last, Cycle left) {
    if (jumps || last != lines_.line()) {
      const Cycle first =
          jumps ? lines_.foreseen(caches_, next, fetch_.at().at(), redirected) : left - stage_delay;
      line_at = {last_line(last, first, redirected) + stage_delay, Cause::base};
    }
    if (fetch_.next(line_at).at() >= redirected) return false;
    fetch_.hands_over(line_at);
    pc = next;
    return true;
  };
  for (;;) {
    if (part == CodeMap::nowhere && jumps)
      return lines_.missed(caches_, fetch_.at().at(), redirected);
    if (part == CodeMap::nowhere || (!jumps && code_.insts()[part].pc - pc > longest)) {
      const std::uint64_t next = pc + mean_length;
      if (!fetches(next, next >> line_bits, fetch_.at().at())) return;
      for (parts += code_.parts(); parts >= 1; --parts) {
        const Cycle came = decoded().at();
        issues.next(came, p_.width());
        decode_.taken({std::max(came, std::min(issues.at, retired)), Cause::base});
      }
      continue;
    }
    const CoreInst& inst = code_.insts()[part];
    if ((inst.pc != pc || jumps) && !fetches(inst.pc, inst.last_line(), left_line(inst))) return;
    const Cycle came = decoded().at();
    const Cycle left = issue_wrong(branch, part, came, retired, issues);
    decode_.taken({std::max(came, std::min(left, retired)), Cause::base});
    clock_.works(left < retired ? left + timings[static_cast<std::size_t>(lane(inst.op))].latency
                                : came);
    const std::uint32_t straight = code_.behind(part);
    part = way.behind(
        part, [](const CoreInst&) { return CodeMap::nowhere; },
        [&](const CoreInst& i, bool of_late) {
          return p_.ideal_branches() ? of_late : branches_.foresee(i.pc, fetch_.at().at());
        });
    jumps = way.taken();
    if (!foresees_nothing()) branches_.pass(pc, static_cast<BranchKind>(inst.branch), jumps);
    // Straight on: behind a jump whose target is not known either, and in microcode, whose branches
    // decode does not follow.
    if (foresees_nothing() || way.was_decoded() ||
        (jumps && part != CodeMap::nowhere && code_.insts()[part].pc == pc)) {
      part = straight;
      jumps = false;
    }
  }
}

// When the row `part` of the wrong path issues, which came to the issue logic at `came`.  A load of
// them is sent as soon as its operands have retired, and once it is, nothing behind the branch
// retires before its answer is there (gem5's Execute::commit, "Issuing mem ref early", and
// LSQ::findResponse, which discards it only then).
template <bool Why>
Cycle InOrderCore<Why>::issue_wrong(const CoreRow& branch, std::uint32_t part, Cycle came,
                                    Cycle retired, WrongIssue& issues) {
  if (issues.at >= retired) return retired;
  const CoreInst& inst = code_.insts()[part];
  Cycle ready = came, committed = 0;
  bool computed = false, tested = false;
  for (const std::uint16_t r : inst.read()) {
    tested |= std::ranges::find(branch.inst->read(), r) != branch.inst->read().end();
    if (wrong_.written(r)) {
      computed = true;
      continue;
    }
    ready = std::max(ready, std::min(register_[r].ready.at(), register_[r].retired.at()));
    committed = std::max(committed, register_[r].retired.at());
  }
  issues.next(ready, p_.width());
  if (issues.at >= retired) return retired;
  if (inst.is(CoreInst::load | CoreInst::store)) {
    // What cannot be sent stays in the unit, and others behind it.
    const Cycle sent = std::max(issues.at, committed) + 1;
    issues.sends &= !computed && !tested && !inst.is(CoreInst::store) && sent <= retired;
    if (issues.sends) {
      const SymbolicValue address = wrong_.address(inst, part, code_.value(part));
      Cycle there = 0;
      if (const auto value = values_->value(branch, address.root, this->around_)) {
        there = caches_.load(static_cast<std::uint64_t>(*value + address.number), sent, inst.pc);
      } else {  // it is not known where it goes: where it went the last time
        there = sent + std::exchange(took_[inst.pc], p_.l1d_lat());
      }
      discarded_ = later(discarded_, {there, Cause::mispredict_direction});
      issues.sends = ++issues.loads < most_loads;
    }
    issues.now = p_.width();  // one access a cycle, and nothing behind it
  }
  wrong_.run(inst, part, code_.value(part));
  return issues.at;
}

#define ALL(Why)                                                                            \
  template void InOrderCore<Why>::run_wrong(const CoreRow&, std::uint32_t, bool, Cycle);    \
  template Cycle InOrderCore<Why>::issue_wrong(const CoreRow&, std::uint32_t, Cycle, Cycle, \
                                               WrongIssue&);
ALL(false)
ALL(true)
#undef ALL

}  // namespace tracekit
