// A stage of gem5's Minor CPU that hands groups of rows to the next one, which has room for a few
// (src/cpu/minor/fetch2.cc, decode.cc; buffers.hh, InputBuffer).
#pragma once

#include <array>
#include <cstddef>

#include "sim/cause.hpp"

namespace tracekit {

template <bool Why, std::size_t room>
class InOrderStage {
  using At = Stamp<Why>;

 public:
  explicit InOrderStage(int width) : width_(width) {}

  // When it would hand over the row that comes at `at`.
  At next(At at) const {
    at = later(at, at_);
    if (joins(at)) return at;
    if (at.at() == at_.at() && count_ > 0) at = (at_ + 1).because(Cause::front_end_width);
    return later(at, taken_[count_ % room]);
  }
  // When it does.
  At hands_over(At at) {
    at = next(at);
    if (joins(at)) {
      ++now_;
    } else {
      ++count_;
      now_ = 1;
    }
    return at_ = at;
  }
  // The next one has taken the last row, and with it all before.
  void taken(At at) { taken_[(count_ + room - 1) % room] = at; }
  At at() const { return at_; }
  bool full() const { return now_ >= width_; }

 private:
  // The group of the last row.
  bool joins(At at) const { return at.at() == at_.at() && count_ > 0 && now_ < width_; }
  int width_, now_{};
  At at_{};
  std::size_t count_{};  // groups
  std::array<At, room> taken_{};
};

}  // namespace tracekit
