// An Exec line (gem5 src/cpu/exetrace.cc), taken apart once for each static instruction.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/static_inst.hpp"

namespace tracekit {

// What stands behind "<tick>: <cpu>: [A<asid> ][T<tid> : ]", cut into what is static and what is
// not:
//   0x402890    :   ldr   x1, [sp]           : MemRead :  A=0x7ffffefe50  FetchSeq=5 flags=(IsLoad)
//   |<----------------- head ------------------------->|<----- fields ----------->|<---- tail
//   ---->|
struct ExecText {
  std::string_view head, fields, tail;
  std::uint64_t pc{};
  std::uint16_t upc{};
  std::string_view
      disassembly;            // as printed, with its leading blanks, without the padding behind it
  std::string_view op_class;  // empty where ExecOpClass was off
  std::string_view flags;     // inside the parentheses; data() is null where ExecFlags was off
  bool macro_line{};          // ExecMacro's own line, which is no execution
};

// nullopt: not an Exec line.
std::optional<ExecText> split_exec(std::string_view rest);

struct ExecFields {
  std::uint64_t addr{};
  std::uint64_t seq{};
  bool has_addr{}, has_seq{}, predicated_off{};
};

// The dynamic fields; false where one cannot be read.
bool parse_exec_fields(std::string_view fields, ExecFields& out);

struct ExecStatic {
  StaticInst inst;  // without operands: isa/text_decode.hpp finds those
  bool unknown_op{}, unknown_flag{};
};

ExecStatic make_static(const ExecText& text);

}  // namespace tracekit
