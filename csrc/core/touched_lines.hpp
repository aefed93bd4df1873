// Rows that stand for lines of memory which a program used before a sample (record --touched):
// where no program lies.
#pragma once

#include <cstdint>

namespace tracekit::touched_line {

// Below what Linux maps for programs.
inline constexpr std::uint64_t read_pc = 0x1000, written_pc = 0x1010;
inline constexpr std::uint64_t code_pc = 0x1020;  // a load of a line of code

}  // namespace tracekit::touched_line
