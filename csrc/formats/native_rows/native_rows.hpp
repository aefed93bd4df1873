// Native instructions to the rows that the feature stage takes.
//
// An instruction with one access or none is one row.  With several it becomes as many pseudo
// micro-ops, one an access in the order that the source gives (loads before stores, iteration by
// iteration of a `rep`), so that every access updates the stacks and the macro join makes one row
// of them again: the first has the registers and flags, the last the control flow.
//
// With `halves`, what a vector register holds is accessed 8 bytes at a time, as gem5's X86 does:
// then both lines of an access that crosses from one to the next are touched, in both.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/counters.hpp"
#include "core/row_batch.hpp"
#include "core/static_table.hpp"
#include "formats/common/native_batch.hpp"

namespace tracekit {

// What Encoding::bytes says where it is not machine code.
enum class Described : std::uint8_t {
  branch_kind,  // the last byte is a BranchKind, nothing else is known
  regdeps,      // DynamoRIO's synthetic ISA: categories and registers; the last byte as above
  champsim,     // ChampSim's registers (champsim.hpp)
};

class NativeRows {
 public:
  // Both tables live at least as long as this object.
  NativeRows(const EncodingTable& encodings, StaticTable& statics, Described described, bool halves)
      : encodings_(&encodings), statics_(&statics), described_(described), halves_(halves) {}

  // Meets the encodings of a batch that is to be converted.  New ones with machine code must be
  // decoded by the caller and handed to `define` first: their ids are appended.
  void meet(const NativeBatch& batch, std::vector<std::uint32_t>& to_decode);
  // `inst` at the macro level, as tracekit.isa decodes it; pc and bytes are filled in here.
  // `length` in bytes as the decoder tells it, 0 = as the encoding says.  Throws std::out_of_range
  // for an id that was not met.
  void define(std::uint32_t id, StaticInst inst, std::uint8_t length);

  // Appends the rows of `in` to `out`.  A conditional branch at the very end whose outcome the next
  // instruction decides is kept for the next call or for `finish`.  Throws std::out_of_range for an
  // encoding that was never defined.
  void convert(const NativeBatch& in, RowBatch& out);
  void finish(RowBatch& out);

  std::uint64_t instructions() const { return instructions_; }
  const Counters& anomalies() const { return anomalies_; }

 private:
  enum Part : unsigned {
    sole_none,
    sole_load,
    sole_store,
    first_load,
    first_store,
    mid_load,
    mid_store,
    last_load,
    last_store,
    n_parts
  };
  struct Access {
    std::uint64_t address;
    std::uint32_t size;
    bool store;
  };
  struct Known {
    std::array<std::uint32_t, n_parts> sid;  // StaticTable::none until it is used
    BranchKind branch{};
    std::uint8_t length{};
    bool met{}, defined{}, syscall{};
  };
  std::uint32_t part(std::uint32_t id, Part p, std::uint32_t access_size);
  void add(const NativeBatch& in, std::size_t i, std::uint32_t id, std::uint8_t taken,
           RowBatch& out);
  std::uint8_t decide(std::uint32_t id, std::uint8_t bits, std::uint32_t next,
                      std::uint8_t next_bits);
  const Known& known(std::uint32_t id) const;

  const EncodingTable* encodings_;
  StaticTable* statics_;
  Described described_;
  bool halves_;
  std::vector<Known> known_;
  std::vector<Access> accesses_;  // of the instruction at hand
  NativeBatch pending_;           // at most one instruction: see `convert`
  std::uint64_t instructions_{};
  Counters anomalies_;
};

}  // namespace tracekit
