#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/cycle.hpp"

namespace tracekit {

// Cycles of late, by their lowest bits.
class CycleSet {
 public:
  bool has(Cycle c) const { return at_[slot(c)] == static_cast<std::uint32_t>(c); }
  void put(Cycle c) { at_[slot(c)] = static_cast<std::uint32_t>(c); }

 private:
  static constexpr std::size_t size = 1024;
  static std::size_t slot(Cycle c) { return static_cast<std::size_t>(c) & (size - 1); }
  std::array<std::uint32_t, size> at_{};
};

}  // namespace tracekit
