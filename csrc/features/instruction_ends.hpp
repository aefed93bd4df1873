// Where instructions begin and end in a sequence of micro-op rows (features.md, "The macro level").
#pragma once

#include <cstdint>

#include "core/row_batch.hpp"
#include "isa/hot_static.hpp"

namespace tracekit {

class InstructionEnds {
 public:
  // Whether the row belongs to another instruction than the open one.  Another pc does, also behind
  // a fault that is not tried again at once (a handler runs).  Without flags (O3PipeView alone) no
  // micro-op is known to be the last; but the first one has upc 0, and only a faulting one is
  // followed by itself again.
  bool cuts_off(const HotStatic& row) const {
    return open_ && (row.pc != pc_ || (row.upc == 0 && !faulted_));
  }
  // Takes the row in, and says whether the instruction ends with it: not with a fault, which its
  // retry follows, unless that is a system call.
  bool ends(const HotStatic& row, std::uint8_t bits) {
    pc_ = row.pc;
    faulted_ = bits & row_bit::fault;
    open_ = !row.is(faulted_ ? HotStatic::syscall : HotStatic::last);
    return !open_;
  }

 private:
  std::uint64_t pc_{};  // of the open instruction
  bool open_{}, faulted_{};
};

}  // namespace tracekit
