// Operation classes and flags of a static instruction, by gem5's names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tracekit {

enum class OpClass : std::uint8_t {
#define OP(name, ref) name,
#include "core/op_class.def"
#undef OP
};

inline constexpr std::array op_class_names = {
#define OP(name, ref) std::string_view(#name),
#include "core/op_class.def"
#undef OP
};

// The number that gem5 v20.1-v22.1 gave the class (PerfVec's numbering, before its "plus 1").
inline constexpr std::array<std::uint8_t, op_class_names.size()> op_class_ref = {
#define OP(name, ref) ref,
#include "core/op_class.def"
#undef OP
};

constexpr std::optional<OpClass> op_class_from(std::string_view name) {
  for (std::size_t i = 0; i < op_class_names.size(); ++i)
    if (op_class_names[i] == name) return static_cast<OpClass>(i);
  return std::nullopt;
}

// Reads memory: gem5 gives every such class a name that ends in "Read" or "Load".
constexpr bool reads_memory(OpClass op) {
  const std::string_view n = op_class_names[static_cast<std::size_t>(op)];
  return n.ends_with("MemRead") || (n.starts_with("Simd") && n.ends_with("Load"));
}

constexpr bool writes_memory(OpClass op) {
  const std::string_view n = op_class_names[static_cast<std::size_t>(op)];
  return n.ends_with("MemWrite") || (n.starts_with("Simd") && n.ends_with("Store"));
}

using Flags = std::uint64_t;

namespace flag_bit {
enum : unsigned {
#define FLAG(name) name,
#include "core/inst_flag.def"
#undef FLAG
};
}  // namespace flag_bit

namespace flag {
#define FLAG(name) inline constexpr Flags name = Flags{1} << flag_bit::name;
#include "core/inst_flag.def"
#undef FLAG
}  // namespace flag

inline constexpr std::array flag_names = {
#define FLAG(name) std::string_view(#name),
#include "core/inst_flag.def"
#undef FLAG
};

constexpr std::optional<Flags> flag_from(std::string_view name) {
  for (std::size_t i = 0; i < flag_names.size(); ++i)
    if (flag_names[i] == name) return Flags{1} << i;
  return std::nullopt;
}

}  // namespace tracekit
