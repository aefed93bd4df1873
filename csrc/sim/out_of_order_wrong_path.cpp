// What a core asks its caches for behind a branch that it predicts wrongly, until it is told.
#include <algorithm>
#include <optional>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {

// Until it is told otherwise, or the reorder buffer is full, the front end goes straight on behind
// `pc`, which it fetched just now, and brings the lines that it comes to; it is squashed at
// `heard`. For how many cycles it waits for them.
template <bool Why>
Cycle OutOfOrderCore<Why>::run_past(std::uint64_t pc, Cycle from, int fetched, Cycle resolved,
                                    Cycle heard) {
  const auto block = static_cast<std::uint64_t>(p_.fetch_buffer());
  const Cycle each = std::max(p_.l1i_lat() + 1, p_.fetch_buffer() / 4 / p_.width());
  const auto left = static_cast<int>((block - 1 - pc % block) / 4);
  const std::uint64_t full = pc + static_cast<std::uint64_t>(p_.rob()) * 4;
  Cycle at = from + std::max(0, fetched + left - 1) / p_.width();
  Cycle waited = 0;
  buffered_ = fetch_block(pc);
  for (std::uint64_t next = (pc / block + 1) * block; next < full && at < resolved; next += block) {
    const Cycle there = next % 64 ? at + p_.l1i_lat() : caches_.fetch(next, at);
    waited += std::max<Cycle>(0, there - at - each);
    buffer(next, there, heard);
    at = std::max(at + each, there);
  }
  return waited;
}

// The branch `row` is predicted wrongly, which is known at `resolved`.  How many rows of the wrong
// path are renamed by then.
template <bool Why>
Cycle OutOfOrderCore<Why>::run_wrong(const CoreRow& row, Cycle dispatched, Cycle resolved) {
  buffered_ = no_line;
  WrongPathCode way(code_, history_);
  const std::uint32_t begin = way.begin(code_.number(*row.inst), row.taken);
  if (begin != CodeMap::nowhere) return walk_wrong(row, way, begin, resolved);
  // An indirect jump of unknown target, too (gem5's BPredUnit::predict).
  const Cycle waited =
      row.taken ? run_past(row.inst->pc, fetch_.at(), fetched_, resolved, resolved + squash_heard)
                : 0;
  return std::min(rows_behind(fetch_.at() + waited, dispatched, resolved),
                  room(resolved, dispatched, entry_ + 1));
}

// A part of the wrong path behind `branch` that may issue from `at` on, in the cycles of older rows
// (WrongPathUnits).  When it leaves the issue queue.
template <bool Why>
Cycle OutOfOrderCore<Why>::run_part(const CoreRow& branch, std::uint32_t part, Cycle at,
                                    Cycle resolved) {
  const CoreInst& inst = code_.insts()[part];
  const bool memory = inst.is(CoreInst::load | CoreInst::store);
  const int set = memory ? sets_.now(inst.pc) : StoreSets::no_set;
  if (set != StoreSets::no_set) {
    const Cycle last = wrong_stores_.last_of(set, never);
    at = std::max(at, last < never ? last + 1 : sets_.waits_for(set, at - 1, squashed_));
  }
  for (const std::uint16_t r : inst.read()) {
    at = std::max(at, wrong_.there(r, register_[r].at()));
  }
  const Operation& own = operation(inst.op);
  const Cycle passed = own.held > 1
                           ? wrong_units_.issue(calendar_, at, own.counted, own.held, resolved)
                           : at + latency(inst.op);
  const Cycle executes = passed + p_.issue_to_exec() - 1;
  Cycle done = executes;
  if (memory) done = access_part(branch, part, passed - latency(inst.op), executes, resolved, set);
  wrong_.run(inst, part, code_.value(part), done);
  return memory ? done : passed - latency(inst.op);
}

// A load or a store of the wrong path issues, and executes: when its data is there.
template <bool Why>
Cycle OutOfOrderCore<Why>::access_part(const CoreRow& branch, std::uint32_t part, Cycle issued,
                                       Cycle executes, Cycle resolved, int set) {
  const CoreInst& inst = code_.insts()[part];
  std::optional<std::uint64_t> to;
  // In the cycle in which the branch is resolved, and in the next one, what is younger still
  // executes (gem5's IEW::executeInsts).
  if (executes <= resolved + 1) {
    const SymbolicValue address = wrong_.address(inst, part, code_.value(part));
    if (const auto value = values_->value(branch, address.root, this->around_))
      to = static_cast<std::uint64_t>(*value + address.number);
  }
  if (inst.is(CoreInst::store)) {
    WrongPathStores::Store store{.pc = inst.pc, .issued = issued, .set = set};
    if (to) {
      store.block = *to >> 4;
      store.last_block = (*to + inst.bytes - 1) >> 4;
    }
    wrong_stores_.put(store);
    return executes;
  }
  if (!to) return executes + p_.l1d_lat();
  found_early(inst, *to, issued, resolved);
  return caches_.load(*to, executes, inst.pc);
}

// A load of the wrong path that has passed an older store to what it reads, which may be of the
// wrong path, too, teaches the store sets if that executes before the branch is resolved (gem5's
// LSQUnit::checkViolations).
template <bool Why>
void OutOfOrderCore<Why>::found_early(const CoreInst& load, std::uint64_t address, Cycle issued,
                                      Cycle resolved) {
  const auto in_time = [&](Cycle store) { return store + store_executes_ <= resolved; };
  const auto* const s = stores_.passed(address, load.bytes, issued, oldest_row());
  if (s && in_time(s->issued)) return sets_.violation({s->pc, load.pc});
  const auto* const wrong = wrong_stores_.passed(address, load.bytes, issued);
  if (wrong && in_time(wrong->issued)) sets_.violation({wrong->pc, load.pc});
}

// Rows of the wrong path wait no more.
template <bool Why>
void OutOfOrderCore<Why>::forget_wrong_queue() {
  for (const Cycle left : wrong_left_) calendar_.leaves_not(left);
  wrong_left_.clear();
}

// When rename lets a row of a wrong path go, which is fetched at `at`; at most at `never`.
template <bool Why>
Cycle OutOfOrderCore<Why>::rename_wrong(const CoreInst& inst, std::uint64_t row, Cycle at,
                                        Cycle never, WrongRename& to) {
  // What rows of the wrong path have taken themselves is not free before `never`.
  const auto frees = [&](const Freed& when, std::uint64_t n, std::uint64_t known, int size,
                         Cycle delay) {
    const auto before = static_cast<std::int64_t>(n - static_cast<std::uint64_t>(size));
    return before < static_cast<std::int64_t>(known) ? freed(when, n, size, delay) : never;
  };
  const Cycle last = to.stage.at.at();
  Cycle room = std::max(last, frees(retired_, to.entry, entry_ + 1, p_.rob(), freed_delay));
  if (to.queue.waiting >= p_.iq() && room < never) {
    room = calendar_.fewer_wait(p_.iq(), room, never - long_after, to.queue);
    if (to.queue.waiting >= p_.iq()) room = never;
  }
  if (room > last + 1) front_end_.block(last + 1, {room, Cause::base});
  const Cycle arrived = front_end_.arrive(row, {at, Cause::base}, to.stage.at).at();
  Cycle goes = std::max(arrived, room);
  if (inst.is(CoreInst::load))
    goes = std::max(goes, frees(load_retired_, to.loads++, loads_, p_.lq(), committed_delay));
  if (inst.is(CoreInst::store))
    goes = std::max(goes, frees(store_drained_, to.stores++, stores_sent_, p_.sq(), drained_delay));
  const auto takes = [&](const RegisterFile& file, std::uint64_t& taken, unsigned registers) {
    taken += registers;
    if (registers > 0)
      goes = std::max(goes, frees(file.retired, taken - 1, file.taken, file.size, committed_delay));
  };
  takes(files_[inst.file], to.taken[inst.file], inst.file_writes);
  takes(files_[CoreInst::int_file], to.taken[CoreInst::int_file], inst.more_ints);
  ++to.entry;
  goes = to.stage.take({std::min(goes, never), Cause::base}, p_.width()).at();
  if (goes > arrived) front_end_.block(arrived);
  return goes;
}

// The row `part` of the wrong path behind `branch`, which is fetched at `at`, is renamed, and runs
// if it may issue before it is known to be wrong.
template <bool Why>
void OutOfOrderCore<Why>::pass_wrong(const CoreRow& branch, std::uint32_t part, std::uint64_t row,
                                     Cycle at, Cycle resolved, WrongRename& to) {
  const CoreInst& inst = code_.insts()[part];
  const Cycle delay = wrong_units_.delay(), end = resolved + delay;
  const Cycle never_seen = end + squash_heard + long_after;
  const Cycle renamed = rename_wrong(inst, row, at, never_seen, to);
  to.dispatched = renamed + p_.rename_to_iew();
  to.rows += renamed < end;
  // The last ones are dispatched in the cycle behind that in which the branch is resolved, and
  // could issue in the next one.
  if (to.dispatched <= end + 1 && inst.is(CoreInst::store)) sets_.squashed(inst.pc);
  // Of what issues later no load goes any more.
  Cycle left = never_seen;
  if (to.dispatched < end) left = run_part(branch, part, to.dispatched + 1 - delay, resolved);
  if (!inst.is(CoreInst::no_op) && calendar_.leaves(left, to.queue)) wrong_left_.push_back(left);
}

// The branch `inst` of a wrong path is decoded, which was fetched at `at`, and behind which the way
// goes on at `next`.  From when on fetch does: later if decode sends it there.
template <bool Why>
Cycle OutOfOrderCore<Why>::decode_wrong(const CoreInst& inst, const WrongPathCode& way,
                                        std::uint32_t next, Cycle at, int fetched, Cycle resolved,
                                        Cycle heard) {
  const auto kind = static_cast<BranchKind>(inst.branch);
  bool resteered = way.was_decoded();
  const Cycle decoded = front_end_.decoded().at();
  if (way.taken() && next != CodeMap::nowhere && BranchUnit::in_btb(kind) && decoded + 1 < resolved)
    resteered |= branches_.resteers(inst.pc, code_.insts()[next].pc, kind);
  if (!resteered) return at;
  const Cycle until = std::min(decoded + decode_tells, heard);
  run_past(inst.pc, at, fetched, until, until);
  return decoded + decode_redirect;
}

// Behind `branch` the front end goes on at `part` of a wrong path, until it learns that it is
// wrong. How many rows are renamed before that is known.
template <bool Why>
Cycle OutOfOrderCore<Why>::walk_wrong(const CoreRow& branch, WrongPathCode& way, std::uint32_t part,
                                      Cycle resolved) {
  send_stores(resolved);
  const auto before = front_end_.stages();
  WrongRename to{.stage = renames_,
                 .entry = entry_ + 1,
                 .loads = loads_,
                 .stores = store_count_,
                 .taken = {files_[CoreInst::int_file].taken, files_[CoreInst::vec_file].taken},
                 .queue = calendar_.queue()};
  Cycle at = fetch_.at();
  bool late = false;
  int fetched = fetched_;
  std::uint64_t block = block_, pc = no_line, row = row_;
  wrong_.begin();
  wrong_stores_.begin();
  wrong_left_.clear();
  stores_told_ = true;
  Cycle end = resolved, heard = end + squash_heard;  // later where rows hold units
  buffered_ = block;
  const BranchUnit::Astray astray(branches_, static_cast<BranchKind>(branch.inst->branch),
                                  branch.taken);
  while (at < heard) {
    const CoreInst& inst = code_.insts()[part];
    const bool next_block = inst.pc != pc && fetch_block(inst.pc) != block;
    Cycle now = at;
    if (next_block) {
      block = fetch_block(inst.pc);
      now = std::max(at + 1, caches_.fetch(inst.pc, at));
      buffer(inst.pc, now, heard);
    } else if (way.taken() || fetched >= p_.width()) {
      ++now;
    }
    ++row;
    now = std::max(now, front_end_.room(row).at());
    fetched = now > at || next_block ? 1 : fetched + 1;
    at = now;
    if (at >= heard) break;
    pc = inst.pc;
    // What is renamed behind the squash would come no further, nor would the rows behind it.
    late = to.stage.at.at() > end;
    if (late) {
      front_end_.arrive(row, {at, Cause::base}, to.stage.at);
    } else {
      pass_wrong(branch, part, row, at, resolved, to);
      end = resolved + wrong_units_.delay();
      heard = end + squash_heard;
    }

    if (const auto kind = static_cast<BranchKind>(inst.branch); kind == BranchKind::none) {
      part = way.straight_on(part);
    } else {
      part = way.behind(
          part, [&](const CoreInst& i) { return this->around_.target(branch, i); },
          [&](const CoreInst& i, bool) { return branches_.foresee(i.pc, at); });
      branches_.pass(inst.pc, kind, way.taken());
      at = decode_wrong(inst, way, part, at, fetched, resolved, heard);
    }
    if (part == CodeMap::nowhere) {  // code that never ran, or it is not known which
      if (!way.taken()) at += run_past(pc, at, fetched, resolved, heard);
      forget_wrong_queue();
      if (!late) {
        to.rows += rows_behind(at, to.dispatched, end);
        to.rows = std::min(to.rows, room(end, to.dispatched, entry_ + 1));
      }
      break;
    }
  }
  forget_wrong_queue();
  front_end_.back_to(before, row_, row);
  return to.rows;
}

#define ALL(Why)                                                                                \
  template Cycle OutOfOrderCore<Why>::run_past(std::uint64_t, Cycle, int, Cycle, Cycle);        \
  template Cycle OutOfOrderCore<Why>::run_wrong(const CoreRow&, Cycle, Cycle);                  \
  template Cycle OutOfOrderCore<Why>::walk_wrong(const CoreRow&, WrongPathCode&, std::uint32_t, \
                                                 Cycle);                                        \
  template Cycle OutOfOrderCore<Why>::access_part(const CoreRow&, std::uint32_t, Cycle, Cycle,  \
                                                  Cycle, int);                                  \
  template void OutOfOrderCore<Why>::found_early(const CoreInst&, std::uint64_t, Cycle, Cycle); \
  template void OutOfOrderCore<Why>::forget_wrong_queue();
ALL(false)
ALL(true)
#undef ALL

}  // namespace tracekit
