// The peers' C interface: bench/peers.py builds this folder into a library of its own.
#include "bench/stack_distance_peers.hpp"
#include "bench/text_peers.hpp"

extern "C" {

void peer_splay(const std::uint64_t* lines, std::size_t n, std::uint32_t* out) {
  tracekit::peers::splay_stack_distance(lines, n, out);
}

void peer_fenwick(const std::uint64_t* lines, std::size_t n, std::uint32_t* out) {
  tracekit::peers::fenwick_stack_distance(lines, n, out);
}

std::uint64_t floor_last_access(const std::uint64_t* lines, std::size_t n) {
  return tracekit::peers::last_access_floor(lines, n);
}

std::uint64_t floor_newlines(const char* text, std::size_t size) {
  return tracekit::bench::newlines(text, size);
}

// Committed rows; the last retire tick goes to *last.
std::uint64_t peer_getline(const char* text, std::size_t size, std::uint64_t* last) {
  const auto [rows, tick] = tracekit::bench::getline_reader(text, size);
  *last = tick;
  return rows;
}

}  // extern "C"
