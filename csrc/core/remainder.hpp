// The remainder of a division by a number that stays, which is mostly a power of two: no division
// then.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tracekit {

class Remainder {
 public:
  // Precondition: by > 0.
  explicit Remainder(std::size_t by) : by_(by), mask_(by - 1), masks_(std::has_single_bit(by)) {}
  std::size_t operator()(std::uint64_t n) const { return masks_ ? n & mask_ : n % by_; }

 private:
  std::size_t by_, mask_;
  bool masks_;
};

}  // namespace tracekit
