// Prefetchers of data: what they want after an access.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cycle.hpp"

namespace tracekit::hardware {

// An instruction's addresses at equal distances.
class StridePrefetcher {
 public:
  // The distance to the next address where the last three were at equal ones, else 0.
  std::int64_t see(std::uint64_t pc, std::uint64_t address) {
    Entry& e = entry_[(pc ^ pc >> 8) & (entry_.size() - 1)];
    if (e.pc != pc) {
      e = {pc, address, 0, 0};
      return 0;
    }
    const auto step = static_cast<std::int64_t>(address - e.last);
    e.last = address;
    if (step == 0) return 0;
    if (step == e.step) {
      if (e.sure < 3) ++e.sure;
    } else {
      e.step = step;
      e.sure = 0;
    }
    return e.sure >= 2 ? step : 0;
  }

 private:
  struct Entry {
    std::uint64_t pc{}, last{};
    std::int64_t step{};
    int sure{};
  };
  std::vector<Entry> entry_ = std::vector<Entry>(256);
};

// Lines that are asked for one behind the other, upwards or downwards, within pages.
class StreamPrefetcher {
 public:
  // +1 or -1 where the line goes on with a stream of at least two, else 0.
  int see(std::uint64_t line) {
    for (Stream& s : stream_) {
      if (s.page != line >> 6) continue;
      s.used = ++clock_;
      const auto step = static_cast<std::int64_t>(line - s.last);
      if (step == 0) return 0;
      const bool near = step >= -2 && step <= 2;
      const int way = step > 0 ? 1 : -1;
      s.sure = near && way == s.way ? s.sure + 1 : near ? 1 : 0;
      s.way = way;
      s.last = line;
      return s.sure >= 2 ? way : 0;
    }
    Stream* oldest = &stream_[0];
    for (Stream& s : stream_)
      if (s.used < oldest->used) oldest = &s;
    *oldest = {line >> 6, line, ++clock_, 0, 0};
    return 0;
  }

 private:
  struct Stream {
    std::uint64_t page{no_line}, last{}, used{};
    int way{}, sure{};
  };
  std::vector<Stream> stream_ = std::vector<Stream>(32);
  std::uint64_t clock_{};
};

// The lines of a region that were used the last time that the same instruction came to one first.
class RegionPrefetcher {
 public:
  static constexpr unsigned lines = 16;
  // The lines, as bits from the region's first, to bring when `pc` is the first to come to the
  // region of `line`; 0 where another came before.
  std::uint32_t see(std::uint64_t pc, std::uint64_t line) {
    const std::uint64_t region = line / lines;
    const auto place = static_cast<unsigned>(line % lines);
    Active& a = active_[(region ^ region >> 6) & (active_.size() - 1)];
    if (a.region == region) {
      a.used |= 1U << place;
      return 0;
    }
    if (a.region != no_line) learn(a);
    a = {region, key(pc, place), 1U << place};
    const Pattern& p = pattern_[a.key & (pattern_.size() - 1)];
    return p.key == a.key && p.sure >= 1 ? p.lines & ~(1U << place) : 0;
  }

 private:
  struct Active {
    std::uint64_t region{no_line}, key{};
    std::uint32_t used{};
  };
  struct Pattern {
    std::uint64_t key{};
    std::uint32_t lines{};
    int sure{};
  };
  static std::uint64_t key(std::uint64_t pc, unsigned place) {
    return (pc * lines + place) ^ pc >> 9;
  }
  // Those that were used both times are to be brought.
  void learn(const Active& a) {
    Pattern& p = pattern_[a.key & (pattern_.size() - 1)];
    if (p.key != a.key) {
      p = {a.key, a.used, 0};
      return;
    }
    const std::uint32_t both = p.lines & a.used;
    p.sure = both & (both - 1) ? 1 : 0;
    p.lines = p.sure ? both | (a.used & p.lines) : a.used;
  }
  std::vector<Active> active_ = std::vector<Active>(64);
  std::vector<Pattern> pattern_ = std::vector<Pattern>(1024);
};

}  // namespace tracekit::hardware
