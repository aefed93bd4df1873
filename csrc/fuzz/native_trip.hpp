// Native batches to rows, and those through the codec.
#pragma once

#include "formats/common/describe.hpp"
#include "formats/native_rows/native_rows.hpp"
#include "fuzz/round_trip.hpp"

namespace tracekit::fuzz {

// Semantics for machine code of any ISA: what it says does not matter here, only that every kind of
// instruction comes up, and the same one for the same code.
inline StaticInst made_up(const Encoding& e) {
  StaticInst s;
  s.branch = static_cast<BranchKind>(e.bytes[0] % 8);
  s.flags = branch_flags(s.branch);
  if (e.bytes[0] == 0x0f) s.flags |= flag::IsSyscall;
  s.op = static_cast<OpClass>(e.bytes[1] % op_class_names.size());
  return s;
}

class NativeTrip {
 public:
  NativeTrip(const EncodingTable& table, Described described, bool halves, const Choices& choices)
      : encodings_(&table), rows_(table, statics_, described, halves), choices_(choices) {}
  void add(const NativeBatch& batch) {
    ids_.clear();
    rows_.meet(batch, ids_);
    for (const std::uint32_t id : ids_) rows_.define(id, made_up((*encodings_)[id]), 0);
    rows_.convert(batch, out_);
    hand_over();
  }
  void finish() {
    rows_.finish(out_);
    hand_over();
    trip_.finish(statics_, choices_);
  }

 private:
  void hand_over() {
    trip_.add(out_, Arch::unknown, statics_, choices_);
    out_.clear();
  }
  const EncodingTable* encodings_;
  StaticTable statics_;
  NativeRows rows_;
  Choices choices_;
  RoundTrip trip_;
  RowBatch out_;
  std::vector<std::uint32_t> ids_;
};

}  // namespace tracekit::fuzz
