#include "isa/text_decode.hpp"

#include "isa/decoders.hpp"
#include "isa/scan.hpp"

namespace tracekit {

Arch detect_arch(std::string_view raw) {
  using namespace isa;
  // gem5 leads with two blanks on ARM and X86 and with none on RISC-V; an X86 micro-op is
  // "  MACRO : uop   operands", and its macro's name is in capitals.
  const bool blanks = raw.starts_with("  ");
  std::string_view rest = trim(raw);
  const std::string_view word = take_word(rest);
  const std::string_view head = head_word(word);
  if (head.empty()) return Arch::unknown;
  const auto capital = [](char c) { return (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; };
  const bool macro = std::all_of(head.begin(), head.end(), capital) && head.front() >= 'A';
  if (macro && (rest.starts_with(": ") || word.substr(head.size()).starts_with('.')))
    return Arch::x86;
  if (blanks) {
    if (macro) return Arch::x86;
    // Both print a bare `nop` or `syscall`; every other line of ARM's names what X86 cannot.
    if (word == "syscall" || word == "hlt" || word == "int3") return Arch::x86;
    if (rest.empty() && word == "nop") return Arch::unknown;
    return Arch::arm;
  }
  // An atomic's fence prints its encoding first: `0x1ce426af fence`.
  if (head.starts_with("0x")) return rest == "fence" ? Arch::riscv : Arch::unknown;
  if (head.front() >= 'a' && head.front() <= 'z') return Arch::riscv;
  return Arch::unknown;
}

namespace {

void decode_once(Arch arch, StaticInst& inst) {
  inst.src.clear();
  inst.dst.clear();
  inst.access_size = 0;
  switch (arch) {
    case Arch::arm:
      isa::decode_arm(inst);
      break;
    case Arch::x86:
      isa::decode_x86(inst);
      break;
    case Arch::riscv:
      isa::decode_riscv(inst);
      break;
    case Arch::unknown:
      // The first line of a trace may be a bare nop, before anything tells the instruction set.
      if (inst.inferred && inst.disassembly == "nop") {
        inst.op = OpClass::IntAlu;
        inst.flags = flag::IsNop;
      }
      break;
  }
}

bool is_vector_class(OpClass op) {
  const std::string_view name = op_class_names[static_cast<std::size_t>(op)];
  return name.starts_with("Simd") || (name.starts_with("Float") && !name.starts_with("FloatMem"));
}

}  // namespace

void decode_text(Arch arch, StaticInst& inst) {
  const OpClass op = inst.op;
  const Flags flags = inst.flags;
  const bool inferred = inst.inferred;
  decode_once(arch, inst);
  if (inferred && (op != OpClass::No_OpClass || flags)) {
    // The trace printed one of the two: it stands, and tells more about the operands.
    if (op != OpClass::No_OpClass) inst.op = op;
    if (flags)
      inst.flags = flags;
    else if (arch == Arch::arm && is_vector_class(op) && !inst.has(flag::IsVector))
      inst.flags = (inst.flags & ~flag::IsInteger) | flag::IsVector;
    inst.inferred = false;
    decode_once(arch, inst);
    inst.inferred = true;
  }
  inst.branch = isa::branch_kind(inst.flags);
}

bool is_syscall(const StaticInst& inst) {
  if (inst.has(flag::IsSyscall)) return true;
  std::string_view rest = inst.disassembly;
  const std::string_view word = isa::take_word(rest);
  if (word == "svc" || word == "ecall" || word == "syscall") return true;
  // X86: `SYSCALL_64 : ...` and the trap of `int 0x80`.
  if (word.starts_with("SYSCALL")) return true;
  return word == "int" && (rest == "0x80" || rest == "#0x80");
}

void decode_renamed(StaticInst& inst) {
  inst.src.clear();
  inst.dst.clear();
  isa::decode_x86(inst, isa::X86Registers::renamed);
}

}  // namespace tracekit
