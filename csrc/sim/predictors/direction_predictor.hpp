// A direction predictor as gem5's O3 core drives one (src/cpu/pred/bpred_unit.cc): asked when a
// branch is fetched, told its outcome when the branch commits.
#pragma once

#include <cstdint>
#include <memory>

#include "core/static_inst.hpp"

namespace tracekit {

// A branch of the path that was taken.
struct BranchEvent {
  std::uint64_t pc{}, next{};  // `next`: of the instruction that came behind it
  BranchKind kind{};
  bool taken{};
  // A compressed branch of RISC-V on gem5's O3 CPU, which takes each of them for taken (the copy
  // constructor of PCState, src/arch/riscv/pcstate.hh, v24.0, forgets that it is compressed).
  bool compressed{};

  // What a predictor is taught: one that was mispredicted and not taken counts as taken.
  bool learnt(bool predicted) const { return taken || (compressed && predicted); }
  bool conditional() const {
    return kind == BranchKind::conditional || kind == BranchKind::indirect_conditional;
  }
};

class DirectionPredictor {
 public:
  virtual ~DirectionPredictor() = default;
  // The direction predicted for a branch that is fetched, with what commit() has taught so far;
  // always true of unconditional ones.  Histories that gem5 moves on when it predicts move on by
  // what the branch really does: a wrong guess is mended before the next branch of the path.
  virtual bool fetch(const BranchEvent& branch) = 0;
  // The oldest branch fetched and not yet committed teaches its outcome.  There is one.
  virtual void commit() = 0;
  // The front end follows a wrong path behind the branch fetched last until go_back().  `other`:
  // the way that branch does not go, which the histories then have of it.
  virtual void go_wrong([[maybe_unused]] bool other) {}
  // The direction predicted for a conditional branch of that way.
  virtual bool foresee(std::uint64_t pc) = 0;
  // The front end has come by a branch of that way, and takes it or not: histories move on.
  virtual void pass([[maybe_unused]] std::uint64_t pc, [[maybe_unused]] BranchKind kind,
                    [[maybe_unused]] bool taken) {}
  virtual void go_back() {}
  // Another one that has learnt the same.
  virtual std::unique_ptr<DirectionPredictor> clone() const = 0;
};

}  // namespace tracekit
