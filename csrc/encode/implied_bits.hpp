// What the static instruction and the next row of the chunk imply about a row; only surprises are
// stored.
#pragma once

#include "features/outcome.hpp"

namespace tracekit {

inline std::uint8_t implied_bits(const HotStatic& at, const HotStatic* next) {
  unsigned b = at.is(HotStatic::memory) ? row_bit::has_addr : 0;
  if (branch_taken(at, next)) b |= row_bit::taken;
  if (row_faulted(at, false, next)) b |= row_bit::fault;
  return static_cast<std::uint8_t>(b);
}

}  // namespace tracekit
