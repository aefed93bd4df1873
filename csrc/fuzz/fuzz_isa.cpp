// Any text must decode without a crash and keep the invariants of a decoded instruction.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "isa/text_decode.hpp"

namespace {

using namespace tracekit;

void check(bool ok) {
  if (!ok) std::abort();
}

template <class Regs>
void check_registers(const Regs& regs) {
  for (std::size_t i = 0; i < regs.size(); ++i) {
    check(static_cast<unsigned>(regs[i].cls) <= static_cast<unsigned>(RegClass::misc));
    check(regs[i].index < 128);
    for (std::size_t j = 0; j < i; ++j) check(!(regs[i] == regs[j]));
  }
}

}  // namespace

// Byte 0: instruction set and whether the flags are known; bytes 1-4: some flags; then the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  const auto arch = static_cast<Arch>(data[0] % 4);
  StaticInst inst;
  inst.inferred = data[0] & 4;
  inst.upc = data[1];
  if (!inst.inferred) {
    for (unsigned i = 1; i < 5; ++i) inst.flags |= Flags{data[i]} << (8 * (i - 1));
    inst.op = static_cast<OpClass>(data[2] % op_class_names.size());
  }
  inst.disassembly.assign(reinterpret_cast<const char*>(data + 5), size - 5);
  detect_arch(inst.disassembly);
  decode_text(arch, inst);
  is_syscall(inst);
  x86_branch_displacement(inst);
  is_inner_branch(inst);
  check_registers(inst.src);
  check_registers(inst.dst);
  check(inst.access_size <= 64);
  check((inst.branch == BranchKind::none) == !inst.has(flag::IsControl));
  return 0;
}
