// The batch kernels of StackDistance, one set for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu.hpp"
#include "features/last_access_table.hpp"
#include "features/rank_tree.hpp"

namespace tracekit::stack_distance {

// A StackDistance's state while a kernel runs.
struct Frame {
  LastAccessTable* table;
  RankTree::View tree;
  std::uint32_t now, end, live;
  std::uint32_t first_stamp;
  unsigned line_shift;
  bool filter;  // accesses to the line just accessed are common: drop them first
};

struct Kernels {
  // Both stop when the stamps run out and return how many accesses were done.
  std::size_t (*access)(Frame&, const std::uint64_t* addresses, std::size_t n, std::uint32_t* out);
  std::size_t (*access_some)(Frame&, const std::uint64_t* addresses, const std::uint8_t* updates,
                             std::size_t n, std::uint32_t* out);
  // Replaces each stamp that is not 0 by its rank.
  void (*renumber)(const RankTree::View& tree, std::uint32_t* stamps, std::size_t n,
                   std::size_t stride);
};

extern const Kernels portable_kernels, avx2_kernels, avx512_kernels;
const Kernels& kernels_for(Isa isa);

}  // namespace tracekit::stack_distance
