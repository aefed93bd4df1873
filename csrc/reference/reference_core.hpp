// A reference core walks a trace in order and says when each row would retire on one abstract
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
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/op_class.hpp"
#include "reference/branch_unit.hpp"
#include "reference/cache_model.hpp"
#include "reference/core_parameters.hpp"
#include "reference/cycle.hpp"
#include "reference/issue_calendar.hpp"
#include "reference/store_sets.hpp"

namespace tracekit {

// What a core has to know about a static instruction.
struct CoreInst {
  enum : std::uint16_t {
    load = 1,
    store = 2,  // or atomic, or store-conditional
    serialize_before = 4,
    serialize_after = 8,
    in_order = 16,  // executes at the head of the reorder buffer
    barrier = 32,
    atomic = 64,
    data_prefetch = 128,
    no_op = 256,
    zero_line = 512,
    writes_int = 1024,
    writes_vec = 2048,
  };
  static constexpr std::uint16_t no_register = 0xffff;
  static constexpr std::size_t sources = 8, destinations = 6;
  std::uint64_t pc{};
  std::uint16_t flags{};
  OpClass op{};
  std::uint8_t branch{};  // BranchKind
  std::uint8_t offset{};  // of the access from the row's address
  std::uint16_t size{};
  std::uint16_t src[sources], dst[destinations];

  bool is(unsigned mask) const { return (flags & mask) != 0; }
  // Of its access, as the store buffer counts them: one where the size is not known, a line at
  // most.
  unsigned bytes() const { return std::clamp<unsigned>(size, 1, 64); }
};

// The numbers that run_timed gives for a row, in cycles.
namespace core_timing {
enum : std::size_t {
  cycles,   // by which it moves the time of the last retirement
  margin,   // from the last retirement to when it could retire; below 0: it waited for its turn
  gap,      // from the dispatch of the row before to its own
  wait,     // from its dispatch to its issue
  latency,  // from its issue to its result
  count
};
inline constexpr Cycle most_margin = 4096;
}  // namespace core_timing

// One row, with what is the same for all cores.
struct CoreRow {
  const CoreInst* inst;
  std::uint64_t addr, next;  // next: the pc of the instruction behind
  bool taken, indirect_right, fault;
  bool first, last;  // of the instruction's parts

  bool is_branch() const { return static_cast<BranchKind>(inst->branch) != BranchKind::none; }
  BranchEvent event() const {
    return {inst->pc, next, static_cast<BranchKind>(inst->branch), taken};
  }
};

// A core of either kind.
class Core {
 public:
  virtual ~Core() = default;
  // The cycles by which each instruction moves the time of the last retirement, at its last part;
  // then `out` moves on by `stride`.
  virtual void run(std::span<const CoreRow> rows, float* out, std::size_t stride) = 0;
  // What made them, too, of the last part: core_timing::count numbers.
  virtual void run_timed(std::span<const CoreRow> rows, float* out, std::size_t stride) = 0;

 protected:
  // Where a row's cycles come from; the next row's gap counts from `next_gap`.
  struct Times {
    Cycle dispatched, issued, done, retired_before, retired, next_gap;
  };
  static void put_times(float* out, Cycle cycles, const Times& t, Cycle gap_from);
};

// A core whose `Times step(const CoreRow&)` is known when the loop over the rows is compiled.
template <class Kind>
class CoreOf : public Core {
 public:
  void run(std::span<const CoreRow> rows, float* out, std::size_t stride) final {
    walk(rows, out, stride,
         [](float* to, Cycle cycles, const Times&, Cycle) { *to = static_cast<float>(cycles); });
  }
  void run_timed(std::span<const CoreRow> rows, float* out, std::size_t stride) final {
    walk(rows, out, stride, put_times);
  }

 private:
  template <class Put>
  void walk(std::span<const CoreRow> rows, float* out, std::size_t stride, Put put) {
    for (const CoreRow& row : rows) {
      const Times t = static_cast<Kind*>(this)->step(row);
      if (!row.last) continue;
      put(out, t.retired - reported_, t, gap_from_);
      out += stride;
      reported_ = t.retired;
      gap_from_ = t.next_gap;
    }
  }
  Cycle reported_{}, gap_from_{};
};

// The unit that an operation class runs on, and whether the unit takes another one next cycle.
struct OpUse {
  Unit unit{Unit::any};
  bool pipelined{true};
};
OpUse op_use(OpClass op);

class ReferenceCore : public CoreOf<ReferenceCore> {
 public:
  static constexpr std::size_t most_registers = 4096;

  ReferenceCore(const CoreParameters& p, std::size_t registers);

 private:
  friend CoreOf;
  Times step(const CoreRow& row);
  Cycle fetch(const CoreRow& row);
  Cycle arrive(Cycle fetched);
  void block(Cycle at);
  Cycle dispatch(const CoreRow& row, Cycle fetched);
  Cycle ready(const CoreRow& row, Cycle dispatched);
  Cycle issue(const CoreRow& row, Cycle& dispatched);
  Cycle complete(const CoreRow& row, Cycle issued, Cycle dispatched);
  void retire(const CoreRow& row, Cycle dispatched, Cycle issued, Cycle done);
  void drain_store(const CoreRow& row, Cycle issued, Cycle done);
  void control(const CoreRow& row, BranchUnit::Guess guess, Cycle dispatched, Cycle done);
  void run_on(std::uint64_t pc, Cycle told);
  int room(Cycle at) const;
  void squash(Cycle fetched, Cycle dispatched, Cycle at);
  void redispatch(Cycle& dispatched, Cycle at);
  int latency(OpClass op) const { return latency_[static_cast<std::size_t>(op)]; }

  const CoreParameters p_;
  CacheHierarchy caches_;
  IssueCalendar calendar_;
  StoreSets sets_;
  StoreBuffer stores_;
  std::vector<int> latency_;
  std::vector<Cycle> register_;  // when a reader may issue
  BranchUnit branches_;

  // Rings of the last 1024 (256) rows of each kind.
  static constexpr std::size_t ring = 1024, short_ring = 256;
  std::vector<Cycle> retired_, sent_, load_retired_, store_drained_, int_retired_, vec_retired_;
  std::uint64_t row_{}, loads_{}, store_count_{}, ints_{}, vecs_{};

  int decode_to_rename_;  // cycles
  Cycle store_executes_;  // from its issue, as a load does
  Cycle fetch_{}, redirect_{-1};
  int fetched_{};                         // rows in this cycle
  Cycle fetch_rows_{}, fetch_cycles_{1};  // of late, but for its stalls
  std::uint64_t block_{no_line};
  bool taken_{};  // the last row was a taken branch
  // A stage's last cycle with rows, and how many.
  struct Stage {
    Cycle at{};
    int rows{};
    Cycle next(Cycle from, int width) const {
      return from > at ? from : at + (rows >= width ? 1 : 0);
    }
    Cycle take(Cycle from, int width) {
      from = next(from, width);
      rows = from > at ? 1 : rows + 1;
      return at = from;
    }
  };
  static constexpr Cycle never = std::numeric_limits<Cycle>::max();
  Stage sends_, decodes_, renames_;                     // sends: from the fetch queue
  Cycle rename_blocked_{never}, fetch_blocked_{never};  // the last cycle with rows for it
  Cycle rename_held_{};                                 // it does not rename before
  Cycle dispatch_{}, serial_{}, memory_barrier_{};
  Cycle retire_{};
  int retired_now_{};
  Cycle store_port_{}, drained_{};
  int stores_now_{};
  int set_{StoreSets::no_set};
  std::uint64_t squashed_from_{}, squashed_to_{};  // rows, by the last misprediction or violation
  const StoreBuffer::Store* forward_{};
};

}  // namespace tracekit
