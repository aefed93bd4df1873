// The length of an instruction, from the classes of pc that know it.
#ifndef TRACEKIT_LENGTH_HH
#define TRACEKIT_LENGTH_HH

#include "arch/generic/pcstate.hh"
#if __has_include("arch/x86/pcstate.hh")
#include "arch/x86/pcstate.hh"
#endif

namespace gem5 {
namespace tracekit_plugin {

// 0 where it cannot be told: the instruction's bytes then tell it (ARM, RISC-V).  A taken branch of
// X86 has lost it; the caller knows it from an earlier micro-op.
inline unsigned instruction_length(const PCStateBase& pc) {
#if __has_include("arch/x86/pcstate.hh")
  if (const auto* x86 = dynamic_cast<const X86ISA::PCState*>(&pc)) return x86->size();
#endif
  return 0;
}

}  // namespace tracekit_plugin
}  // namespace gem5

#endif
