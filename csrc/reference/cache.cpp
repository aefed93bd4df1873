#include "reference/cache.hpp"

#include <bit>

namespace tracekit {

Cache::Cache(int kb, int ways) : ways_(static_cast<std::size_t>(ways)) {
  const std::size_t lines = static_cast<std::size_t>(kb) * 1024 >> line_bits;
  const std::size_t sets = std::bit_floor(std::max<std::size_t>(1, lines / ways_));
  mask_ = sets - 1;
  way_.resize(sets * ways_);
}

Cache::Way* Cache::find(std::uint64_t line) {
  Way* s = set(line);
  for (std::size_t i = 0; i < ways_; ++i) {
    if (s[i].line != line) continue;
    std::rotate(s, s + i, s + i + 1);
    return s;
  }
  return nullptr;
}

bool Cache::has(std::uint64_t line) const {
  const Way* s = &way_[(line & mask_) * ways_];
  return std::any_of(s, s + ways_, [line](const Way& w) { return w.line == line; });
}

std::uint64_t Cache::put(std::uint64_t line, Cycle ready, bool dirty, Cycle taken,
                         bool prefetched) {
  Way* s = set(line);
  const Way gone = s[ways_ - 1];
  std::rotate(s, s + ways_ - 1, s + ways_);
  s[0] = {line, ready, static_cast<std::int32_t>(taken), dirty, prefetched, 1};
  return gone.dirty ? gone.line : no_line;
}

}  // namespace tracekit
