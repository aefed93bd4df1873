// What bench/bench_stack_distance.py measures against: the two classic algorithms, plainly written,
// and the floor that no algorithm of this kind can beat.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracekit::peers {

// Olken's tree of last accesses (1981), as a splay tree with subtree sizes and std::unordered_map.
void splay_stack_distance(const std::uint64_t* lines, std::size_t n, std::uint32_t* out);

// A Fenwick tree over time, of one entry an access (Bennett and Kruskal 1975), std::unordered_map.
void fenwick_stack_distance(const std::uint64_t* lines, std::size_t n, std::uint32_t* out);

// Looks each line up in a LastAccessTable and stores the new stamp; nothing else.  Returns the sum
// of what it found.
std::uint64_t last_access_floor(const std::uint64_t* lines, std::size_t n);

}  // namespace tracekit::peers
