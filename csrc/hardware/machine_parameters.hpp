// The numbers of a real processor's core, caches and memory.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tracekit::hardware {

// PARAMETER(name, least, most): the order is that of a row that Python hands over.  Latencies are
// in cycles of the core, sizes of caches in kB; tracekit/hardware/parameters.py says what each
// means.
// clang-format off
#define TRACEKIT_HARDWARE_PARAMETERS(PARAMETER)                                                    \
  PARAMETER(clock_ghz, 0.05, 20)                                                                   \
  /* front end */                                                                                  \
  PARAMETER(fetch_bytes, 4, 256) PARAMETER(decode_width, 1, 32)                                    \
  PARAMETER(op_cache_ops, 0, 65536) PARAMETER(op_cache_width, 1, 32) PARAMETER(op_queue, 1, 1024)  \
  PARAMETER(op_cache_entry, 1, 64) PARAMETER(op_cache_more, 0, 16)                                 \
  PARAMETER(op_cache_entry_cycles, 0, 16) PARAMETER(next_line_cycles, 0, 16)                       \
  PARAMETER(fetch_ahead, 1, 256) PARAMETER(taken_per_cycle, 0.1, 4)                                \
  PARAMETER(microcode_stall, 0, 64)                                                                \
  /* branches */                                                                                   \
  PARAMETER(predictor, 0, 99) PARAMETER(mispredict_penalty, 1, 100)                                \
  PARAMETER(decode_resteer, 0, 100) PARAMETER(btb_l1, 1, 65536) PARAMETER(btb_l2, 0, 131072)       \
  PARAMETER(btb_l2_penalty, 0, 32) PARAMETER(return_stack, 1, 1024)                                \
  PARAMETER(indirect_entries, 16, 65536) PARAMETER(indirect_history, 1, 127)                       \
  PARAMETER(indirect_penalty, 0, 32) PARAMETER(indirect_cycles, 0, 32)                             \
  PARAMETER(return_penalty, 0, 32)                                                                 \
  /* back end */                                                                                   \
  PARAMETER(width, 1, 32) PARAMETER(retire_width, 1, 64) PARAMETER(rob, 8, 4096)                   \
  PARAMETER(load_queue, 1, 1024) PARAMETER(store_queue, 1, 1024)                                   \
  PARAMETER(int_registers, 8, 4096) PARAMETER(vector_registers, 8, 4096)                           \
  PARAMETER(wakeup_cycles, 0, 8) PARAMETER(add_forward, 0, 8)                                      \
  /* accesses */                                                                                   \
  PARAMETER(store_commits, 1, 8) PARAMETER(store_lines, 1, 64) PARAMETER(store_block, 8, 64)       \
  PARAMETER(load_latency, 1, 64) PARAMETER(vector_load_latency, 1, 64)                             \
  PARAMETER(indexed_latency, 0, 8) PARAMETER(scaled_latency, 0, 8)                                 \
  PARAMETER(forward_latency, 0, 64) PARAMETER(rename_loads, 0, 4096)                               \
  PARAMETER(rename_stores, 1, 1024)                                                                \
  PARAMETER(vector_forward_latency, 0, 64) PARAMETER(forward_fail, 0, 100)                         \
  PARAMETER(memory_renaming, 0, 2) PARAMETER(order_clear, 0, 100)                                  \
  PARAMETER(line_split, 0, 32) PARAMETER(page_split, 0, 200) PARAMETER(store_split, 0, 64)         \
  PARAMETER(alias_penalty, 0, 64) PARAMETER(rep_bytes, 1, 256) PARAMETER(rep_startup, 0, 200)      \
  PARAMETER(locked_latency, 0, 100)                                                                \
  /* caches and memory */                                                                          \
  PARAMETER(l1i_kb, 1, 4096) PARAMETER(l1i_ways, 1, 64)                                            \
  PARAMETER(l1d_kb, 1, 4096) PARAMETER(l1d_ways, 1, 64) PARAMETER(l1d_misses, 1, 1024)             \
  PARAMETER(l2_kb, 1, 1048576) PARAMETER(l2_ways, 1, 64) PARAMETER(l2_latency, 2, 500)             \
  PARAMETER(l2_bytes, 1, 256) PARAMETER(l2_misses, 1, 1024)                                        \
  PARAMETER(l3_kb, 0, 1048576) PARAMETER(l3_ways, 1, 64) PARAMETER(l3_latency, 2, 1000)            \
  PARAMETER(l3_bytes, 0.5, 256) PARAMETER(l3_victim, 0, 1)                                         \
  PARAMETER(memory_ns, 1, 2000) PARAMETER(memory_gb_s, 0.1, 10000)                                 \
  /* translation */                                                                                \
  PARAMETER(itlb, 1, 65536) PARAMETER(dtlb, 1, 65536) PARAMETER(tlb_l2, 0, 1048576)                \
  PARAMETER(tlb_l2_latency, 0, 200) PARAMETER(page_walk, 0, 2000) PARAMETER(page_walkers, 1, 64)   \
  PARAMETER(page_kb, 1, 1048576)                                                                   \
  /* prefetchers: lines ahead, 0 for none */                                                       \
  PARAMETER(l1_next_line, 0, 8) PARAMETER(l1_stream, 0, 64) PARAMETER(l1_stride, 0, 64)            \
  PARAMETER(l1_region, 0, 1) PARAMETER(l2_next_line, 0, 8) PARAMETER(l2_stream, 0, 128)            \
  PARAMETER(prefetch_page_cross, 0, 1)
// clang-format on

// A row as Python hands it over.
struct MachineParameters {
#define PARAMETER(name, least, most) double name{};
  TRACEKIT_HARDWARE_PARAMETERS(PARAMETER)
#undef PARAMETER
};

struct ParameterRange {
  std::string_view name;
  double least, most;
};

inline constexpr auto parameter_ranges = std::to_array<ParameterRange>({
#define PARAMETER(name, least, most) {#name, least, most},
    TRACEKIT_HARDWARE_PARAMETERS(PARAMETER)
#undef PARAMETER
});
inline constexpr std::size_t parameter_count = parameter_ranges.size();
static_assert(sizeof(MachineParameters) == parameter_count * sizeof(double));

}  // namespace tracekit::hardware
