#include "sim/in_order_core.hpp"

#include <algorithm>

#include "core/static_inst.hpp"
#include "sim/op_use.hpp"

namespace tracekit {
template <bool Why>
typename InOrderCore<Why>::Lane InOrderCore<Why>::lane(OpClass op) {
  switch (op_use(op).unit) {
    case Unit::int_alu:
      return Lane::integer;
    case Unit::int_mul:
      return op_use(op).pipelined ? Lane::multiply : Lane::divide;
    case Unit::fp:
    case Unit::simd:
      return Lane::real;
    case Unit::load:
    case Unit::store:
      return Lane::memory;
    case Unit::any:
      break;
  }
  return op == OpClass::SimdPredAlu ? Lane::predicate : Lane::other;
}

template <bool Why>
InOrderCore<Why>::InOrderCore(const CoreParameters& p, const CodeMap& code)
    : p_(p),
      caches_(p),
      register_(CoreInst::all_registers),
      branches_(static_cast<unsigned>(p.predictor()), static_cast<std::size_t>(p.btb()),
                static_cast<std::size_t>(p.ras())),
      ledger_(p.width()),
      clock_(p),
      lines_(p.l1i_lat(), clock_),
      fetch_(p.width()),
      decode_(p.width()),
      commits_(p.width()),
      units_{{{3, false},
              {3, false},
              {3, false},
              {9, true},
              {6, false},
              {3, false},
              {1, false},
              {1, false}}},
      code_(code) {}

// When the row stands before the issue logic.  A taken branch is predicted where its line is worked
// off, and known in the next cycle.
template <bool Why>
typename InOrderCore<Why>::At InOrderCore<Why>::arrive(const CoreRow& row) {
  const std::uint64_t pc = row.inst->pc;
  const bool redirected = redirect_.at() >= 0;
  if (pc != pc_ || taken_ || redirected) {  // no further part of an instruction
    const bool jumps = redirected || taken_;
    if (jumps || row.inst->last_line() != lines_.line()) {
      const At asked = redirected ? redirect_ : (fetch_.at() + 1).because(Cause::front_end_width);
      const Cycle first = redirected ? lines_.redirect(caches_, pc, asked.at())
                          : taken_   ? lines_.foreseen(caches_, pc, fetch_.at().at())
                                     : left_line(*row.inst) - stage_delay;
      const Cycle there = last_line(row.inst->last_line(), first);
      ledger_.fetched_from(caches_.served());
      // A hit's latency belongs to what asked for the line.
      const bool hit = caches_.served() == CacheLevel::l1;
      line_at_ = {there + stage_delay, hit ? asked.cause() : fetch_cause(caches_.served())};
      redirect_ = {-1, Cause::base};
      taken_ = false;
    }
    fetch_.hands_over(line_at_);
    pc_ = pc;
  }
  return decoded();
}

template <bool Why>
typename InOrderCore<Why>::At InOrderCore<Why>::issue(const CoreRow& row, Lane where, At arrived) {
  const auto k = static_cast<std::size_t>(where);
  At at = later(arrived, issue_);
  unit_ = nullptr;
  const bool free = row.inst->op == OpClass::No_OpClass;
  if (!free) {
    for (const std::uint16_t r : row.inst->read()) {
      const At ready = register_[r].ready - timings[k].early;
      at = later(at, register_[r].retired.after(ready) ? ready : register_[r].retired);
    }
  }
  if (at.at() == issue_.at() && (issued_now_ >= p_.width() || issued_all_))
    at = (issue_ + 1).because(issued_all_ ? Cause::unit_busy : Cause::base);
  if (!free) {
    unit_ = &units_[k + (where != Lane::integer ? 1 : 0)];
    if (where == Lane::integer && units_[1].takes(at.at()) < units_[0].takes(at.at()))
      unit_ = &units_[1];
    at = later(at, {unit_->takes(at.at()), Cause::unit_busy});
  }
  if (at.after(issue_)) issued_now_ = 0;
  ++issued_now_;
  // One access a cycle, and nothing behind it; nor behind what the last unit takes.
  issued_all_ = !free && (where == Lane::memory || where == Lane::other);
  decode_.taken(at);
  return issue_ = at;
}

// When the core sees what its cache answers: one before a cycle, others of that cycle in the next
// (gem5's PacketQueue sends them a tick later).
template <bool Why>
Cycle InOrderCore<Why>::answered(Cycle there) {
  if (answers_.has(there)) return there + 1;
  answers_.put(there);
  return there;
}

// When a load has its data: not while a store before it is on its way to the store buffer, where it
// is when it has retired (gem5's LSQ::tryToSendToTransfers).
template <bool Why>
typename InOrderCore<Why>::At InOrderCore<Why>::load(const CoreRow& row, At at) {
  const CoreInst& inst = *row.inst;
  if (const DrainingStores::Store* s = stores_.last(row.addr, inst.bytes, at.at())) {
    if (s->covers(row.addr, inst.bytes) && !inst.is(CoreInst::in_order))
      return at.because(Cause::load_forward);
    at = later(at, {s->done, Cause::load_forward});
  }
  at = later(at, {stores_.memory_takes(at.at()), Cause::unit_busy});
  queued_ = at.at();
  if (inst.is(CoreInst::data_prefetch)) {
    caches_.load(row.addr, at.at(), inst.pc);
    return {answered(at.at() + p_.l1d_lat()), Cause::load_l1};
  }
  Cycle there = answered(caches_.load(row.addr, at.at(), inst.pc));
  const CacheLevel served = caches_.served();
  if (const std::uint64_t second = row.second_line()) {
    queued_ = at.at() + 1;
    there = std::max(there, answered(caches_.load(second, queued_, inst.pc)));
  }
  ledger_.data_from(served);
  there = clock_.load(there, at.at());
  stores_.loaded(at.at(), there);
  took_[inst.pc] = there - at.at();
  return {there, load_cause(served)};
}

// When an access, whose address is there at `ready`, could retire, and when it has left its unit.
template <bool Why>
typename InOrderCore<Why>::Access InOrderCore<Why>::access(const CoreRow& row, At ready) {
  const CoreInst& inst = *row.inst;
  std::uint64_t after = 0;
  for (const std::uint16_t r : inst.read()) {
    if (register_[r].retired.after(issue_)) after = std::max(after, register_[r].row);
  }
  At at = later(ready, {queued_, Cause::unit_busy});
  at = later(at, {barrier_, Cause::barrier});
  const auto [sent, head] = commits_.sends(at.at(), after);
  at = later(at, {sent, retire_.cause()});
  // What has not retired by then is waited for until the next cycle: the access before the last,
  // since there is room for two behind the queue, and by some accesses all rows.
  const auto behind = [&](const Retired& before, Cause why) {
    if (before.row > head) at = later(at, {before.at + 1, why});
  };
  behind(access_before_, Cause::unit_busy);
  const bool alone = inst.is(CoreInst::in_order);
  if (alone) behind({commits_.last(), commits_.next()}, Cause::serialization);
  queued_ = at.at();
  if (inst.is(CoreInst::store)) {
    if (alone) {
      at = later(at, {stores_.drained(), Cause::serialization});
      queued_ = at.at();
      at = {answered(caches_.store(row.addr, at.at(), inst.pc)), Cause::store_drain};
    } else {
      at = later(at, {stores_.room(), Cause::store_queue_full});
    }
    return {at, sent};
  }
  behind(last_store_, Cause::unit_busy);
  queued_ = at.at();
  return {load(row, at), sent};
}

template <bool Why>
void InOrderCore<Why>::control(const CoreRow& row, BranchUnit::Guess guess, Cycle retired) {
  const CoreInst& inst = *row.inst;
  const std::uint32_t part = code_.number(inst);
  if (inst.is(CoreInst::serialize_after)) {
    redirect_ = {retired + p_.front_delay(), Cause::serialization};
    run_wrong(row, behind(part), false, retired);
  }
  if (!row.is_branch()) return;
  // What the target buffer does not know is fetched straight on, and resolved when it executes.
  if (guess != BranchUnit::Guess::right) {
    redirect_ = {retired + p_.front_delay(),
                 guess == BranchUnit::Guess::wrong
                     ? misprediction_cause(static_cast<BranchKind>(inst.branch))
                     : Cause::resteer_decode};
    const auto* const before = history_.find(part);
    if (row.taken && (foresees_nothing() || BranchUnit::in_btb(row.event().kind)) &&
        !branches_.predicted_taken())
      run_wrong(row, behind(part), false, retired);
    else  // where it went the last time: of a jump to one of many that is as good as any
      run_wrong(row, before ? before->target : CodeMap::nowhere, true, retired);
  }
  const bool predicted = p_.ideal_branches() ? row.taken : branches_.predicted_taken();
  history_.remember(code_, part, row.taken, row.target, predicted);
  if (row.taken) taken_ = true;
  if (p_.ideal_branches() || foresees_nothing()) return;
  // The predictor learns of it together with the next branch that says anything: not of one that
  // goes on as foreseen, nor of one whose target alone was wrong (Fetch2::updateBranchPrediction).
  ++unreported_;
  const bool silent = guess == BranchUnit::Guess::right
                          ? !row.taken
                          : row.taken && !BranchUnit::in_btb(row.event().kind);
  for (; !silent && unreported_ > 0; --unreported_)
    branches_.commits(retired + p_.front_delay() - 1);
}

// As OutOfOrderCore::retire names causes; but accesses stand in the memory unit, one behind the
// other, and what the first cache does not have is the cause of all that it covers.
template <bool Why>
typename InOrderCore<Why>::At InOrderCore<Why>::retire(const CoreRow& row, At issued, At done,
                                                       bool memory) {
  const At before = retire_;
  const bool costs = row.inst->op != OpClass::No_OpClass;
  retire_ = {commits_.commit(done.at(), memory, costs), done.cause()};
  clock_.works(retire_.at());
  const Cycle moved = retire_.at() - before.at(), took = retire_.at() - 1 - issued.at();
  const Cycle longer = took - (before.at() - 1 - last_issued_);
  const bool missed = done.cause() >= Cause::load_l2 && done.cause() <= Cause::mshr_full;
  const bool own = 2 * longer >= moved || (missed && took >= moved);
  if (retire_.at() > done.at())
    ledger_.charge(Cause::base, moved);
  else
    ledger_.charge(own ? done.cause() : issued.cause(), moved);
  last_issued_ = issued.at();
  return retire_;
}

// What becomes of the fetch behind the row.
template <bool Why>
BranchUnit::Guess InOrderCore<Why>::foresees(const CoreRow& row) {
  if (!row.is_branch() || p_.ideal_branches()) return BranchUnit::Guess::right;
  if (foresees_nothing()) return row.taken ? BranchUnit::Guess::wrong : BranchUnit::Guess::right;
  return branches_.fetch(row.event(), row.indirect_right, fetch_.at().at());
}

template <bool Why>
Core::Times InOrderCore<Why>::step(const CoreRow& row) {
  ledger_.row();
  const CoreInst& inst = *row.inst;
  const Lane where = lane(inst.op);
  const bool memory = inst.is(CoreInst::load | CoreInst::store);
  const Cycle before = retire_.at();
  const At arrived = arrive(row);
  const auto guess = foresees(row);
  ledger_.guessed(guess);
  const At issued = issue(row, memory ? Lane::memory : where, arrived);
  At done{unit_ ? unit_->enters(issued.at()) : issued.at(), op_cause(inst.op)};
  Cycle sent{};
  if (memory) {
    const Access a = access(row, done);
    done = a.done;
    sent = a.sent;
  } else if (inst.is(CoreInst::barrier)) {
    done = later(done, {stores_.room(), Cause::store_queue_full});
  }
  done = later(done, discarded_);
  const std::uint64_t number = commits_.next();
  const At retired = retire(row, issued, done, memory);
  if (unit_) unit_->leaves(memory ? sent : retired.at());
  const Timing& t = timings[static_cast<std::size_t>(memory ? Lane::memory : where)];
  const Cycle assumed = issued.at() + t.latency + t.assumed;
  for (const std::uint16_t r : inst.written()) {
    register_[r] = {{assumed, done.cause()}, {retired.at(), done.cause()}, number + 1};
  }
  if (memory) {
    access_before_ = last_access_;
    last_access_ = {retired.at(), number + 1};
  }
  if (inst.is(CoreInst::store)) {
    if (!inst.is(CoreInst::in_order)) {
      const Cycle drains = stores_.sends(retired.at());
      const Cycle written = inst.is(CoreInst::zero_line)
                                ? caches_.zero_line(row.addr, drains, inst.pc)
                                : caches_.store(row.addr, drains, inst.pc);
      stores_.put(row.addr, inst.bytes, drains, answered(written));
    }
    ledger_.data_from(caches_.served());
    last_store_ = {retired.at(), number + 1};
  }
  if (inst.is(CoreInst::barrier)) barrier_ = std::max(retired.at() + 1, stores_.drained());
  control(row, guess, retired.at());
  return {arrived.at(), issued.at(), done.at(), before, retired.at(), arrived.at()};
}

template class InOrderCore<false>;
template class InOrderCore<true>;

}  // namespace tracekit
