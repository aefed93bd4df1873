// A simulated core that issues and retires in order, after gem5's Minor CPU (src/cpu/minor): a
// short pipeline of fetch, decode and execute, a scoreboard, units that forward early, two accesses
// on their way, a store buffer of five.  Widths, the branch delay, the predictor, caches and memory
// are parameters; the units are Minor's.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/draining_stores.hpp"
#include "sim/out_of_order_core.hpp"

namespace tracekit {

template <bool Why>
class InOrderCore : public CoreOf<InOrderCore<Why>> {
 public:
  static constexpr bool knows_why = Why, runs_on = false;

  InOrderCore(const CoreParameters& p, std::size_t registers);

 private:
  using At = Stamp<Why>;
  using Times = Core::Times;
  friend CoreOf<InOrderCore<Why>>;
  Times step(const CoreRow& row);
  Cycle retired() const { return std::max(retire_.at.at(), stores_.drained()); }
  void go_on_at(Cycle at) {  // as behind a branch that was not foreseen
    redirect_ = {at, Cause::base};
    line_ = no_line;
  }
  // Instructions that a unit holds until they retire, and how often it takes one.
  enum class Lane : std::uint8_t { integer, multiply, divide, real, memory, other, count };
  struct Pipe {
    int depth, latency, each_cycle;
    int early;  // cycles before a result is there that its reader may already issue
  };
  static Lane lane(OpClass op);
  static constexpr std::array<Pipe, 6> pipes{{
      {6, 3, 2, 2},  // two integer units
      {3, 3, 1, 0},
      {1, 9, 1, 0},
      {6, 6, 1, 2},  // floating point and vectors
      {3, 1, 1, 1},  // the memory unit, and the queue behind it
      {2, 1, 1, 0},
  }};

  // Up to n a cycle, in order.
  struct Limit {
    int n;
    Cause why;  // of one that finds no room
    At at{};
    int now{};
    At take(At ready) {
      if (ready.after(at)) {
        at = ready;
        now = 0;
      } else if (now >= n) {
        at = (at + 1).because(why);
        now = 0;
      }
      ++now;
      return at;
    }
  };
  struct Result {
    At ready{}, retired{};
  };

  At arrive(const CoreRow& row);
  At issue(const CoreRow& row, Lane where, At arrived);
  At access(const CoreRow& row, At issued);
  At retire(At issued, At done);
  void control(const CoreRow& row, BranchUnit::Guess guess, Cycle retired);

  static constexpr std::size_t ring = 64;
  const CoreParameters p_;
  CacheHierarchy caches_;
  DrainingStores stores_;
  std::vector<Result> register_;
  BranchUnit branches_;
  CauseLedger<Why> ledger_;
  Cycle last_issued_{};  // the part before
  Limit fetch_, decode_, issue_, memory_, retire_;
  std::array<Limit, 6> lanes_;
  std::array<std::array<Cycle, ring>, 6> lane_retired_{};
  std::array<std::uint64_t, 6> lane_count_{};
  std::array<At, ring> issued_{}, decoded_{};
  std::uint64_t uop_{};
  std::uint64_t line_{no_line};
  At line_at_{}, redirect_{-1, Cause::base};
  Cycle store_retired_{}, request_{}, barrier_{};
  bool taken_{};
};

}  // namespace tracekit
