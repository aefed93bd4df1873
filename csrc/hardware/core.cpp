#include "hardware/core.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/row_batch.hpp"

namespace tracekit::hardware {
namespace {

constexpr Cycle no_cycle = std::numeric_limits<Cycle>::max();
Cycle rounded(double c) { return static_cast<Cycle>(std::lround(c)); }
// Of one instruction: more micro-ops than that take their slots and ports in bulk.
constexpr int most_slots = 64;

}  // namespace

Core::Core(const MachineParameters& p, OpTable table, std::span<const SchedulerSize> schedulers)
    : p_(p),
      table_(std::move(table)),
      use_carry_(table_.uses.size(), 0.5F),
      latency_carry_(table_.ops.size(), 0.5F),
      waits_(table_.ops.size(), 0),
      memory_(p),
      front_(p, memory_),
      rob_(p.rob),
      queue_(p.op_queue),
      load_queue_(p.load_queue),
      store_queue_(p.store_queue),
      int_registers_(p.int_registers),
      vector_registers_(p.vector_registers),
      width_(static_cast<int>(p.width)),
      retire_width_(static_cast<int>(p.retire_width)),
      load_latency_(rounded(p.load_latency)),
      vector_load_latency_(rounded(p.vector_load_latency)),
      indexed_latency_(rounded(p.indexed_latency)),
      forward_latency_(rounded(p.forward_latency)),
      vector_forward_latency_(rounded(p.vector_forward_latency)),
      forward_fail_(rounded(p.forward_fail)),
      mispredict_(rounded(p.mispredict_penalty)),
      order_clear_(rounded(p.order_clear)),
      alias_(rounded(p.alias_penalty)) {
  for (std::size_t k = 0; k < schedulers.size(); ++k) {
    scheduler_.emplace_back(schedulers[k].entries);
    for (std::uint32_t left = schedulers[k].ports; left; left &= left - 1)
      scheduler_of_[static_cast<std::size_t>(std::countr_zero(left))] =
          static_cast<std::uint8_t>(k);
  }
}

// A whole number of cycles, so that the mean over many is right.
int Core::whole(double cycles, float& carry) {
  const double sum = cycles + carry;
  const int out = static_cast<int>(sum);
  carry = static_cast<float>(sum - out);
  return out;
}

void Core::run(const Block& block, float* out) {
  const std::size_t n = block.sid.size();
  const auto& ops = table_.ops;
  bool fused = false;
  for (std::size_t i = 0; i < n; ++i) {
    const Op& op = ops[block.sid[i]];
    const Op& behind = ops[i + 1 < n ? block.sid[i + 1] : block.next];
    const bool fuses = op.is(op_bit::fuses_with_branch) &&
                       behind.is(op_bit::conditional_branch) && behind.pc == op.pc + op.length &&
                       !(op.is(op_bit::fuses_limited) && behind.is(op_bit::reads_carry));
    const Row row{&op,
                  block.sid[i],
                  block.addr[i],
                  behind.pc,
                  (block.bits[i] & row_bit::taken) != 0,
                  (block.bits[i] & row_bit::has_addr) != 0,
                  fuses,
                  std::exchange(fused, fuses)};
    const Cycle before = retire_;
    if (op.is(op_bit::rep) && repeated_ == &op)
      repeat(row);
    else
      step(row);
    *out++ = static_cast<float>(retire_ - before);
  }
}

// Allocation: in order, so many slots a cycle, when all that the row needs is free.
Cycle Core::dispatch(const Row& row) {
  const Op& op = *row.op;
  const int slots = row.fused_branch ? 0 : std::min<int>(op.uops, most_slots);
  const int more = row.fused_branch ? 0 : op.uops - slots;
  const Cycle delivered = front_.deliver(op, static_cast<unsigned>(slots), queue_.free_at());
  Cycle at = std::max({dispatch_, delivered, serial_});
  if (op.is(op_bit::serializing)) at = std::max(at, retire_ + 1);
  if (slots) at = std::max(at, rob_.free_at());
  if (op.is(op_bit::load)) at = std::max(at, load_queue_.free_at());
  if (op.is(op_bit::store)) at = std::max(at, store_queue_.free_at());
  if (!op.is(op_bit::eliminated_move | op_bit::zero_idiom)) {
    if (op.int_results) at = std::max(at, int_registers_.free_at());
    if (op.vector_results) at = std::max(at, vector_registers_.free_at());
  }
  for (std::uint32_t left = wanted_; left; left &= left - 1)
    at = std::max(at, scheduler_[static_cast<std::size_t>(std::countr_zero(left))].room(at));
  if (at > dispatch_) {
    dispatch_ = at;
    dispatched_now_ = 0;
  }
  dispatched_now_ += slots;
  // A row's slots may lie in two cycles; it counts from the last of them.
  while (dispatched_now_ > width_) {
    ++dispatch_;
    dispatched_now_ -= width_;
  }
  if (more > 0) {
    dispatch_ += more / width_;
    dispatched_now_ = width_;
  }
  for (int k = 0; k < slots; ++k) queue_.take(dispatch_);
  ports_.advance(dispatch_);
  return dispatch_;
}

void Core::read_registers(const Row& row, Times& t) const {
  const Op& op = *row.op;
  t.address = t.data = t.dispatched + 1;
  for (unsigned left = op.address_sources; left; left &= left - 1)
    t.address = std::max(t.address, register_[op.source[std::countr_zero(left)]]);
  if (op.is(op_bit::zero_idiom | op_bit::dependency_breaking)) return;
  for (unsigned left = op.data_sources; left; left &= left - 1)
    t.data = std::max(t.data, register_[op.source[std::countr_zero(left)]]);
}

// Takes the ports of one use from `ready` on; the first cycle that it takes.  `last`: of those that
// it takes for a cycle each.
Cycle Core::book(const PortUse& use, std::size_t k, Cycle ready, Cycle dispatched, bool divider,
                 Cycle& last) {
  const int cycles = whole(use.cycles, use_carry_[k]);
  Cycle first = ready;
  if (cycles > 0) {
    if (divider || cycles > most_slots) {
      first = ports_.book(ready, use.ports, cycles);
      last = std::max(last, first);
    } else {
      first = ports_.book(ready, use.ports, 1);
      last = std::max(last, first);
      for (int c = 1; c < cycles; ++c) last = std::max(last, ports_.book(ready, use.ports, 1));
    }
  }
  if (use.ports && first > dispatched)
    scheduler_[scheduler_of_[static_cast<std::size_t>(std::countr_zero(use.ports))]].wait(first);
  return first;
}

// When its operation, whose data is there at `ready`, has its result.
Cycle Core::execute(const Op& op, Cycle ready, Cycle dispatched, bool operates) {
  Cycle first = no_cycle, last = 0;
  const auto divider = op.is(op_bit::divider);
  if (operates) {
    for (std::uint32_t k = op.use_begin; k < op.use_end; ++k) {
      if (table_.uses[k].kind != UseKind::operation) continue;
      first = std::min(first, book(table_.uses[k], k, ready, dispatched, divider, last));
    }
  }
  // A store's latency is that of its data to a load, which csrc/hardware/store_buffer.hpp has.
  if (first == no_cycle && op.is(op_bit::store)) return ready;
  if (first == no_cycle) first = ready;
  const std::size_t sid = static_cast<std::size_t>(&op - table_.ops.data());
  const Cycle latency = operates ? whole(op.latency, latency_carry_[sid]) : 0;
  return std::max(first + latency, last + (latency > 0 ? 1 : 0));
}

// When the data of its load, which issues at `at`, is there.
Cycle Core::loaded(const Row& row, Cycle at) {
  const Op& op = *row.op;
  const bool vector = op.is(op_bit::vector);
  const Cycle latency = (vector ? vector_load_latency_ : load_latency_) +
                        (op.is(op_bit::indexed) ? indexed_latency_ : 0);
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
  const unsigned base_at = op.address_sources ? std::countr_zero(unsigned{op.address_sources}) : 0;
  const std::uint16_t base = op.address_sources ? op.source[base_at] : no_register;
  // Vectors, and addresses without a register, are not renamed.
  const bool renamed = p_.memory_renaming != 0 && !vector && base != no_register &&
                       base == s.base && !op.is(op_bit::indexed) && version_[base] == s.version &&
                       (p_.memory_renaming == 2 || op.is(op_bit::stack_base));
  if (renamed) return s.data;
  const Cycle forward = vector ? vector_forward_latency_ : forward_latency_;
  // At least a load's latency, and so many cycles behind the data.
  return std::max(at + latency, s.data + forward);
}

Cycle Core::load(const Row& row, Times& t) {
  const Op& op = *row.op;
  Cycle ready = std::max(t.address, load_barrier_), last = 0, first = no_cycle;
  if (op.is(op_bit::locked)) ready = std::max({ready, retire_, drained_});
  for (std::uint32_t k = op.use_begin; k < op.use_end; ++k)
    if (table_.uses[k].kind == UseKind::load)
      first = std::min(first, book(table_.uses[k], k, ready, t.dispatched, false, last));
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
  const unsigned at = op.address_sources ? std::countr_zero(unsigned{op.address_sources}) : 0;
  const std::uint16_t base =
      op.address_sources && !op.is(op_bit::indexed) ? op.source[at] : no_register;
  StoreBuffer::Store s{row.address, op.size, t.store_known, t.store_data, 0, base,
                       base == no_register ? 0 : version_[base]};
  // It is written when it has retired; drain() tells the cache, which may take longer.
  s.written = std::max({retire_ + 1, t.done + 2, drained_ + 1});
  stores_.put(s);
}

void Core::write_results(const Row& row, const Times& t) {
  const Op& op = *row.op;
  for (unsigned k = 0; k < most_results && op.result[k] != no_register; ++k) {
    const std::uint16_t r = op.result[k];
    if (op.early_results >> k & 1) {
      if (op.is(op_bit::stack_engine)) continue;
      register_[r] = t.address + 1;
    } else {
      register_[r] = t.done;
    }
    ++version_[r];
  }
}

void Core::drain(const Row& row, const Times& t) {
  const Op& op = *row.op;
  Cycle at = std::max({retire_ + 1, store_barrier_});
  if (at > drained_) {
    drained_now_ = 0;
  } else if (drained_now_ >= static_cast<int>(p_.store_commits) ||
             row.address >> line_bits != drained_line_) {  // several a cycle go to one line
    at = drained_ + 1;
    drained_now_ = 0;
  } else {
    at = drained_;
  }
  ++drained_now_;
  drained_line_ = row.address >> line_bits;
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

void Core::retire(const Row& row, Times& t) {
  const Op& op = *row.op;
  const int slots = row.fused_branch ? 0 : std::min<int>(op.uops, most_slots);
  const Cycle at = std::max(retire_, t.done + 1);
  if (at > retire_) {
    retire_ = at;
    retired_now_ = 0;
  }
  for (int k = 0; k < slots; ++k) {
    if (++retired_now_ > retire_width_) {
      ++retire_;
      retired_now_ = 1;
    }
    rob_.take(retire_ + 1);
  }
  if (op.is(op_bit::load)) load_queue_.take(retire_ + 1);
  if (!op.is(op_bit::eliminated_move | op_bit::zero_idiom)) {
    for (unsigned k = 0; k < op.int_results; ++k) int_registers_.take(retire_ + 1);
    for (unsigned k = 0; k < op.vector_results; ++k) vector_registers_.take(retire_ + 1);
  }
  if (op.is(op_bit::store)) {
    if (row.accesses)
      drain(row, t);
    else
      store_queue_.take(retire_ + 1);
  }
}

void Core::branch(const Row& row, const Times& t) {
  const BranchEvent event{row.op->pc, row.next, static_cast<BranchKind>(row.op->branch), row.taken};
  ++counts_.branches;
  if (!front_.wrong(event)) return;
  ++counts_.mispredicted;
  front_.redirect(t.done + mispredict_);
}

void Core::step(const Row& row) {
  const Op& op = *row.op;
  wanted_ = 0;
  const bool executes =
      !op.is(op_bit::zero_idiom | op_bit::eliminated_move | op_bit::no_op);
  for (std::uint32_t k = op.use_begin; executes && k < op.use_end; ++k)
    if (table_.uses[k].ports)
      wanted_ |= 1U << scheduler_of_[static_cast<std::size_t>(
          std::countr_zero(table_.uses[k].ports))];
  Times t;
  t.dispatched = dispatch(row);
  read_registers(row, t);
  if (!executes) {
    t.done = op.is(op_bit::eliminated_move) ? t.data : t.dispatched;
  } else {
    const bool loads = op.is(op_bit::load | op_bit::software_prefetch);
    // call [m] and push [m] load what they store or jump to; the trace has the load's address.
    if (loads) t.data = std::max(t.data, load(row, t));
    t.done = execute(op, t.data, t.dispatched, !row.fused_first);
    // Its store is written before the next one's load: retirement's cycles are part of it.
    if (op.is(op_bit::locked))
      t.done = std::max(t.done, t.data + rounded(p_.locked_latency) - load_latency_ - 2);
    if (op.is(op_bit::store)) store(row, t);
  }
  write_results(row, t);
  retire(row, t);
  if (op.is(op_bit::locked)) {
    drained_ = std::max(drained_, t.done);
    load_barrier_ = std::max(load_barrier_, t.done);
  }
  if (op.is(op_bit::fence)) {
    load_barrier_ = std::max({load_barrier_, retire_, drained_});
    store_barrier_ = std::max(store_barrier_, retire_);
  }
  if (op.is(op_bit::serializing)) serial_ = retire_ + 1;
  if (op.branch != 0) branch(row, t);
  repeated_ = nullptr;
  if (op.is(op_bit::rep)) {
    repeated_ = &op;
    repeat_start_ = t.done + rounded(p_.rep_startup);
    repeat_bytes_ = op.size;
    repeat_line_ = row.address >> line_bits;
  }
}

// One more iteration of a string instruction.
void Core::repeat(const Row& row) {
  const Op& op = *row.op;
  repeat_bytes_ += op.size;
  Cycle done = repeat_start_ + static_cast<Cycle>(repeat_bytes_ / p_.rep_bytes);
  if (row.accesses && row.address >> line_bits != repeat_line_) {
    repeat_line_ = row.address >> line_bits;
    const DataMemory::Access access{row.address, op.size, op.pc, done};
    done = op.is(op_bit::load) ? memory_.load(access, 0) : memory_.store(access, false);
    repeat_start_ = std::max(
        repeat_start_, done - static_cast<Cycle>(repeat_bytes_ / p_.rep_bytes) - load_latency_);
  }
  for (unsigned k = 0; k < most_results && op.result[k] != no_register; ++k)
    register_[op.result[k]] = done;
  if (done + 1 > retire_) {
    retire_ = done + 1;
    retired_now_ = 0;
  }
}

}  // namespace tracekit::hardware
