// What a core has to know about a static instruction, and about a row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "core/op_class.hpp"
#include "core/static_inst.hpp"
#include "sim/cycle.hpp"
#include "sim/predictors/direction_predictor.hpp"

namespace tracekit {

// BIT(name, value): what a row of a core is or does.  store: or atomic, or store-conditional;
// in_order: executes at the head of the reorder buffer; split: its bytes lie on both sides of an
// address that 16 divides; second_int and the like: it writes so many registers; masked: some of
// its bytes are not written.
// clang-format off
#define TRACEKIT_CORE_INST_BITS(BIT)                                                               \
  BIT(load, 1) BIT(store, 2) BIT(serialize_before, 4) BIT(serialize_after, 8) BIT(in_order, 16)    \
  BIT(barrier, 32) BIT(atomic, 64) BIT(data_prefetch, 128) BIT(no_op, 256) BIT(zero_line, 512)     \
  BIT(writes_int, 1024) BIT(writes_vec, 2048) BIT(compressed_branch, 4096)     \
  BIT(split, 8192) BIT(second_int, 16384) BIT(third_int, 32768) BIT(second_vec, 65536)             \
  BIT(masked, 131072) BIT(traps, 262144)
// clang-format on

// What a core has to know about a static instruction.
struct CoreInst {
  enum : std::uint32_t {
#define BIT(name, value) name = value,
    TRACEKIT_CORE_INST_BITS(BIT)
#undef BIT
  };
  // No access, no branch, no trap, no multiplication, no division, nothing waits for its place, and
  // no more registers than are common, of one file: what pack() finds.
  static constexpr std::uint32_t computes = 1u << 31;
  static constexpr std::uint16_t no_register = 0xffff;
  static constexpr std::size_t sources = 8, destinations = 6;
  static constexpr std::size_t common = 3;  // few read more, or write more
  enum : std::uint8_t { int_file, vec_file, files };
  // So many registers there are at most.  Behind those that an instruction reads stands one that
  // nothing writes, behind those that it writes one that nothing reads: loops need no end.
  static constexpr std::uint16_t most_registers = 4096, unwritten = 4096, unread = 4097,
                                 all_registers = 4098;
  std::uint64_t pc{};
  std::uint32_t flags{};
  OpClass op{};
  std::uint8_t branch{};  // BranchKind
  std::uint8_t offset{};  // of the access from the row's address
  // Registers that it writes of one file: of vectors, if it writes any, else of integers; and the
  // integers of one that writes vectors, too.
  std::uint8_t file{}, file_writes{}, more_ints{};
  // Of its access, as the store buffer counts them.
  std::uint8_t bytes{1};
  std::uint16_t src[sources], dst[destinations];
  std::uint8_t reads{}, writes{};  // how many of them there are
  // What is told of it by the arrays and flags above.  `divides`: or multiplies.
  void pack(bool divides) {
    const auto used = [](std::uint16_t r) { return r != no_register; };
    const auto front = [&](auto& all, std::uint16_t rest) {
      const auto end = std::stable_partition(std::begin(all), std::end(all), used);
      std::fill(end, std::end(all), rest);
      return static_cast<std::uint8_t>(end - std::begin(all));
    };
    reads = front(src, unwritten);
    writes = front(dst, unread);
    const auto ints = static_cast<std::uint8_t>(is(writes_int) + is(second_int) + is(third_int));
    const auto vecs = static_cast<std::uint8_t>(is(writes_vec) + is(second_vec));
    file = vecs > 0 ? vec_file : int_file;
    file_writes = vecs > 0 ? vecs : ints;
    more_ints = vecs > 0 ? ints : 0;
    constexpr std::uint32_t registers =
        writes_int | writes_vec | second_int | third_int | second_vec | masked;
    const bool few = reads <= common && writes <= common && more_ints == 0;
    if ((flags & ~registers) == 0 && branch == 0 && !divides && few) flags |= computes;
  }
  // Its access is of so many bytes; 0: that is not known.
  void access(unsigned n) {
    bytes = static_cast<std::uint8_t>(std::clamp<unsigned>(n, 1, line_bytes));
  }
  std::span<const std::uint16_t> read() const { return {src, reads}; }
  std::span<const std::uint16_t> written() const { return {dst, writes}; }

  bool is(unsigned mask) const { return (flags & mask) != 0; }
  std::uint64_t line() const { return pc >> line_bits; }
  // Of its last byte.
  std::uint64_t last_line() const { return (is(split) ? pc + 15 : pc) >> line_bits; }
  bool serializes() const { return is(serialize_before | serialize_after); }
};

// The first byte of an access in another line, or 0: then two lines are asked for (gem5's
// LSQ::SplitDataRequest).
inline std::uint64_t second_line(std::uint64_t address, unsigned bytes) {
  const std::uint64_t in_line = address & (line_bytes - 1);
  return in_line + bytes <= line_bytes ? 0 : address - in_line + line_bytes;
}

// One row, with what is the same for all cores.
struct CoreRow {
  const CoreInst* inst;
  std::uint64_t addr, next;  // next: the pc of the instruction behind
  bool taken, indirect_right, fault;
  bool last;             // of the instruction's parts
  std::uint32_t target;  // the part that is behind, in another instruction

  std::uint64_t second_line() const { return tracekit::second_line(addr, inst->bytes); }
  bool is_branch() const { return static_cast<BranchKind>(inst->branch) != BranchKind::none; }
  BranchEvent event() const {
    return {inst->pc, next, static_cast<BranchKind>(inst->branch), taken, false};
  }
  // As gem5's O3 CPU sees it.
  BranchEvent o3_event() const {
    BranchEvent out = event();
    out.compressed = inst->is(CoreInst::compressed_branch);
    return out;
  }
};

}  // namespace tracekit
