// A core's front end as it meets branches: direction predictor, branch target buffer, and when each
// branch commits, which is when gem5 tells its predictors (BPredUnit::update in Fetch's
// checkSignalsAndUpdate).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/remainder.hpp"
#include "sim/cycle.hpp"
#include "sim/predictors/direction_predictor.hpp"
#include "sim/predictors/in_flight.hpp"
#include "sim/predictors/targets.hpp"

namespace tracekit {

class BranchUnit {
 public:
  // What becomes of the fetch behind a branch.  `resteer`: a jump that the target buffer did not
  // know, which decode finds out.
  enum class Guess : std::uint8_t { right, resteer, wrong };

  BranchUnit(unsigned predictor, std::size_t btb_entries, std::size_t return_entries);
  // One that has learnt what these have.
  BranchUnit(std::unique_ptr<DirectionPredictor> predictor, std::vector<std::uint64_t> btb,
             bp::ReturnStack returns)
      : predictor_(std::move(predictor)),
        btb_(std::move(btb)),
        btb_entry_(btb_.size()),
        returns_(std::move(returns)) {}
  // Whether its target comes from the target buffer.
  static bool in_btb(const BranchEvent& branch) {
    return branch.kind == BranchKind::conditional || branch.kind == BranchKind::jump ||
           branch.kind == BranchKind::call;
  }
  // `indirect_right`: what IndirectTargets, the same for all cores, says of it.
  Guess fetch(const BranchEvent& branch, bool indirect_right, Cycle now);
  // The branch fetched last commits at `at`.
  void commits(Cycle at) { commits_.push() = at; }
  // Another one that has learnt the same, and what it has fetched besides.
  BranchUnit settled() const;

 private:
  std::unique_ptr<DirectionPredictor> predictor_;
  std::vector<std::uint64_t> btb_;
  Remainder btb_entry_;
  bp::ReturnStack returns_;
  bp::InFlight<Cycle> commits_;
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
