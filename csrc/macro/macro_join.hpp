// The macro level: one row an instruction, joined from its micro-ops (features.md, "The macro
// level").
#pragma once

#include <cstdint>
#include <vector>

#include "features/engine.hpp"
#include "features/instruction_ends.hpp"
#include "isa/hot_static.hpp"

namespace tracekit {

// Rows from the one behind an instruction's last micro-op to the next last one are one row; a
// page's first touch and its retry are one row, a system call is one of its own.  Address and data
// distances come from the first access, the fetch distance from the first row, the outcome and
// entropies from the last branch. Of the stages, fetch to issue are the first micro-op's, complete,
// retire and store the last to happen; so the sum of incremental latencies is that of the
// micro-ops.
class MacroJoin {
 public:
  // Takes rows [0, n).  `statics` are the micro-ops'.
  void add(const FeatureBatch& in, std::size_t n, const std::vector<HotStatic>& statics);
  // An instruction whose last micro-op never came is dropped and counted, unless the trace does not
  // tell which micro-op is the last (O3PipeView alone).
  void finish(const std::vector<HotStatic>& statics);

  std::size_t unfinished() const { return unfinished_; }

  FeatureBatch& rows() { return rows_; }
  std::size_t size() const { return rows_.size(); }
  const std::vector<HotStatic>& statics() const { return hot_; }
  // The micro-ops of macro id: their ids, each once, in order of first appearance.
  const std::vector<std::vector<std::uint32_t>>& members() const { return members_; }
  // The retire tick of the first micro-op that has one: where the clock of the micro level starts.
  std::uint64_t first_retire() const { return first_retire_; }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  void open(const FeatureBatch& in, std::size_t i);
  void close(const std::vector<HotStatic>& statics);
  std::uint32_t intern(const std::vector<HotStatic>& statics);

  InstructionEnds ends_;
  FeatureBatch rows_;  // the last one is open while `members_open_` is not empty
  std::vector<std::uint32_t> members_open_;
  bool any_timed_{};
  bool ends_known_{};  // a last micro-op was seen
  std::size_t unfinished_{};
  std::uint64_t first_retire_{};
  std::vector<HotStatic> hot_;
  std::vector<std::vector<std::uint32_t>> members_;
  std::vector<std::uint32_t> first_, next_;  // chains of macros by their first micro-op
};

// The static instructions of the macro level.
StaticTable join_statics(const StaticTable& micro,
                         const std::vector<std::vector<std::uint32_t>>& members);

}  // namespace tracekit
