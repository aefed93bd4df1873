// Many simulated cores beside each other over one trace.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/branch_unit.hpp"
#include "sim/code_map.hpp"
#include "sim/core.hpp"
#include "sim/core_parameters.hpp"
#include "sim/functional_pass.hpp"
#include "sim/microcode_loop.hpp"
#include "sim/page_frames.hpp"
#include "sim/predictors/targets.hpp"

namespace tracekit {

// Block by block.
class SimulatedCores {
 public:
  // The parts of static instruction i, in their order, are insts[begin[i]] to insts[begin[i + 1]];
  // at least one.  `values`, `reach`: CodeMap's.  `joined`: a row that trapped is an instruction
  // with its retry (macro/macro_join.hpp).  `image`: see PageFrames.
  SimulatedCores(std::vector<CoreInst> insts, std::vector<RegisterValue> values, unsigned reach,
                 std::vector<std::uint32_t> begin, MicrocodeLoops loops, bool joined,
                 ProgramImage image, std::span<const CoreParameters> cores, bool causes = false);

  std::size_t cores() const { return cores_.size(); }
  std::size_t statics() const { return program_->begin.size() - 1; }

  // The rows of a block: ids into the static table, addresses, row_bit.  `ahead`: of the rows
  // behind it, as many as RowsAround asks for; none at the end of the trace.
  struct Row {
    std::uint32_t sid;
    std::uint64_t addr;
    std::uint8_t bits;
  };
  struct Block {
    std::span<const std::uint32_t> sid;
    std::span<const std::uint64_t> addr;
    std::span<const std::uint8_t> bits;
    std::vector<Row> ahead;
    std::uint32_t behind(std::size_t row) const {  // the id of the row behind it
      if (row + 1 < sid.size()) return sid[row + 1];
      return ahead.empty() ? sid[row] : ahead.front().sid;
    }
  };
  // out: rows x cores, or, `timed`, rows x cores x core_timing::count.  difficulty, unless null:
  // for each row BranchDifficulty::wrong; from the first block on, or never.
  void run(const Block& block, float* out, unsigned threads, bool timed, std::uint8_t* difficulty);
  // Sums of the cycles of the rows from each of `edges` (increasing, within the block) to the next:
  // ranges x cores.
  void sums(const Block& block, std::span<const std::uint32_t> edges, double* out,
            unsigned threads);
  // Sums of the cycles of the rows of each class: classes x cores.  labels: for one division of the
  // rows into classes after another the class of each row, all below `classes`.
  void class_sums(const Block& block, std::span<const std::uint16_t> labels, std::size_t classes,
                  double* out, unsigned threads);
  // Cycles of the rows of each label by cause, added to out: labels x cores x cause_count.  Of
  // cores made with `causes`.
  void cause_sums(const Block& block, std::span<const std::uint32_t> labels, double* out,
                  unsigned threads);
  // What each row met, row_event: rows x cores.  Of such cores, too.
  void events(const Block& block, std::uint8_t* out, unsigned threads);

  // Rows that no core walks, or that all have walked: what they leave in caches and predictors is
  // kept.  From the first row on, in their order.
  void observe(const Block& block, unsigned threads);
  // The same of rows that stand for lines of memory, no code of the program.
  void observe_lines(const Block& block, unsigned threads);
  // All cores go on behind what was observed, after `block`, which is not timed; then it is
  // observed, too.
  void begin_behind(const Block& block, unsigned threads);
  // The same of new cores like these, which may be walked while these go on observing.
  SimulatedCores begun_behind(const Block& block);

 private:
  struct Program {
    CodeMap code;
    std::vector<std::uint32_t> begin;
    MicrocodeLoops loops;
    bool joined;
    ProgramImage image;
  };
  SimulatedCores(std::shared_ptr<const Program> program, std::span<const CoreParameters> cores,
                 bool causes);
  FunctionalPass& functional_pass();
  // `others`, or these, go on behind what was observed here and `block`.
  void begin(SimulatedCores& others, const Block& block, unsigned threads);
  // `unwalked`: rows before the block that neither these cores nor others have walked.
  void begin_at(const FunctionalPass& pass, const Block& block, std::uint64_t unwalked,
                unsigned threads);
  // Of rows of the block, and of the one behind it, in their order: which parts they begin at.
  std::vector<std::size_t> first_parts(std::span<const std::uint32_t> rows) const;
  std::uint64_t physical(const Block& block, std::size_t row);
  void prepare(const Block& block, std::uint8_t* difficulty = nullptr);
  // do_part(part, whether it is a branch that is taken, the part behind the instruction or the
  // turn, whether the row's access traps there) of each part of a row, in the order of their
  // execution.  `loops`: so many turned before.
  template <class DoPart>
  void each_part(const Block& block, std::size_t row, std::uint64_t& loops,
                 const DoPart& do_part) const;
  std::uint32_t first_access(std::uint32_t sid) const;  // the part, or the one behind the last
  template <class Work>  // work() is a thread's own function of a core's number
  void each_core(unsigned threads, const Work& work);

  std::shared_ptr<const Program> program_;
  bool causes_;
  std::vector<CoreParameters> parameters_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::unique_ptr<FunctionalPass> pass_;  // once asked for
  PageFrames pages_;
  std::uint64_t walked_loops_{}, observed_loops_{};  // executions of microcode loops
  std::uint64_t observed_{}, walked_{};  // rows; up to the last ones that these cores walked, too
  bool walks_{};                         // the next ones that are observed have been walked
  bp::IndirectTargets targets_;
  std::optional<BranchDifficulty> difficulty_;  // once asked for
  std::vector<CoreRow> rows_;     // of the block, then of those ahead, and one of no instruction
  std::span<const CoreRow> own_;  // of the block
  std::vector<const CoreRow*> divisions_;  // of all of them
};

}  // namespace tracekit
