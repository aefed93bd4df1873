#include "isa/decoders.hpp"

namespace tracekit::isa {

BranchKind branch_kind(Flags flags) {
  if (!(flags & flag::IsControl)) return BranchKind::none;
  const bool indirect = flags & flag::IsIndirectControl;
  if (flags & flag::IsReturn) return BranchKind::ret;
  if (flags & flag::IsCall) return indirect ? BranchKind::indirect_call : BranchKind::call;
  if (flags & flag::IsCondControl)
    return indirect ? BranchKind::indirect_conditional : BranchKind::conditional;
  return indirect ? BranchKind::indirect : BranchKind::jump;
}

Flags access_flags(OpClass op) {
  if (reads_memory(op)) return flag::IsLoad;
  if (writes_memory(op)) return flag::IsStore;
  return 0;
}

}  // namespace tracekit::isa
