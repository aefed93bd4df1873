// When each instruction reaches the queue before allocation: branch prediction that runs ahead,
// instruction cache, cache of decoded instructions, decoders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hardware/data_memory.hpp"
#include "hardware/indirect_predictor.hpp"
#include "hardware/lines.hpp"
#include "hardware/machine_parameters.hpp"
#include "hardware/op.hpp"
#include "sim/predictors/direction_predictor.hpp"
#include "sim/predictors/targets.hpp"

namespace tracekit::hardware {

class FrontEnd {
 public:
  FrontEnd(const MachineParameters& p, DataMemory& memory);

  // When an instruction of `slots` is delivered, at the earliest when the queue has room.
  Cycle deliver(const Op& op, unsigned slots, Cycle room);
  // What becomes of the fetch behind a branch that was delivered last; true: it is wrong until the
  // branch is executed.
  bool wrong(const BranchEvent& branch);
  // Nothing behind it is delivered before `at`.
  void redirect(Cycle at);

 private:
  static constexpr Cycle unit = 64;  // times here are in such parts of a cycle
  static Cycle parts(double cycles) { return static_cast<Cycle>(cycles * unit + 0.5); }
  void next_block(std::uint64_t line, bool jumped);
  void follow_taken(const BranchEvent& branch);
  bool has_several_targets(const BranchEvent& branch);
  unsigned places(const Op& op, unsigned slots);
  void from_op_cache(unsigned slots, bool entered);

  const MachineParameters p_;
  DataMemory& memory_;
  std::unique_ptr<DirectionPredictor> direction_;
  bp::ReturnStack returns_;
  IndirectPredictor indirect_;
  Lines btb_l1_, btb_l2_, op_cache_;
  const unsigned entry_ops_;
  const Cycle taken_cost_, cached_cost_, entry_cost_, later_cost_, each_cost_, decode_cost_,
      byte_cost_, next_line_cost_;
  Cycle predicted_{};  // the prediction has come so far
  Cycle delivered_{};
  Cycle line_ready_{};
  std::vector<Cycle> ahead_;  // when each of the last blocks was begun to be delivered
  std::size_t blocks_{};
  std::uint64_t line_{no_line};
  std::uint64_t last_taken_{};
  // Of indirect branches: the target at first, and whether it had another one since.
  struct Target {
    std::uint64_t pc{}, first{};
    bool several{};
  };
  std::vector<Target> target_ = std::vector<Target>(2048);
  unsigned in_entry_{}, entries_{};  // entries that began in the line since it was entered
  bool cached_{}, jumped_{true};
  bool field_{};  // the instruction before has a displacement or an immediate
};

}  // namespace tracekit::hardware
