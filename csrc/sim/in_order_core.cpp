#include "sim/in_order_core.hpp"

#include <algorithm>
#include <string_view>

#include "core/static_inst.hpp"
#include "sim/op_use.hpp"

namespace tracekit {
namespace {

constexpr Cycle stage_delay = 1;      // from each stage of the pipeline to the next
constexpr Cycle refetch = 2;          // from a prediction in the second stage to the line's request
constexpr Cycle respond = 4;          // from the cache's answer to the retirement of a load
constexpr Cycle serialize_delay = 3;  // a system call empties the pipeline
constexpr std::size_t execute_buffer = 7, decode_buffer = 3;  // in cycles' worth of instructions
constexpr std::size_t transfers = 2;

}  // namespace

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
  return Lane::other;
}

template <bool Why>
InOrderCore<Why>::InOrderCore(const CoreParameters& p, std::size_t registers)
    : p_(p),
      caches_(p),
      register_(registers),
      branches_(static_cast<unsigned>(p.predictor()), static_cast<std::size_t>(p.btb()),
                static_cast<std::size_t>(p.ras())),
      ledger_(p.width()),
      fetch_{p.width(), Cause::front_end_width},
      decode_{p.width(), Cause::front_end_width},
      issue_{p.width(), Cause::base},
      memory_{1, Cause::unit_busy},
      retire_{p.width(), Cause::base},
      lanes_{{{pipes[0].each_cycle, Cause::unit_busy},
              {1, Cause::unit_busy},
              {1, Cause::unit_busy},
              {1, Cause::unit_busy},
              {1, Cause::unit_busy},
              {1, Cause::unit_busy}}} {}

// When the part stands before the issue logic.  One line at a time is asked for; a taken branch is
// predicted in the second stage.
template <bool Why>
typename InOrderCore<Why>::At InOrderCore<Why>::arrive(const CoreRow& row) {
  const std::uint64_t pc = row.inst->pc, line = pc >> 6;
  if (row.first) {
    At at{};
    if (redirect_.at() >= 0 || taken_ || line != line_) {
      // The next line of a straight run is asked for while the last one is worked off.
      const At asked = redirect_.at() >= 0 ? redirect_
                       : taken_            ? (fetch_.at + refetch).because(Cause::front_end_width)
                                           : (line_at_ + 1).because(Cause::front_end_width);
      const Cycle there = caches_.fetch(pc, asked.at()) + stage_delay;
      ledger_.fetched_from(caches_.served());
      // A hit's latency belongs to what asked for the line.
      const bool hit = caches_.served() == CacheLevel::l1;
      line_at_ = later(line_at_, {there, hit ? asked.cause() : fetch_cause(caches_.served())});
      at = line_at_;
      line_ = line;
      redirect_ = {-1, Cause::base};
      taken_ = false;
    }
    const std::size_t room = decode_buffer * static_cast<std::size_t>(p_.width());
    if (uop_ >= room) at = later(at, decoded_[(uop_ - room) % ring]);
    fetch_.take(later(at, fetch_.at));
  }
  At at = fetch_.at + stage_delay;
  const std::size_t room = execute_buffer * static_cast<std::size_t>(p_.width());
  if (uop_ >= room && room < ring) at = later(at, issued_[(uop_ - room) % ring]);
  const At decoded = decode_.take(later(at, decode_.at));
  decoded_[uop_ % ring] = decoded;
  return decoded + stage_delay;
}

template <bool Why>
typename InOrderCore<Why>::At InOrderCore<Why>::issue(const CoreRow& row, Lane where, At arrived) {
  const auto k = static_cast<std::size_t>(where);
  const Pipe& pipe = pipes[k];
  At at = later(arrived, issue_.at);
  for (const std::uint16_t r : row.inst->src)
    if (r != CoreInst::no_register) at = later(at, register_[r].ready - pipe.early);
  if (row.inst->is(CoreInst::serialize_before | CoreInst::in_order | CoreInst::barrier))
    at = later(at, {retire_.at.at() + 1,
                    row.inst->is(CoreInst::barrier) ? Cause::barrier : Cause::serialization});
  at = later(at, {barrier_, Cause::barrier});
  const auto depth = static_cast<std::uint64_t>(pipe.depth);
  if (lane_count_[k] >= depth)
    at = later(at, {lane_retired_[k][(lane_count_[k] - depth) % ring], Cause::unit_busy});
  at = lanes_[k].take(later(at, lanes_[k].at));
  if (where == Lane::memory) at = memory_.take(later(at, memory_.at));
  at = issue_.take(later(at, issue_.at));
  issued_[uop_ % ring] = at;
  return at;
}

// When a load's data, or a store's place in the store buffer, is there.
template <bool Why>
typename InOrderCore<Why>::At InOrderCore<Why>::access(const CoreRow& row, At issued) {
  const CoreInst& inst = *row.inst;
  At at = later(issued + 1, {request_ + 1, Cause::unit_busy});
  for (const std::uint16_t r : inst.src)  // the address is computed when its producers retire
    if (r != CoreInst::no_register) at = later(at, register_[r].retired);
  const auto k = static_cast<std::size_t>(Lane::memory);
  if (lane_count_[k] >= transfers)
    at = later(at, {lane_retired_[k][(lane_count_[k] - transfers) % ring], Cause::unit_busy});
  if (inst.is(CoreInst::load) && !inst.is(CoreInst::store)) {
    // Not while a store before it is on its way to the store buffer, where it is when it has
    // retired (gem5's LSQ::tryToSendToTransfers).
    at = later(at, {store_retired_ + 1, Cause::unit_busy});
    const DrainingStores::Store* s = stores_.last(row.addr, inst.bytes(), at.at());
    if (s && s->covers(row.addr, inst.bytes())) {
      request_ = at.at();
      return {at.at() + 1, Cause::load_forward};
    }
    if (s) at = later(at, {s->done, Cause::load_forward});
    at = later(at, {stores_.memory_takes(at.at()), Cause::unit_busy});
    request_ = at.at();
    if (inst.is(CoreInst::data_prefetch)) return at + 1;
    const Cycle there = caches_.load(row.addr, at.at(), inst.pc);
    ledger_.data_from(caches_.served());
    stores_.loaded(at.at(), there);
    return {there + respond - 1, load_cause(caches_.served())};
  }
  request_ = at.at();
  if (inst.is(CoreInst::store)) at = later(at, {stores_.room(), Cause::store_queue_full});
  return at + 1;
}

template <bool Why>
void InOrderCore<Why>::control(const CoreRow& row, BranchUnit::Guess guess, Cycle retired) {
  const CoreInst& inst = *row.inst;
  if (row.is_branch()) {
    // What the BTB does not know is fetched straight on, and found out when it executes.  Where
    // taken_redirects, every taken branch costs as much: Minor's timed runs on X86 show it.
    if (guess != BranchUnit::Guess::right ||
        (row.taken && p_.taken_redirects() && !p_.ideal_branches())) {
      const bool wrong = guess == BranchUnit::Guess::wrong;
      redirect_ = {retired + p_.front_delay(),
                   wrong ? misprediction_cause(static_cast<BranchKind>(inst.branch))
                         : Cause::resteer_decode};
    }
    if (row.taken) taken_ = true;
    if (!p_.ideal_branches()) branches_.commits(retired);
  }
  if (inst.is(CoreInst::serialize_after))
    redirect_ = {retired + serialize_delay, Cause::serialization};
}

// As OutOfOrderCore::retire names causes; but accesses stand in the memory unit, one behind the
// other, and what the first cache does not have is the cause of all that it covers.
template <bool Why>
typename InOrderCore<Why>::At InOrderCore<Why>::retire(At issued, At done) {
  const At before = retire_.at, retired = retire_.take(later(done, before));
  const Cycle moved = retired.at() - before.at(), took = retired.at() - 1 - issued.at();
  const Cycle longer = took - (before.at() - 1 - last_issued_);
  const bool missed = done.cause() >= Cause::load_l2 && done.cause() <= Cause::mshr_full;
  const bool own = 2 * longer >= moved || (missed && took >= moved);
  if (retired.at() > done.at())
    ledger_.charge(Cause::base, moved);
  else
    ledger_.charge(own ? done.cause() : issued.cause(), moved);
  last_issued_ = issued.at();
  return retired;
}

template <bool Why>
Core::Times InOrderCore<Why>::step(const CoreRow& row) {
  ledger_.row();
  const CoreInst& inst = *row.inst;
  const Lane where = lane(inst.op);
  const auto k = static_cast<std::size_t>(where);
  const Cycle before = retire_.at.at();
  const At arrived = arrive(row);
  const auto guess = row.is_branch() && !p_.ideal_branches()
                         ? branches_.fetch(row.event(), row.indirect_right, fetch_.at.at())
                         : BranchUnit::Guess::right;
  ledger_.guessed(guess);
  const At issued = issue(row, where, arrived);
  At done{issued.at() + pipes[k].latency, op_cause(inst.op)};
  if (inst.is(CoreInst::load | CoreInst::store)) {
    const At there = access(row, issued);
    done = there.at() >= done.at() ? there : done.because(there.cause());
  }
  const At retired = retire(issued, done);
  if (where == Lane::divide) lanes_[k].at = issued + (pipes[k].latency - 1);
  // A load's readers may issue as if it hit; they retire behind it.
  const Cycle assumed = issued.at() + pipes[k].latency + (where == Lane::memory ? 2 : 0);
  for (const std::uint16_t r : inst.dst)
    if (r != CoreInst::no_register)
      register_[r] = {{assumed, done.cause()}, {retired.at(), done.cause()}};
  lane_retired_[k][lane_count_[k]++ % ring] = retired.at();
  if (inst.is(CoreInst::store)) {
    const Cycle sent = stores_.sends(retired.at());
    stores_.put(row.addr, inst.bytes(), sent, caches_.store(row.addr, sent, inst.pc));
    ledger_.data_from(caches_.served());
    store_retired_ = retired.at();
  }
  if (inst.is(CoreInst::barrier)) barrier_ = std::max(retired.at(), stores_.drained());
  control(row, guess, retired.at());
  ++uop_;
  return {arrived.at(), issued.at(), done.at(), before, retired.at(), arrived.at()};
}

template class InOrderCore<false>;
template class InOrderCore<true>;

}  // namespace tracekit
