#include "sim/prefetchers.hpp"

#include <algorithm>
#include <cmath>

namespace tracekit {

AccessMaps::Map& AccessMaps::map(std::uint64_t zone) {
  Map* s = &map_[zone % sets * ways];
  std::size_t i = 0;
  while (i + 1 < ways && s[i].zone != zone) ++i;
  if (s[i].zone != zone) s[i] = {zone, 0, 0};
  std::rotate(s, s + i, s + i + 1);
  return *s;
}

void AccessMaps::end_epoch() {
  const double accuracy = good_ / total_, coverage = good_ / misses_,
               hits = hits_ / (hits_ + misses_);  // none of any: neither high nor low
  if (coverage > 0.25 && (accuracy > 0.5 || hits < 0.75))
    ++useful_;
  else if ((coverage < 0.125 && (accuracy < 0.25 || hits > 0.875)) ||
           (accuracy < 0.25 && hits > 0.875))
    --useful_;
  const double bandwidth =
      (misses_ - good_ + total_) * static_cast<double>(latency_) / static_cast<double>(epoch);
  degree_ = std::min(static_cast<unsigned>(bandwidth), useful_);  // 0: no limit
}

// How many lines an epoch lets come follows from the one before, and drifts with all of them.
void AccessMaps::passed(Cycle at, double cycles) {
  constexpr double most = 64;  // epochs: no more lines are found at a time
  next_epoch_ = at + epoch;
  if (at <= counted_from_) return;
  const double epochs = cycles / static_cast<double>(epoch);
  const double scale = static_cast<double>(epoch) / static_cast<double>(at - counted_from_);
  const double left = epochs - std::floor(epochs);
  for (double* const n : {&good_, &total_, &misses_, &hits_}) *n *= scale;
  for (double k = std::min(std::floor(epochs), most); k > 0; --k) end_epoch();
  for (double* const n : {&good_, &total_, &misses_, &hits_}) *n *= left;
  next_epoch_ -= static_cast<Cycle>(left * static_cast<double>(epoch));
}

void AccessMaps::prefetch(std::uint64_t line) {
  Map& m = map(line >> 5);
  const std::uint32_t bit = 1u << (line & 31);
  if (!((m.accessed | m.prefetched) & bit)) ++total_;
  m.accessed &= ~bit;
  m.prefetched |= bit;
}

std::span<const int> AccessMaps::distances(std::uint64_t line, Cycle at) {
  for (; at >= next_epoch_; next_epoch_ += epoch) {
    end_epoch();
    good_ = total_ = misses_ = hits_ = 0;
  }
  const std::uint64_t zone = line >> 5;
  {
    Map& m = map(zone);
    const std::uint32_t bit = 1u << (line & 31);
    if (m.accessed & bit) {
      ++hits_;
    } else {
      ++misses_;
      if (m.prefetched & bit) ++good_;
    }
    m.accessed |= bit;
    m.prefetched &= ~bit;
  }
  // Bit 32 is the first line of the zone.
  const unsigned __int128 before = map(zone - 1).accessed, behind = map(zone + 1).accessed;
  const unsigned __int128 accessed =
      before | static_cast<unsigned __int128>(map(zone).accessed) << 32 | behind << 64;
  const int here = static_cast<int>(line & 31) + 32;
  const auto was = [&](int i) { return (accessed >> i & 1) != 0; };
  std::size_t n = 0;
  for (int stride = 1; stride < 16; ++stride) {
    for (const int s : {stride, -stride}) {
      if (!was(here + s) || !(was(here + 2 * s) || was(here + 2 * s + 1))) continue;
      prefetch(line - static_cast<std::uint64_t>(static_cast<std::int64_t>(s)));
      found_[n++] = -s;
      if (n == degree_) return {found_.data(), n};
    }
  }
  return {found_.data(), n};
}

// gem5's Stride::calculatePrefetch: three bits of confidence, four at first, trusted from four on.
std::int64_t Strides::Stride::see(std::uint64_t at_pc, std::uint64_t at) {
  if (pc != at_pc) {
    *this = {at_pc, at, 0, 4};
    return 0;
  }
  const auto moved = static_cast<std::int64_t>(at - last);
  last = at;
  if (moved == step && moved != 0) {
    confidence = std::min(7, confidence + 1);
  } else {
    confidence = std::max(0, confidence - 1);
    if (confidence < 4) step = moved;
  }
  return confidence < 4 ? 0 : moved;
}

}  // namespace tracekit
