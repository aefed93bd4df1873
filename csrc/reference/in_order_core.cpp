#include "reference/in_order_core.hpp"

#include <algorithm>
#include <string_view>

#include "core/static_inst.hpp"

namespace tracekit {
namespace {

constexpr Cycle stage_delay = 1;      // from each stage of the pipeline to the next
constexpr Cycle refetch = 2;          // from a prediction in the second stage to the line's request
constexpr Cycle respond = 4;          // from the cache's answer to the retirement of a load
constexpr Cycle serialize_delay = 3;  // a system call empties the pipeline
constexpr std::size_t execute_buffer = 7, decode_buffer = 3;  // in cycles' worth of instructions
constexpr std::size_t store_buffer = 5, transfers = 2;

}  // namespace

InOrderCore::Lane InOrderCore::lane(OpClass op) {
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

InOrderCore::InOrderCore(const CoreParameters& p, std::size_t registers)
    : p_(p),
      caches_(p),
      register_(registers),
      branches_(static_cast<unsigned>(p.predictor()), static_cast<std::size_t>(p.btb()),
                static_cast<std::size_t>(p.ras())),
      fetch_{p.width()},
      decode_{p.width()},
      issue_{p.width()},
      memory_{1},
      retire_{p.width()},
      lanes_{{{pipes[0].each_cycle}, {1}, {1}, {1}, {1}, {1}}} {}

// When the part stands before the issue logic.  One line at a time is asked for; a taken branch is
// predicted in the second stage.
Cycle InOrderCore::arrive(const CoreRow& row) {
  const std::uint64_t pc = row.inst->pc, line = pc >> 6;
  if (row.first) {
    Cycle at = 0;
    if (redirect_ >= 0 || taken_ || line != line_) {
      // The next line of a straight run is asked for while the last one is worked off.
      const Cycle asked = redirect_ >= 0 ? redirect_ : taken_ ? fetch_.at + refetch : line_at_ + 1;
      line_at_ = std::max(line_at_, caches_.fetch(pc, asked) + stage_delay);
      at = line_at_;
      line_ = line;
      redirect_ = -1;
      taken_ = false;
    }
    const std::size_t room = decode_buffer * static_cast<std::size_t>(p_.width());
    if (part_ >= room) at = std::max(at, decoded_[(part_ - room) % ring]);
    fetch_.take(std::max(at, fetch_.at));
  }
  Cycle at = fetch_.at + stage_delay;
  const std::size_t room = execute_buffer * static_cast<std::size_t>(p_.width());
  if (part_ >= room && room < ring) at = std::max(at, issued_[(part_ - room) % ring]);
  const Cycle decoded = decode_.take(std::max(at, decode_.at));
  decoded_[part_ % ring] = decoded;
  return decoded + stage_delay;
}

Cycle InOrderCore::issue(const CoreRow& row, Lane where, Cycle arrived) {
  const auto k = static_cast<std::size_t>(where);
  const Pipe& pipe = pipes[k];
  Cycle at = std::max(arrived, issue_.at);
  for (const std::uint16_t r : row.inst->src)
    if (r != CoreInst::no_register) at = std::max(at, register_[r].ready - pipe.early);
  if (row.inst->is(CoreInst::serialize_before | CoreInst::in_order | CoreInst::barrier))
    at = std::max(at, retire_.at + 1);
  at = std::max(at, barrier_);
  const auto depth = static_cast<std::uint64_t>(pipe.depth);
  if (lane_count_[k] >= depth) at = std::max(at, lane_retired_[k][(lane_count_[k] - depth) % ring]);
  at = lanes_[k].take(std::max(at, lanes_[k].at));
  if (where == Lane::memory) at = memory_.take(std::max(at, memory_.at));
  at = issue_.take(std::max(at, issue_.at));
  issued_[part_ % ring] = at;
  return at;
}

// When a load's data, or a store's place in the store buffer, is there.
Cycle InOrderCore::access(const CoreRow& row, Cycle issued) {
  const CoreInst& inst = *row.inst;
  Cycle at = std::max(issued + 1, request_ + 1);
  for (const std::uint16_t r : inst.src)  // the address is computed when its producers retire
    if (r != CoreInst::no_register) at = std::max(at, register_[r].retired);
  const auto k = static_cast<std::size_t>(Lane::memory);
  if (lane_count_[k] >= transfers)
    at = std::max(at, lane_retired_[k][(lane_count_[k] - transfers) % ring]);
  request_ = at;
  if (inst.is(CoreInst::load) && !inst.is(CoreInst::store)) {
    const StoreBuffer::Store* s = stores_.last(row.addr, inst.bytes());
    if (s && s->sent > at) return s->covers(row.addr, inst.bytes()) ? at + 1 : s->sent + 1;
    if (inst.is(CoreInst::data_prefetch)) return at + 1;
    return caches_.load(row.addr, at, inst.pc) + respond - 1;
  }
  if (inst.is(CoreInst::store) && stores_seen_ >= store_buffer)
    at = std::max(at, drained_[(stores_seen_ - store_buffer) % drained_.size()]);
  return at + 1;
}

void InOrderCore::control(const CoreRow& row, BranchUnit::Guess guess, Cycle retired) {
  const CoreInst& inst = *row.inst;
  if (row.is_branch()) {
    // What the BTB does not know is fetched straight on, and found out when it executes.  On X86
    // (total store order) every taken branch costs as much: Minor's timed runs show it.
    if (guess != BranchUnit::Guess::right || (row.taken && p_.tso()))
      redirect_ = retired + p_.front_delay();
    if (row.taken) taken_ = true;
    branches_.commits(retired);
  }
  if (inst.is(CoreInst::serialize_after)) redirect_ = retired + serialize_delay;
}

Core::Times InOrderCore::step(const CoreRow& row) {
  const CoreInst& inst = *row.inst;
  const Lane where = lane(inst.op);
  const auto k = static_cast<std::size_t>(where);
  const Cycle before = retire_.at, arrived = arrive(row);
  const auto guess = row.is_branch() ? branches_.fetch(row.event(), row.indirect_right, fetch_.at)
                                     : BranchUnit::Guess::right;
  const Cycle issued = issue(row, where, arrived);
  Cycle done = issued + pipes[k].latency;
  if (inst.is(CoreInst::load | CoreInst::store)) done = std::max(done, access(row, issued));
  const Cycle retired = retire_.take(std::max(done, retire_.at));
  if (where == Lane::divide) lanes_[k].at = issued + pipes[k].latency - 1;
  // A load's readers may issue as if it hit; they retire behind it.
  const Cycle assumed = issued + pipes[k].latency + (where == Lane::memory ? 2 : 0);
  for (const std::uint16_t r : inst.dst)
    if (r != CoreInst::no_register) register_[r] = {assumed, retired};
  lane_retired_[k][lane_count_[k]++ % ring] = retired;
  if (inst.is(CoreInst::store)) {
    drain_ = std::max(drain_ + 1, caches_.store(row.addr, retired + 1, inst.pc));
    drained_[stores_seen_++ % drained_.size()] = drain_;
    stores_.put(row.addr, inst.size, retired, drain_, inst.pc, part_);
  }
  if (inst.is(CoreInst::barrier)) barrier_ = std::max(retired, drain_);
  control(row, guess, retired);
  ++part_;
  return {arrived, issued, done, before, retired, arrived};
}

}  // namespace tracekit
