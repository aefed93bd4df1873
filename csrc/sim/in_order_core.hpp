// A simulated core that issues and retires in order, after gem5's Minor CPU (src/cpu/minor): lines
// asked for one at a time, a short pipeline, a scoreboard, units that stand still behind what waits
// to commit, two accesses on their way, a store buffer of five.  Widths, the branch delay, the
// predictor, caches and memory are parameters; the units are Minor's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/code_map.hpp"
#include "sim/core.hpp"
#include "sim/core_parameters.hpp"
#include "sim/cycle_set.hpp"
#include "sim/draining_stores.hpp"
#include "sim/in_order_clock.hpp"
#include "sim/in_order_commits.hpp"
#include "sim/in_order_lines.hpp"
#include "sim/in_order_stage.hpp"
#include "sim/in_order_units.hpp"
#include "sim/last_by_pc.hpp"
#include "sim/symbolic_values.hpp"
#include "sim/values_around.hpp"
#include "sim/wrong_path_code.hpp"

namespace tracekit {

template <bool Why>
class InOrderCore : public CoreOf<InOrderCore<Why>> {
 public:
  static constexpr bool knows_why = Why;

  // `code` outlives the core.
  InOrderCore(const CoreParameters& p, const CodeMap& code);
  void look_around(ValuesAround& values, std::span<const CoreRow* const>) final {
    values_ = &values;
  }

 private:
  using At = Stamp<Why>;
  using Times = Core::Times;
  friend CoreOf<InOrderCore<Why>>;
  Times step(const CoreRow& row);
  Cycle retired() const { return std::max(retire_.at(), stores_.drained()); }
  void begin_with(BranchUnit branches, const BranchHistory& history) {
    // What foresees nothing has learnt nothing either.
    if (!foresees_nothing()) branches_ = std::move(branches);
    history_ = history;
    unreported_ = 0;  // those were of the branches before
  }
  // Rows from `at` on, by the caches and predictors alone: when they are done.
  Cycle pass_quickly(std::span<const CoreRow> rows, Cycle at) {
    return Core::approached(caches_, foresees_nothing() ? nullptr : &branches_, rows, at);
  }
  void go_on_at(Cycle at) {  // as behind a branch that was not foreseen
    redirect_ = {at, Cause::mispredict_direction};
    lines_.forget();
  }

  static constexpr Cycle stage_delay = 1;  // from each stage of the pipeline to the next
  // The units, as MinorDefaultFUPool has them.
  enum class Lane : std::uint8_t { integer, multiply, divide, real, predicate, memory, other };
  struct Timing {
    int latency;
    int early;    // cycles before a result is there that its reader may already issue
    int assumed;  // from the unit's end until the result is there, as readers assume
  };
  static constexpr std::array<Timing, 7> timings{
      {{3, 2, 0}, {3, 0, 0}, {9, 0, 0}, {6, 2, 0}, {3, 2, 0}, {1, 1, 2}, {1, 0, 0}}};
  static Lane lane(OpClass op);

  struct Result {
    At ready{}, retired{};
    std::uint64_t row{};  // one more than the number of its writer
  };
  struct Retired {
    Cycle at{};
    std::uint64_t row{};  // one more than its number
  };
  struct Access {
    At done{};
    Cycle sent{};
  };

  At arrive(const CoreRow& row);
  At issue(const CoreRow& row, Lane where, At arrived);
  Access access(const CoreRow& row, At ready);
  At load(const CoreRow& row, At at);
  At retire(const CoreRow& row, At issued, At done, bool memory);
  Cycle answered(Cycle there);
  // X86's Minor never goes where a branch leads before that is resolved: Fetch2 asks instructions
  // whether they are branches, and only their micro-ops are (gem5's Fetch2::predictBranch,
  // src/arch/x86/isa/macroop.isa).
  bool foresees_nothing() const { return p_.taken_redirects() != 0; }
  BranchUnit::Guess foresees(const CoreRow& row);
  void control(const CoreRow& row, BranchUnit::Guess guess, Cycle retired);
  // What issues of a wrong path.
  struct WrongIssue {
    Cycle at;
    int now;           // rows in that cycle
    int loads{};       // that have been sent
    bool sends{true};  // others
    // The next row is ready at `ready`.
    void next(Cycle ready, int width) {
      const bool full = now >= width && ready <= at;
      if (ready > at || full) now = 0;
      at = std::max(ready, at + full);
      ++now;
    }
  };
  // When fetch has worked off the line of the last row, behind which `inst` is fetched: of one on
  // two lines it takes the first part together with the last row, if there is room.
  Cycle left_line(const CoreInst& inst) const {
    return fetch_.at().at() + (inst.line() == lines_.line() && fetch_.full());
  }
  // When `line` is there, which is the last one of the instruction that is fetched next.  The line
  // before it, or its only one, is there at `there`.
  Cycle last_line(std::uint64_t line, Cycle there, Cycle redirected = InOrderLines::never) {
    if (there >= redirected || line == lines_.line()) return there;
    return lines_.follow(caches_, line << line_bits, there + stage_delay, redirected);
  }
  // When the row that fetch has handed over stands before the issue logic.
  At decoded() {
    const At at = decode_.hands_over(fetch_.at() + stage_delay);
    fetch_.taken(at);
    return at + stage_delay;
  }
  void run_wrong(const CoreRow& branch, std::uint32_t part, bool jumps, Cycle retired);
  Cycle issue_wrong(const CoreRow& branch, std::uint32_t part, Cycle came, Cycle retired,
                    WrongIssue& issues);
  std::uint32_t behind(std::uint32_t part) const {
    return code_.known() ? code_.behind(part) : CodeMap::nowhere;
  }

  const CoreParameters p_;
  CacheHierarchy caches_;
  DrainingStores stores_;
  std::vector<Result> register_;
  BranchUnit branches_;
  CauseLedger<Why> ledger_;
  InOrderClock clock_;
  InOrderLines lines_;
  InOrderStage<Why, 3> fetch_;
  InOrderStage<Why, 7> decode_;
  InOrderCommits commits_;
  std::array<InOrderUnit, 8> units_;
  InOrderUnit* unit_{};  // of the row
  At issue_{}, retire_{};
  int issued_now_{};
  bool issued_all_{};    // nothing more issues in the cycle
  Cycle last_issued_{};  // the row before
  std::uint64_t pc_{no_line};
  At line_at_{}, redirect_{-1, Cause::base};
  bool taken_{};
  int unreported_{};  // branches that the predictor does not know yet
  const CodeMap& code_;
  BranchHistory history_;
  SymbolicRegisters wrong_;  // along the wrong path
  ValuesAround* values_{};
  At discarded_{};        // when its loads have their data
  LastByPc<Cycle> took_;  // loads
  // The load/store queue: accesses commit in its order.
  CycleSet answers_;
  Cycle queued_{}, barrier_{};
  Retired last_access_{}, access_before_{}, last_store_{};
};

}  // namespace tracekit
