// The program's code as far as the trace has it: what lies behind an instruction that a core takes
// for the next one, and what is known of the registers there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core_inst.hpp"

namespace tracekit {

// What a part says of a register: that it was an access's address less `number` (access), becomes
// itself or another one plus `number` (sum), or becomes `number` (constant).
struct RegisterValue {
  enum Kind : std::uint8_t { none, access, sum, constant, count };
  std::int64_t number{};
  std::uint16_t base{};
  Kind kind{none};
};

class CodeMap {
 public:
  static constexpr std::uint32_t nowhere = 0xffffffff;
  // `values`: of each part, or none at all: then nothing is known.  `reach`: bytes from one part to
  // the next that such a path may pass over.
  CodeMap(std::vector<CoreInst> insts, std::vector<RegisterValue> values, unsigned reach);

  std::span<const CoreInst> insts() const { return insts_; }
  bool known() const { return !values_.empty(); }
  std::uint32_t number(const CoreInst& inst) const {
    return static_cast<std::uint32_t>(&inst - insts_.data());
  }
  // The part behind one, if it is no branch that is taken: the next that the trace has.
  std::uint32_t behind(std::uint32_t part) const { return behind_[part]; }
  // Of an instruction, on average.
  double parts() const { return parts_; }
  const RegisterValue& value(std::uint32_t part) const { return values_[part]; }

 private:
  std::vector<CoreInst> insts_;
  std::vector<RegisterValue> values_;
  std::vector<std::uint32_t> behind_;
  double parts_{1};
};

}  // namespace tracekit
