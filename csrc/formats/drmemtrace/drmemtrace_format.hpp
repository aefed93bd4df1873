// The records of DynamoRIO's offline memory traces: 12 bytes, u16 type, u16 size, u64 value, all
// little-endian (DynamoRIO: clients/drcachesim/common/trace_entry.h; numbers as of format version
// 7).
#pragma once

#include <cstdint>

namespace tracekit::drmem {

inline constexpr std::size_t record_bytes = 12;

// Record types; what `size` and `value` hold stands behind each.
namespace rec {
enum : std::uint16_t {
  read = 0,      // bytes, address
  write = 1,     // bytes, address
  prefetch = 2,  // 2-9: prefetches of older kinds
  prefetch_last = 9,
  instr = 10,  // 10-16: bytes of the instruction, pc
  direct_jump = 11,
  indirect_jump = 12,
  conditional_jump = 13,  // below version 5: the outcome is not told
  direct_call = 14,
  indirect_call = 15,
  ret = 16,
  bundle = 17,  // number of instructions, their lengths as bytes
  instr_flush = 18,
  instr_flush_end = 19,
  data_flush = 20,
  data_flush_end = 21,
  thread = 22,  // -, thread id
  thread_exit = 23,
  process = 24,  // -, process id
  header = 25,   // -, version
  footer = 26,
  hardware_prefetch = 27,
  marker = 28,             // marker type, its value
  instr_no_fetch = 29,     // a further iteration of a `rep` instruction
  instr_maybe_fetch = 30,  // online traces: no fetch if the pc is the last one's
  sysenter = 31,
  prefetch_hint = 32,  // 32-46: prefetches by level
  prefetch_hint_last = 46,
  encoding = 47,  // number of bytes <= 8, machine code of the next instruction
  taken_jump = 48,
  untaken_jump = 49,
};
}  // namespace rec

namespace mark {
enum : std::uint16_t {
  kernel_event = 0,  // pc of the interruption
  kernel_xfer = 1,
  timestamp = 2,  // microseconds since 1601
  cpu_id = 3,
  func_id = 4,
  func_retaddr = 5,
  func_arg = 6,
  func_retval = 7,
  filetype = 9,
  version = 12,
  window_id = 14,
  physical_address = 15,
  physical_address_not_available = 16,
  virtual_address = 17,
  chunk_instr_count = 20,
  chunk_footer = 21,
  record_ordinal = 22,
  filter_endpoint = 23,
  syscall = 25,
  maybe_blocking_syscall = 26,
  syscall_trace_start = 27,
  syscall_trace_end = 28,
  branch_target = 29,
  core_wait = 32,
  core_idle = 33,
  context_switch_start = 34,
  context_switch_end = 35,
  hardware_event = 43,
  hardware_context_return = 44,
  skipped_memref = 46,
};
}  // namespace mark

// Bits of the file type marker.
namespace file {
enum : std::uint64_t {
  filtered = 0x1,
  arch_aarch64 = 0x8,
  arch_x86_64 = 0x40,
  has_encodings = 0x200,
  arch_regdeps = 0x20000,
};
}  // namespace file

}  // namespace tracekit::drmem
