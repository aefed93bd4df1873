// A simulated core walks a trace in order and says when each row would retire on one abstract
// out-of-order machine: front end in fetch blocks, branch and memory-order mispredictions, reorder
// buffer, queues, physical registers, functional units, caches, prefetchers, memory.  No event
// queue: each row's cycles follow from the rows before it, so that a row costs tens of nanoseconds.
// The structure is that of gem5's O3 core (src/cpu/o3); what was simplified stands where it is
// done.
//
// The increments of many such cores are a representation of a program that does not depend on the
// machine one wants to know about: they add up, row by row, to times, and machines are mixtures of
// them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/op_class.hpp"
#include "sim/branch_unit.hpp"
#include "sim/cache_model.hpp"
#include "sim/cause.hpp"
#include "sim/cause_ledger.hpp"
#include "sim/code_map.hpp"
#include "sim/core.hpp"
#include "sim/core_inst.hpp"
#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"
#include "sim/cycle_set.hpp"
#include "sim/front_end.hpp"
#include "sim/issue_calendar.hpp"
#include "sim/last_by_pc.hpp"
#include "sim/later_values.hpp"
#include "sim/op_use.hpp"
#include "sim/out_of_order_delays.hpp"
#include "sim/renamed_rows.hpp"
#include "sim/ring.hpp"
#include "sim/rows_around.hpp"
#include "sim/stalled_loads.hpp"
#include "sim/store_buffer.hpp"
#include "sim/store_sets.hpp"
#include "sim/symbolic_values.hpp"
#include "sim/values_around.hpp"
#include "sim/wrong_path.hpp"
#include "sim/wrong_path_code.hpp"
#include "sim/wrong_path_stores.hpp"
#include "sim/wrong_path_units.hpp"

namespace tracekit {

// Of a row's way through the core, which is one function of the loop over the rows.  What is rare
// on it is marked, so that it lies apart: that is a thirtieth of the time.
#define TRACEKIT_INLINE [[gnu::always_inline]] inline

template <bool Why>
class CoreOutline;
template <bool Why>
class LaterDivisions;

template <bool Why>
class OutOfOrderCore : public CoreOf<OutOfOrderCore<Why>> {
 public:
  static constexpr bool knows_why = Why;

  // `code` outlives the core.
  OutOfOrderCore(const CoreParameters& p, const CodeMap& code);
  void look_around(ValuesAround& values, std::span<const CoreRow* const> divisions) final {
    values_ = &values;
    this->around_.know(divisions);
  }
  void go_on_behind(std::uint64_t stores) final { sets_.go_on_behind(stores); }

 private:
  using At = Stamp<Why>;
  using Times = Core::Times;
  friend CoreOf<OutOfOrderCore<Why>>;
  friend class CoreOutline<Why>;
  friend class LaterDivisions<Why>;
  TRACEKIT_INLINE Times step(const CoreRow& row) {
    return row.inst->is(CoreInst::computes) ? step_as<true>(row) : step_as<false>(row);
  }
  // `Computes`: a row that does nothing else is not asked for it.
  template <bool Computes>
  TRACEKIT_INLINE Times step_as(const CoreRow& row);
  template <bool Computes>
  static bool is(const CoreInst& inst, unsigned mask) {
    return !Computes && inst.is(mask);
  }
  Cycle retired() { return std::max(retire_.at(), all_drained()); }
  void begin_with(BranchUnit branches, const BranchHistory& history) {
    branches_ = std::move(branches);
    history_ = history;
  }
  Cycle pass_quickly(std::span<const CoreRow> rows, Cycle at);
  void go_on_at(Cycle at) {  // as behind a branch that was not foreseen
    redirect_ = {at, Cause::mispredict_direction};
    block_ = no_line;
  }
  template <bool Computes>
  TRACEKIT_INLINE At fetch(const CoreRow& row);
  // When the line of the fetch at `at` is there.
  TRACEKIT_INLINE At fetched_line(std::uint64_t pc, At at) {
    const Cycle there = caches_.fetch(pc, at.at());
    ledger_.fetched_from(caches_.served());
    return {there, fetch_cause(caches_.served())};
  }
  TRACEKIT_INLINE void enter(At at);
  bool next_block(std::uint64_t pc);
  bool redirected(std::uint64_t pc);
  void fetch_next_line(const CoreRow& row);
  template <bool Computes>
  TRACEKIT_INLINE At dispatch(const CoreRow& row, At fetched);
  TRACEKIT_INLINE At room_to_rename(Cycle counted);
  void wait_for_entries(At& room);
  Cycle load_entry_seen(Cycle at, Cycle free) const;
  template <bool Computes>
  TRACEKIT_INLINE At ready(const CoreRow& row, At dispatched);
  TRACEKIT_INLINE At book(At ready, OpClass op);
  template <bool Computes>
  TRACEKIT_INLINE At issue(const CoreRow& row, At& dispatched);
  void go_ahead(const CoreRow& row, Cycle dispatched, Cycle issued);
  At behind_divisions(const CoreRow& row, Cycle dispatched, At issued);
  TRACEKIT_INLINE At behind_part(const CoreRow& row, const StoreBuffer::Store* last, At issued);
  template <bool Computes>
  TRACEKIT_INLINE At complete(const CoreRow& row, At issued, At dispatched);
  template <bool Computes>
  TRACEKIT_INLINE void put_results(const CoreInst& inst, At issued, At done);
  // The last retirement is at `at`, as the `now`-th of its cycle.
  TRACEKIT_INLINE void retires(At at, int now) {
    ledger_.charge(at.cause(), at.at() - retire_.at());
    retire_ = at;
    retired_now_ = now;
    retired_[entry_] = at.at();
  }
  template <bool Computes>
  TRACEKIT_INLINE void retire(const CoreRow& row, At dispatched, At issued, At done);
  TRACEKIT_INLINE Cycle load_answered(Cycle there);
  Cause queued_store() const;
  void queue_store(const CoreRow& row, Cycle issued, Cycle done);
  bool send_store(Cycle before);
  // Stores that go to the cache before `before` do; at most `most` of them.
  void send_stores(Cycle before, std::uint64_t most = ~std::uint64_t{0}) {
    if (before <= no_store_before_) [[likely]]
      return;
    for (; most > 0 && stores_sent_ < store_count_ && send_store(before); --most) {
    }
  }
  // When no store is on its way any more, of those that have retired.
  Cycle all_drained() {
    send_stores(never);
    return drained_;
  }
  // The store whose place in the queue the next one takes has been sent.
  void make_room_for_store() {
    const auto size = static_cast<std::uint64_t>(p_.sq());
    while (stores_sent_ + size <= store_count_) [[unlikely]]
      send_stores(never, 1);
  }
  TRACEKIT_INLINE void control(const CoreRow& row, BranchUnit::Guess guess, At dispatched, At done);
  void trap(Cycle dispatched);
  Cycle run_past(std::uint64_t pc, Cycle from, int fetched, Cycle resolved, Cycle heard);
  // The fetch buffer waits for the block at `pc`, and has it at `there`, unless it is squashed
  // before, at `heard`.
  void buffer(std::uint64_t pc, Cycle there, Cycle heard) {
    buffered_ = there <= heard ? fetch_block(pc) : no_line;
  }
  // Where a branch goes, and how it was predicted, for the next time.
  void remember(const CoreRow& row) {
    const bool predicted = p_.ideal_branches() ? row.taken : branches_.predicted_taken();
    history_.remember(code_, code_.number(*row.inst), row.taken, row.target, predicted);
  }
  // What rename has given away of a wrong path.
  struct WrongRename {
    typename FrontEnd<Why>::Stage stage;
    std::uint64_t entry, loads, stores;
    std::array<std::uint64_t, CoreInst::files> taken;  // registers
    IssueCalendar::Queue queue;
    Cycle dispatched{}, rows{};  // the last row; all before the branch is resolved
  };
  Cycle run_wrong(const CoreRow& row, Cycle dispatched, Cycle resolved);
  TRACEKIT_INLINE Cycle run_part(const CoreRow& branch, std::uint32_t part, Cycle at,
                                 Cycle resolved);
  TRACEKIT_INLINE void pass_wrong(const CoreRow& branch, std::uint32_t part, std::uint64_t row,
                                  Cycle at, Cycle resolved, WrongRename& to);
  TRACEKIT_INLINE Cycle decode_wrong(const CoreInst& inst, const WrongPathCode& way,
                                     std::uint32_t next, Cycle at, int fetched, Cycle resolved,
                                     Cycle heard);
  Cycle walk_wrong(const CoreRow& branch, WrongPathCode& way, std::uint32_t part, Cycle resolved);
  TRACEKIT_INLINE Cycle rename_wrong(const CoreInst& inst, std::uint64_t row, Cycle at, Cycle never,
                                     WrongRename& to);
  Cycle access_part(const CoreRow& branch, std::uint32_t part, Cycle issued, Cycle executes,
                    Cycle resolved, int set);
  void found_early(const CoreInst& load, std::uint64_t address, Cycle issued, Cycle resolved);
  void forget_wrong_queue();
  Cycle room(Cycle at, Cycle dispatched, std::uint64_t next);
  Cycle rows_behind(Cycle fetched, Cycle dispatched, Cycle at);
  void squash(Cycle dispatched, At squashed, std::uint64_t first, Cycle rows);
  void redispatch(At& dispatched, At at);
  // That may be in the reorder buffer with the walked one.
  std::uint64_t oldest_row() const {
    return row_ - std::min<std::uint64_t>(row_, static_cast<unsigned>(p_.rob()));
  }
  std::uint64_t fetch_block(std::uint64_t pc) const {
    return fetch_shift_ >= 0 ? pc >> fetch_shift_ : pc / static_cast<unsigned>(p_.fetch_buffer());
  }
  // What an operation counts up, for how many cycles its unit is held, how long it takes, and from
  // its issue on.
  struct Operation {
    std::uint64_t counted{};
    std::int16_t held{}, latency{};
    std::int32_t executes{};
  };
  Operation operation(OpUse use, int latency) const {
    const bool alone = use.pipelined || use.unit == Unit::any;
    return {IssueCalendar::counts(use.unit), static_cast<std::int16_t>(alone ? 1 : latency),
            static_cast<std::int16_t>(latency), p_.issue_to_exec() - 1 + latency};
  }
  const Operation& operation(OpClass op) const { return operations_[static_cast<std::size_t>(op)]; }
  int latency(OpClass op) const { return operation(op).latency; }
  Cycle executes(OpClass op) const { return operation(op).executes; }

  const CoreParameters p_;
  CacheHierarchy caches_;
  IssueCalendar calendar_;
  StoreSets sets_;
  StoreBuffer stores_;
  StalledLoads stalled_;
  static int shift_of(unsigned bytes) {
    return std::has_single_bit(bytes) ? std::countr_zero(bytes) : -1;
  }
  std::array<Operation, op_count> operations_;
  LaterValues later_;
  LastByPc<bool> mispredicted_;  // branches
  std::vector<Cause> op_cause_;
  std::array<At, CoreInst::all_registers> register_{};  // when a reader may issue
  std::vector<Cycle> chain_;  // by register: cycles that its cause is ahead on the chain to it
  At operands_{};             // when the row's own are there
  Cycle operands_chain_{};
  const CodeMap& code_;
  BranchHistory history_;
  SymbolicRegisters wrong_;        // along the wrong path
  std::vector<Cycle> wrong_left_;  // when its rows leave the issue queue
  WrongPathStores wrong_stores_;
  WrongPathUnits wrong_units_;
  ValuesAround* values_{};
  BranchUnit branches_;
  CauseLedger<Why> ledger_;
  Cycle last_issued_{};  // the row before

  // When what took an entry, or a register, was done with it: of as many as there are, the one
  // before, and the next one, which has no meaning yet.
  using Freed = Ring<Cycle>;
  // When the `n`-th to take one of `size` entries has it, `delay` behind the one that had it.
  static Cycle freed(const Freed& when, std::uint64_t n, int size, Cycle delay) {
    return when[n - static_cast<std::uint64_t>(size)] + delay;
  }
  // The same of rows behind the walked one, until they are dispatched.
  Cycle entry_freed(std::uint64_t entry) const {
    return freed(retired_, entry, p_.rob(), freed_delay) + p_.rename_to_iew();
  }
  Cycle load_freed(std::uint64_t load) const {
    return freed(load_retired_, load, p_.lq(), committed_delay) + p_.rename_to_iew();
  }
  // Rename counts rows on their way to dispatch twice once commit has counted them, too (gem5's
  // Rename::calcFreeROBEntries).  When it sees the next entry of the reorder buffer free, from `at`
  // on; and when it does whatever it counts.
  Cycle entry_counted(Cycle at) const;
  Cycle entry_counted() const { return retired_[entry_ + counted_] + freed_delay; }
  static Freed freed_ring(int size) { return Freed(static_cast<std::size_t>(size) + 2, long_ago); }
  Freed retired_, load_retired_, store_drained_;
  // Registers of a kind: when those that wrote them had retired, how many were taken until now,
  // and how many rename has.
  struct RegisterFile {
    Freed retired;
    std::uint64_t taken;
    int size;
  };
  std::array<RegisterFile, CoreInst::files> files_;
  Ring<Cause> store_held_;  // what store_drained_ waits for
  struct QueuedStore {
    const CoreInst* inst;
    std::uint64_t address;
    Cycle retired;
    std::uint32_t number;  // in stores_
  };
  Ring<QueuedStore> queued_;
  std::uint64_t row_{}, loads_{}, store_count_{}, stores_sent_{};
  Cycle no_store_before_{};  // goes to the cache: the first one that waits cannot
  std::uint64_t entry_{};    // of the reorder buffer: squashed rows have some, too

  int fetch_shift_;        // of the fetch buffer's bytes; -1: no power of two
  int counted_twice_;      // rows, at most
  std::uint64_t counted_;  // from an entry to the one that is counted free with it, so many later
  Cycle store_executes_;   // from its issue, as a load does
  At fetch_{}, redirect_{-1, Cause::base};
  int fetched_{};  // rows in this cycle
  FetchSpeed fetch_speed_;
  QueueShares shares_;
  std::uint64_t block_{no_line}, pc_{};  // pc_: of the row before
  std::uint64_t buffered_{no_line};      // the block in the fetch buffer behind a squash
  bool taken_{};                         // the last row was a taken branch
  static constexpr Cycle never = std::numeric_limits<Cycle>::max();
  FrontEnd<Why> front_end_;
  typename FrontEnd<Why>::Stage renames_;
  RenamedRows renamed_;
  Cycle last_load_{};  // when it was renamed
  At rename_held_{};   // it does not rename before
  At dispatch_{}, serial_{}, memory_barrier_{}, retire_{};
  int retired_now_{}, stores_now_{};
  Cycle store_port_{}, drained_{};
  Cycle stores_since_{};                   // they go without a gap
  CycleSet load_answers_, store_answers_;  // cycles in which the data cache answered one
  Cause store_port_held_{Cause::store_drain}, drained_held_{Cause::store_drain};
  int set_{StoreSets::no_set};
  bool stores_told_{};              // to their sets, by those of the wrong path
  StoreSets::Squashed squashed_{};  // by the last misprediction or violation
  bool forwarded_{};
};

#undef TRACEKIT_INLINE

extern template class CoreOf<OutOfOrderCore<false>>;
extern template class CoreOf<OutOfOrderCore<true>>;
extern template class OutOfOrderCore<false>;
extern template class OutOfOrderCore<true>;

}  // namespace tracekit
