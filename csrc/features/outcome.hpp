// `taken` and `fault` of a row from the row behind it, where the source did not tell (features.md).
#pragma once

#include <cstdint>

#include "core/row_batch.hpp"
#include "isa/hot_static.hpp"

namespace tracekit {

// Whether a branch at `at` was taken, given the next row; `next` may be null at the end of a trace,
// where a conditional branch counts as not taken.
inline bool branch_taken(const HotStatic& at, const HotStatic* next) {
  if (!at.is(HotStatic::control)) return false;
  if (!at.is(HotStatic::conditional)) return true;
  if (!next) return false;
  if (next->pc == at.pc)
    return next->upc != at.upc + 1;  // a branch inside microcode, or onto itself
  if (at.is(HotStatic::any_fall)) return next->pc - at.pc > 15;
  return next->pc != at.fall[0] && next->pc != at.fall[1];
}

// Functional text prints no fault: a system call, or a memory row that is run again.
inline bool row_faulted(const HotStatic& at, bool has_addr, const HotStatic* next) {
  if (at.is(HotStatic::syscall)) return true;
  return (has_addr || at.is(HotStatic::memory)) && next && next->pc == at.pc && next->upc == at.upc;
}

inline std::uint8_t resolve_bits(std::uint8_t bits, const HotStatic& at, const HotStatic* next) {
  unsigned b = bits;
  if (!(b & row_bit::fault_known) && row_faulted(at, b & row_bit::has_addr, next))
    b |= row_bit::fault;
  if (!(b & row_bit::taken_known) && branch_taken(at, next)) b |= row_bit::taken;
  return static_cast<std::uint8_t>(b & ~unsigned{row_bit::fault_known | row_bit::taken_known});
}

}  // namespace tracekit
