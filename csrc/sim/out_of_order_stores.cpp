// Stores that have retired: they go to the data cache when their time comes, in between the loads
// of rows that follow.
#include <algorithm>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {

// What the store waits for whose place in a full store queue the next one takes.
template <bool Why>
Cause OutOfOrderCore<Why>::queued_store() const {
  const auto size = static_cast<std::uint64_t>(p_.sq());
  if (!Why || store_count_ < size) return Cause::store_queue_full;
  const Cause held = store_held_[store_count_ - size];
  return held == Cause::store_drain ? Cause::store_queue_full : held;
}

// It has retired.
template <bool Why>
void OutOfOrderCore<Why>::queue_store(const CoreRow& row, Cycle issued, Cycle done) {
  const CoreInst& inst = *row.inst;
  const std::uint32_t number =
      stores_.put(row.addr, inst.bytes, issued, inst.pc, row_, inst.is(CoreInst::masked));
  if constexpr (Why) ledger_.data_from(caches_.level_of(row.addr));
  store_drained_[store_count_] = never - drained_delay;
  queued_[store_count_++] = {row.inst, row.addr, retire_.at(), number};
  if (set_ != StoreSets::no_set) sets_.put(set_, issued, done, row_);
  if (!inst.is(CoreInst::atomic)) return;
  const Cycle drained = all_drained();  // its result comes from the cache
  for (const std::uint16_t r : inst.written()) register_[r] = {drained, Cause::store_drain};
  if (drained + 1 > retire_.at()) retires({drained + 1, Cause::store_drain}, 1);
}

// The first store that waits goes to the cache, if that is before `before`; whether it has.
template <bool Why>
bool OutOfOrderCore<Why>::send_store(Cycle before) {
  const QueuedStore& store = queued_[stores_sent_];
  const CoreInst& inst = *store.inst;
  Cycle at = store.retired + (inst.is(CoreInst::atomic) ? 1 : send_delay);
  Cause held = Cause::store_drain;
  const bool follows = p_.tso() && drained_ >= at;  // total store order: one on its way at a time
  if (follows) {
    at = drained_;
    held = drained_held_;
  }
  const Cycle wanted = at;
  if (at <= store_port_) {
    at = store_port_;
    held = store_port_held_;
    if (stores_now_ >= p_.store_ports()) {
      ++at;
      if (held == Cause::store_drain) held = Cause::unit_busy;
    }
  }
  if (at >= before) {
    no_store_before_ = at;
    return false;
  }
  if (!follows) stores_since_ = wanted;
  if (at != store_port_) {
    store_port_ = at;
    store_port_held_ = held;
    stores_now_ = 0;
  }
  ++stores_now_;
  Cycle written;
  if (inst.is(CoreInst::zero_line)) {
    written = caches_.zero_line(store.address, at, inst.pc);
  } else {
    written = caches_.store(store.address, at, inst.pc);
    if (const std::uint64_t second = second_line(store.address, inst.bytes))
      written = std::max(written, caches_.store(second, at, inst.pc));
  }
  if (load_answers_.has(written))  // it is the first answer of the next cycle, whatever comes then
    ++written;
  else
    store_answers_.put(written);
  const bool missed = caches_.served() != CacheLevel::l1;
  if (caches_.taken_at() > at) {  // younger stores wait behind it
    store_port_ = caches_.taken_at();
    store_port_held_ = Cause::store_miss;
    stores_now_ = 1;
  }
  if (written > drained_) {
    drained_ = written;
    drained_held_ = missed ? Cause::store_miss : held;
  }
  if constexpr (Why) store_held_[stores_sent_] = drained_held_;
  store_drained_[stores_sent_++] = drained_;
  stores_.sent(store.number, inst.is(CoreInst::atomic) ? drained_ : caches_.taken_at());
  return true;
}

#define ALL(Why)                                                                \
  template Cause OutOfOrderCore<Why>::queued_store() const;                     \
  template void OutOfOrderCore<Why>::queue_store(const CoreRow&, Cycle, Cycle); \
  template bool OutOfOrderCore<Why>::send_store(Cycle);
ALL(false)
ALL(true)
#undef ALL

}  // namespace tracekit
