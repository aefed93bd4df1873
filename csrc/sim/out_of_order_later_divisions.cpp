// Multiplications and divisions that wait for a unit which a younger division holds.
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

// When divisions end that have begun; how many of them run in the cycle `asked` is kept.
class Running {
 public:
  explicit Running(Cycle asked) : asked_(asked) {}
  void add(Cycle end) {
    if (count_ == ends_.size()) return;
    ends_[count_++] = end;
    then_ += end > asked_;
  }
  int then() const { return then_; }
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
  Cycle asked_;
  int then_{};
};

}  // namespace

// Rows behind one that multiplies or divides, whose operands are there at `wanted`: they are
// dispatched as soon as there is room, and divide when their operands and a unit are there.
template <bool Why>
class LaterDivisions {
 public:
  LaterDivisions(OutOfOrderCore<Why>& core, const CoreRow& row, Cycle dispatched, Cycle wanted)
      : core_(core),
        p_(core.p_),
        row_(row),
        dispatched_(dispatched),
        wanted_(wanted),
        counted_(core.operation(row.inst->op).counted),
        units_(core.calendar_.units(counted_)),
        running_(wanted) {}

  // When a unit is free for the row: of one that an older division leaves it has the first turn.
  Cycle free_from() {
    if (const CoreRow* const last = last_division()) walk(last);
    Cycle at = wanted_;
    const auto held = [&] { return running_.at(at); };
    while (held() > 0 && core_.calendar_.left(at, counted_) <= held()) ++at;
    return at;
  }

 private:
  // How far fetch and dispatch have come.
  struct Dispatch {
    Cycle fetched;  // the last row, and how many rows in its cycle, of which block
    int fetched_now;
    std::uint64_t block;
    Cycle there;                 // of the last row
    Cycle by_width;              // by the width alone
    int in_cycle;                // rows of that one
    Cycle behind{};              // rows since the one that waits
    std::uint64_t loads;         // until now
    int waiting{1};              // of these rows in the issue queue, with that one
    IssueCalendar::Queue queue;  // of those before
  };

  // When the row that is so far `behind` has an entry in the reorder buffer.
  Cycle entry_freed(Cycle behind) const {
    return core_.entry_freed(core_.entry_ + static_cast<std::uint64_t>(behind));
  }
  // The last division that may begin before, as far as room in the reorder buffer goes.
  const CoreRow* last_division() const {
    // Rows that the width alone lets in before.
    const Cycle in_time = std::min(far_ - 1, (wanted_ - dispatched_ - 1) * p_.width());
    const CoreRow* last = nullptr;
    for (const CoreRow* const at : core_.around_.divisions_behind(row_)) {
      const Cycle behind = at - &row_;
      if (behind > in_time || entry_freed(behind) >= wanted_) break;
      last = at;
    }
    if (!last) return last;
    const Cycle began = std::max(dispatched_, wanted_ - core_.latency(OpClass::IntDiv)) + 1;
    const bool none_free = core_.calendar_.gap(began, counted_, 1, wanted_).cycles == 0;
    return none_free ? nullptr : last;
  }
  // A row that would be dispatched waits for room in the issue queue; whether it has some before
  // `until`.
  bool wait_for_queue(Dispatch& d, Cycle until) const {
    const int most = p_.iq() - d.waiting;
    if (d.queue.waiting < most) return true;
    const Cycle room = core_.calendar_.fewer_wait(most, d.there, until, d.queue);
    if (d.queue.waiting >= most) return false;
    if (room > d.there) d.there = room + queue_refills;
    return d.there < until;
  }
  // The next row is fetched; `taken`: behind a branch that leads there.
  void fetch(Dispatch& d, const CoreInst& inst, bool taken) const {
    const std::uint64_t block = core_.fetch_block(inst.pc);
    const bool next_block = block != d.block;
    if (next_block || taken || d.fetched_now >= p_.width()) {
      d.fetched += next_block ? std::max(1, p_.l1i_lat()) : 1;
      d.fetched_now = 0;
      d.block = block;
    }
    ++d.fetched_now;
  }
  // It is dispatched, too, if that is before `until`.
  bool dispatch(Dispatch& d, const CoreInst& inst, bool taken, Cycle until) const {
    if (++d.behind >= far_) return false;
    fetch(d, inst, taken);
    if (++d.in_cycle > p_.width()) {
      ++d.by_width;
      d.in_cycle = 1;
    }
    d.there = std::max({d.there, d.by_width, d.fetched + to_dispatch_, entry_freed(d.behind)});
    if (inst.is(CoreInst::load)) d.there = std::max(d.there, core_.load_freed(d.loads++));
    return d.there < until && wait_for_queue(d, until);
  }
  // When its operands are there.
  Cycle ready(const Dispatch& d, const CoreInst& inst) const {
    Cycle at = d.there;
    const auto read = [&](std::uint16_t r) {
      at = std::max(at, core_.later_.at(r, core_.register_[r].at()));
    };
    constexpr std::size_t common = 2;  // where one reads less nothing writes the rest
    for (std::size_t k = 0; k < common; ++k) read(inst.src[k]);
    for (std::size_t k = common; k < inst.reads; ++k) read(inst.src[k]);
    return at;
  }
  // When a unit is free beside those of the divisions that run, from `at` on; at most `until`.
  Cycle unit_free(Cycle at, Cycle until) const {
    while (at < until) {
      const int held = running_.at(at);
      const Cycle same = held > 0 ? std::min(until, running_.first_end(at)) : until;
      if (held < units_) {
        at = core_.calendar_.more_left(at, same, counted_, held);
        if (at < same) break;
      }
      at = same;
    }
    return at;
  }
  // It issues, if that is before `until`; a load leaves the queue only when it has its data.  `row`
  // is none on a wrong path, of whose loads nobody knows where they go.
  template <bool Wrong>
  [[gnu::always_inline]] void issue(Dispatch& d, const CoreInst& inst, Cycle until,
                                    const CoreRow* row) {
    Cycle at = ready(d, inst);
    if (at < until && divides(inst.op)) {
      at = unit_free(at, until);
      if (at < until) running_.add(at + core_.latency(inst.op));
    }
    Cycle done = never;
    if (at < until) done = at + core_.executes(inst.op);
    if (inst.is(CoreInst::load)) {
      const bool far = at < until && !Wrong && !core_.caches_.in_l1d(row->addr);
      done = at >= until || far ? never : done + p_.l1d_lat();
      d.waiting += at < until && done >= until;
    }
    core_.later_.template put<Wrong>(inst, done);
    d.waiting += at >= until;
  }
  // Whether the branch goes another way than such a one was predicted of late
  // (WrongPathCode::behind).
  bool mispredicted(const CoreRow& branch) {
    if (p_.ideal_branches()) return false;
    const CoreInst& inst = *branch.inst;
    if (static_cast<BranchKind>(inst.branch) != BranchKind::conditional)
      return core_.mispredicted_[inst.pc];
    const auto* const before = core_.history_.find(core_.code_.number(inst));
    return (before && before->taken(conditionals_++)) != branch.taken;
  }
  bool all_held() const { return running_.then() >= units_; }

  void walk(const CoreRow* last) {
    core_.later_.begin();
    core_.later_.template put<false>(*row_.inst, never);
    Dispatch d{.fetched = core_.fetch_.at(),
               .fetched_now = core_.fetched_,
               .block = core_.block_,
               .there = dispatched_,
               .by_width = dispatched_,
               .in_cycle = p_.width(),
               .loads = core_.loads_,
               .queue = core_.calendar_.queue()};
    for (const CoreRow* at = &row_ + 1; at <= last && !all_held(); ++at) {
      const CoreInst& inst = *at->inst;
      if (!dispatch(d, inst, (at - 1)->taken, wanted_)) return;
      if (at->is_branch() && mispredicted(*at)) {
        const Cycle resolves = ready(d, inst);
        const bool before = resolves < wanted_;
        go_wrong(d, *at, before ? std::min(wanted_, resolves + p_.issue_to_exec() + 1) : wanted_);
        if (!before) return;
        d.fetched = resolves + p_.issue_to_exec() + redirect_delay;
        d.there = std::max(d.there, d.fetched + to_dispatch_);
        if (d.there >= wanted_) return;
      }
      issue<false>(d, inst, wanted_, at);
    }
  }
  // The way behind the branch, which is predicted wrongly, until it is squashed.
  void go_wrong(Dispatch d, const CoreRow& branch, Cycle squashed) {
    WrongPathCode way(core_.code_, core_.history_);
    std::uint32_t part = way.begin(core_.code_.number(*branch.inst), branch.taken);
    while (part != CodeMap::nowhere && !all_held()) {
      const CoreInst& inst = core_.code_.insts()[part];
      if (!dispatch(d, inst, way.taken(), squashed)) break;
      issue<true>(d, inst, squashed, nullptr);
      part = way.behind(part, [&](const CoreInst& i) { return core_.around_.target(branch, i); });
    }
    core_.later_.end_wrong_path();
  }

  static constexpr Cycle never = OutOfOrderCore<Why>::never;
  OutOfOrderCore<Why>& core_;
  const CoreParameters& p_;
  const CoreRow& row_;
  Cycle dispatched_, wanted_;
  std::uint64_t counted_;
  int units_;
  Cycle to_dispatch_{p_.front_delay() + p_.decode_to_rename() + p_.rename_to_iew()};
  Cycle far_{std::min<Cycle>(p_.rob(), RowsAround::most)};  // rows that are looked at
  Running running_;
  unsigned conditionals_{};  // that the walk has come to
};

// The operands of the row, which multiplies or divides, are there at `issued`.  Younger divisions
// whose operands were there before hold their units until they are done, whatever older rows wait
// then (gem5's InstructionQueue::scheduleReadyInsts, FUPool::getUnit).  Rows come in the program's
// order, so that it is looked for those that will.
template <bool Why>
typename OutOfOrderCore<Why>::At OutOfOrderCore<Why>::behind_divisions(const CoreRow& row,
                                                                       Cycle dispatched,
                                                                       At issued) {
  LaterDivisions<Why> later(*this, row, dispatched, issued.at());
  const Cycle at = later.free_from();
  return at > issued.at() ? At{at, Cause::unit_busy} : issued;
}

template OutOfOrderCore<false>::At OutOfOrderCore<false>::behind_divisions(const CoreRow&, Cycle,
                                                                           At);
template OutOfOrderCore<true>::At OutOfOrderCore<true>::behind_divisions(const CoreRow&, Cycle, At);

}  // namespace tracekit
