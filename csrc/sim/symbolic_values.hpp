// Values that nobody knows, told apart: two that are made alike from the same values are the same.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/code_map.hpp"
#include "sim/core_inst.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

// A root and a number that is added to it.  Roots: 0 is zero itself; what register r holds at the
// beginning is r + 1; anything else is what a part makes of its operands, as a hash of both.
struct SymbolicValue {
  static constexpr std::uint64_t zero = 0, computed = std::uint64_t{1} << 63;
  std::uint64_t root{zero};
  std::int64_t number{};
  SymbolicValue plus(std::int64_t more) const { return {root, number + more}; }
};

// What registers hold along a path, from where it begins, and when it is there.
class SymbolicRegisters {
 public:
  void begin() { ++now_; }
  // Whether the path has written it.
  bool written(std::uint16_t r) const { return of_[r].when == now_; }
  SymbolicValue value(std::uint16_t r) const {
    return written(r) ? of_[r].value : SymbolicValue{r + std::uint64_t{1}, 0};
  }
  // When a register's value is there, if the path has written it; else `before`.
  Cycle there(std::uint16_t r, Cycle before) const { return written(r) ? of_[r].there : before; }
  // The address of the part's access.
  SymbolicValue address(const CoreInst& inst, std::uint32_t part, const RegisterValue& says) const {
    if (says.kind != RegisterValue::access) return {made(inst, part), 0};
    return value(says.base).plus(says.number);
  }
  // The path goes on with the part, whose results are there at `there`.
  void run(const CoreInst& inst, std::uint32_t part, const RegisterValue& says, Cycle there = 0) {
    SymbolicValue is{SymbolicValue::zero, says.number};
    const bool computes = says.kind == RegisterValue::none || says.kind == RegisterValue::access;
    if (says.kind == RegisterValue::sum) {
      is = value(says.base).plus(says.number);
    } else if (computes && inst.writes > 0) {
      is = {made(inst, part), 0};
    }
    for (const std::uint16_t r : inst.written()) {
      of_[r] = {now_, there, is};
      if (computes) is.root = mixed(is.root) | SymbolicValue::computed;  // each result is another
    }
  }

 private:
  static std::uint64_t mixed(std::uint64_t x) {
    x *= 0xd6e8feb86659fd93;
    return x ^ (x >> 32);
  }
  std::uint64_t made(const CoreInst& inst, std::uint32_t part) const {
    std::uint64_t hash = mixed(part + std::uint64_t{1});
    for (const std::uint16_t r : inst.read()) {
      const SymbolicValue v = value(r);
      hash = mixed(hash ^ (v.root + mixed(static_cast<std::uint64_t>(v.number))));
    }
    return hash | SymbolicValue::computed;
  }
  struct Register {
    std::uint32_t when{};
    Cycle there{};
    SymbolicValue value;
  };
  std::vector<Register> of_ = std::vector<Register>(CoreInst::all_registers);
  std::uint32_t now_{1};
};

}  // namespace tracekit
