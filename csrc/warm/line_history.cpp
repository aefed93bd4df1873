#include "warm/line_history.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace tracekit::warm {

std::size_t ReuseTimes::bucket(std::uint64_t time) {
  const auto log = static_cast<std::size_t>(std::bit_width(time)) - 1;
  const std::size_t step = log < 2 ? 0 : time >> (log - 2) & (steps - 1);
  return std::min(log * steps + step, buckets - 2);
}

std::uint64_t ReuseTimes::begin_of(std::size_t bucket) {
  const std::uint64_t base = std::uint64_t{1} << (bucket / steps);
  return base + base / steps * (bucket % steps);
}

// Between two uses of a line that are t accesses apart lie as many distinct lines as accesses there
// whose own next use is behind the second one: the sum of P(reuse time > i) over i < t.
void ReuseTimes::renew() {
  double whole = 0;
  for (const std::uint64_t n : count_) whole += static_cast<double>(n);
  double left = whole, distinct = 0;
  std::size_t k = 0;
  longest_.fill(~std::uint64_t{0});
  for (std::size_t b = 0; b + 1 < buckets && k < sizes; ++b) {
    const std::uint64_t from = begin_of(b), to = begin_of(b + 1);
    if (to > from) {
      const double each = left / whole;
      const double more = each * static_cast<double>(to - from);
      while (k < sizes && distinct + more >= static_cast<double>(std::uint64_t{1} << k)) {
        const double part = (static_cast<double>(std::uint64_t{1} << k) - distinct) / each;
        longest_[k++] = from + static_cast<std::uint64_t>(std::ceil(std::max(part, 0.0)));
      }
      distinct += more;
    }
    left -= static_cast<double>(count_[b]);
    if (left <= 0) break;
  }
  if (next_ < (1u << 16)) {
    next_ *= 2;
    return;
  }
  // What was long ago counts less and less.
  for (std::uint64_t& n : count_) n -= n / 4;
  seen_ = 0;
}

std::uint32_t size_bit(std::size_t lines) {
  const double log = std::log2(static_cast<double>(std::max<std::size_t>(1, lines)));
  return 1u << std::min(static_cast<std::size_t>(std::lround(log)), ReuseTimes::sizes - 1);
}

LineHistory::LineHistory(std::span<const CacheShape> first)
    : first_cache_(first.begin(), first.end()) {}

std::size_t LineHistory::number_of(CacheShape first) const {
  const auto at = std::ranges::find(first_cache_, first, &FirstCache::shape);
  if (at == first_cache_.end()) throw std::out_of_range("no first cache of that shape");
  return static_cast<std::size_t>(at - first_cache_.begin());
}

std::uint32_t LineHistory::page_of(std::uint64_t number) {
  Known& known = known_[number % cached];
  if (known.number == number) return known.page;
  const auto [place, added] =
      number_.try_emplace(number, static_cast<std::uint32_t>(pages_.size()));
  if (added) {
    if (pages_.size() >= none / page_lines) throw std::length_error("a program of 256 GiB");
    pages_.push_back(std::make_unique<Page>());
    pages_.back()->number = number;
    pages_.back()->asked.resize(page_lines * first_cache_.size());
  }
  known = {number, place->second};
  return place->second;
}

bool LineHistory::touch_other(std::uint64_t line, std::uint64_t stamp, bool write) {
  const auto i =
      static_cast<std::uint32_t>(page_of(line / page_lines) * page_lines + line % page_lines);
  Line& l = at(i);
  ++clock_;
  if (l.stamp == 0) {
    times_.see(0);
    ++lines_;
  } else {
    // So many sizes' caches would not have it any more.
    const std::size_t left = times_.passed(clock_ - l.time);
    times_.see(clock_ - l.time);
    l.dirty &= ~((1u << left) - 1);
    at(l.newer).older = l.older;  // it is not the first
    if (l.older != none) at(l.older).newer = l.newer;
  }
  const auto now = static_cast<std::uint32_t>(stamp >> asked_shift);
  bool everywhere = true;
  std::uint32_t* const asks = asked(i);
  for (std::size_t k = 0; k < first_cache_.size(); ++k) {
    if (first_cache_[k].use(line)) continue;
    asks[k] = now;
    everywhere = false;
  }
  l.stamp = stamp;
  l.time = clock_;
  if (write) l.dirty = all_dirty;
  l.newer = none;
  l.older = first_;
  if (first_ != none) at(first_).newer = i;
  first_ = i;
  latest_ = line;
  return everywhere;
}

}  // namespace tracekit::warm
