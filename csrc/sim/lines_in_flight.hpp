// Lines that a cache has asked for and does not have yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/cache.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

// They go into the cache when they come: until then what has to leave for them is still there
// (gem5's BaseCache::handleFill), however many of one set are on their way.
class LinesInFlight {
 public:
  // The line, if it is on its way; else null.
  Cache::Way* find(std::uint64_t line) {
    for (Coming& c : coming_)
      if (c.way.line == line) return &c.way;
    return nullptr;
  }
  Cache::Way& add(Cycle there, const Cache::Way& way) {
    first_ = std::min(first_, there);
    return coming_.emplace_back(there, way).way;
  }
  // Hands those that have come by `at` to `put`, with when they came, in that order.
  template <typename Put>
  void land(Cycle at, Put&& put) {
    while (first_ <= at) {
      const auto first = std::ranges::min_element(coming_, {}, &Coming::there);
      const Coming came = *first;
      coming_.erase(first);
      first_ = std::numeric_limits<Cycle>::max();
      for (const Coming& c : coming_) first_ = std::min(first_, c.there);
      put(came.there, came.way);
    }
  }
  void clear() {
    coming_.clear();
    first_ = std::numeric_limits<Cycle>::max();
  }

 private:
  struct Coming {
    Cycle there;
    Cache::Way way;
  };
  std::vector<Coming> coming_;
  Cycle first_{std::numeric_limits<Cycle>::max()};
};

}  // namespace tracekit
