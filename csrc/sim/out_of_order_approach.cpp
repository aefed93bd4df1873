// An out-of-order core in outline, which goes through rows before those that are walked: fetch by
// the width, operands, latencies, the reorder buffer, and wrong paths until their branches are
// resolved.  What it leaves in caches, prefetchers and predictors is what it is for.
#include <algorithm>

#include "sim/out_of_order_core.hpp"

namespace tracekit {
namespace {

// Behind a branch that decode corrects.
constexpr Cycle corrected = 3;
constexpr int line_insts = 16;

class Outline {
 public:
  struct Of {
    const CoreParameters& parameters;
    CacheHierarchy& caches;
    BranchUnit& branches;
    BranchHistory& history;
    const CodeMap& code;
    ValuesAround& values;
    const RowsAround& around;
    SymbolicRegisters& wrong;
  };
  template <typename Latency>
  Outline(const Of& of, Cycle at, const Latency& latency)
      : of_(of),
        width_(of.parameters.width()),
        front_(of.parameters.front_delay() + of.parameters.decode_to_rename() +
               of.parameters.rename_to_iew() + 1),
        block_bytes_(static_cast<unsigned>(of.parameters.fetch_buffer())),
        at_(at),
        ready_(CoreInst::all_registers, at),
        wrong_ready_(CoreInst::all_registers),
        retired_(static_cast<std::size_t>(of.parameters.rob()), at),
        retire_(at) {
    for (std::size_t k = 0; k < op_count; ++k) latency_[k] = latency(static_cast<OpClass>(k));
  }
  void pass(const CoreRow& row) {
    const CoreInst& inst = *row.inst;
    fetch(inst.pc);
    Cycle& entry = retired_[entry_];
    if (++entry_ == retired_.size()) entry_ = 0;
    if (entry > at_ + front_) go_on_at(entry - front_);
    Cycle issues = at_ + front_;
    for (const std::uint16_t r : inst.read()) issues = std::max(issues, ready_[r]);
    Cycle done = issues + latency_[static_cast<std::size_t>(inst.op)];
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
    if (++fetched_ > width_) {
      go_on_at(at_ + 1);
      fetched_ = 1;
    }
    const std::uint64_t block = pc / block_bytes_;
    if (block == block_) return;
    block_ = block;
    Cycle there = at_ + of_.parameters.l1i_lat();
    if (pc >> line_bits != line_) {
      line_ = pc >> line_bits;
      there = of_.caches.fetch(pc, at_);
    }
    go_on_at(there);
    fetched_ = 1;
  }
  // When it is done with the access, whose address is there at `at`: a store goes to the cache once
  // it has retired, and nothing waits for it.
  Cycle access(const CoreRow& row, Cycle at) {
    const CoreInst& inst = *row.inst;
    const bool store = inst.is(CoreInst::store);
    const Cycle goes = store ? std::max(at, retire_) : at;
    if (inst.is(CoreInst::zero_line)) {
      of_.caches.zero_line(row.addr, goes, inst.pc);
      return at;
    }
    Cycle there = at;
    const auto ask = [&](std::uint64_t address) {
      there = std::max(there, store ? of_.caches.store(address, goes, inst.pc)
                                    : of_.caches.load(address, goes, inst.pc));
    };
    ask(row.addr);
    if (const std::uint64_t second = row.second_line()) ask(second);
    return store || inst.is(CoreInst::data_prefetch) ? at : there;
  }
  void branch(const CoreRow& row, Cycle resolved) {
    const auto guess = of_.branches.fetch(row.o3_event(), row.indirect_right, at_);
    of_.branches.commits(retire_ + 1);
    const bool predicted = of_.branches.predicted_taken();
    if (guess == BranchUnit::Guess::wrong) {
      run_wrong(row, resolved);
      go_on_at(resolved + 1);
      line_ = block_ = no_line;
    } else if (guess == BranchUnit::Guess::resteer) {
      go_on_at(at_ + corrected);
    } else if (row.taken) {
      go_on_at(at_ + 1);
    }
    of_.history.remember(of_.code, of_.code.number(*row.inst), row.taken, row.target, predicted);
  }
  // As OutOfOrderCore::walk_wrong does, of which this is an outline.
  void run_wrong(const CoreRow& row, Cycle resolved) {
    WrongPathCode way(of_.code, of_.history);
    std::uint32_t part = way.begin(of_.code.number(*row.inst), row.taken);
    if (part == CodeMap::nowhere) {
      if (row.taken) straight_on(resolved, of_.parameters.rob());
      return;
    }
    const BranchUnit::Astray astray(of_.branches, static_cast<BranchKind>(row.inst->branch),
                                    row.taken);
    of_.wrong.begin();
    for (int left = of_.parameters.rob(); left > 0 && at_ < resolved; --left) {
      const CoreInst& inst = of_.code.insts()[part];
      fetch(inst.pc);
      run_part(row, inst, part, resolved);
      part = way.behind(
          part, [&](const CoreInst& i) { return of_.around.target(row, i); },
          [&](const CoreInst& i, bool) { return of_.branches.foresee(i.pc, at_); });
      of_.branches.pass(inst.pc, static_cast<BranchKind>(inst.branch), way.taken());
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
      at_ = std::max(at_ + std::max(1, line_insts / width_),
                     of_.caches.fetch(++line_ << line_bits, at_));
  }
  // A part of the wrong path behind `branch`; of the accesses it is the loads that go anywhere.
  void run_part(const CoreRow& branch, const CoreInst& inst, std::uint32_t part, Cycle resolved) {
    Cycle issues = at_ + front_;
    for (const std::uint16_t r : inst.read())
      issues = std::max(issues, of_.wrong.written(r) ? wrong_ready_[r] : ready_[r]);
    const RegisterValue& says = of_.code.value(part);
    Cycle done = issues + latency_[static_cast<std::size_t>(inst.op)];
    if (inst.is(CoreInst::load) && done <= resolved + 1) {
      const SymbolicValue address = of_.wrong.address(inst, part, says);
      if (const auto value = of_.values.value(branch, address.root, of_.around))
        done = of_.caches.load(static_cast<std::uint64_t>(*value + address.number), done, inst.pc);
      else
        done += of_.parameters.l1d_lat();
    }
    of_.wrong.run(inst, part, says);
    for (const std::uint16_t r : inst.written()) wrong_ready_[r] = done;
  }

  const Of of_;
  int width_, fetched_{};  // rows in this cycle
  Cycle front_;            // from fetch to issue
  std::uint64_t block_bytes_;
  Cycle at_;  // of the fetch
  std::uint64_t line_{no_line}, block_{no_line};
  std::vector<Cycle> ready_, wrong_ready_;  // registers
  std::vector<Cycle> retired_;              // of the last rows, as many as the reorder buffer has
  std::size_t entry_{};
  Cycle retire_;
  std::array<Cycle, op_count> latency_{};
};

}  // namespace

template <bool Why>
Cycle OutOfOrderCore<Why>::pass_quickly(std::span<const CoreRow> rows, Cycle at) {
  Outline core({p_, caches_, branches_, history_, code_, *values_, this->around_, wrong_}, at,
               [this](OpClass op) { return executes(op); });
  for (const CoreRow& row : rows) core.pass(row);
  return core.retired();
}

template Cycle OutOfOrderCore<false>::pass_quickly(std::span<const CoreRow>, Cycle);
template Cycle OutOfOrderCore<true>::pass_quickly(std::span<const CoreRow>, Cycle);

}  // namespace tracekit
