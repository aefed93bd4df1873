// The decoder of each instruction set and what they share.
#pragma once

#include "core/static_inst.hpp"
#include "isa/x86_table.hpp"

namespace tracekit::isa {

void decode_arm(StaticInst& inst);
void decode_x86(StaticInst& inst, X86Registers registers = X86Registers::whole);
void decode_riscv(StaticInst& inst);

// The kind of branch that the flags tell; `none` without IsControl.
BranchKind branch_kind(Flags flags);

// The flags that gem5 gives a memory access of this class by itself (IsLoad or IsStore).
Flags access_flags(OpClass op);

}  // namespace tracekit::isa
