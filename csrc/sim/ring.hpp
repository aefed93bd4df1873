// The last ones of a sequence, by their number.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tracekit {

template <class T>
class Ring {
 public:
  // At least the last `kept`; `before`: what stands where there was none yet.
  explicit Ring(std::size_t kept, T before = {})
      : at_(std::bit_ceil(kept), before), mask_(at_.size() - 1) {}
  T& operator[](std::uint64_t n) { return at_[n & mask_]; }
  const T& operator[](std::uint64_t n) const { return at_[n & mask_]; }

 private:
  std::vector<T> at_;
  std::size_t mask_;
};

}  // namespace tracekit
