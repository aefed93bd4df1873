// How long loads took when they last ran.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/cycle.hpp"

namespace tracekit {

class LastLatencies {
 public:
  Cycle& operator[](std::uint64_t pc) { return of_[pc >> 1 & (kept - 1)]; }

 private:
  static constexpr std::size_t kept = 1024;
  std::array<Cycle, kept> of_{};
};

}  // namespace tracekit
