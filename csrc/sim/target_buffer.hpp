// The branch target buffer (gem5's SimpleBTB): where a branch led that was mispredicted as not
// taken, or whose target was wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/remainder.hpp"

namespace tracekit {

class TargetBuffer {
 public:
  // Branches of one word of four bytes, which compressed ones and X86's can be, have one entry and
  // one tag: each is led to where the last one of them went (SimpleBTB::getIndex, instShiftAmt).
  class Entry {
   public:
    bool hit(std::uint64_t pc) const { return word_ == word(pc); }
    // Whether it has the target of the branch at `pc`, which goes to `target`.
    bool right(std::uint64_t pc, std::uint64_t target) const {
      return target_ == low(target) || target_ == low(pc);
    }
    void put(std::uint64_t pc, std::uint64_t target) {
      word_ = word(pc);
      target_ = low(target);
    }
    // The branch's own target, wherever that is.
    void put_own(std::uint64_t pc) { put(pc, pc); }

   private:
    static std::uint32_t low(std::uint64_t at) { return static_cast<std::uint32_t>(at); }
    static std::uint32_t word(std::uint64_t pc) { return low(pc >> 2); }
    std::uint32_t word_{0xffffffff}, target_{};  // no code is at that word
  };

  explicit TargetBuffer(std::size_t entries) : entry_(entries), place_(entries) {}
  Entry& of(std::uint64_t pc) { return entry_[place_(pc >> 2)]; }

 private:
  std::vector<Entry> entry_;
  Remainder place_;
};

}  // namespace tracekit
