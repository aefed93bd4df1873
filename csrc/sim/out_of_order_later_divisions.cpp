// Multiplications that wait for a unit which a younger division holds.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {
namespace {

// When divisions end that have begun.
class Running {
 public:
  void add(Cycle end) {
    if (count_ < ends_.size()) ends_[count_++] = end;
  }
  int at(Cycle cycle) const {
    return static_cast<int>(
        std::count_if(begin(), end(), [cycle](Cycle end) { return end > cycle; }));
  }
  // When the first one of those that run at `cycle` ends; there is one.
  Cycle first_end(Cycle cycle) const {
    Cycle out = std::numeric_limits<Cycle>::max();
    for (const Cycle end : std::span(begin(), end()))
      if (end > cycle) out = std::min(out, end);
    return out;
  }

 private:
  const Cycle* begin() const { return ends_.data(); }
  const Cycle* end() const { return ends_.data() + count_; }
  std::array<Cycle, 8> ends_;
  std::size_t count_{};
};

}  // namespace

// The operands of the row, which multiplies, are there at `issued`.  Younger divisions whose
// operands were there before hold their units until they are done, whatever older rows wait then
// (gem5's InstructionQueue::scheduleReadyInsts, FUPool::getUnit).  Rows come in the program's
// order, so that it is looked for those that will: rows behind are dispatched as soon as there is
// room, and divide when their operands and a unit are there.
template <bool Why>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::behind_divisions(const CoreRow& row,
                                                                       Cycle dispatched,
                                                                       At issued) {
  const std::uint64_t counted = booking_[static_cast<std::size_t>(row.inst->op)].counted;
  const Cycle wanted = issued.at();
  const auto divides = [](const CoreInst& inst) {
    return op_use(inst.op) == OpUse{Unit::int_mul, false};
  };
  const auto far = std::min<Cycle>(p_.rob(), RowsAround::most);
  const auto first = static_cast<Cycle>(this->around_.next(row, divides));
  if (first >= far || dispatched + first / p_.width() >= wanted) return issued;
  Running running;
  later_.begin();
  later_.put(*row.inst, never);
  std::uint64_t loads = loads_;
  int waiting = 1;  // of these rows
  Cycle there = dispatched;
  int queued = calendar_.waiting(there);
  const auto goes_to = [&](Cycle at) {
    queued = calendar_.waiting(at, there, queued);
    there = at;
  };
  for (const CoreRow* at = &row + 1; at != &row + far && at->inst; ++at) {
    const CoreInst& inst = *at->inst;
    const auto freed = [&](const Freed& when, std::uint64_t n, int size, Cycle delay) {
      return when[n - static_cast<std::uint64_t>(size)] + delay + p_.rename_to_iew();
    };
    const auto behind = static_cast<std::uint64_t>(at - &row);
    Cycle goes = std::max(dispatched + (at - &row + p_.width() - 1) / p_.width(),
                          freed(retired_, entry_ + behind, p_.rob(), freed_delay));
    if (inst.is(CoreInst::load))
      goes = std::max(goes, freed(load_retired_, loads++, p_.lq(), committed_delay));
    if (goes >= wanted) break;
    if (goes > there) goes_to(goes);
    if (queued + waiting >= p_.iq()) {
      while (queued + waiting >= p_.iq() && there < wanted) goes_to(there + 1);
      goes_to(there + queue_refills);
    }
    if (there >= wanted) break;
    Cycle starts = there;
    for (const std::uint16_t r : inst.read())
      starts = std::max(starts, later_.at(r, register_[r].at()));
    if (at->is_branch() && last_guesses_.wrong(inst.pc)) {
      if (starts >= wanted) break;
      there = std::max(there, starts + p_.issue_to_exec() + redirect_delay + p_.front_delay() +
                                  p_.decode_to_rename() + p_.rename_to_iew());
      if (there >= wanted) break;
    }
    if (starts >= wanted) {
      later_.put(inst, never);
      ++waiting;
      continue;
    }
    if (divides(inst)) {
      while (starts < wanted && calendar_.left(starts, counted) <= running.at(starts)) ++starts;
      if (starts < wanted) running.add(starts + latency(inst.op));
      if (running.at(wanted) >= calendar_.units(counted)) break;  // no other one can begin
    }
    Cycle done = starts + p_.issue_to_exec() - 1 + latency(inst.op);
    if (inst.is(CoreInst::load))
      done = caches_.level_of(at->addr) == CacheLevel::l1 ? done + p_.l1d_lat() : never;
    later_.put(inst, done);
  }
  const int held = running.at(wanted);
  if (held == 0 || calendar_.left(wanted, counted) > held) return issued;
  return {running.first_end(wanted), Cause::unit_busy};
}

template OutOfOrderCore<false>::At OutOfOrderCore<false>::behind_divisions(const CoreRow&, Cycle,
                                                                           At);
template OutOfOrderCore<true>::At OutOfOrderCore<true>::behind_divisions(const CoreRow&, Cycle, At);

}  // namespace tracekit
