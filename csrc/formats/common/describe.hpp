// Static semantics of instructions whose machine code the source does not have.
#pragma once

#include "core/static_inst.hpp"
#include "formats/common/native_batch.hpp"

namespace tracekit {

// gem5's flags of a kind of branch.
Flags branch_flags(BranchKind kind);

// From a kind of branch alone (an old drmemtrace, lackey): everything else stays unknown.
StaticInst describe_branch_kind(const Encoding& e);

// From DynamoRIO's regdeps encoding (core/ir/isa_regdeps/encoding_common.h): a 32-bit head (4 bits
// number of destinations, 4 of sources, 2 arithmetic flags written and read, 22 categories), the
// operand size, then one byte a register, destinations first.  Registers are numbers without a
// class: they become integer registers, or vector registers in SIMD and floating-point
// instructions.
StaticInst describe_regdeps(const Encoding& e);

}  // namespace tracekit
