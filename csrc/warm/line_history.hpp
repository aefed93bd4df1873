// When each line of 64 bytes was last used, and whether it was written since it would last have
// left a cache of each size: what caches hold in the middle of a program follows from that,
// whatever their sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "warm/first_cache.hpp"

namespace tracekit::warm {

// Which reuse times are as long as which numbers of distinct lines: from the distribution of reuse
// times alone (StatStack, Eklov and Hagersten, ISPASS 2010).
class ReuseTimes {
 public:
  // Sizes are 2^0, 2^1, ... lines.
  static constexpr std::size_t sizes = 20;

  // A line comes again after `time` accesses; 0: it is new.
  void see(std::uint64_t time) {
    ++count_[time ? bucket(time) : buckets - 1];
    if (++seen_ == next_) renew();
  }
  // So many of the smallest sizes hold fewer lines than are expected to lie between two uses of a
  // line that are `time` accesses apart.
  std::size_t passed(std::uint64_t time) const {
    std::size_t k = 0;
    while (k < sizes && longest_[k] < time) ++k;
    return k;
  }

 private:
  static constexpr std::size_t steps = 4, buckets = 64 * steps;
  static std::size_t bucket(std::uint64_t time);
  static std::uint64_t begin_of(std::size_t bucket);
  void renew();

  std::array<std::uint64_t, buckets> count_{};
  std::array<std::uint64_t, sizes> longest_ = all_short();
  std::uint64_t seen_{}, next_{1024};

  static std::array<std::uint64_t, sizes> all_short() {
    std::array<std::uint64_t, sizes> out{};
    for (std::size_t k = 0; k < sizes; ++k) out[k] = std::uint64_t{1} << k;
    return out;
  }
};

struct UsedLine {
  std::uint64_t line, stamp;
  // Bit k: it was written, and would not have left a cache of 2^k lines before its last use.
  std::uint32_t written;
  // Bit k: and would not have left it since, either.
  std::uint32_t dirty;
};

class LineHistory {
 public:
  // `first`: the first caches that machines have.
  explicit LineHistory(std::span<const CacheShape> first);
  // A use of a line, later than all before: `stamp` increases.  Whether all first caches have it.
  bool touch(std::uint64_t line, std::uint64_t stamp, bool write) {
    if (line == latest_) {
      Line& l = at(first_);
      l.stamp = stamp;
      if (write) l.dirty = all_dirty;
      return true;
    }
    return touch_other(line, stamp, write);
  }

  std::size_t size() const { return lines_; }
  std::span<const FirstCache> first_caches() const { return first_cache_; }
  // The number of a first cache; throws std::out_of_range where there is none of that shape.
  std::size_t number_of(CacheShape first) const;

  // From the latest line on backwards.
  class Cursor {
   public:
    explicit Cursor(const LineHistory& of) : of_(&of), at_(of.first_) {}
    bool ends() const { return at_ == none; }
    UsedLine line() const {
      const Line& l = of_->at(at_);
      return {of_->line_of(at_), l.stamp, l.dirty, of_->dirty(l)};
    }
    // When each first cache last had to ask for it: of stamps the part that `whole_stamp` takes.
    std::span<const std::uint32_t> asked() const {
      return {of_->asked(at_), of_->first_cache_.size()};
    }
    void next() { at_ = of_->at(at_).older; }

   private:
    const LineHistory* of_;
    std::uint32_t at_;
  };
  static std::uint64_t whole_stamp(std::uint32_t asked) {
    return std::uint64_t{asked} << asked_shift;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint32_t all_dirty = (1u << ReuseTimes::sizes) - 1;
  static constexpr std::size_t page_lines = 64, cached = 1024;
  struct Line {
    std::uint32_t newer{none}, older{none};
    std::uint64_t stamp{};  // 0: never used
    std::uint64_t time{};   // of the history's own clock
    std::uint32_t dirty{};  // bit k: since it would last have left a cache of 2^k lines
  };
  struct Page {
    std::uint64_t number{};
    std::array<Line, page_lines> line{};
    std::vector<std::uint32_t> asked;  // by line and first cache: stamps, without their last bits
  };
  struct Known {
    std::uint64_t number{~std::uint64_t{0}};
    std::uint32_t page{};
  };

  Line& at(std::uint32_t i) { return pages_[i / page_lines]->line[i % page_lines]; }
  const Line& at(std::uint32_t i) const { return pages_[i / page_lines]->line[i % page_lines]; }
  std::uint64_t line_of(std::uint32_t i) const {
    return pages_[i / page_lines]->number * page_lines + i % page_lines;
  }
  static constexpr unsigned asked_shift = 4;
  std::uint32_t page_of(std::uint64_t number);
  std::uint32_t dirty(const Line& l) const {
    return l.dirty ? l.dirty & ~((1u << times_.passed(clock_ - l.time)) - 1) : 0;
  }
  bool touch_other(std::uint64_t line, std::uint64_t stamp, bool write);

  std::uint32_t* asked(std::uint32_t i) const {
    return &pages_[i / page_lines]->asked[i % page_lines * first_cache_.size()];
  }

  std::vector<FirstCache> first_cache_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::unordered_map<std::uint64_t, std::uint32_t> number_;
  std::array<Known, cached> known_{};
  ReuseTimes times_;
  std::uint64_t clock_{};  // changes from one line to another
  std::uint64_t latest_{~std::uint64_t{0}};
  std::uint32_t first_{none};
  std::size_t lines_{};
};

// The bit of a line's dirty() for caches of about so many lines.
std::uint32_t size_bit(std::size_t lines);

}  // namespace tracekit::warm
