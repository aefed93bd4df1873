// What X86's micro-ops mean, as gem5 defines them (src/arch/x86/isa/microops and insts).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/op_class.hpp"

namespace tracekit::isa {

// Where a micro-op's printed operands go.
enum class X86Form : std::uint8_t {
  alu,        // dst, src...; a destination of 1 or 2 bytes is merged into its register
  mov,        // as alu, but 4 and 8 byte moves do not read src1 (which repeats dst)
  write,      // dst; the register printed after it only repeats it
  sources,    // every register is read
  store,      // data and address are read
  load,       // data is written, the address is read
  load_pair,  // two data registers
  media,      // dst, src...; dst is merged into (gem5 reads the old value)
  media_new,  // dst, src...; dst is replaced
  none,       // no register is printed
};

enum : std::uint16_t {  // the registers between micro-ops that text does not show
  x86_in_low = 1,       // the product's halves
  x86_in_high = 2,
  x86_out_product = 4,
  x86_in_quotient = 8,  // the state of a division
  x86_in_remainder = 16,
  x86_in_divisor = 32,
  x86_out_division = 64,  // quotient and remainder
  x86_out_divisor = 128,
  x86_in_double = 256,  // the second half of a double shift
  x86_out_double = 512,
};

struct X86Traits {
  X86Form form{X86Form::alu};
  OpClass op{OpClass::IntAlu};
  Flags flags{flag::IsInteger};
  std::uint16_t hidden{};
  bool known{};
};

// whole: xmm registers and condition codes are one register each.  renamed: as gem5 renames them,
// the halves of xmm registers apart, and the groups of condition codes.
enum class X86Registers : std::uint8_t { whole, renamed };
X86Traits x86_traits(std::string_view uop, X86Registers registers);

// Whether this micro-op reads or writes the condition codes (the emulation flags ECF and EZF, which
// loops inside a macro use, count as such).  Text does not show it; it follows from the macro, the
// micro-op and its place.  A write of some of the flags counts as no read of the others.
struct X86Conditions {
  bool reads{}, writes{};
};
X86Conditions x86_conditions(std::string_view macro, std::string_view uop, unsigned upc,
                             Flags flags);

// gem5's registers of condition codes (src/arch/x86/regs/ccr.hh): ZF, AF, PF and SF; CF and OF; the
// emulation flags ECF and EZF.  DF, which hardly anything writes, is left out.
enum : std::uint8_t { x86_zaps = 1, x86_cfof = 2, x86_ecf = 4, x86_ezf = 8, x86_all_codes = 15 };
inline constexpr unsigned x86_condition_registers = 4;
struct X86ConditionParts {
  std::uint8_t reads{}, writes{};
};
// Which of them a micro-op reads and writes that reads or writes any (`conditions`).  A condition
// reads all of them; who writes a part of a register reads it.
X86ConditionParts x86_condition_parts(std::string_view macro, std::string_view uop,
                                      X86Conditions conditions);

// Is the `br` at this place of this macro unconditional?  For text without flags.
bool x86_plain_branch(std::string_view macro, unsigned upc);

}  // namespace tracekit::isa
