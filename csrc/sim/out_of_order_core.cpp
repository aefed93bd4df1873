#include "sim/out_of_order_core.hpp"

#include <algorithm>
#include <utility>

#include "core/static_inst.hpp"
#include "sim/op_use.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {

// The line of `row` has just come: fetch asks for the next one before the loads in between do,
// which are walked first, and memory serves them in this order.
template <bool Why>
void OutOfOrderCore<Why>::fetch_next_line(const CoreRow& row) {
  constexpr std::ptrdiff_t most = 1 << line_bits;  // rows of a line
  const std::uint64_t line = row.inst->pc >> line_bits;
  const CoreRow* at = &row;
  for (; at->inst && at->inst->pc >> line_bits == line; ++at)
    if (at->taken || at - &row > most) return;
  if (!at->inst || at->inst->pc >> line_bits != line + 1) return;
  const Cycle passed = std::max<Cycle>(1, (at - &row) / p_.width());
  caches_.fetch((line + 1) << line_bits, fetch_.at() + passed);
}

// Fetch begins at `at`, with nothing of that cycle yet.
template <bool Why>
void OutOfOrderCore<Why>::enter(At at) {
  fetch_ = at;
  fetched_ = 0;
}

// The block at `pc` is the next one; whether its line missed.
template <bool Why>
bool OutOfOrderCore<Why>::next_block(std::uint64_t pc) {
  const At next = (fetch_ + 1).because(Cause::front_end_width), there = fetched_line(pc, fetch_);
  enter(there.after(next) ? there : next);
  fetch_speed_.took(p_.l1i_lat(), row_);
  return caches_.served() != CacheLevel::l1;
}

// Fetch goes on at `pc` as it was told; whether its line missed.  The fetch buffer keeps its block
// when it is squashed (gem5's Fetch::doSquash).
template <bool Why>
bool OutOfOrderCore<Why>::redirected(std::uint64_t pc) {
  if (redirect_.after(fetch_)) enter(redirect_);
  redirect_ = {-1, Cause::base};
  if (std::exchange(buffered_, no_line) == fetch_block(pc)) {
    fetch_speed_.took(1, row_);
    return false;
  }
  const At there = fetched_line(pc, fetch_);
  const bool missed = caches_.served() != CacheLevel::l1;
  // A hit's latency belongs to the resteer.
  enter(missed ? there : there.because(fetch_.cause()));
  fetch_speed_.took(p_.l1i_lat(), row_);
  return missed;
}

// Blocks of fetch_buffer bytes: a new one costs an access to the instruction cache, which begins in
// the cycle of the fetch before it; a taken branch ends a cycle's fetch.  Micro-ops behind the
// first one of their instruction come from the decoder.
template <bool Why>
template <bool Computes>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::fetch(const CoreRow& row) {
  const std::uint64_t pc = row.inst->pc;
  const std::uint64_t block = fetch_block(pc);
  bool from_decoder = std::exchange(pc_, pc) == pc;
  if (redirect_.at() >= 0) [[unlikely]] {
    if (redirected(pc)) fetch_next_line(row);
    block_ = block;
    taken_ = from_decoder = false;
  } else if (block != block_ && !from_decoder) {
    if (next_block(pc)) fetch_next_line(row);
    block_ = block;
    taken_ = false;
  } else if (taken_ || fetched_ >= p_.width()) {
    enter((fetch_ + 1).because(Cause::front_end_width));
    taken_ = false;
    fetch_speed_.took(1, row_);
  }
  // The next 16 bytes have a part of it, too: maybe another block, which is fetched for it.
  if (is<Computes>(*row.inst, CoreInst::split) && !from_decoder) [[unlikely]] {
    const std::uint64_t rest = fetch_block(pc + 15);
    if (rest != block) {
      next_block(pc + 15);
      block_ = rest;
    }
  }
  const At room = front_end_.room(row_);
  if (room.after(fetch_)) enter(room);
  ++fetched_;
  return fetch_;
}

// When there is room for the next row in the reorder buffer and the issue queue.  Without it rename
// blocks, even if nothing is there to be renamed (gem5's Rename::checkStall).
template <bool Why>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::room_to_rename(Cycle counted) {
  At room = renames_.at;
  calendar_.advance(room.at());
  // An entry is free before it is counted.
  if (!Why && counted <= room.at() && calendar_.waiting() < p_.iq()) [[likely]]
    return room;
  room.wait_for({freed(retired_, entry_, p_.rob(), freed_delay), Cause::rob_full});
  calendar_.advance(room.at());
  while (calendar_.waiting() >= p_.iq()) {
    room = (room + 1).because(Cause::scheduler_full);
    calendar_.advance(room.at());
  }
  if (std::max(room.at(), counted) > renames_.at.at() + 1) [[unlikely]]
    wait_for_entries(room);
  return room;
}

template <bool Why>
template <bool Computes>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::dispatch(const CoreRow& row, At fetched) {
  const CoreInst& inst = *row.inst;
  const Cycle counted = entry_counted();
  const At room = room_to_rename(counted);
  const At arrived = front_end_.arrive(row_, fetched, renames_.at);
  At at = later(arrived, room);
  at.wait_for(later(serial_, rename_held_));
  if constexpr (Why) serial_ = {};  // no later row has that cause
  // Until the reorder buffer is empty, and no store is on its way (gem5's Commit::commit).
  if (is<Computes>(inst, CoreInst::serialize_before)) [[unlikely]]
    at = later(at, {std::max(retire_.at(), all_drained()) + serialize_delay, Cause::serialization});
  const auto takes = [&](const RegisterFile& file, unsigned registers) {
    // A row that takes none would have the last one that was taken, which costs no more to ask.
    if (!Why || registers > 0)
      at.wait_for({freed(file.retired, file.taken + registers - 1, file.size, committed_delay),
                   Cause::registers_full});
  };
  if (is<Computes>(inst, CoreInst::load)) {
    const Cycle free = freed(load_retired_, loads_, p_.lq(), committed_delay);
    if (free > at.at()) at.wait_for({load_entry_seen(at.at(), free), Cause::load_queue_full});
  }
  if (is<Computes>(inst, CoreInst::store)) {
    make_room_for_store();
    at.wait_for({freed(store_drained_, store_count_, p_.sq(), drained_delay), queued_store()});
  }
  takes(files_[inst.file], inst.file_writes);
  if (!Computes && inst.more_ints > 0) [[unlikely]]
    takes(files_[CoreInst::int_file], inst.more_ints);
  at = renames_.take(at, p_.width());
  if (counted > at.at()) [[unlikely]] {
    at.wait_for({entry_counted(at.at()), Cause::rob_full});
    renames_.put_off(at);
  }
  renamed_.add(at.at());
  if (is<Computes>(inst, CoreInst::load)) last_load_ = at.at();
  if (at.after(arrived)) front_end_.block(arrived.at());
  dispatch_ = at + p_.rename_to_iew();
  return dispatch_;
}

// A load that was squashed comes through the front end again.
template <bool Why>
void OutOfOrderCore<Why>::redispatch(At& dispatched, At at) {
  if (!at.after(dispatched)) return;
  renames_.take(later(front_end_.arrive(row_, at, renames_.at), rename_held_), p_.width());
  dispatched = dispatch_ = renames_.at + p_.rename_to_iew();
}

template <bool Why>
template <bool Computes>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::ready(const CoreRow& row, At dispatched) {
  const CoreInst& inst = *row.inst;
  At at = dispatched;
  if constexpr (Why) operands_chain_ = 0;
  const auto read = [&](std::uint16_t r) {
    if constexpr (Why) {
      if (later(at, register_[r]) != at) operands_chain_ = chain_[r];
    }
    at = later(at, register_[r]);
  };
  constexpr std::size_t common = CoreInst::common;  // where one reads less nothing writes the rest
  for (std::size_t k = 0; k < common; ++k) read(inst.src[k]);
  if (!Computes && inst.reads > common) [[unlikely]]
    for (std::size_t k = common; k < inst.reads; ++k) read(inst.src[k]);
  if constexpr (Why || !Computes) operands_ = at;
  const bool behind_stores = is<Computes>(inst, CoreInst::in_order | CoreInst::barrier);
  if (behind_stores) [[unlikely]] {
    const Cause why = inst.is(CoreInst::barrier) ? Cause::barrier : Cause::serialization;
    at = later(at, {retire_.at() + in_order_delay, why});
    const Cycle drained = all_drained();
    at = later(at, {drained + in_order_delay, drained_held_});
  }
  if (!is<Computes>(inst, CoreInst::load | CoreInst::store)) return at;
  at = later(at, memory_barrier_);
  if (set_ == StoreSets::no_set) [[likely]]
    return at;
  return later(at, {sets_.waits_for(set_, dispatched.at(), squashed_), Cause::memory_dependence});
}

template <bool Why>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::book(At ready, OpClass op) {
  const Operation& own = operation(op);
  const Cycle at = calendar_.book(ready.at(), own.counted, own.held);
  return at > ready.at() ? At{at, Cause::unit_busy} : ready;
}

template <bool Why>
template <bool Computes>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::issue(const CoreRow& row, At& dispatched) {
  const CoreInst& inst = *row.inst;
  const bool memory = is<Computes>(inst, CoreInst::load | CoreInst::store);
  if constexpr (!Computes) {
    set_ = memory ? sets_.of(inst.pc, inst.is(CoreInst::store)) : StoreSets::no_set;
    forwarded_ = false;
  }
  At issued = ready<Computes>(row, dispatched);
  if (is<Computes>(inst, CoreInst::no_op)) [[unlikely]]
    return issued;
  if (memory && set_ != StoreSets::no_set && issued.at() > operands_.at() + p_.l1d_lat())
      [[unlikely]]
    go_ahead(row, dispatched.at(), issued.at());
  // A division that waits for another one has the unit at once that one leaves, unless it issues
  // later.
  if (!Computes && (multiplies(inst.op) || (divides(inst.op) && p_.issue_to_exec() > 1)))
      [[unlikely]]
    issued = behind_divisions(row, dispatched.at(), issued);
  issued = book(issued, inst.op);
  if (!is<Computes>(inst, CoreInst::load) || inst.is(CoreInst::data_prefetch)) return issued;

  // A load that executes before an older store to the same 16 bytes is squashed when the first such
  // store executes, and comes again (gem5's LSQUnit::checkViolations, IEW::squashDueToMemOrder).
  const std::uint64_t oldest = oldest_row();
  const StoreBuffer::Store* const last = stores_.last(row.addr, inst.bytes);
  issued = behind_part(row, last, issued);
  while (const auto* s = stores_.passed(row.addr, inst.bytes, issued.at(), oldest)) [[unlikely]] {
    if (p_.ideal_memory_order()) {  // it knew, and waits for that store alone
      issued = behind_part(row, last, book({s->issued, Cause::memory_dependence}, inst.op));
      continue;
    }
    const At executed{s->issued + store_executes_, Cause::memory_order_squash};
    sets_.violation({s->pc, inst.pc});
    set_ = sets_.now(inst.pc);
    squash(dispatched.at(), executed, entry_,
           std::min(rows_behind(fetch_.at(), dispatched.at(), executed.at()),
                    room(executed.at(), dispatched.at(), entry_)));
    const At again = executed + redirect_delay + p_.l1i_lat();
    if (again.after(fetch_)) {
      fetch_ = again;
      fetched_ = 1;
    }
    redispatch(dispatched, fetch_);
    issued = book(later(ready<Computes>(row, dispatched), {s->issued, Cause::memory_order_squash}),
                  inst.op);
    issued = behind_part(row, last, issued);
  }
  send_stores(issued.at() + store_executes_);
  forwarded_ = last && last->sent >= issued.at() + store_executes_;
  return issued;
}

// A load that meets a store which holds only a part of what it reads issues again behind the cycle
// in which that one is sent to the cache.  Until then it has no address, so that older stores which
// execute meanwhile do not find that it has passed them (gem5's LSQUnit::read, storePostSend).
// `last`: of all stores to these bytes.
template <bool Why>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::behind_part(const CoreRow& row,
                                                                  const StoreBuffer::Store* last,
                                                                  At issued) {
  const CoreInst& inst = *row.inst;
  for (;;) {
    const StoreBuffer::Store* s = stores_.met(last, row.addr, inst.bytes, issued.at());
    if (!s || s->covers(row.addr, inst.bytes)) [[likely]]
      return issued;
    send_stores(issued.at() + store_executes_);
    if (s->sent < issued.at() + store_executes_) return issued;
    while (s->sent == StoreBuffer::not_sent) send_stores(never, 1);
    const Cycle again = stalled_.released(issued.at() + store_executes_, s->sent);
    issued = book({again + 1, Cause::load_forward}, inst.op);
  }
}

// When a reader of the row's results may issue.
template <bool Why>
template <bool Computes>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::complete(const CoreRow& row, At issued,
                                                               At dispatched) {
  const CoreInst& inst = *row.inst;
  if (is<Computes>(inst, CoreInst::no_op)) [[unlikely]]
    return dispatched + 1;
  const Cycle executed = issued.at() + executes(inst.op);
  if (!is<Computes>(inst, CoreInst::load) || inst.is(CoreInst::store) || row.fault)
    return {executed, op_cause_[static_cast<std::size_t>(inst.op)]};
  if (forwarded_) return {executed + 1, Cause::load_forward};
  // When the cache takes something again stores have the first turn (gem5's LSQUnit::recvRetry).
  for (Cycle again; (again = caches_.takes_from(executed)) > executed;) {
    const std::uint64_t sent = stores_sent_;
    send_stores(again);
    if (stores_sent_ == sent) break;
  }
  Cycle there = caches_.load(row.addr, executed, inst.pc);
  ledger_.data_from(caches_.served());
  if (inst.is(CoreInst::data_prefetch)) [[unlikely]]
    return {executed, Cause::load_l1};
  there = load_answered(there);
  if (const std::uint64_t second = row.second_line()) [[unlikely]] {
    there = std::max(there, load_answered(caches_.load(second, executed, inst.pc)));
    ledger_.data_from(caches_.served());
  }
  return {there, load_cause(caches_.served())};
}

// The data cache has answers at `there`.  It gives one of them before the core's cycle begins; the
// others come behind that, and count in the next one (gem5's PacketQueue::schedSendEvent).  A load
// goes before a store, which the next store waits for under total store order.
template <bool Why>
Cycle OutOfOrderCore<Why>::load_answered(Cycle there) {
  if (load_answers_.has(there)) [[unlikely]]
    return there + 1;
  load_answers_.put(there);
  if (p_.tso() && there >= stores_since_ && store_answers_.has(there)) ++drained_;
  return there;
}

// Results, and why they are there when they are.  The cause of a chain of operations is that of
// most of its time: each one of another cause takes its own part off what the chain's cause is
// ahead by (Boyer and Moore's majority vote, in cycles).
template <bool Why>
template <bool Computes>
void OutOfOrderCore<Why>::put_results(const CoreInst& inst, At issued, At done) {
  constexpr Cycle most = 64;  // ahead, so that what was long ago is outvoted
  Cycle ahead = done.at() - issued.at();
  if (Why && issued == operands_ && operands_chain_ > 0) {
    if (issued.cause() == done.cause()) {
      ahead += operands_chain_;
    } else if (operands_chain_ > ahead) {
      done = done.because(issued.cause());
      ahead = operands_chain_ - ahead;
    } else {
      ahead -= operands_chain_;
    }
  }
  const auto write = [&](std::uint16_t r) {
    register_[r] = done;
    if constexpr (Why) chain_[r] = std::min(ahead, most);
  };
  constexpr std::size_t common = CoreInst::common;  // where one writes less nothing reads the rest
  for (std::size_t k = 0; k < common; ++k) write(inst.dst[k]);
  if (!Computes && inst.writes > common) [[unlikely]]
    for (std::size_t k = common; k < inst.writes; ++k) write(inst.dst[k]);
}

template <bool Why>
template <bool Computes>
void OutOfOrderCore<Why>::retire(const CoreRow& row, At dispatched, At issued, At done) {
  const CoreInst& inst = *row.inst;
  put_results<Computes>(inst, issued, done);
  const At at = is<Computes>(inst, CoreInst::no_op) ? dispatched + 2 : done + 1;
  if (at.after(retire_)) {
    // Since the row before, the time moves by how much later this one issues and by how much longer
    // it takes from there: the larger part names the cause.
    const Cycle longer = at.at() - 1 - issued.at() - (retire_.at() - 1 - last_issued_);
    const bool own = 2 * longer >= at.at() - retire_.at();
    retires(own ? at : at.because(issued.cause()), 1);
  } else {
    if (retired_now_ >= p_.width())
      retires((retire_ + 1).because(Cause::base), 1);
    else
      retires(retire_, retired_now_ + 1);
  }
  if constexpr (Why) last_issued_ = issued.at();
  const auto leaves = [this](Freed& when, std::uint64_t& n, unsigned entries) {
    when[n] = retire_.at();  // whether it takes one or not
    if (entries > 1) [[unlikely]]
      for (unsigned k = 1; k < entries; ++k) when[n + k] = retire_.at();
    n += entries;
  };
  if constexpr (!Computes) leaves(load_retired_, loads_, inst.is(CoreInst::load));
  RegisterFile& file = files_[inst.file];
  leaves(file.retired, file.taken, inst.file_writes);
  if (!Computes && inst.more_ints > 0) [[unlikely]] {
    RegisterFile& ints = files_[CoreInst::int_file];
    leaves(ints.retired, ints.taken, inst.more_ints);
  }
  if (is<Computes>(inst, CoreInst::store) && !row.fault) queue_store(row, issued.at(), done.at());
  if (is<Computes>(inst, CoreInst::barrier)) [[unlikely]]
    memory_barrier_ = later(memory_barrier_, {retire_.at() + 1, Cause::barrier});
  if (is<Computes>(inst, CoreInst::serialize_after)) [[unlikely]]
    serial_ = {std::max(retire_.at(), all_drained()) + serialize_delay, Cause::serialization};
}

template <bool Why>
void OutOfOrderCore<Why>::control(const CoreRow& row, BranchUnit::Guess guess, At dispatched,
                                  At done) {
  const CoreInst& inst = *row.inst;
  if (guess == BranchUnit::Guess::resteer) [[unlikely]] {
    redirect_ = (front_end_.decoded() + decode_redirect).because(Cause::resteer_decode);
    const Cycle heard = front_end_.decoded().at() + decode_tells;
    run_past(inst.pc, fetch_.at(), fetched_, heard, heard);
  } else if (guess == BranchUnit::Guess::wrong) [[unlikely]] {
    At known = done.because(misprediction_cause(static_cast<BranchKind>(inst.branch)));
    wrong_units_.begin();
    const Cycle rows = run_wrong(row, dispatched.at(), known.at());
    if (const Cycle held = wrong_units_.delay(calendar_, known.at() - 2 * p_.issue_to_exec());
        held > 0) [[unlikely]] {
      known = known + held;
      if (const At at = (known + 1).because(Cause::unit_busy); at.after(retire_)) retires(at, 1);
    }
    redirect_ = known + redirect_delay;
    squash(dispatched.at(), known, entry_ + 1, rows);
  }
  if (row.is_branch()) {
    mispredicted_[inst.pc] = guess == BranchUnit::Guess::wrong;
    remember(row);
  }
  taken_ |= row.taken;
  if (row.fault) [[unlikely]]
    trap(dispatched.at());
}

// The row traps, which waits for all older stores (gem5's Commit::commitHead); what has come behind
// it meanwhile is squashed.
template <bool Why>
void OutOfOrderCore<Why>::trap(Cycle dispatched) {
  retires({std::max(retire_.at(), all_drained()) + trap_delay, Cause::fault}, 0);
  const At trapped = retire_;
  redirect_ = trapped + redirect_delay;
  block_ = no_line;
  squash(dispatched, trapped, entry_ + 1,
         std::min(rows_behind(fetch_.at(), dispatched, trapped.at()),
                  room(trapped.at(), trapped.at(), entry_ + 1)));
}

template <bool Why>
template <bool Computes>
Core::Times OutOfOrderCore<Why>::step_as(const CoreRow& row) {
  ledger_.row();
  const Cycle before = retire_.at();
  const At fetched = fetch<Computes>(row);
  const bool predicted = !Computes && row.is_branch() && !p_.ideal_branches();
  const auto guess = predicted ? branches_.fetch(row.o3_event(), row.indirect_right, fetched.at())
                               : BranchUnit::Guess::right;
  ledger_.guessed(guess);
  At dispatched = dispatch<Computes>(row, fetched);
  const At issued = issue<Computes>(row, dispatched);
  At done = complete<Computes>(row, issued, dispatched);
  if (!is<Computes>(*row.inst, CoreInst::no_op)) {
    const bool longer = !is<Computes>(*row.inst, CoreInst::load) && latency(row.inst->op) > 1;
    const Cycle w = calendar_.write_back(done.at(), longer, row.inst->pc);
    if (w != done.at()) [[unlikely]]
      done = At{w, Cause::unit_busy};
    const bool memory = is<Computes>(*row.inst, CoreInst::load | CoreInst::store);
    calendar_.leave((memory ? done : issued).at());
  }
  retire<Computes>(row, dispatched, issued, done);
  if constexpr (!Computes) control(row, guess, dispatched, done);
  if (predicted) branches_.commits(retire_.at() + commit_delay);
  ++row_;
  ++entry_;
  // What held its retirement, a squash say, held the row.
  const Cycle held = retire_.at() > before + 1 ? retire_.at() - 1 : done.at();
  return {dispatched.at(), issued.at(),  std::max(done.at(), held),
          before,          retire_.at(), dispatch_.at()};
}

template class CoreOf<OutOfOrderCore<false>>;
template class CoreOf<OutOfOrderCore<true>>;
template class OutOfOrderCore<false>;
template class OutOfOrderCore<true>;

}  // namespace tracekit
