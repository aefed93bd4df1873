// An out-of-order core in outline, which goes through rows before those that are walked: fetch by
// the width, operands, latencies, the reorder buffer, loads that pass stores, and wrong paths until
// their branches are resolved.  What it leaves in caches, prefetchers, predictors and store sets is
// what it is for.
#include <algorithm>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"
#include "sim/wrong_path_lines.hpp"

namespace tracekit {

template <bool Why>
class CoreOutline {
 public:
  CoreOutline(OutOfOrderCore<Why>& core, Cycle at)
      : core_(core),
        p_(core.p_),
        at_(at),
        ready_(CoreInst::all_registers, at),
        retired_(static_cast<std::size_t>(p_.rob()), at),
        stores_(p_.rob(), p_.sq()),
        set_done_(StoreSets::size, at),
        retire_(at) {}
  void pass(const CoreRow& row) {
    const CoreInst& inst = *row.inst;
    fetch(inst.pc);
    Cycle& entry = retired_[entry_];
    if (++entry_ == retired_.size()) entry_ = 0;
    if (entry > at_ + front_) go_on_at(entry - front_);
    Cycle issues = at_ + front_;
    for (const std::uint16_t r : inst.read()) issues = std::max(issues, ready_[r]);
    if (inst.is(CoreInst::load | CoreInst::store)) issues = behind_stores(row, issues);
    Cycle done = issues + core_.executes(inst.op);
    if (!row.fault && inst.is(CoreInst::load | CoreInst::store)) done = access(row, done);
    for (const std::uint16_t r : inst.written()) ready_[r] = done;
    entry = retire_ = std::max(retire_, done + 1);
    if (row.is_branch()) branch(row, done);
  }
  Cycle retired() const { return retire_; }

 private:
  void go_on_at(Cycle at) {
    at_ = at;
    fetched_ = 0;
  }
  void fetch(std::uint64_t pc) {
    if (++fetched_ > p_.width()) {
      go_on_at(at_ + 1);
      fetched_ = 1;
    }
    const std::uint64_t block = core_.fetch_block(pc);
    if (block == block_) return;
    block_ = block;
    Cycle there = at_ + p_.l1i_lat();
    if (pc >> line_bits != line_) {
      line_ = pc >> line_bits;
      there = core_.caches_.fetch(pc, at_);
    }
    go_on_at(there);
    fetched_ = 1;
  }
  // When a load or store issues that could at `at`: behind its store set's last store.  One that
  // passes a store to its bytes comes again (OutOfOrderCore::issue).
  Cycle behind_stores(const CoreRow& row, Cycle at) {
    const CoreInst& inst = *row.inst;
    const bool store = inst.is(CoreInst::store);
    if (const int set = core_.sets_.of(inst.pc, store); set != StoreSets::no_set) {
      Cycle& last = set_done_[static_cast<std::size_t>(set)];
      at = std::max(at, last);
      if (store) last = at;
    }
    if (store) {
      if (!row.fault) stores_.put(row.addr, inst.bytes, at, inst.pc, 0, false);
      return at;
    }
    if (row.fault || inst.is(CoreInst::data_prefetch)) return at;
    const auto* const passed = stores_.passed(row.addr, inst.bytes, at, 0);
    if (!passed) return at;
    if (!p_.ideal_memory_order()) {
      core_.sets_.violation({passed->pc, inst.pc});
      go_on_at(std::max(at_, passed->issued + core_.store_executes_ + redirect_delay));
    }
    return passed->issued;
  }
  // When it is done with the access, whose address is there at `at`: a store goes to the cache once
  // it has retired, and nothing waits for it.
  Cycle access(const CoreRow& row, Cycle at) {
    const CoreInst& inst = *row.inst;
    const bool store = inst.is(CoreInst::store);
    const Cycle goes = store ? std::max(at, retire_) : at;
    if (inst.is(CoreInst::zero_line)) {
      core_.caches_.zero_line(row.addr, goes, inst.pc);
      return at;
    }
    Cycle there = at;
    const auto ask = [&](std::uint64_t address) {
      there = std::max(there, store ? core_.caches_.store(address, goes, inst.pc)
                                    : core_.caches_.load(address, goes, inst.pc));
    };
    ask(row.addr);
    if (const std::uint64_t second = row.second_line()) ask(second);
    return store || inst.is(CoreInst::data_prefetch) ? at : there;
  }
  void branch(const CoreRow& row, Cycle resolved) {
    const auto guess = core_.branches_.fetch(row.o3_event(), row.indirect_right, at_);
    core_.branches_.commits(retire_ + 1);
    if (guess == BranchUnit::Guess::wrong) {
      run_wrong(row, resolved);
      go_on_at(resolved + 1);
      line_ = block_ = no_line;
    } else if (guess == BranchUnit::Guess::resteer) {
      go_on_at(at_ + corrected);
    } else if (row.taken) {
      go_on_at(at_ + 1);
    }
    core_.remember(row);
  }
  // As OutOfOrderCore::walk_wrong does, of which this is an outline.
  void run_wrong(const CoreRow& row, Cycle resolved) {
    WrongPathCode way(core_.code_, core_.history_);
    std::uint32_t part = way.begin(core_.code_.number(*row.inst), row.taken);
    if (part == CodeMap::nowhere) {
      if (row.taken) straight_on(resolved, p_.rob());
      return;
    }
    const BranchUnit::Astray astray(core_.branches_, static_cast<BranchKind>(row.inst->branch),
                                    row.taken);
    core_.wrong_.begin();
    for (int left = p_.rob(); left > 0 && at_ < resolved; --left) {
      const CoreInst& inst = core_.code_.insts()[part];
      fetch(inst.pc);
      run_part(row, inst, part, resolved);
      part = way.behind(
          part, [&](const CoreInst& i) { return core_.around_.target(row, i); },
          [&](const CoreInst& i, bool) { return core_.branches_.foresee(i.pc, at_); });
      core_.branches_.pass(inst.pc, static_cast<BranchKind>(inst.branch), way.taken());
      if (part == CodeMap::nowhere) {
        if (!way.taken()) straight_on(resolved, left);
        return;
      }
      if (way.taken()) go_on_at(at_ + (way.was_decoded() ? corrected : 1));
    }
  }
  // Until the branch is resolved, or so many rows are fetched.
  void straight_on(Cycle resolved, int rows) {
    for (; at_ < resolved && rows > 0; rows -= line_insts)
      at_ = std::max(at_ + std::max(1, line_insts / p_.width()),
                     core_.caches_.fetch(++line_ << line_bits, at_));
  }
  // A part of the wrong path behind `branch`; of the accesses it is the loads that go anywhere.
  void run_part(const CoreRow& branch, const CoreInst& inst, std::uint32_t part, Cycle resolved) {
    Cycle issues = at_ + front_;
    for (const std::uint16_t r : inst.read())
      issues = std::max(issues, core_.wrong_.there(r, ready_[r]));
    const RegisterValue& says = core_.code_.value(part);
    Cycle done = issues + core_.executes(inst.op);
    if (inst.is(CoreInst::load) && done <= resolved + 1) {
      const SymbolicValue address = core_.wrong_.address(inst, part, says);
      if (const auto value = core_.values_->value(branch, address.root, core_.around_))
        done =
            core_.caches_.load(static_cast<std::uint64_t>(*value + address.number), done, inst.pc);
      else
        done += p_.l1d_lat();
    }
    core_.wrong_.run(inst, part, says, done);
  }

  // Behind a branch that decode corrects.
  static constexpr Cycle corrected = 3;
  OutOfOrderCore<Why>& core_;
  const CoreParameters& p_;
  // From fetch to issue.
  Cycle front_{p_.front_delay() + p_.decode_to_rename() + p_.rename_to_iew() + 1};
  Cycle at_;       // of the fetch
  int fetched_{};  // rows in this cycle
  std::uint64_t line_{no_line}, block_{no_line};
  std::vector<Cycle> ready_;    // registers
  std::vector<Cycle> retired_;  // of the last rows, as many as the reorder buffer has
  std::size_t entry_{};
  StoreBuffer stores_;
  std::vector<Cycle> set_done_;  // by store set, its last store
  Cycle retire_;
};

template <bool Why>
Cycle OutOfOrderCore<Why>::pass_quickly(std::span<const CoreRow> rows, Cycle at) {
  CoreOutline<Why> core(*this, at);
  for (const CoreRow& row : rows) core.pass(row);
  return core.retired();
}

template Cycle OutOfOrderCore<false>::pass_quickly(std::span<const CoreRow>, Cycle);
template Cycle OutOfOrderCore<true>::pass_quickly(std::span<const CoreRow>, Cycle);

}  // namespace tracekit
