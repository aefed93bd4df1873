// What an instruction met when it last ran.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tracekit {

template <class T>
class LastByPc {
 public:
  T& operator[](std::uint64_t pc) { return of_[pc >> 1 & (kept - 1)]; }

 private:
  static constexpr std::size_t kept = 1024;
  std::array<T, kept> of_{};
};

}  // namespace tracekit
