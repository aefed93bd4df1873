// What a program leaves in a machine's caches and predictors, without its time: one pass for
// machines of all kinds, from which cores begin anywhere in the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/branch_unit.hpp"
#include "sim/core_parameters.hpp"
#include "sim/late_predictor.hpp"
#include "sim/pass_clock.hpp"
#include "sim/predictors/targets.hpp"
#include "sim/prefetched_caches.hpp"
#include "sim/target_buffer.hpp"
#include "sim/wrong_path_code.hpp"
#include "warm/line_history.hpp"

namespace tracekit {

class FunctionalPass {
 public:
  // For cores with these parameters: each kind of predictor, and each size of target buffer and
  // return stack, once; what compressed branches teach them depends on each other (BranchUnit), so
  // from the first one on each set of them out of order learns by itself, too; and the caches of
  // each core with prefetchers.
  explicit FunctionalPass(std::span<const CoreParameters> cores);

  void fetch(std::uint64_t pc) {
    const std::uint64_t line = pc >> line_bits;
    if (line == fetched_) return;
    fetched_ = line;
    ++stamp_;
    for (const bool in_order : {false, true})
      if (code_[in_order]) touch_code(line, in_order);
  }
  // An instruction; its accesses and branches follow.
  void row(std::uint64_t pc) {
    ++unused_;
    clock_.row();
    fetch(pc);
  }
  // `pc`: of the instruction, or 0 where nobody knows it.
  void access(std::uint64_t address, std::uint64_t pc, bool store) {
    data_.touch(address >> line_bits, ++stamp_, store);
    clock_.access(address >> line_bits);
    use(address, pc, store ? CacheUse::store : CacheUse::load);
  }
  // A store of an instruction, once.
  void stores() { ++stores_; }
  std::uint64_t stored() const { return stores_; }
  // The part of `code` is learnt by the machines' predictors at the end of the block; it goes on at
  // the part `target`.
  void branch(const CodeMap& code, std::uint32_t part, bool taken, std::uint32_t target);
  void end_block(unsigned threads);
  // Where branches went, for those of the whole program that a core foresees wrongly.
  const BranchHistory& history() const { return history_; }

  // Lines of code as cores ask for them that execute in order, or out of order; null where the pass
  // is for none of them.
  const warm::LineHistory* code(bool in_order) const {
    return code_[in_order] ? &*code_[in_order] : nullptr;
  }
  const warm::LineHistory& data() const { return data_; }
  const bp::IndirectTargets& targets() const { return targets_; }
  // What a core's own prefetchers have left in its caches; null of one that has none.
  const PrefetchedCaches* prefetched(const CoreParameters& core) const;
  // A core's own part of what the branches so far have taught.
  BranchUnit branches(const CoreParameters& core) const;

 private:
  // Whether all first caches have it.
  bool touch_code(std::uint64_t line, bool in_order);
  void use(std::uint64_t address, std::uint64_t pc, CacheUse::Kind kind) {
    if (!prefetched_.empty()) uses_.push_back({address, pc, std::exchange(unused_, 0u), kind});
  }
  // A line that cores in order have asked for when they hear of a branch before it.
  void fetch_ahead(std::uint64_t line);
  // What all have learnt so far is in each set's unit; from here on the rest is of those alone that
  // execute in order.
  void own_units();

  std::array<std::optional<warm::LineHistory>, 2> code_;  // out of order, in order
  warm::LineHistory data_;
  std::uint64_t stamp_{}, fetched_{no_line};
  // When a line ahead was asked for last: what was just now is not asked for again.
  struct Ahead {
    std::uint64_t line{no_line}, stamp{};
  };
  std::array<Ahead, 256> ahead_{};
  // What cores fetch behind branches that they do not foresee stays in their caches, too: by one
  // predictor for all.
  BranchUnit typical_;
  PassClock clock_;
  struct Branch {
    BranchEvent event;
    Cycle fetched, commits;
  };
  // Of the block, as are uses.
  std::vector<Branch> branches_;
  std::vector<CacheUse> uses_;
  std::uint32_t unused_{};  // rows since the last use
  bp::IndirectTargets targets_;
  BranchHistory history_;
  std::uint64_t stores_{};
  std::map<unsigned, LatePredictor> predictor_;
  std::map<std::size_t, TargetBuffer> btb_;
  std::map<std::size_t, bp::ReturnStack> returns_;
  using Set = std::array<std::size_t, 3>;  // predictor, target buffer, return stack
  static Set set_of(const CoreParameters& core);
  std::vector<CoreParameters> cores_;
  std::map<Set, BranchUnit> units_;
  using Shapes = std::array<double, 18>;  // what prefetched caches depend on
  static Shapes shapes_of(const CoreParameters& core);
  std::map<Shapes, PrefetchedCaches> prefetched_;
};

}  // namespace tracekit
