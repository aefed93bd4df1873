#include "reference/reference_core.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/static_inst.hpp"

namespace tracekit {
namespace {

// Rename maps hold this many registers that are never free (architectural ones, with ARM's banked
// ones).
constexpr int held_int = 50, held_vec = 48;
constexpr Cycle squash_blocks = 4;    // until rename hears that dispatch waits for the squash
constexpr Cycle redirect_delay = 3;   // from a misprediction's execution to the fetch behind it
constexpr Cycle decode_redirect = 2;  // of a direct branch that the BTB does not know
constexpr Cycle decode_tells = 2;     // before that: fetch hears of it
constexpr Cycle send_delay = 3;       // of a store to the cache, once it retires (gem5's IEW::tick)
constexpr Cycle serialize_delay = 3, in_order_delay = 3, fault_delay = 30;
constexpr Cycle fetch_window = 512;  // rows, whose fetch tells how fast a wrong path's is
constexpr Cycle rename_to_iew = 2;
constexpr Cycle freed_delay = 2;  // until rename knows that an entry is free

constexpr auto op_count = op_class_names.size();

constexpr bool has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

constexpr OpUse named_use(std::string_view n) {
  if (n == "IntAlu") return {Unit::int_alu, true};
  if (n == "IntMult") return {Unit::int_mul, true};
  if (n == "IntDiv") return {Unit::int_mul, false};
  if (n.ends_with("MemRead") || (n.starts_with("Simd") && n.ends_with("Load")))
    return {Unit::load, true};
  if (n.ends_with("MemWrite") || (n.starts_with("Simd") && n.ends_with("Store")))
    return {Unit::store, true};
  if (n.starts_with("Float")) return {Unit::fp, n != "FloatDiv" && n != "FloatSqrt"};
  if (n == "SimdPredAlu") return {};
  if (n.starts_with("Simd")) return {Unit::simd, !(n.ends_with("Div") || n.ends_with("Sqrt"))};
  return {};
}

constexpr auto uses = [] {
  std::array<OpUse, op_count> out{};
  for (std::size_t i = 0; i < op_count; ++i) out[i] = named_use(op_class_names[i]);
  return out;
}();

int op_latency(std::string_view n, const CoreParameters& p) {
  const bool real = has(n, "Float");
  if (n == "IntMult") return p.int_mul_lat();
  if (n == "IntDiv" || n == "SimdDiv" || n == "SimdSqrt") return p.int_div_lat();
  if (n.ends_with("FloatDiv") || n == "SimdFloatSqrt") return p.fp_div_lat();
  if (n == "FloatSqrt") return 2 * p.fp_div_lat();
  if (n == "FloatMultAcc") return p.fp_mul_lat() + 1;
  if (n == "IprAccess" || n == "System") return 3;
  const OpUse use = named_use(n);
  if (use.unit == Unit::load || use.unit == Unit::store) return p.agu_lat();
  if (real && has(n, "Mult")) return p.fp_mul_lat();
  if (n.starts_with("Float")) return p.fp_add_lat();
  if (real && (has(n, "Add") || has(n, "Alu") || has(n, "Cmp") || has(n, "Cvt")))
    return p.fp_add_lat();
  if (n.starts_with("Simd") && has(n, "Mult")) return p.int_mul_lat();
  return 1;
}

}  // namespace

void Core::put_times(float* out, Cycle cycles, const Times& t, Cycle gap_from) {
  const Cycle margin = t.done + 1 - t.retired_before;
  out[core_timing::cycles] = static_cast<float>(cycles);
  out[core_timing::margin] =
      static_cast<float>(std::clamp(margin, -core_timing::most_margin, core_timing::most_margin));
  out[core_timing::gap] = static_cast<float>(t.dispatched - gap_from);
  out[core_timing::wait] = static_cast<float>(t.issued - t.dispatched);
  out[core_timing::latency] = static_cast<float>(t.done - t.issued);
}

OpUse op_use(OpClass op) { return uses[static_cast<std::size_t>(op)]; }

ReferenceCore::ReferenceCore(const CoreParameters& p, std::size_t registers)
    : p_(p),
      caches_(p),
      calendar_(p),
      latency_(op_count),
      register_(registers, 0),
      branches_(static_cast<unsigned>(p.predictor()), static_cast<std::size_t>(p.btb()),
                static_cast<std::size_t>(p.ras())),
      retired_(ring, 0),
      sent_(ring, 0),
      load_retired_(short_ring, 0),
      store_drained_(short_ring, 0),
      int_retired_(ring, 0),
      vec_retired_(ring, 0),
      decode_to_rename_(std::max(1, p.front_delay() / 2)),
      store_executes_(p.issue_to_exec() - 1 + p.agu_lat()) {
  for (std::size_t i = 0; i < op_count; ++i) latency_[i] = op_latency(op_class_names[i], p);
}

// Blocks of fetch_buffer bytes: a new one costs an access to the instruction cache, which begins in
// the cycle of the fetch before it; a taken branch ends a cycle's fetch.
Cycle ReferenceCore::fetch(const CoreRow& row) {
  const std::uint64_t pc = row.inst->pc;
  const std::uint64_t block = pc / static_cast<unsigned>(p_.fetch_buffer());
  const auto enter = [&](Cycle at) {
    fetch_ = at;
    fetched_ = 0;
  };
  if (redirect_ >= 0) {
    if (redirect_ > fetch_) enter(redirect_);
    enter(caches_.fetch(pc, fetch_));
    redirect_ = -1;
    taken_ = false;
  } else if (block != block_) {
    enter(std::max(fetch_ + 1, caches_.fetch(pc, fetch_)));
    taken_ = false;
    fetch_cycles_ += p_.l1i_lat();
  } else if (taken_ || fetched_ >= p_.width()) {
    enter(fetch_ + 1);
    taken_ = false;
    ++fetch_cycles_;
  }
  if (++fetch_rows_ == fetch_window) {
    fetch_rows_ /= 2;
    fetch_cycles_ = (fetch_cycles_ + 1) / 2;
  }
  block_ = block;
  if (row_ >= static_cast<unsigned>(p_.fetch_queue())) {
    const Cycle room = sent_[(row_ - static_cast<unsigned>(p_.fetch_queue())) & (ring - 1)] + 1;
    if (room > fetch_) enter(room);
  }
  ++fetched_;
  return fetch_;
}

// When rename gets the row.  A stage that cannot go on keeps what is on its way to it, and the
// stage before hears of it a cycle later; it hears that it may go on only when all of that is gone,
// so that a bubble follows (gem5's skid buffers: block and unblock of Decode and Rename).
Cycle ReferenceCore::arrive(Cycle fetched) {
  const Cycle unblocks = std::max(renames_.at, rename_held_);
  Cycle at = sends_.next(fetched, p_.width());
  if (at > fetch_blocked_) {
    const Cycle empty = rename_blocked_ == never ? decodes_.at : unblocks + 1;
    at = std::max(at, empty + 1);
    fetch_blocked_ = never;
  }
  at = sends_.take(at, p_.width());
  sent_[row_ & (ring - 1)] = at;
  at = decodes_.next(at + p_.front_delay(), p_.width());
  if (at > rename_blocked_) {
    at = std::max(at, unblocks + 1);
    rename_blocked_ = never;
  }
  return decodes_.take(at, p_.width()) + decode_to_rename_;
}

// Rename cannot go on at `at`.
void ReferenceCore::block(Cycle at) {
  if (rename_blocked_ != never) return;
  rename_blocked_ = at;
  fetch_blocked_ = std::min(fetch_blocked_, at + 1);
}

Cycle ReferenceCore::dispatch(const CoreRow& row, Cycle fetched) {
  const CoreInst& inst = *row.inst;
  const auto freed = [&](const std::vector<Cycle>& when, std::uint64_t n, int size) {
    return n < static_cast<std::uint64_t>(size)
               ? Cycle{0}
               : when[(n - static_cast<std::uint64_t>(size)) & (when.size() - 1)] + freed_delay;
  };
  // Without room in the reorder buffer or the issue queue rename blocks, even if nothing is there
  // to be renamed (gem5's Rename::checkStall).
  Cycle room = std::max(renames_.at, freed(retired_, row_, p_.rob()));
  calendar_.advance(room);
  while (calendar_.waiting() >= p_.iq()) calendar_.advance(++room);
  if (room > renames_.at + 1) {
    block(renames_.at + 1);
    rename_held_ = std::max(rename_held_, room);
  }
  const Cycle arrived = arrive(fetched);
  Cycle at = std::max({arrived, room, serial_, rename_held_});
  serial_ = 0;
  // Until the reorder buffer is empty, and no store is on its way (gem5's Commit::commit).
  if (inst.is(CoreInst::serialize_before))
    at = std::max(at, std::max(retire_, drained_) + serialize_delay - rename_to_iew);
  if (inst.is(CoreInst::load)) at = std::max(at, freed(load_retired_, loads_, p_.lq()));
  if (inst.is(CoreInst::store)) at = std::max(at, freed(store_drained_, store_count_, p_.sq()));
  if (inst.is(CoreInst::writes_int))
    at = std::max(at, freed(int_retired_, ints_, std::max(8, p_.phys_int() - held_int)));
  if (inst.is(CoreInst::writes_vec))
    at = std::max(at, freed(vec_retired_, vecs_, std::max(8, p_.phys_vec() - held_vec)));
  at = renames_.take(at, p_.width());
  if (at > arrived) block(arrived);
  dispatch_ = at + rename_to_iew;
  return dispatch_;
}

// A load that was squashed comes through the front end again.
void ReferenceCore::redispatch(Cycle& dispatched, Cycle at) {
  if (at <= dispatched) return;
  renames_.take(std::max(arrive(at), rename_held_), p_.width());
  dispatched = dispatch_ = renames_.at + rename_to_iew;
}

Cycle ReferenceCore::ready(const CoreRow& row, Cycle dispatched) {
  const CoreInst& inst = *row.inst;
  Cycle at = dispatched;
  for (const std::uint16_t r : inst.src)
    if (r != CoreInst::no_register) at = std::max(at, register_[r]);
  if (inst.is(CoreInst::in_order | CoreInst::barrier))  // and behind all stores
    at = std::max({at, retire_ + in_order_delay, drained_ + in_order_delay});
  if (!inst.is(CoreInst::load | CoreInst::store)) return at;
  at = std::max(at, memory_barrier_);
  if (set_ == StoreSets::no_set) return at;
  // It waits for the set's last store, unless a store that was squashed since had taken its place:
  // then for none (gem5's StoreSet::squash).
  const StoreSets::Last& store = sets_.last_store(set_);
  const bool forgotten = store.row < squashed_from_ && store.next() <= squashed_to_;
  if (store.issue > dispatched && !forgotten) at = std::max(at, store.done);
  return at;
}

Cycle ReferenceCore::issue(const CoreRow& row, Cycle& dispatched) {
  const CoreInst& inst = *row.inst;
  const OpUse use = op_use(inst.op);
  const bool memory = inst.is(CoreInst::load | CoreInst::store);
  set_ = memory ? sets_.of(inst.pc) : StoreSets::no_set;
  forward_ = nullptr;
  Cycle issued = ready(row, dispatched);
  if (inst.is(CoreInst::no_op)) return issued;
  issued = calendar_.book(issued, use.unit, latency(inst.op), use.pipelined);
  if (!inst.is(CoreInst::load) || inst.is(CoreInst::data_prefetch)) return issued;

  // A load that executes before an older store to the same 16 bytes is squashed when the first such
  // store executes, and comes again (gem5's LSQUnit::checkViolations, IEW::squashDueToMemOrder).
  const std::uint64_t oldest =
      row_ - std::min<std::uint64_t>(row_, static_cast<unsigned>(p_.rob()));
  while (const auto* s = stores_.passed(row.addr, inst.bytes(), issued, oldest)) {
    const Cycle executed = s->issued + store_executes_;
    sets_.violation(s->pc, inst.pc);
    set_ = sets_.now(inst.pc);
    squash(fetch_, dispatched, executed);
    const Cycle again = executed + redirect_delay + p_.l1i_lat();
    if (again > fetch_) {
      fetch_ = again;
      fetched_ = 1;
    }
    redispatch(dispatched, fetch_);
    issued = calendar_.book(std::max(ready(row, dispatched), s->issued), use.unit, latency(inst.op),
                            use.pipelined);
  }
  const StoreBuffer::Store* store = stores_.last(row.addr, inst.bytes());
  if (store && store->sent >= issued + store_executes_) forward_ = store;
  return issued;
}

// When a reader of the row's results may issue.
Cycle ReferenceCore::complete(const CoreRow& row, Cycle issued, Cycle dispatched) {
  const CoreInst& inst = *row.inst;
  if (inst.is(CoreInst::no_op)) return dispatched + 1;
  const Cycle executed = issued + p_.issue_to_exec() - 1 + latency(inst.op);
  if (!inst.is(CoreInst::load) || inst.is(CoreInst::store) || row.fault) return executed;
  if (forward_ && forward_->covers(row.addr, inst.bytes())) return executed + 1;
  // A store that holds only a part: the load issues again behind the cycle in which that is sent to
  // the cache (gem5's LSQUnit::read, storePostSend).
  const Cycle from = forward_ ? std::max(executed, forward_->sent + 1 + store_executes_) : executed;
  const Cycle there = caches_.load(row.addr, from, inst.pc);
  return inst.is(CoreInst::data_prefetch) ? executed : there;
}

void ReferenceCore::drain_store(const CoreRow& row, Cycle issued, Cycle done) {
  const CoreInst& inst = *row.inst;
  Cycle at = retire_ + (inst.is(CoreInst::atomic) ? 1 : send_delay);
  if (p_.tso()) at = std::max(at, drained_ + 1);  // total store order: one on its way at a time
  if (at <= store_port_) {
    at = store_port_;
    if (stores_now_ >= p_.store_ports()) ++at;
  }
  if (at != store_port_) {
    store_port_ = at;
    stores_now_ = 0;
  }
  ++stores_now_;
  const Cycle written = inst.is(CoreInst::zero_line) ? caches_.zero_line(row.addr, at, inst.pc)
                                                     : caches_.store(row.addr, at, inst.pc);
  if (caches_.taken_at() > at) {  // younger stores wait behind it
    store_port_ = caches_.taken_at();
    stores_now_ = 1;
  }
  drained_ = std::max(drained_, written);
  store_drained_[store_count_++ & (short_ring - 1)] = drained_;
  stores_.put(row.addr, inst.size, issued,
              inst.is(CoreInst::atomic) ? drained_ : caches_.taken_at(), inst.pc, row_);
  if (set_ != StoreSets::no_set) sets_.put(set_, issued, done, row_);
  if (inst.is(CoreInst::atomic)) {  // its result comes from the cache
    for (const std::uint16_t r : inst.dst)
      if (r != CoreInst::no_register) register_[r] = drained_;
    if (drained_ + 1 > retire_) {
      retire_ = drained_ + 1;
      retired_now_ = 1;
      retired_[row_ & (ring - 1)] = retire_;
    }
  }
}

void ReferenceCore::retire(const CoreRow& row, Cycle dispatched, Cycle issued, Cycle done) {
  const CoreInst& inst = *row.inst;
  for (const std::uint16_t r : inst.dst)
    if (r != CoreInst::no_register) register_[r] = done;
  const Cycle at = inst.is(CoreInst::no_op) ? dispatched + 2 : done + 1;
  if (at > retire_) {
    retire_ = at;
    retired_now_ = 1;
  } else {
    if (retired_now_ >= p_.width()) {
      ++retire_;
      retired_now_ = 0;
    }
    ++retired_now_;
  }
  retired_[row_ & (ring - 1)] = retire_;
  if (inst.is(CoreInst::load)) load_retired_[loads_++ & (short_ring - 1)] = retire_;
  if (inst.is(CoreInst::writes_int)) int_retired_[ints_++ & (ring - 1)] = retire_;
  if (inst.is(CoreInst::writes_vec)) vec_retired_[vecs_++ & (ring - 1)] = retire_;
  if (inst.is(CoreInst::store) && !row.fault) drain_store(row, issued, done);
  if (inst.is(CoreInst::barrier)) memory_barrier_ = std::max(memory_barrier_, retire_ + 1);
  if (inst.is(CoreInst::serialize_after))
    serial_ = std::max(retire_, drained_) + serialize_delay - rename_to_iew;
}

// How many rows of a wrong path behind the last row, which is in the issue queue, find room by
// `at`.
int ReferenceCore::room(Cycle at) const {
  const auto free = [&](const std::vector<Cycle>& when, std::uint64_t n, int size) {
    const auto most = static_cast<std::uint64_t>(size);
    return n < most || when[(n - most) & (when.size() - 1)] + freed_delay + rename_to_iew <= at;
  };
  const bool some = free(retired_, row_ + 1, p_.rob()) && free(load_retired_, loads_, p_.lq()) &&
                    free(store_drained_, store_count_, p_.sq()) &&
                    free(int_retired_, ints_, std::max(8, p_.phys_int() - held_int)) &&
                    free(vec_retired_, vecs_, std::max(8, p_.phys_vec() - held_vec));
  return some ? p_.iq() - calendar_.waiting(at) : 0;
}

// What was dispatched behind `dispatched` leaves the reorder buffer from `at` on, `width` rows a
// cycle; until it has, nothing is renamed, and nothing retires, older rows neither (gem5's
// Commit::commit, ROB::doSquash).
void ReferenceCore::squash(Cycle fetched, Cycle dispatched, Cycle at) {
  Cycle older = 0;
  while (older < p_.rob() && static_cast<std::uint64_t>(older) < row_ &&
         retired_[(row_ - 1 - static_cast<std::uint64_t>(older)) & (ring - 1)] >= at)
    ++older;
  // Fetch has gone on as fast as it did before; rename has had no more than its width a cycle.
  const Cycle renamed = at - 1 - (dispatched - rename_to_iew);
  const Cycle supplied = at - 1 - p_.front_delay() - decode_to_rename_ - fetched;
  const Cycle behind = std::min(std::max<Cycle>(0, renamed) * p_.width(),
                                std::max<Cycle>(0, supplied) * fetch_rows_ / fetch_cycles_);
  const Cycle cycles =
      std::max<Cycle>(0, std::min({p_.rob() - older, behind, Cycle{room(at)}}) - 1) / p_.width();
  rename_blocked_ = fetch_blocked_ = never;
  rename_held_ = 0;
  if (cycles > 0) {
    block(at + squash_blocks);
    rename_held_ = at + squash_blocks + cycles;
  }
  squashed_from_ = row_;
  squashed_to_ = row_ + static_cast<std::uint64_t>(
                            std::clamp<Cycle>((at + 1 - dispatched) * p_.width(), 0, room(at + 1)));
  const Cycle retires = at + 1 + cycles + older / p_.width();
  if (retires > retire_) {
    retire_ = retires;
    retired_now_ = 1;
    retired_[row_ & (ring - 1)] = retire_;
  }
}

// Until it is told otherwise, or the reorder buffer is full, the front end goes straight on, and
// brings the lines that it comes to.
void ReferenceCore::run_on(std::uint64_t pc, Cycle told) {
  const auto block = static_cast<std::uint64_t>(p_.fetch_buffer());
  const Cycle each = std::max(p_.l1i_lat() + 1, p_.fetch_buffer() / 4 / p_.width());
  const auto left = static_cast<int>((block - 1 - pc % block) / 4);
  const std::uint64_t full = pc + static_cast<std::uint64_t>(p_.rob()) * 4;
  Cycle at = fetch_ + (fetched_ + left) / p_.width();
  for (std::uint64_t next = (pc / block + 1) * block; next < full && at < told; next += block)
    at = std::max(at + each, next % 64 ? at : caches_.fetch(next, at));
}

void ReferenceCore::control(const CoreRow& row, BranchUnit::Guess guess, Cycle dispatched,
                            Cycle done) {
  const CoreInst& inst = *row.inst;
  if (guess == BranchUnit::Guess::late) {
    redirect_ = decodes_.at + decode_redirect;
    run_on(inst.pc, redirect_ - decode_tells);
  } else if (guess == BranchUnit::Guess::wrong) {
    // An indirect jump of unknown target is passed, too (gem5's BPredUnit::predict).
    if (row.taken) run_on(inst.pc, done);
    redirect_ = done + redirect_delay;
    squash(fetch_, dispatched, done);
  }
  taken_ |= row.taken;
  if (row.fault) {  // it waits for all older stores (gem5's Commit::commitHead)
    retire_ = std::max(retire_, drained_) + fault_delay;
    retired_now_ = 0;
    redirect_ = retire_ + redirect_delay;
    block_ = no_line;
    retired_[row_ & (ring - 1)] = retire_;
  }
}

Core::Times ReferenceCore::step(const CoreRow& row) {
  const Cycle before = retire_;
  const Cycle fetched = fetch(row);
  const auto guess = row.is_branch() ? branches_.fetch(row.event(), row.indirect_right, fetched)
                                     : BranchUnit::Guess::right;
  Cycle dispatched = dispatch(row, fetched);
  const Cycle issued = issue(row, dispatched);
  const Cycle done = complete(row, issued, dispatched);
  if (!row.inst->is(CoreInst::no_op))
    calendar_.leave(row.inst->is(CoreInst::load | CoreInst::store) ? done : issued);
  retire(row, dispatched, issued, done);
  control(row, guess, dispatched, done);
  if (row.is_branch()) branches_.commits(retire_);
  ++row_;
  // What held its retirement, a squash say, held the row.
  const Cycle held = retire_ > before + 1 ? retire_ - 1 : done;
  return {dispatched, issued, std::max(done, held), before, retire_, dispatch_};
}

}  // namespace tracekit
