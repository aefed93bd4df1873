// A number without a pattern for each of 0, 1, 2, ... (splitmix64, but for its last step).
#pragma once

#include <cstdint>

namespace tracekit {

constexpr std::uint64_t split_mix(std::uint64_t n) {
  n = (n + 1) * 0x9e3779b97f4a7c15;
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
  return (n ^ n >> 27) * 0x94d049bb133111eb;
}

}  // namespace tracekit
