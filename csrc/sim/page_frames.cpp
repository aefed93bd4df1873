#include "sim/page_frames.hpp"

namespace tracekit {

void PageFrames::trap(std::uint64_t address, unsigned bytes) {
  std::uint64_t page = address >> page_bits;
  if (frame_.contains(page)) page = (address + bytes - 1) >> page_bits;
  if (frame_.contains(page)) return;
  std::uint64_t& from = mapped_from_.try_emplace(page >> region_bits, page).first->second;
  if (from == none) from = page;
  // The stack grows down to the page that is missing, a page after the other.
  const bool grows = page < lowest_ && lowest_ <= page + most_of_stack;
  for (std::uint64_t p = grows ? lowest_ - 1 : page; p + 1 > page; --p) take_next(p);
  if (grows) lowest_ = page;
}

void PageFrames::take_next(std::uint64_t page) {
  if (next_ == 0) next_ = page + apart;
  if (frame_.try_emplace(page, next_).second) ++next_;
}

// The next frame is its own from now on, though it does not trap.  Rows without an access have
// page 0.
bool PageFrames::taken_when_touched(std::uint64_t page) {
  if (image_.known())
    return page != 0 && (page < image_.begin >> page_bits || page > (image_.end - 1) >> page_bits);
  // A system call has written there.
  return mapped_from_.try_emplace(page >> region_bits, none).first->second < page;
}

std::uint64_t PageFrames::offset(std::uint64_t page) {
  const auto there = frame_.find(page);
  if (there != frame_.end()) return (there->second - page) << page_bits;
  if (taken_when_touched(page)) {
    take_next(page);
    return (frame_[page] - page) << page_bits;
  }
  frame_[page] = page;
  if (page > top_)
    top_ = lowest_ = page;
  else if (page < lowest_ && top_ <= page + most_of_stack)
    lowest_ = page;
  return 0;
}

}  // namespace tracekit
