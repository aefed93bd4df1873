// A first cache's tags: which of a program's uses of lines it passes on to the next one.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tracekit::warm {

struct CacheShape {
  std::size_t sets{}, ways{};
  std::size_t lines() const { return sets * ways; }
  auto operator<=>(const CacheShape&) const = default;
};

class FirstCache {
 public:
  explicit FirstCache(CacheShape shape) : shape_(shape), line_(shape.lines(), none) {}
  const CacheShape& shape() const { return shape_; }
  // Whether it has the line; from now on it does, in place of its set's least recent one.
  bool use(std::uint64_t line) {
    std::uint64_t* const set = &line_[line % shape_.sets * shape_.ways];
    std::size_t k = 0;
    while (k + 1 < shape_.ways && set[k] != line) ++k;
    const bool there = set[k] == line;
    std::move_backward(set, set + k, set + k + 1);
    set[0] = line;
    return there;
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  CacheShape shape_;
  std::vector<std::uint64_t> line_;
};

}  // namespace tracekit::warm
