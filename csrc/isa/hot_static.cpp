#include "isa/hot_static.hpp"

#include "isa/text_decode.hpp"

namespace tracekit {
namespace {

void fall_through(Arch arch, const StaticTable& table, const StaticInst& inst, HotStatic& hot) {
  if (!inst.bytes.empty()) {
    hot.fall[0] = inst.pc + inst.bytes.size();
    return;
  }
  switch (arch) {
    case Arch::arm:
      hot.fall[0] = inst.pc + 4;
      return;
    case Arch::riscv:  // gem5 prints c_, Spike c. before the mnemonics of the compressed encodings
      if (inst.disassembly.empty()) {
        hot.fall[0] = inst.pc + 2;
        hot.fall[1] = inst.pc + 4;
      } else {
        hot.fall[0] =
            inst.pc +
            (inst.disassembly.starts_with("c_") || inst.disassembly.starts_with("c.") ? 2 : 4);
      }
      return;
    case Arch::x86:
      // features.md: the displacement in the macro's `limm t2, d` tells the length, 2 or 6 bytes;
      // some branches have the long form for a short displacement.
      for (unsigned upc = inst.upc; upc-- > 0;) {
        for (std::uint32_t s = table.find(inst.pc, static_cast<std::uint16_t>(upc));
             s != StaticTable::none; s = table.next(s)) {
          if (const auto d = x86_branch_displacement(table[s])) {
            // With d = 4 the long form would end where the short one, which is the usual, jumps to.
            hot.fall[0] = inst.pc + (*d == 4 ? 2 : 6);
            if (-128 <= *d && *d <= 127) hot.fall[1] = inst.pc + 2;
            return;
          }
        }
      }
      hot.bits |= HotStatic::any_fall;
      return;
    default:
      hot.bits |= HotStatic::any_fall;
  }
}

}  // namespace

HotStatic make_hot(Arch arch, const StaticTable& table, std::uint32_t sid) {
  const StaticInst& inst = table[sid];
  HotStatic hot;
  hot.pc = inst.pc;
  hot.upc = inst.upc;
  const auto set = [&](bool on, unsigned bit) {
    if (on) hot.bits |= static_cast<std::uint8_t>(bit);
  };
  set(inst.has(flag::IsControl), HotStatic::control);
  set(inst.has(flag::IsCondControl), HotStatic::conditional);
  set(inst.op == OpClass::MemRead, HotStatic::load_ref);
  set(reads_memory(inst.op), HotStatic::load);
  set(reads_memory(inst.op) || writes_memory(inst.op), HotStatic::memory);
  set(is_syscall(inst), HotStatic::syscall);
  set(inst.has(flag::IsLastMicroop) || !inst.has(flag::IsMicroop), HotStatic::last);
  hot.inner = is_inner_branch(inst);
  if (hot.is(HotStatic::conditional)) fall_through(arch, table, inst, hot);
  return hot;
}

}  // namespace tracekit
