#include "hardware/core.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/row_batch.hpp"

namespace tracekit::hardware {
namespace {

// Of one instruction: more micro-ops than that take their slots and ports in bulk.
constexpr int most_slots = 64;

// A move, and behind it an operation on what was moved.
bool takes_move(const Op& op, const Op& behind) {
  return op.is(op_bit::eliminated_move) && behind.is(op_bit::takes_move) &&
         behind.pc == op.pc + op.length && behind.result[0] == op.result[0];
}

// What a load brings is renamed if it goes to a register or back to memory, not if an operation on
// registers takes it.
void limit_renaming(OpTable& table) {
  for (Op& op : table.ops) {
    const auto operates = [](const PortUse& u) { return u.kind == UseKind::operation; };
    const auto uses = std::span(table.uses).subspan(op.use_begin, op.use_end - op.use_begin);
    if (op.is(op_bit::load) && !op.is(op_bit::store) && std::ranges::any_of(uses, operates))
      op.flags &= ~std::uint32_t{op_bit::renamable};
  }
}

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
      rename_of_(table_.ops.size(), -1),
      written_lines_(static_cast<std::size_t>(p.store_lines), no_line),
      store_block_(static_cast<std::uint64_t>(p.store_block)),
      width_(static_cast<int>(p.width)),
      retire_width_(static_cast<int>(p.retire_width)),
      load_latency_(rounded(p.load_latency)),
      vector_load_latency_(rounded(p.vector_load_latency)),
      indexed_latency_(rounded(p.indexed_latency)),
      scaled_latency_(rounded(p.scaled_latency)),
      add_forward_(rounded(p.add_forward)),
      forward_latency_(rounded(p.forward_latency)),
      vector_forward_latency_(rounded(p.vector_forward_latency)),
      forward_fail_(rounded(p.forward_fail)),
      mispredict_(rounded(p.mispredict_penalty)),
      order_clear_(rounded(p.order_clear)),
      alias_(rounded(p.alias_penalty)) {
  limit_renaming(table_);
  for (std::size_t k = 0; k < schedulers.size(); ++k) {
    scheduler_.emplace_back(schedulers[k].entries);
    scheduler_ports_.push_back(schedulers[k].ports);
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
    const bool fuses = op.is(op_bit::fuses_with_branch) && behind.is(op_bit::conditional_branch) &&
                       behind.pc == op.pc + op.length &&
                       !(op.is(op_bit::fuses_limited) && behind.is(op_bit::reads_carry));
    const Row row{&op,
                  block.sid[i],
                  block.addr[i],
                  behind.pc,
                  (block.bits[i] & row_bit::taken) != 0,
                  (block.bits[i] & row_bit::has_addr) != 0,
                  fuses,
                  std::exchange(fused, fuses),
                  takes_move(op, behind)};
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
  const bool none = row.fused_branch || row.fused_move;
  const int slots = none ? 0 : std::min<int>(op.uops, most_slots);
  const int more = none ? 0 : op.uops - slots;
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
  const auto& there = op.is(op_bit::addition) ? to_addition_ : register_;
  for (unsigned left = op.data_sources; left; left &= left - 1)
    t.data = std::max(t.data, there[op.source[std::countr_zero(left)]]);
}

// Cycles that its port loses besides, because it waits there for another operation: most behind one
// that waited for none itself, the less the farther ahead that is.
float Core::waits_in_scheduler(const Row& row, const Times& t) {
  const Op& op = *row.op;
  makes_ = Made::otherwise;
  if (p_.wakeup_cycles == 0 || !op.is(op_bit::alu) || row.fused_first || row.fused_branch) return 0;
  Cycle latest = t.dispatched + 1;
  std::uint16_t last = no_register;
  for (unsigned left = op.data_sources; left; left &= left - 1) {
    const std::uint16_t r = op.source[std::countr_zero(left)];
    if (register_[r] <= latest) continue;
    latest = register_[r];
    last = r;
  }
  const Made made = last == no_register ? Made::otherwise : made_[last];
  makes_ = made == Made::otherwise ? Made::first : Made::later;
  if (made == Made::otherwise) return 0;
  const auto all = static_cast<float>(p_.wakeup_cycles);
  if (made == Made::later) return all / 8;
  const auto far = static_cast<float>(rows_ - made_at_[last] - 1);
  return all * std::max(0.25F, 1 - far / static_cast<float>(width_ + 2));
}

// Takes the ports of one use from `ready` on; the first cycle that it takes.  `last`: of those that
// it takes for a cycle each.
Cycle Core::book(const PortUse& use, std::size_t k, Cycle ready, Cycle dispatched, bool divider,
                 Cycle& last) {
  const int cycles = whole(use.cycles, use_carry_[k]);
  Cycle first = ready;
  const std::uint32_t ports = ports_of(k);
  if (cycles > 0) {
    if (divider || cycles > most_slots) {
      first = ports_.book(ready, ports, cycles);
      last = std::max(last, first);
    } else {
      first = ports_.book(ready, ports, 1);
      last = std::max(last, first);
      for (int c = 1; c < cycles; ++c) last = std::max(last, ports_.book(ready, ports, 1));
    }
  }
  if (ports && first > dispatched) scheduler_[scheduler_of(ports)].wait(first);
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

// A cycle of its port, in which nothing is executed.
void Core::lose_port(const Op& op, Cycle ready) {
  for (std::uint32_t k = op.use_begin; k < op.use_end; ++k)
    if (table_.uses[k].kind == UseKind::operation) ports_.book(ready, ports_of(k), 1);
}

void Core::write_results(const Row& row, const Times& t) {
  const Op& op = *row.op;
  for (unsigned k = 0; k < most_results && op.result[k] != no_register; ++k) {
    const std::uint16_t r = op.result[k];
    if (op.early_results >> k & 1) {
      if (op.is(op_bit::stack_engine)) continue;
      register_[r] = to_addition_[r] = t.address + 1;
      made_[r] = Made::otherwise;
    } else {
      to_addition_[r] = t.done;
      register_[r] = t.done + (op.is(op_bit::addition) ? add_forward_ : 0);
      made_[r] = makes_;
      made_at_[r] = rows_;
    }
    if (!op.is(op_bit::moves_stack)) ++version_[r];
  }
}

void Core::retire(const Row& row, Times& t) {
  const Op& op = *row.op;
  const bool none = row.fused_branch || row.fused_move;
  const int slots = none ? 0 : std::min<int>(op.uops, most_slots);
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

// Each use waits in one scheduler: of those that feed a port of it, in that where the least wait.
void Core::choose_ports(const Op& op) {
  for (std::uint32_t k = op.use_begin; k < op.use_end; ++k) {
    std::uint32_t left = table_.uses[k].ports, chosen = left;
    int least = std::numeric_limits<int>::max();
    std::size_t best = 0;
    while (left) {
      const std::size_t s = scheduler_of(left);
      const int waiting = scheduler_[s].waiting(dispatch_);
      if (waiting < least) {
        least = waiting;
        best = s;
      }
      left &= ~scheduler_ports_[s];
    }
    if (chosen) {
      chosen &= scheduler_ports_[best];
      wanted_ |= 1U << best;
    }
    chosen_[k & (most_chosen - 1)] = chosen;
  }
}

void Core::step(const Row& row) {
  const Op& op = *row.op;
  if (op.is(op_bit::fetched_line)) {
    memory_.fetch(row.address >> line_bits, retire_);
    return;
  }
  wanted_ = 0;
  const bool executes = !op.is(op_bit::zero_idiom | op_bit::eliminated_move | op_bit::no_op);
  if (executes) choose_ports(op);
  ++rows_;
  Times t;
  t.dispatched = dispatch(row);
  read_registers(row, t);
  const int more = whole(waits_in_scheduler(row, t), wakeup_carry_);
  if (!executes) {
    t.done = op.is(op_bit::eliminated_move) ? t.data : t.dispatched;
  } else {
    const bool loads = op.is(op_bit::load | op_bit::software_prefetch);
    // call [m] and push [m] load what they store or jump to; the trace has the load's address.
    if (loads) t.data = std::max(t.data, load(row, t));
    t.done = execute(op, t.data, t.dispatched, !row.fused_first);
    for (int k = 0; k < more; ++k) lose_port(op, t.data);
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
