// Loads behind a branch that was predicted wrongly, which are sent before it is found out.
#include <algorithm>

#include "sim/in_order_core.hpp"
#include "sim/op_use.hpp"

namespace tracekit {
namespace {

constexpr int most_rows = 16;  // that stand between fetch and commit
constexpr int most_loads = 2;  // on their way
constexpr Cycle foreseen = 3;  // cycles that a taken branch costs besides those of its line

}  // namespace

// Behind the branch, which came to the issue logic at `arrived` and is found out when it retires,
// rows issue as if it were right.  A load of them is sent as soon as its operands have retired, and
// once it is, nothing behind it retires before its answer is there (gem5's Execute::commit,
// "Issuing mem ref early", and LSQ::findResponse, which discards it only then).
template <bool Why>
void InOrderCore<Why>::run_wrong(const CoreRow& branch, Cycle arrived, Cycle retired) {
  WrongWay way(code_, history_);
  std::uint32_t part = way.begin(code_.number(*branch.inst), branch.taken);
  Cycle came = arrived, at = issue_.at();
  int came_now = 1, issued_now = issued_now_, loads = 0;
  wrong_.begin();
  for (int row = 0; row < most_rows && part != CodeMap::nowhere; ++row) {
    const CoreInst& inst = code_.insts()[part];
    if (way.taken() || ++came_now > p_.width()) {
      came += way.taken() ? foreseen + p_.l1i_lat() : 1;
      came_now = 1;
    }
    const bool memory = inst.is(CoreInst::load | CoreInst::store);
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
    if (ready > at) {
      at = ready;
      issued_now = 0;
    } else if (issued_now >= p_.width()) {
      ++at;
      issued_now = 0;
    }
    ++issued_now;
    if (at >= retired) return;
    if (memory) {
      // What cannot be sent stays in the unit, and others behind it.
      const Cycle sent = std::max(at, committed) + 1;
      if (computed || tested || inst.is(CoreInst::store) || sent > retired) return;
      const SymbolicValue address = wrong_.address(inst, part, code_.value(part));
      Cycle there = sent + took_[inst.pc];  // unless it is known where it goes
      if (const auto value = values_->value(branch, address.root, this->around_))
        there = caches_.load(static_cast<std::uint64_t>(*value + address.number), sent, inst.pc);
      discarded_ = later(discarded_, {there, Cause::mispredict_direction});
      if (++loads == most_loads) return;
      issued_now = p_.width();  // one access a cycle, and nothing behind it
    }
    wrong_.run(inst, part, code_.value(part));
    part = way.behind(part, [&](const CoreInst& i) { return this->around_.target(branch, i); });
  }
}

template void InOrderCore<false>::run_wrong(const CoreRow&, Cycle, Cycle);
template void InOrderCore<true>::run_wrong(const CoreRow&, Cycle, Cycle);

}  // namespace tracekit
