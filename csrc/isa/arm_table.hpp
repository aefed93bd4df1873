// What AArch64's mnemonics mean, as gem5 prints them (src/arch/arm/isa).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/op_class.hpp"

namespace tracekit::isa {

enum : std::uint16_t {
  arm_no_dst = 1,      // every printed register is read
  arm_dst_is_src = 2,  // the first register is read as well as written
  arm_two_dst = 4,     // the first two registers are written
  arm_second_dst = 8,  // `stxr data, status, [base]`: the second register is written
  arm_reads_cc = 16,
  arm_writes_cc = 32,
  arm_drops_zero = 64,     // a zero destination is left out of the text: `subs   x2, x1` is cmp
  arm_int_dst = 128,       // mixed operands: the first is general, the others are vectors
  arm_links = 256,         // writes x30
  arm_compare_swap = 512,  // `cas new, expected, [base]`: expected is read and written
};

struct ArmTraits {
  OpClass op{OpClass::IntAlu};
  Flags flags{flag::IsInteger};
  std::uint16_t shape{};
  std::int8_t size{};  // bytes; 0 = none or unknown
  bool known{};
};

inline constexpr std::int8_t arm_by_address = -1;  // only the address may tell

enum class ArmSpace : std::uint8_t {
  general,  // no operand is known to be a vector
  vector,   // the trace's flags say that an operand is one
  sve,      // a z or p register is printed
};
ArmTraits arm_traits(std::string_view mnemonic, ArmSpace space);

// Does gem5 print this SVE mnemonic's destination as a z register when it is a predicate?
bool sve_names_predicate(std::string_view mnemonic);

// The class of `mnemonic` on whole vectors, where it differs from the scalar's.
OpClass arm_vector_op(std::string_view mnemonic, OpClass scalar);

// Does this vector instruction have a general register among its operands?  For text without flags;
// `scalar`: its registers are printed as fN.
bool arm_mixes(std::string_view mnemonic, bool scalar, unsigned immediates);

}  // namespace tracekit::isa
