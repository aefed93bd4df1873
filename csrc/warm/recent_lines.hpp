// The lines of a history, the one used last first, copied once for caches of all shapes: the
// history's own order leads from page to page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "warm/line_history.hpp"

namespace tracekit::warm {

// Of a history that does not change while this lives; by several threads at once.  It goes no
// further back than somebody asks.
class RecentLines {
  static constexpr std::size_t block_lines = 1024;
  struct Block {
    std::vector<UsedLine> line;
    std::vector<std::uint32_t> asked;  // by line and first cache
  };

 public:
  explicit RecentLines(const LineHistory& of);
  // The number of a first cache; throws std::out_of_range where the history has none of that shape.
  std::size_t number_of(CacheShape first) const { return of_.number_of(first); }

  // From the latest line on backwards.
  class Cursor {
   public:
    explicit Cursor(RecentLines& of) : of_(of), block_(of.block(0)) {}
    bool ends() const { return block_ == nullptr; }
    const UsedLine& line() const { return block_->line[at_]; }
    // When the first cache `k` would last have asked the next one for it, or given it back.
    std::uint64_t asked(std::size_t k) const {
      const std::uint32_t bit = of_.first_bit_[k];
      // It was written there, and has left: it came back then, at about its last use.
      if ((line().written & bit) && !(line().dirty & bit)) return line().stamp;
      return LineHistory::whole_stamp(block_->asked[at_ * of_.first_bit_.size() + k]);
    }
    void next() {
      if (++at_ < block_->line.size()) return;
      at_ = 0;
      block_ = of_.block(++number_);
    }

   private:
    RecentLines& of_;
    const Block* block_;
    std::size_t number_{}, at_{};
  };

 private:
  // Null behind the history's first line.
  const Block* block(std::size_t number);
  void copy_block();

  const LineHistory& of_;
  std::vector<std::uint32_t> first_bit_;  // of each first cache its size's
  std::mutex lock_;
  LineHistory::Cursor rest_;  // what is not copied yet
  std::vector<std::unique_ptr<const Block>> blocks_;
};

}  // namespace tracekit::warm
