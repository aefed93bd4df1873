// The weights of a multiperspective perceptron: sign and magnitude, of which a table gives what
// they count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tracekit::bp::multiperspective {

// A weight is a byte: its magnitude in bits 0 to 4, the signs of branches with even and with odd
// hashes in bits 5 and 6.
inline std::uint32_t signed_magnitude(std::uint8_t weight, std::uint32_t odd) {
  return (weight & 0x1fu) | (weight >> odd & 0x20u);
}

// What a magnitude counts, in tables of six bits and of five.
inline constexpr std::array<std::uint8_t, 32> transfer6{1,  3,  4,  5,  7,  8,  9,  11, 12, 14, 15,
                                                        17, 19, 21, 23, 25, 27, 29, 32, 34, 37, 41,
                                                        45, 49, 53, 58, 63, 69, 76, 85, 94, 106};
inline constexpr std::array<std::uint8_t, 32> transfer5{0,  4,  5,  7,  9,  11, 12, 14,
                                                        16, 17, 19, 22, 28, 33, 39, 45};

// What a signed magnitude counts, times a coefficient.
constexpr std::array<std::int16_t, 64> counts(int width, double coefficient) {
  std::array<std::int16_t, 64> value{};
  for (std::size_t k = 0; k < 32; ++k) {
    value[k] = static_cast<std::int16_t>(coefficient * (width == 5 ? transfer5 : transfer6)[k]);
    value[k + 32] = static_cast<std::int16_t>(-value[k]);
  }
  return value;
}
template <int width>
inline constexpr auto plain = counts(width, 1);

// The byte that a byte becomes, by outcome and oddness: one up or down, from +0 to -0 and back.
template <int width>
inline constexpr auto stepped = [] {
  std::array<std::array<std::array<std::uint8_t, 128>, 2>, 2> next{};
  for (unsigned taken = 0; taken < 2; ++taken)
    for (unsigned odd = 0; odd < 2; ++odd)
      for (unsigned w = 0; w < 128; ++w) {
        const unsigned sign = 0x20u << odd, magnitude = w & 0x1f;
        const bool grows = taken == !(w & sign);
        next[taken][odd][w] =
            static_cast<std::uint8_t>(grows       ? w + (magnitude < (1u << (width - 1)) - 1)
                                      : magnitude ? w - 1
                                                  : w ^ sign);
      }
  return next;
}();

}  // namespace tracekit::bp::multiperspective
