#include "formats/common/describe.hpp"

#include <cstring>

namespace tracekit {

Flags branch_flags(BranchKind kind) {
  using namespace flag;
  switch (kind) {
    case BranchKind::none:
      return 0;
    case BranchKind::conditional:
      return IsControl | IsDirectControl | IsCondControl;
    case BranchKind::jump:
      return IsControl | IsDirectControl | IsUncondControl;
    case BranchKind::call:
      return IsControl | IsDirectControl | IsUncondControl | IsCall;
    case BranchKind::indirect:
      return IsControl | IsIndirectControl | IsUncondControl;
    case BranchKind::indirect_call:
      return IsControl | IsIndirectControl | IsUncondControl | IsCall;
    case BranchKind::ret:
      return IsControl | IsIndirectControl | IsUncondControl | IsReturn;
    case BranchKind::indirect_conditional:
      return IsControl | IsIndirectControl | IsCondControl;
  }
  return 0;
}

StaticInst describe_branch_kind(const Encoding& e) {
  StaticInst s;
  const std::uint8_t kind = e.bytes.back();
  if (kind <= static_cast<std::uint8_t>(BranchKind::indirect_conditional))
    s.branch = static_cast<BranchKind>(kind);
  s.flags = branch_flags(s.branch);
  if (s.branch != BranchKind::none) s.op = OpClass::IntAlu;
  s.inferred = true;
  return s;
}

StaticInst describe_regdeps(const Encoding& e) {
  enum : std::uint32_t {
    fp = 0x1,
    load = 0x2,
    store = 0x4,
    simd = 0x10,
    state = 0x20,
    convert = 0x80,
    math = 0x100
  };
  StaticInst s = describe_branch_kind(e);
  std::uint32_t head;
  std::memcpy(&head, e.bytes.data(), sizeof head);
  const unsigned n_dst = head & 15, n_src = head >> 4 & 15;
  const bool writes_flags = head >> 8 & 1, reads_flags = head >> 9 & 1;
  const std::uint32_t category = head >> 10;
  const bool vector = (category & (simd | fp)) != 0;
  const RegClass cls = vector ? RegClass::vector : RegClass::integer;
  // Eight operands are the most, and end within the 15 bytes that are kept.
  const auto reg = [&](unsigned i) -> Reg { return {cls, e.bytes[5 + i]}; };
  const unsigned room = Encoding::max_bytes - 1 - 5;
  for (unsigned i = 0; i < n_dst && i < room; ++i) s.dst.push_unique(reg(i));
  for (unsigned i = n_dst; i < n_dst + n_src && i < room; ++i) s.src.push_unique(reg(i));
  const Reg cc{RegClass::condition, 0};
  if (writes_flags) s.dst.push_unique(cc);
  if (reads_flags) s.src.push_unique(cc);
  s.flags |= vector ? flag::IsFloating : flag::IsInteger;
  if (category & load) {
    s.flags |= flag::IsLoad;
    s.op = vector ? OpClass::FloatMemRead : OpClass::MemRead;
  } else if (category & store) {
    s.flags |= flag::IsStore;
    s.op = vector ? OpClass::FloatMemWrite : OpClass::MemWrite;
  } else if (vector) {
    const bool real = (category & fp) != 0;
    s.op = category & convert ? (real ? OpClass::SimdFloatCvt : OpClass::SimdCvt)
           : category & math  ? (real ? OpClass::SimdFloatAdd : OpClass::SimdAdd)
                              : (real ? OpClass::SimdFloatMisc : OpClass::SimdMisc);
  } else {
    s.op = OpClass::IntAlu;
  }
  if (category & store) s.flags |= flag::IsStore;
  return s;
}

}  // namespace tracekit
