// What a real processor's core has to know about an instruction: its micro-ops, the ports that they
// take, its latency, what its registers are for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracekit::hardware {

// BIT(name, value): how a machine treats an instruction.  All but the ones told apart come from the
// machine's instruction table (tracekit/hardware/instruction_table.py).
//
// zero_idiom           its result is zero whatever it reads, and nothing executes
// eliminated_move      renaming makes its result; nothing executes
// no_op                takes slots alone
// serializing          waits until all older ones have retired; younger ones wait for it
// fuses_with_branch    is one slot with the conditional branch behind it
// conditional_branch   of what may follow such a one
// locked               atomic: waits until older stores are written; younger loads wait for it
// vector               works in the vector registers: loads take the vectors' latency
// stack_engine         its change of the stack pointer costs no latency
// divider              its unit is not pipelined
// rep                  rows of one pc behind each other are the iterations of one instruction
// fence                younger accesses wait until all older ones are done
// wide                 512 bits
// fuses_limited        fuses with branches that read no carry alone
// software_prefetch    brings a line, and waits for nothing
// microcoded           the decoders stand still while the microcode's memory delivers it
// move                 a move between registers
// syscall              enters the operating system
// reads_carry          of a branch
// dependency_breaking  executes, but waits for none of its registers
//
// Of the operands (tracekit/hardware/static_ops.py):
// nontemporal          its stores go past the caches
// indexed              its address has an index register
// stack_base           its address is a distance from the stack's or the frame's pointer
// scaled               its address has an index times two, four or eight
// takes_move           is one slot with a move into its destination before it
// addition             of floating point: another one takes its result early
// alu                  an operation of general registers that waits in their scheduler
// renamable            its access is of a whole general register
// moves_stack          changes the stack pointer by a constant
// fetched_line         stands for a line of code that was used before a sample
// clang-format off
#define TRACEKIT_HARDWARE_OP_BITS(BIT)                                                             \
  BIT(zero_idiom, 0) BIT(eliminated_move, 1) BIT(no_op, 2) BIT(serializing, 3)                     \
  BIT(fuses_with_branch, 4) BIT(conditional_branch, 5) BIT(load, 6) BIT(store, 7) BIT(locked, 8)   \
  BIT(vector, 9) BIT(stack_engine, 10) BIT(divider, 11) BIT(rep, 12) BIT(fence, 13) BIT(wide, 14)  \
  BIT(fuses_limited, 15) BIT(software_prefetch, 16) BIT(microcoded, 17) BIT(move, 18)              \
  BIT(syscall, 19) BIT(reads_carry, 20) BIT(nontemporal, 21) BIT(indexed, 22) BIT(stack_base, 23)  \
  BIT(dependency_breaking, 24) BIT(scaled, 25) BIT(takes_move, 26) BIT(addition, 27)               \
  BIT(alu, 28) BIT(renamable, 29) BIT(moves_stack, 30) BIT(fetched_line, 31)
// clang-format on

namespace op_bit {
#define BIT(name, place) name = std::uint32_t{1} << place,
enum : std::uint32_t { TRACEKIT_HARDWARE_OP_BITS(BIT) };
#undef BIT
}  // namespace op_bit

enum class UseKind : std::uint8_t { operation, load, store_address, store_data, count };

// A group of ports, one of which is taken for so many cycles; whole cycles are taken so that the
// mean is right.
struct PortUse {
  std::uint32_t ports{};  // a bit a port
  float cycles{};
  UseKind kind{};
};

inline constexpr std::uint16_t no_register = 0xffff;
inline constexpr std::size_t most_registers = 256;  // of a trace
inline constexpr std::size_t most_sources = 8, most_results = 6;
inline constexpr std::size_t most_schedulers = 12;

// One static instruction.
struct Op {
  std::uint64_t pc{};
  std::uint32_t flags{};
  std::uint32_t use_begin{}, use_end{};  // of the machine's list of uses
  float latency{};                       // from its data sources, or loaded data, to its result
  std::uint16_t size{};                  // of its first access, in bytes
  std::uint8_t length{};                 // of its machine code
  std::uint8_t uops{};                   // slots
  std::uint8_t fields{};                 // displacements and immediates of its machine code
  std::uint8_t branch{};                 // BranchKind
  std::uint8_t address_sources{}, data_sources{};  // a bit for each place of source
  std::uint8_t early_results{};                    // of result: those that follow from the address
  std::uint8_t int_results{}, vector_results{};
  std::uint16_t source[most_sources];
  std::uint16_t result[most_results];

  bool is(std::uint32_t mask) const { return (flags & mask) != 0; }
};

}  // namespace tracekit::hardware
