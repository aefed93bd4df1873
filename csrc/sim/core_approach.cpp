#include <algorithm>

#include "sim/core.hpp"
#include "sim/in_order_lines.hpp"

namespace tracekit {

// A row a cycle, and a part of what the misses take, since several of them overlap.
Cycle Core::approached(CacheHierarchy& caches, BranchUnit* branches, std::span<const CoreRow> rows,
                       Cycle at) {
  constexpr Cycle overlap = 4, noticed = 20, to_commit = 40;
  std::uint64_t line = no_line;
  for (const CoreRow& row : rows) {
    const CoreInst& inst = *row.inst;
    Cycle there = ++at;
    if (inst.pc >> line_bits != line) {
      line = inst.pc >> line_bits;
      there = caches.fetch(inst.pc, at);
    }
    if (row.is_branch()) {
      auto guess = row.taken ? BranchUnit::Guess::wrong : BranchUnit::Guess::right;
      if (branches) {
        guess = branches->fetch(row.event(), row.indirect_right, at);
        branches->commits(at + to_commit);
      }
      if (row.taken || guess != BranchUnit::Guess::right) {
        for (std::uint64_t k = 1; k <= InOrderLines::lines_ahead; ++k)
          there = std::max(there, caches.fetch((line + k) << line_bits, at));
      }
    }
    if (row.fault || !inst.is(CoreInst::load | CoreInst::store)) {
    } else if (inst.is(CoreInst::zero_line)) {
      there = std::max(there, caches.zero_line(row.addr, at, inst.pc));
    } else {
      const auto ask = [&](std::uint64_t address) {
        there = std::max(there, inst.is(CoreInst::store) ? caches.store(address, at, inst.pc)
                                                         : caches.load(address, at, inst.pc));
      };
      ask(row.addr);
      if (const std::uint64_t second = row.second_line()) ask(second);
    }
    if (there > at + noticed) at += (there - at) / overlap;
  }
  return at + to_commit;
}

}  // namespace tracekit
