// What RISC-V's mnemonics mean, as gem5's decoder defines them (src/arch/riscv/isa/decoder.isa).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/op_class.hpp"

namespace tracekit::isa {

enum : std::uint8_t {
  riscv_no_dst = 1,      // every printed register is read
  riscv_dst_is_src = 2,  // the first register is read as well as written
  riscv_writes_ra = 4,   // writes x1, which is not printed
  riscv_reads_ra = 8,
};

struct RiscvTraits {
  OpClass op{OpClass::IntAlu};
  Flags flags{flag::IsInteger};
  std::uint8_t shape{};
  std::uint8_t size{};  // bytes of one access; 0 = none or unknown
};

RiscvTraits riscv_traits(std::string_view mnemonic);

}  // namespace tracekit::isa
