// What a program leaves in a machine's caches and predictors, without its time: one pass for
// machines of all kinds, from which cores begin anywhere in the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sim/branch_unit.hpp"
#include "sim/core_parameters.hpp"
#include "sim/predictors/targets.hpp"
#include "sim/wrong_path_code.hpp"
#include "warm/line_history.hpp"

namespace tracekit {

class FunctionalPass {
 public:
  // Lines that the front end brings before a branch turns out to be taken.
  static constexpr std::uint64_t lines_behind = 3;

  // For cores with these parameters: each kind of predictor, and each size of target buffer and
  // return stack, once; what compressed branches teach them depends on each other (BranchUnit), so
  // from the first one on each set of them out of order learns by itself, too.
  explicit FunctionalPass(std::span<const CoreParameters> cores);

  void fetch(std::uint64_t pc) {
    const std::uint64_t line = pc >> line_bits;
    if (line == fetched_) return;
    fetched_ = line;
    code_.touch(line, ++stamp_, false);
  }
  void access(std::uint64_t address, bool store) {
    data_.touch(address >> line_bits, ++stamp_, store);
  }
  // Learnt by the machines' predictors at the end of the block.
  void branch(BranchEvent branch);
  void end_block(unsigned threads);
  // Where branches went, for those of the whole program that a core foresees wrongly.
  BranchHistory& history() { return history_; }
  const BranchHistory& history() const { return history_; }

  const warm::LineHistory& code() const { return code_; }
  const warm::LineHistory& data() const { return data_; }
  const bp::IndirectTargets& targets() const { return targets_; }
  // A core's own part of what the branches so far have taught.
  BranchUnit branches(const CoreParameters& core) const;

 private:
  warm::LineHistory code_, data_;
  std::uint64_t stamp_{}, fetched_{no_line};
  // What cores fetch behind branches that they do not foresee stays in their caches, too: lines
  // that come after such a branch, by one predictor for all.
  BranchUnit typical_;
  Cycle branches_seen_{};
  std::vector<BranchEvent> branches_;
  bp::IndirectTargets targets_;
  BranchHistory history_;
  struct Learner {
    std::unique_ptr<DirectionPredictor> predictor;
    std::size_t lag;  // branches fetched before one's outcome is taught, once there are so many
    std::size_t in_flight{};  // fetched, and not yet taught
  };
  std::map<unsigned, Learner> predictor_;
  std::map<std::size_t, std::vector<std::uint64_t>> btb_;
  std::map<std::size_t, bp::ReturnStack> returns_;
  using Set = std::array<std::size_t, 3>;  // predictor, target buffer, return stack
  static Set set_of(const CoreParameters& core);
  std::vector<CoreParameters> cores_;
  std::map<Set, BranchUnit> units_;
};

}  // namespace tracekit
