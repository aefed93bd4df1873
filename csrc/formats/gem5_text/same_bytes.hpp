// Equality of short texts whose length is known at run time only: in line, where memcmp would be a
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tracekit {

namespace bytes16 {

// GCC's and clang's portable vectors: SSE2, NEON, or plain registers.
using Vec [[gnu::vector_size(16)]] = std::uint64_t;

inline Vec load(const char* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline bool any(Vec v) { return (v[0] | v[1]) != 0; }

}  // namespace bytes16

inline bool same_bytes(const char* a, const char* b, std::size_t n) {
  using namespace bytes16;
  if (n < 16) {
    if (n < 8) return std::memcmp(a, b, n) == 0;
    const auto word = [](const char* p) {
      std::uint64_t w;
      std::memcpy(&w, p, sizeof w);
      return w;
    };
    return ((word(a) ^ word(b)) | (word(a + n - 8) ^ word(b + n - 8))) == 0;
  }
  // Texts that differ mostly do so at once.
  if (any(load(a) ^ load(b))) return false;
  Vec differs = load(a + n - 16) ^ load(b + n - 16);
  for (std::size_t i = 16; i + 16 < n; i += 16) differs |= load(a + i) ^ load(b + i);
  return !any(differs);
}

}  // namespace tracekit
