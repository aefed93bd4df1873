// The parameters of a simulated core: an abstract out-of-order or in-order core that csrc/sim walks
// a trace with.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tracekit {

// PARAMETER(name, least, most): the order is that of a row of the array that Python hands over.
// Latencies and delays are in cycles, the memory's too (a core's clock is folded in); sizes of
// caches in kB.
// clang-format off
#define TRACEKIT_CORE_PARAMETERS(PARAMETER)                                                       \
  PARAMETER(width, 1, 32) PARAMETER(issue_width, 1, 64) PARAMETER(rob, 1, 1000)                   \
  PARAMETER(iq, 1, 1000) PARAMETER(lq, 1, 250) PARAMETER(sq, 1, 250)                              \
  PARAMETER(phys_int, 1, 1000) PARAMETER(phys_vec, 1, 1000)                                       \
  PARAMETER(fetch_buffer, 4, 256) PARAMETER(fetch_queue, 1, 256) PARAMETER(front_delay, 1, 32)    \
  PARAMETER(issue_to_exec, 1, 8)                                                                  \
  PARAMETER(int_alu, 1, 32) PARAMETER(int_mul, 1, 32)                                             \
  PARAMETER(int_mul_lat, 1, 60) PARAMETER(int_div_lat, 1, 60)                                     \
  PARAMETER(fp, 1, 32) PARAMETER(fp_add_lat, 1, 60) PARAMETER(fp_mul_lat, 1, 59)                  \
  PARAMETER(fp_div_lat, 1, 30) PARAMETER(fp_misc_lat, 1, 60) PARAMETER(simd, 1, 32)               \
  PARAMETER(load_ports, 1, 32) PARAMETER(store_ports, 1, 32) PARAMETER(agu_lat, 1, 60)            \
  PARAMETER(predictor, 0, 999) PARAMETER(btb, 1, 65536) PARAMETER(ras, 1, 1024)                                             \
  PARAMETER(l1i_kb, 1, 4096) PARAMETER(l1i_assoc, 1, 64) PARAMETER(l1i_lat, 1, 200)               \
  PARAMETER(l1d_kb, 1, 4096) PARAMETER(l1d_assoc, 1, 64) PARAMETER(l1d_lat, 1, 200)               \
  PARAMETER(l1d_mshrs, 1, 256) PARAMETER(l1d_prefetch, 0, 999)                                      \
  PARAMETER(l2_kb, 1, 65536) PARAMETER(l2_assoc, 1, 64) PARAMETER(l2_lat, 1, 500)                 \
  PARAMETER(l2_mshrs, 1, 256) PARAMETER(l2_prefetch, 0, 999)                                        \
  PARAMETER(l3_kb, 0, 65536) PARAMETER(l3_assoc, 1, 64) PARAMETER(l3_lat, 1, 500)                 \
  /* of a read, beside the banks and the bus */                                                   \
  PARAMETER(memory_controller, 0, 2000)                                                           \
  PARAMETER(memory_cas, 0, 2000) PARAMETER(memory_activate, 0, 2000)                              \
  PARAMETER(memory_precharge, 0, 2000) PARAMETER(memory_ras, 0, 2000)                             \
  /* how long a line is read; what one takes of the bus that is written; of its bank's row, and */ \
  /* at least between activations */                                                              \
  PARAMETER(memory_burst, 0.1, 500) PARAMETER(memory_write, 0.1, 500)                             \
  PARAMETER(memory_column, 0.1, 500) PARAMETER(memory_activation, 0.1, 500)                       \
  /* from reads to writes and back */                                                             \
  PARAMETER(memory_turnaround, 0, 2000)                                                           \
  /* from the first burst of a line that is read to the precharge of its row */                   \
  PARAMETER(memory_read_precharge, 0, 2000)                                                       \
  PARAMETER(memory_row_lines, 1, 4096) PARAMETER(memory_banks, 1, 1024)                           \
  /* the banks lie in so many ranks, and in so many groups of each */                             \
  PARAMETER(memory_ranks, 1, 64) PARAMETER(memory_bank_groups, 1, 64)                             \
  /* a row that nobody waits for is closed; and after how many lines any row is */                \
  PARAMETER(memory_closes, 0, 1) PARAMETER(memory_row_accesses, 1, 1000)                          \
  /* how often it refreshes all rows, and for how long */                                         \
  PARAMETER(memory_refresh_every, 1, 1e6) PARAMETER(memory_refresh, 0, 1e5)                       \
  /* writes that wait before some of them go, and how many; from one to its row's precharge */    \
  PARAMETER(memory_writes, 16, 1000) PARAMETER(memory_write_batch, 1, 16)                         \
  PARAMETER(memory_write_precharge, 0, 2000)                                                      \
  PARAMETER(in_order, 0, 1)                                                                       \
  /* what a cache adds to a line that it passes on (gem5's response_latency) */                   \
  PARAMETER(l2_response, 1, 500) PARAMETER(l3_response, 1, 500)                                   \
  /* accesses that one MSHR of the data cache takes (gem5's tgts_per_mshr) */                     \
  PARAMETER(l1d_targets, 1, 1024)                                                                 \
  /* 1: stores drain one by one (total store order); in order, every taken branch redirects */    \
  PARAMETER(tso, 0, 1) PARAMETER(taken_redirects, 0, 1)                                           \
  /* 1: nothing is ever mispredicted; every access hits; no load runs before an older store */    \
  PARAMETER(ideal_branches, 0, 1) PARAMETER(ideal_l1i, 0, 1) PARAMETER(ideal_l1d, 0, 1)           \
  PARAMETER(ideal_l2, 0, 1) PARAMETER(ideal_memory_order, 0, 1)                                   \
  /* sim/replacement.hpp; from 100 on plug-ins (sim/plugins.hpp), as of predictors, prefetchers */ \
  PARAMETER(l1d_replacement, 0, 999) PARAMETER(l2_replacement, 0, 999)                            \
  PARAMETER(l3_replacement, 0, 999) PARAMETER(l1d_response, 1, 500)                               \
  /* between stages, as front_delay is from fetch to decode */                                    \
  PARAMETER(decode_to_rename, 1, 32) PARAMETER(rename_to_iew, 1, 32)
// clang-format on

// A row as Python hands it over.
struct CoreParameterRow {
#define PARAMETER(name, least, most) double name##_{};
  TRACEKIT_CORE_PARAMETERS(PARAMETER)
#undef PARAMETER
};

// The same with each number's whole part, which cores ask for several times a row: converted once.
struct CoreParameters : CoreParameterRow {
  CoreParameters() = default;
  explicit CoreParameters(const CoreParameterRow& row) : CoreParameterRow(row) {
#define PARAMETER(name, least, most) whole_.name = static_cast<int>(row.name##_);
    TRACEKIT_CORE_PARAMETERS(PARAMETER)
#undef PARAMETER
  }
#define PARAMETER(name, least, most) \
  int name() const { return whole_.name; }
  TRACEKIT_CORE_PARAMETERS(PARAMETER)
#undef PARAMETER

 private:
  struct Whole {
#define PARAMETER(name, least, most) int name{};
    TRACEKIT_CORE_PARAMETERS(PARAMETER)
#undef PARAMETER
  };
  Whole whole_;
};

struct CoreParameterRange {
  std::string_view name;
  double least, most;
};

inline constexpr auto core_parameter_ranges = std::to_array<CoreParameterRange>({
#define PARAMETER(name, least, most) {#name, least, most},
    TRACEKIT_CORE_PARAMETERS(PARAMETER)
#undef PARAMETER
});
inline constexpr std::size_t core_parameter_count = core_parameter_ranges.size();
static_assert(sizeof(CoreParameterRow) == core_parameter_count * sizeof(double));

// Direction predictors, gem5's by name (src/cpu/pred), prefetchers, and which line of a set goes:
// their numbers in a row.
// clang-format off
#define TRACEKIT_PREDICTORS(KIND)                                                                  \
  KIND(local) KIND(tournament) KIND(bimode) KIND(tage) KIND(ltage) KIND(tage_sc_l_8kb)             \
  KIND(tage_sc_l_64kb) KIND(perceptron_8kb) KIND(perceptron_64kb)
#define TRACEKIT_PREFETCHERS(KIND)                                                                 \
  KIND(none) KIND(stride) KIND(tagged) KIND(best_offset) KIND(access_map)
#define TRACEKIT_REPLACEMENTS(KIND) KIND(lru) KIND(tree_plru) KIND(srrip) KIND(random)
// clang-format on

#define KIND(name) name,
namespace predictor {
enum : unsigned { TRACEKIT_PREDICTORS(KIND) count };
inline constexpr unsigned first_kinds = tage_sc_l_8kb;  // so many are asked how hard a branch is
}  // namespace predictor
namespace prefetch {
enum : int { TRACEKIT_PREFETCHERS(KIND) };
}
namespace replacement {
enum : int { TRACEKIT_REPLACEMENTS(KIND) count };
}
#undef KIND

#define KIND(name) std::string_view(#name),
inline constexpr std::array predictor_names{TRACEKIT_PREDICTORS(KIND)};
inline constexpr std::array prefetcher_names{TRACEKIT_PREFETCHERS(KIND)};
inline constexpr std::array replacement_names{TRACEKIT_REPLACEMENTS(KIND)};
#undef KIND
static_assert(predictor_names.size() == predictor::count);

}  // namespace tracekit
