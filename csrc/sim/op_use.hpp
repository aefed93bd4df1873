// What an operation class needs of a core: its unit, its latency, and what its readers wait for.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "core/op_class.hpp"
#include "sim/cause.hpp"
#include "sim/core_parameters.hpp"
#include "sim/issue_calendar.hpp"

namespace tracekit {

inline constexpr auto op_count = op_class_names.size();

// The unit that an operation class runs on, and whether the unit takes another one next cycle.
struct OpUse {
  Unit unit{Unit::any};
  bool pipelined{true};
  friend constexpr bool operator==(OpUse, OpUse) = default;
};

constexpr OpUse named_use(std::string_view n) {
  if (n == "IntAlu") return {Unit::int_alu, true};
  if (n == "IntMult") return {Unit::int_mul, true};
  if (n == "IntDiv") return {Unit::int_mul, false};
  if (n.ends_with("MemRead") || (n.starts_with("Simd") && n.ends_with("Load")))
    return {Unit::load, true};
  if (n.ends_with("MemWrite") || (n.starts_with("Simd") && n.ends_with("Store")))
    return {Unit::store, true};
  if (n.starts_with("Float")) return {Unit::fp, n != "FloatDiv" && n != "FloatSqrt"};
  if (n == "SimdPredAlu") return {};
  if (n.starts_with("Simd")) return {Unit::simd, !(n.ends_with("Div") || n.ends_with("Sqrt"))};
  return {};
}

inline constexpr auto op_uses = [] {
  std::array<OpUse, op_count> out{};
  for (std::size_t i = 0; i < op_count; ++i) out[i] = named_use(op_class_names[i]);
  return out;
}();

constexpr OpUse op_use(OpClass op) { return op_uses[static_cast<std::size_t>(op)]; }
constexpr bool divides(OpClass op) { return op_use(op) == OpUse{Unit::int_mul, false}; }
constexpr bool multiplies(OpClass op) { return op_use(op) == OpUse{Unit::int_mul, true}; }
// Cycles from the start of its execution to its result, of the class with that name.
int op_latency(std::string_view name, const CoreParameters& p);
// What its readers wait for.
Cause op_cause(OpClass op);

}  // namespace tracekit
