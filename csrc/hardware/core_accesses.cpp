// Loads and stores of a real processor's core: ports, forwarding, renaming, how stores are written.
#include <algorithm>
#include <bit>

#include "hardware/core.hpp"

namespace tracekit::hardware {
namespace {

// How often a load must have met its store at one distance before that is relied on: Zen 5 needs
// between 64 and 256 times, and 150 fit (a loop that changes it every so many rounds).
constexpr int rename_training = 128;

}  // namespace

// What the address is made of: its registers as they are now, or 0 where it has none.
std::uint64_t Core::expression(const Op& op) const {
  std::uint64_t out = 0;
  for (unsigned left = op.address_sources; left; left &= left - 1) {
    const std::uint16_t r = op.source[std::countr_zero(left)];
    out = (out ^ ((r + 1ULL) << 32 | version_[r])) * 0x9e3779b97f4a7c15ULL;
  }
  return out;
}

// When the data of its load, which issues at `at`, is there.
Cycle Core::loaded(const Row& row, Cycle at) {
  const Op& op = *row.op;
  const bool vector = op.is(op_bit::vector);
  const Cycle latency = (vector ? vector_load_latency_ : load_latency_) +
                        (op.is(op_bit::indexed) ? indexed_latency_ : 0) +
                        (op.is(op_bit::scaled) ? scaled_latency_ : 0);
  ++counts_.loads;
  const StoreBuffer::Found found = stores_.find(row.address, op.size, at);
  if (found.match == StoreBuffer::Match::none) {
    const StoreBuffer::Store* alias = alias_ != 0 ? stores_.aliased(row.address, at) : nullptr;
    if (alias) at = std::max(at, alias->data) + alias_;
    return memory_.load({row.address, op.size, op.pc, at}, latency);
  }
  const StoreBuffer::Store& s = *found.store;
  if (s.known > at) {
    if (!waits_[row.sid] && s.known > at + 1) {  // it ran too early, and all behind it runs again
      waits_[row.sid] = 1;
      ++counts_.order_clears;
      front_.redirect(s.known + order_clear_);
      serial_ = std::max(serial_, s.known + order_clear_);
    }
    at = s.known;
  }
  if (found.match == StoreBuffer::Match::part) {
    ++counts_.forward_failed;
    return memory_.load({row.address, op.size, op.pc, std::max(at, s.written)}, latency) +
           forward_fail_;
  }
  ++counts_.forwarded;
  if (renamed(row, found)) return s.data;
  const Cycle forward = vector ? vector_forward_latency_ : forward_latency_;
  // At least a load's latency, and so many cycles behind the data.
  return std::max(at + latency, s.data + forward);
}

// Whether it takes its value from the register of a store: one of the same address's expression, or
// one that it always took so many stores later.  Vectors and parts of registers are not renamed.
bool Core::renamed(const Row& row, const StoreBuffer::Found& found) {
  const Op& op = *row.op;
  if (p_.memory_renaming == 0 || !op.is(op_bit::renamable) || found.store->address != row.address ||
      static_cast<double>(found.distance) > p_.rename_stores)
    return false;
  const std::uint64_t same = found.store->expression;
  if (same != 0 && same == expression(op) && (p_.memory_renaming == 2 || op.is(op_bit::stack_base)))
    return true;
  if (p_.rename_loads == 0) return false;
  std::int16_t& place = rename_of_[row.sid];
  if (place < 0) {
    if (rename_.size() < static_cast<std::size_t>(p_.rename_loads)) {
      rename_.emplace_back();
      place = static_cast<std::int16_t>(rename_.size() - 1);
    } else {
      const auto oldest = std::ranges::min_element(rename_, {}, &Rename::used);
      rename_of_[oldest->sid] = -1;
      place = static_cast<std::int16_t>(oldest - rename_.begin());
    }
    rename_[static_cast<std::size_t>(place)] = {row.sid, 0, found.distance, rows_};
    return false;
  }
  Rename& r = rename_[static_cast<std::size_t>(place)];
  r.used = rows_;
  if (r.distance != found.distance) {
    r.distance = found.distance;
    r.sure = 0;
    return false;
  }
  if (r.sure < rename_training) {
    ++r.sure;
    return false;
  }
  return true;
}

Cycle Core::load(const Row& row, Times& t) {
  const Op& op = *row.op;
  Cycle ready = std::max(t.address, load_barrier_), last = 0, first = no_cycle;
  if (op.is(op_bit::locked)) ready = std::max({ready, retire_, drained_});
  const bool split = row.accesses && (row.address & 63) + op.size > 64;  // takes a port twice
  for (std::uint32_t k = op.use_begin; k < op.use_end; ++k) {
    if (table_.uses[k].kind != UseKind::load) continue;
    first = std::min(first, book(table_.uses[k], k, ready, t.dispatched, false, last));
    if (split) ports_.book(ready, ports_of(k), 1);
  }
  if (first == no_cycle) first = ready;
  last = std::max(last, first);
  if (!row.accesses) return last + load_latency_;
  if (op.is(op_bit::software_prefetch)) {
    memory_.prefetch(row.address, last);
    return first;
  }
  return loaded(row, last);
}

// The ports of its store; when address and data are known.
void Core::store(const Row& row, Times& t) {
  const Op& op = *row.op;
  Cycle last = 0;
  t.store_known = t.address;
  t.store_data = t.done;
  for (std::uint32_t k = op.use_begin; k < op.use_end; ++k) {
    const PortUse& use = table_.uses[k];
    if (use.kind == UseKind::store_address)
      t.store_known = book(use, k, t.address, t.dispatched, false, last) + 1;
    else if (use.kind == UseKind::store_data)
      t.store_data = book(use, k, t.done, t.dispatched, false, last);
  }
  t.done = std::max({t.done, t.store_known, t.store_data});
  if (!row.accesses) return;
  StoreBuffer::Store s{row.address, op.size, t.store_known, t.store_data, 0, expression(op)};
  // It is written when it has retired; drain() tells the cache, which may take longer.
  s.written = std::max({retire_ + 1, t.done + 2, drained_ + 1});
  stores_.put(s);
}

void Core::drain(const Row& row, const Times& t) {
  const Op& op = *row.op;
  Cycle at = std::max({retire_ + 1, store_barrier_});
  const std::uint64_t line = row.address / store_block_;
  const auto found = std::ranges::find(written_lines_, line);
  if (at > drained_) {
    drained_now_ = 0;
  } else if (drained_now_ >= static_cast<int>(p_.store_commits) ||
             found == written_lines_.end()) {  // several a cycle go to lines that are being written
    at = drained_ + 1;
    drained_now_ = 0;
  } else {
    at = drained_;
  }
  ++drained_now_;
  std::rotate(written_lines_.begin(), found == written_lines_.end() ? found - 1 : found,
              found == written_lines_.end() ? found : found + 1);
  written_lines_.front() = line;
  // Lines are asked for when the address is known; they are written in order.
  const Cycle asked = std::max(t.store_known, retire_);
  const bool nontemporal = op.is(op_bit::nontemporal);
  const Cycle there = memory_.store({row.address, op.size, op.pc, asked}, nontemporal);
  if (there > at) {
    at = there;
    drained_now_ = 1;
  }
  if ((row.address & 63) + op.size > 64) at += rounded(p_.store_split) - 1;
  drained_ = std::max(drained_, at);
  store_queue_.take(drained_ + 1);
}

}  // namespace tracekit::hardware
