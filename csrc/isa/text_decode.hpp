// From gem5's disassembly text to operands and static semantics.
//
// Registers come in tracekit's numbering: ARM x0-x30 = 0-30, sp = 31, micro-op temporaries 32 and
// up, v and p by number; X86 rax rcx rdx rbx rsp rbp rsi rdi r8-r15 = 0-15 whatever the width,
// temporaries 16 and up, xmmN = vector N; RISC-V x1-x31, f0-f31.  Registers that always read as
// zero (xzr, t0, x0) are no operands; an architecture's condition codes are one register.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/static_inst.hpp"

namespace tracekit {

// From one disassembly as the trace prints it, leading blanks included; `unknown` if it cannot
// tell.
Arch detect_arch(std::string_view raw_disassembly);

// Fills src, dst, access_size and branch from `disassembly`, `op` and `flags`.  When `inferred` is
// set (the trace printed neither op class nor flags), derives those two from the mnemonic first.
// Any text is safe; what is not understood leaves fields empty.
void decode_text(Arch arch, StaticInst& inst);

// src and dst of a micro-op of X86 as gem5's cores rename them: the halves of xmm registers are two
// (high ones from 128 on), the condition codes four: ZF, AF, PF and SF; CF and OF; ECF; EZF.
void decode_renamed(StaticInst& inst);

// An instruction that traps to the operating system in every run (svc, syscall, int 0x80, ecall).
bool is_syscall(const StaticInst& inst);

// The displacement d of the micro-op `limm t2, d` of an X86 branch, from which features.md's rule
// decides whether the branch was taken; nothing for any other micro-op.
std::optional<std::int64_t> x86_branch_displacement(const StaticInst& limm);

// X86's micro-op `br`: it leads to another micro-op of the same macro-op, never out of it.
bool is_inner_branch(const StaticInst& inst);

}  // namespace tracekit
