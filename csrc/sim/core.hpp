// A core of either kind, in order or out of order, and what it is asked for: the cycles of rows,
// their sums, what made them, and why.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "sim/branch_unit.hpp"
#include "sim/cache_model.hpp"
#include "sim/cause.hpp"
#include "sim/cause_ledger.hpp"
#include "sim/code_map.hpp"
#include "sim/core_inst.hpp"
#include "sim/cycle.hpp"
#include "sim/rows_around.hpp"
#include "sim/values_around.hpp"
#include "sim/wrong_path_code.hpp"

namespace tracekit {

// The numbers that run_timed gives for a row, in cycles.
// cycles        by which it moves the time of the last retirement
// commit_slack  from the last retirement to when it could retire; below 0: it waited for its turn
// dispatch_gap  from the dispatch of the row before to its own
// issue_delay   from its dispatch to its issue
// latency       from its issue to its result
#define TRACEKIT_CORE_TIMING(PART) \
  PART(cycles) PART(commit_slack) PART(dispatch_gap) PART(issue_delay) PART(latency)
namespace core_timing {
#define PART(name) name,
enum : std::size_t { TRACEKIT_CORE_TIMING(PART) count };
#undef PART
#define PART(name) std::string_view(#name),
inline constexpr std::array names{TRACEKIT_CORE_TIMING(PART)};
#undef PART
inline constexpr Cycle most_commit_slack = 4096;
}  // namespace core_timing

// A core of either kind.
class Core {
 public:
  virtual ~Core() = default;
  // The cycles by which each instruction moves the time of the last retirement, at its last part;
  // then `out` moves on by `stride`.
  virtual void run(std::span<const CoreRow> rows, float* out, std::size_t stride) = 0;
  // Their sums instead: from each of `edges`, which are parts, to the next one.
  virtual void run_sums(std::span<const CoreRow> rows, std::span<const std::size_t> edges,
                        double* out, std::size_t stride) = 0;
  // What made them, too, of the last part: core_timing::count numbers.
  virtual void run_timed(std::span<const CoreRow> rows, float* out, std::size_t stride) = 0;
  // Adds each instruction's cycles to their causes: to the cause_count numbers at
  // out + labels[i] * stride for the i-th.  Of cores that were made for it.
  virtual void run_causes(std::span<const CoreRow> rows, const std::uint32_t* labels, double* out,
                          std::size_t stride) = 0;
  // What each instruction met: its row_event; then `out` moves on by `stride`.  Of such cores, too.
  virtual void run_events(std::span<const CoreRow> rows, std::uint8_t* out, std::size_t stride) = 0;
  // Its caches hold what `contents` says, or, unless that is null, `own`.
  virtual void restore(warm::ContentsByShape& contents, const PrefetchedCaches* own) = 0;
  // Rows through its caches, prefetchers and predictors alone, at about the pace of a program; what
  // follows is fetched behind them.  `branches` and `history`: what its predictors know before, and
  // where branches went.  They stand for `times` as many, which nobody has walked.  The last
  // `walked` of these rows are walked instead, in time.
  virtual void approach(std::span<const CoreRow> rows, double times, std::size_t walked,
                        BranchUnit branches, const BranchHistory& history) = 0;
  // The program has executed so many stores: of those that it found behind loads of their data it
  // forgets all from time to time.
  virtual void go_on_behind(std::uint64_t) {}
  // Before any of these: what is known of the rows, for as long as it is there: values, divisions.
  virtual void look_around(ValuesAround&, std::span<const CoreRow* const>) {}

 protected:
  // Where a row's cycles come from; the next row's gap counts from `next_gap_origin`.
  struct Times {
    Cycle dispatched, issued, done, retired_before, retired, next_gap_origin;
  };
  static void put_times(float* out, Cycle cycles, const Times& t, Cycle gap_origin);
  // When caches and predictors of a core that executes in order are done with rows that come from
  // `at` on, about.  `branches`: null of one that foresees none that is taken.
  static Cycle approached(CacheHierarchy& caches, BranchUnit* branches,
                          std::span<const CoreRow> rows, Cycle at);
};

// A core whose `Times step(const CoreRow&)` is known when the loop over the rows is compiled.
template <class Kind>
class CoreOf : public Core {
 public:
  void run(std::span<const CoreRow> rows, float* out, std::size_t stride) final {
    walk(rows, out, stride,
         [](float* to, Cycle cycles, const Times&, Cycle) { *to = static_cast<float>(cycles); });
  }
  void run_sums(std::span<const CoreRow> rows, std::span<const std::size_t> edges, double* out,
                std::size_t stride) final {
    around_.begin(rows);
    std::size_t from = edges.front();
    cycles(rows.first(from));
    for (const std::size_t edge : edges.subspan(1)) {
      *out = static_cast<double>(cycles(rows.subspan(from, edge - from)));
      out += stride;
      from = edge;
    }
    cycles(rows.subspan(from));
    around_.end();
  }
  void run_timed(std::span<const CoreRow> rows, float* out, std::size_t stride) final {
    walk(rows, out, stride, put_times);
  }
  void run_causes(std::span<const CoreRow> rows, const std::uint32_t* labels, double* out,
                  std::size_t stride) final {
    if constexpr (Kind::knows_why) {
      around_.begin(rows);
      for (const CoreRow& row : rows) {
        static_cast<Kind*>(this)->ledger_.put_into(out + *labels * stride);
        static_cast<Kind*>(this)->step(row);
        if (row.last) ++labels;
      }
      around_.end();
    }
  }
  void run_events(std::span<const CoreRow> rows, std::uint8_t* out, std::size_t stride) final {
    if constexpr (Kind::knows_why) {
      std::array<double, cause_count> spent{};
      auto& ledger = static_cast<Kind*>(this)->ledger_;
      ledger.put_into(spent.data());
      ledger.take_events();
      around_.begin(rows);
      for (const CoreRow& row : rows) {
        static_cast<Kind*>(this)->step(row);
        if (!row.last) continue;
        *out = ledger.take_events();
        out += stride;
      }
      around_.end();
    }
  }
  void restore(warm::ContentsByShape& contents, const PrefetchedCaches* own) final {
    static_cast<Kind*>(this)->caches_.restore(contents, own);
  }
  void approach(std::span<const CoreRow> rows, double times, std::size_t walked,
                BranchUnit branches, const BranchHistory& history) final {
    auto& own = *static_cast<Kind*>(this);
    own.begin_with(std::move(branches), history);
    const Cycle from = own.retired();
    own.caches_.begin_counting(from);
    around_.begin(rows);
    const Cycle to = own.pass_quickly(rows.first(rows.size() - walked), from);
    own.caches_.passed(to, static_cast<double>(to - from) * times);
    own.go_on_at(to);
    std::array<double, cause_count> spent{};  // which nobody asks for
    own.ledger_.put_into(spent.data());
    for (const CoreRow& row : rows.last(walked)) own.step(row);
    around_.end();
    own.ledger_.put_into(nullptr);
  }

 private:
  template <class Put>
  void walk(std::span<const CoreRow> rows, float* out, std::size_t stride, Put put) {
    around_.begin(rows);
    for (const CoreRow& row : rows) {
      const Times t = static_cast<Kind*>(this)->step(row);
      if (!row.last) continue;
      put(out, t.retired - reported_, t, gap_origin_);
      out += stride;
      reported_ = t.retired;
      gap_origin_ = t.next_gap_origin;
    }
    around_.end();
  }
  Cycle cycles(std::span<const CoreRow> rows) {
    Cycle retired = reported_, gap_origin = gap_origin_;
    for (const CoreRow& row : rows) {
      const Times t = static_cast<Kind*>(this)->step(row);
      retired = t.retired;
      gap_origin = t.next_gap_origin;
    }
    gap_origin_ = gap_origin;
    return retired - std::exchange(reported_, retired);
  }
  Cycle reported_{}, gap_origin_{};

 protected:
  RowsAround around_;
};

}  // namespace tracekit
