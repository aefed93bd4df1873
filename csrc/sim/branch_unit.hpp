// A core's front end as it meets branches: direction predictor, branch target buffer, return stack,
// and when each branch commits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cycle.hpp"
#include "sim/late_predictor.hpp"
#include "sim/predictors/direction_predictor.hpp"
#include "sim/predictors/targets.hpp"
#include "sim/target_buffer.hpp"

namespace tracekit {

class BranchUnit {
 public:
  // What becomes of the fetch behind a branch.  `resteer`: a jump that the target buffer did not
  // know, or a taken branch whose target it had wrong, which decode finds out.
  enum class Guess : std::uint8_t { right, resteer, wrong };

  BranchUnit(unsigned predictor, std::size_t btb_entries, std::size_t return_entries);
  // One that has learnt what these have.
  BranchUnit(std::unique_ptr<DirectionPredictor> predictor, TargetBuffer btb,
             bp::ReturnStack returns)
      : predictor_(std::move(predictor)), btb_(std::move(btb)), returns_(std::move(returns)) {}
  // Whether its target comes from the target buffer.
  static bool in_btb(BranchKind kind) {
    return kind == BranchKind::conditional || kind == BranchKind::jump || kind == BranchKind::call;
  }
  // `indirect_right`: what IndirectTargets, the same for all cores, says of it.
  Guess fetch(const BranchEvent& branch, bool indirect_right, Cycle now);
  // Whether the branch fetched last was predicted as taken, and to a target.
  bool predicted_taken() const { return predicted_taken_; }
  // Decode has a direct branch to `target` on a wrong path: whether it sends fetch there, since the
  // target buffer led elsewhere.  It leads there from now on (gem5's BPredUnit::squash).
  bool resteers(std::uint64_t pc, std::uint64_t target, BranchKind kind) {
    TargetBuffer::Entry& entry = btb_.of(pc);
    const bool hit = entry.hit(pc);
    if (hit ? entry.right(pc, target) : kind == BranchKind::conditional) return false;
    entry.put(pc, target);
    return true;
  }
  // For as long as one lives the front end is on a wrong path, behind the branch fetched last.
  class Astray {
   public:
    // `kind`, `taken`: of that branch, as it really goes; of a row that is none the kind says so.
    Astray(BranchUnit& unit, BranchKind kind, bool taken) : predictor_(*unit.predictor_) {
      predictor_.go_wrong(kind == BranchKind::conditional && taken != unit.predicted_taken_);
    }
    Astray(const Astray&) = delete;
    Astray& operator=(const Astray&) = delete;
    ~Astray() { predictor_.go_back(); }

   private:
    DirectionPredictor& predictor_;
  };
  // Whether a conditional branch of a wrong path is taken that is fetched at `now`.
  bool foresee(std::uint64_t pc, Cycle now) {
    predictor_.learn(now);
    return btb_.of(pc).hit(pc) && predictor_->foresee(pc);
  }
  // A branch of a wrong path has been fetched, and is taken or not.
  void pass(std::uint64_t pc, BranchKind kind, bool taken) {
    if (kind != BranchKind::none) predictor_->pass(pc, kind, taken);
  }
  // The branch fetched last commits at `at`.
  void commits(Cycle at) { predictor_.commits(at); }
  // Another one that has learnt the same, and what it has fetched besides.
  BranchUnit settled() const;

 private:
  LatePredictor predictor_;
  TargetBuffer btb_;
  bp::ReturnStack returns_;
  bool predicted_taken_{};
};

// How hard a branch is, whatever the machine: which of the first predictors, each learning at once,
// get it wrong.
class BranchDifficulty {
 public:
  BranchDifficulty();
  // Bit k of it is predictor k.
  std::uint8_t wrong(const BranchEvent& branch, bool indirect_right);

 private:
  std::vector<std::unique_ptr<DirectionPredictor>> predictor_;
  bp::ReturnStack returns_{16};
};

}  // namespace tracekit
