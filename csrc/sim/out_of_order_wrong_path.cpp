// What a core asks its caches for behind a branch that it predicts wrongly, until it is told.
#include <algorithm>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {

// Until it is told otherwise, or the reorder buffer is full, the front end goes straight on behind
// `pc`, which it fetched just now, and brings the lines that it comes to; it is squashed at
// `heard`. For how many cycles it waits for them.
template <bool Why>
Cycle OutOfOrderCore<Why>::run_past(std::uint64_t pc, Cycle from, Cycle resolved, Cycle heard) {
  const auto block = static_cast<std::uint64_t>(p_.fetch_buffer());
  const Cycle each = std::max(p_.l1i_lat() + 1, p_.fetch_buffer() / 4 / p_.width());
  const auto left = static_cast<int>((block - 1 - pc % block) / 4);
  const std::uint64_t full = pc + static_cast<std::uint64_t>(p_.rob()) * 4;
  Cycle at = from + (fetched_ + left) / p_.width();
  Cycle waited = 0;
  buffered_ = fetch_block(pc);
  for (std::uint64_t next = (pc / block + 1) * block; next < full && at < resolved; next += block) {
    const Cycle there = next % 64 ? at + p_.l1i_lat() : caches_.fetch(next, at);
    waited += std::max<Cycle>(0, there - at - each);
    buffer(next, there, heard);
    at = std::max(at + each, there);
  }
  return waited;
}

// The branch `row` is predicted wrongly, which is known at `resolved`; `rows` of the wrong path
// find room.  For how many cycles its fetch waits for lines.
template <bool Why>
Cycle OutOfOrderCore<Why>::run_wrong(const CoreRow& row, Cycle dispatched, Cycle resolved,
                                     const Room& room) {
  buffered_ = no_line;
  WrongWay way(code_, history_);
  const std::uint32_t begin = way.begin(code_.number(*row.inst), row.taken);
  if (begin != CodeMap::nowhere)
    return walk_wrong(row, way, begin, dispatched - fetch_.at() + 1, resolved, room);
  // An indirect jump of unknown target, too (gem5's BPredUnit::predict).
  if (!row.taken) return 0;
  return run_past(row.inst->pc, fetch_.at(), resolved, resolved + squash_heard);
}

// A part of the wrong path behind `branch` that may issue from `at` on, in the cycles of older rows
// (WrongPathUnits).
template <bool Why>
void OutOfOrderCore<Why>::run_part(const CoreRow& branch, std::uint32_t part, Cycle at,
                                   Cycle resolved) {
  const CoreInst& inst = code_.insts()[part];
  for (const std::uint16_t r : inst.read()) {
    at = std::max(at, wrong_.written(r) ? wrong_ready_[r] : register_[r].at());
  }
  const OpBooking& own = booking_[static_cast<std::size_t>(inst.op)];
  const Cycle passed = own.held > 1
                           ? wrong_units_.issue(calendar_, at, own.counted, own.held, resolved)
                           : at + latency(inst.op);
  const Cycle executes = passed + p_.issue_to_exec() - 1;
  Cycle done = executes;
  if (inst.is(CoreInst::load) && !inst.is(CoreInst::store)) {
    done += p_.l1d_lat();  // unless it is known where it goes
    // In the cycle in which the branch is resolved, and in the next one, what is younger still
    // executes (gem5's IEW::executeInsts).
    if (executes <= resolved + 1) {
      const SymbolicValue address = wrong_.address(inst, part, code_.value(part));
      if (const auto value = values_->value(branch, address.root, this->around_))
        done = caches_.load(static_cast<std::uint64_t>(*value + address.number), executes, inst.pc);
    }
  }
  wrong_.run(inst, part, code_.value(part));
  for (const std::uint16_t r : inst.written()) {
    wrong_ready_[r] = done;
  }
}

// Behind `branch` the front end goes on at `part` of a wrong way; what it fetches may issue
// `to_issue` cycles later.  For how many cycles fetch waits for lines.
template <bool Why>
Cycle OutOfOrderCore<Why>::walk_wrong(const CoreRow& branch, WrongWay& way, std::uint32_t part,
                                      Cycle to_issue, Cycle resolved, const Room& room) {
  Cycle at = fetch_.at(), waited = 0;
  int fetched = fetched_;
  std::uint64_t block = block_, pc = no_line;
  Cycle there = 0;  // when a row is dispatched
  std::uint64_t entry = entry_ + 1, loads = loads_;
  wrong_.begin();
  stores_told_ = true;
  const auto end = [&] { return resolved + wrong_units_.delay(); };
  const auto heard = [&] { return end() + squash_heard; };
  buffered_ = block;
  for (Cycle row = 0; row < room.rows + p_.fetch_queue() && at < heard(); ++row) {
    const CoreInst& inst = code_.insts()[part];
    const bool next_block = inst.pc != pc && fetch_block(inst.pc) != block;
    if (next_block) {
      block = fetch_block(inst.pc);
      const Cycle there = caches_.fetch(inst.pc, at);
      if (at < end()) waited += std::max<Cycle>(0, there - at - std::max<Cycle>(1, p_.l1i_lat()));
      at = std::max(at + 1, there);
      buffer(inst.pc, at, heard());
      if (at >= heard()) return waited;
    } else if (way.taken() || fetched >= p_.width()) {
      ++at;
    }
    fetched = next_block || way.taken() || fetched >= p_.width() ? 1 : fetched + 1;
    pc = inst.pc;
    // A row waits for its entries, and so do all behind it.
    there = std::max({there, at + to_issue - 1, entry_freed(entry++)});
    if (inst.is(CoreInst::load)) there = std::max(there, load_freed(loads++));
    // The last ones are dispatched in the cycle behind that in which the branch is resolved, and
    // could issue in the next one.
    if (row < room.queued && there <= end() + 1 && inst.is(CoreInst::store))
      sets_.squashed(inst.pc);
    // Of what issues later no load goes any more.
    if (row < room.rows && there < end())
      run_part(branch, part, there + 1 - wrong_units_.delay(), resolved);

    part = way.behind(part, [&](const CoreInst& i) { return this->around_.target(branch, i); });
    const auto kind = static_cast<BranchKind>(inst.branch);
    bool resteered = way.was_decoded();
    if (way.taken() && part != CodeMap::nowhere && BranchUnit::in_btb(kind) &&
        at + p_.front_delay() + 1 < resolved)
      resteered |= branches_.resteers(inst.pc, code_.insts()[part].pc, kind);
    if (resteered) at += 1 + decode_redirect;
    if (part == CodeMap::nowhere) {  // code that never ran
      return way.taken() ? waited : waited + run_past(pc, at, resolved, heard());
    }
  }
  return waited;
}

#define ALL(Why)                                                                                  \
  template Cycle OutOfOrderCore<Why>::run_past(std::uint64_t, Cycle, Cycle, Cycle);               \
  template Cycle OutOfOrderCore<Why>::run_wrong(const CoreRow&, Cycle, Cycle, const Room&);       \
  template void OutOfOrderCore<Why>::run_part(const CoreRow&, std::uint32_t, Cycle, Cycle);       \
  template Cycle OutOfOrderCore<Why>::walk_wrong(const CoreRow&, WrongWay&, std::uint32_t, Cycle, \
                                                 Cycle, const Room&);
ALL(false)
ALL(true)
#undef ALL

}  // namespace tracekit
