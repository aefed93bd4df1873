#pragma once

#include <cstdint>

namespace tracekit {

using Cycle = std::int64_t;
inline constexpr Cycle long_ago = -(Cycle{1} << 40);
inline constexpr std::uint64_t line_bits = 6, line_bytes = 1 << line_bits;
inline constexpr std::uint64_t no_line = ~std::uint64_t{0};  // no line's number, nor an address

}  // namespace tracekit
