// Exact division by a constant, or the knowledge that it is not exact: one multiplication a value
// (Granlund and Montgomery, PLDI 1994, section 9).  C++17, for the writer that gem5 takes.
#pragma once

#include <cstdint>

namespace tracekit {

class ExactDivisor {
 public:
  // Precondition: d > 0.
  explicit ExactDivisor(std::uint64_t d)
      : shift_(static_cast<unsigned>(__builtin_ctzll(d))), limit_(~std::uint64_t{0} / d) {
    const std::uint64_t odd = d >> shift_;
    inverse_ = odd;
    for (int i = 0; i < 5; ++i) inverse_ *= 2 - odd * inverse_;
  }
  // The quotient; larger than limit() where there is none.
  std::uint64_t operator()(std::uint64_t v) const {
    const std::uint64_t q = v * inverse_;
    return q >> shift_ | q << (-shift_ & 63);
  }
  std::uint64_t limit() const { return limit_; }
  bool divide(std::uint64_t v, std::uint64_t& q) const {
    q = (*this)(v);
    return q <= limit_;
  }

 private:
  unsigned shift_;
  std::uint64_t inverse_, limit_;
};

}  // namespace tracekit
