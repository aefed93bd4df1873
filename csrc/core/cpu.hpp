// Which instruction set the kernels use: chosen once at run time, forced by TRACEKIT_ISA.
#pragma once

#include <cstdint>

namespace tracekit {

// In order of width; NEON machines run the portable code, which compilers vectorise for them.
enum class Isa : std::uint8_t { portable, avx2, avx512 };

// The widest set that this CPU has and that TRACEKIT_ISA (portable, avx2, avx512) allows.  Throws
// std::runtime_error when the variable names a set that the CPU lacks or that does not exist.
Isa active_isa();
const char* isa_name(Isa isa);

}  // namespace tracekit
