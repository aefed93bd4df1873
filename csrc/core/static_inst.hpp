// One static instruction (a micro-op, at the micro level): everything about it that never changes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/op_class.hpp"
#include "core/small_vector.hpp"

namespace tracekit {

enum class Arch : std::uint8_t { unknown, arm, x86, riscv };

// Register classes: PerfVec's numbering (features.md), which all sources share.
enum class RegClass : std::uint8_t {
  integer = 0,
  floating = 1,
  vector = 2,
  vector_element = 3,
  vector_predicate = 4,
  condition = 5,
  misc = 6,
};

struct Reg {
  RegClass cls{};
  std::uint16_t index{};
  friend bool operator==(const Reg&, const Reg&) = default;
};

inline constexpr std::size_t max_src = 8;  // perfvec-ref has eight sources
inline constexpr std::size_t max_dst = 6;  // and six destinations
using SrcRegs = SmallVector<Reg, max_src>;
using DstRegs = SmallVector<Reg, max_dst>;

enum class BranchKind : std::uint8_t {
#define KIND(name, text) name,
#include "core/branch_kind.def"
#undef KIND
};
inline constexpr std::array branch_kind_names = {
#define KIND(name, text) std::string_view(text),
#include "core/branch_kind.def"
#undef KIND
};

struct StaticInst {
  std::uint64_t pc{};
  std::uint16_t upc{};
  OpClass op{OpClass::No_OpClass};
  BranchKind branch{BranchKind::none};
  std::uint16_t access_size{};  // bytes; 0 = none or unknown
  bool inferred{};              // op and flags come from the mnemonic, not from the trace
  Flags flags{};
  SrcRegs src;
  DstRegs dst;
  std::string disassembly;  // without padding and leading blanks
  std::string op_name;      // the trace's own name where op is Other
  std::string bytes;        // machine code, where known

  bool has(Flags f) const { return (flags & f) != 0; }
};

}  // namespace tracekit
