// Where gem5's emulation of system calls puts a program's pages: caches are indexed by physical
// addresses.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

namespace tracekit {

// Addresses that the program's own file has in memory, of a trace that begins with the program;
// none where that is not known.
struct ProgramImage {
  std::uint64_t begin{}, end{};
  bool known() const { return begin < end; }
};

// A page gets the next free frame when it is first touched, which traps (gem5's
// MemState::fixupFault), or when a system call writes there.  What the program's file and the
// beginning of its stack take is there before, in the order of its addresses.  Of those pages, and
// of a trace in which none traps, a virtual address stands for the physical one.  Where nothing
// traps, as under QEMU, but the program's file is known, all other pages are taken when they are
// first touched.
class PageFrames {
 public:
  explicit PageFrames(ProgramImage image = {}) : image_(image) {}
  // An access to so many bytes has trapped, since their first page was missing, or their last.
  void trap(std::uint64_t address, unsigned bytes);
  // Of an address that is touched now.
  std::uint64_t physical(std::uint64_t address) {
    const std::uint64_t page = address >> page_bits;
    Known& known = known_[page % known_.size()];
    if (known.page != page) known = {page, offset(page)};
    return address + known.offset;
  }
  // Of one that will be touched.
  std::uint64_t later(std::uint64_t address) const {
    const auto at = frame_.find(address >> page_bits);
    return at == frame_.end() ? address : address + ((at->second - at->first) << page_bits);
  }

 private:
  static constexpr unsigned page_bits = 12;
  // Of frames that traps hand out, so that they are no other page's: above all bits of an index.
  static constexpr std::uint64_t apart = std::uint64_t{1} << 36;
  // Pages of a stack at most (Process::maxStackSize of 8 MB).
  static constexpr std::uint64_t most_of_stack = 2048;
  static constexpr unsigned region_bits = 14;  // of pages: 64 MB
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  struct Known {
    std::uint64_t page{~std::uint64_t{0}}, offset{};
  };
  std::uint64_t offset(std::uint64_t page);
  bool taken_when_touched(std::uint64_t page);
  void take_next(std::uint64_t page);

  ProgramImage image_;
  std::array<Known, 64> known_{};
  std::unordered_map<std::uint64_t, std::uint64_t> frame_;  // of all pages that were touched
  std::uint64_t next_{};
  // By region: the first page that trapped.  One above it that does not trap when it is first
  // touched has been written by a system call.
  std::unordered_map<std::uint64_t, std::uint64_t> mapped_from_;
  std::uint64_t top_{}, lowest_{};  // page of the stack: the highest, and the lowest that it has
};

}  // namespace tracekit
