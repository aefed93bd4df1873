// ChampSim's trace records, read and written.
//
// 64 bytes: u64 ip; u8 is_branch, taken, dst[2], src[4]; u64 dst_mem[2], src_mem[4].  CloudSuite's
// variant has 96: dst[4], dst_mem[4] and u8 asid[2] (then 6 bytes of padding).  0 = none
// everywhere. There is no machine code: ChampSim tells the kind of a branch from which of three
// special registers (stack pointer, flags, instruction pointer) are read and written
// (inc/instruction.h), so do we.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/counters.hpp"
#include "core/row_batch.hpp"
#include "core/static_table.hpp"
#include "formats/common/native_batch.hpp"

namespace tracekit {

class ChampsimParser {
 public:
  ChampsimParser(EncodingTable& table, bool cloudsuite) : table_(&table), wide_(cloudsuite) {}
  void feed(const std::uint8_t* data, std::size_t n);
  void finish();  // counts a record that the stream's end cuts
  void take(NativeBatch& rows);
  std::size_t record_bytes() const { return wide_ ? 96 : 64; }
  const Counters& anomalies() const { return anomalies_; }

 private:
  void record(const std::uint8_t* p);

  EncodingTable* table_;
  bool wide_;
  bool restart_{true};
  NativeBatch batch_;
  Counters anomalies_;
  std::uint8_t tail_[96]{};
  std::size_t tail_size_{};
  std::uint64_t offset_{};
};

// The static instruction of an encoding that ChampsimParser interned.  Registers: Pin's numbers
// 3-18 are the sixteen integer registers (x86 numbering, core/static_inst.hpp), 25 the condition
// codes, 26 the instruction pointer (no operand); of the others the format does not tell the class:
// `misc` with ChampSim's number.
StaticInst describe_champsim(const Encoding& e);

// Writes rows (of any level: micro-ops are joined to their instruction) as 64-byte records.  What
// does not fit (over 2 destinations or 4 sources of either sort) is dropped and counted.
class ChampsimWriter {
 public:
  // `arch` tells how registers are numbered; `unknown` = they were read from ChampSim itself.
  explicit ChampsimWriter(Arch arch) : arch_(arch) {}
  // Appends to `out`.  An instruction whose last micro-op is still to come stays for the next call.
  void encode(const StaticTable& statics, const std::uint32_t* sid, const std::uint64_t* addr,
              const std::uint8_t* bits, std::size_t rows, std::vector<std::uint8_t>& out);
  std::uint64_t records() const { return records_; }
  const Counters& dropped() const { return dropped_; }

 private:
  void add(const StaticInst& s, std::uint64_t addr, std::uint8_t bits);
  void emit(std::vector<std::uint8_t>& out);
  std::uint8_t number(const Reg& r) const;

  Arch arch_;
  bool open_{}, taken_{};
  std::uint64_t pc_{};
  BranchKind branch_{};
  SmallVector<std::uint8_t, 32> src_, dst_;
  SmallVector<std::uint64_t, 4> loads_;
  SmallVector<std::uint64_t, 2> stores_;
  std::uint64_t records_{};
  Counters dropped_;
};

}  // namespace tracekit
