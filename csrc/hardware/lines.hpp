// Tags of a cache, a TLB, a branch target buffer: sets of the least recently used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/remainder.hpp"
#include "sim/cycle.hpp"

namespace tracekit::hardware {

class Lines {
 public:
  struct Way {
    std::uint64_t key{no_line};
    Cycle ready{};  // when it is there
    bool dirty{}, prefetched{};
  };
  // `entries` in sets of `ways`; neither has to be a power of two.
  Lines(std::size_t entries, std::size_t ways)
      : ways_(std::max<std::size_t>(1, std::min(ways, entries))),
        sets_(std::max<std::size_t>(1, entries / ways_)),
        in_sets_(sets_),
        way_(sets_ * ways_) {}

  // The way that has it, made the most recent one; null where there is none.
  Way* find(std::uint64_t key) {
    Way* s = set(key);
    if (s->key == key) return s;
    for (std::size_t i = 1; i < ways_; ++i) {
      if (s[i].key != key) continue;
      std::rotate(s, s + i, s + i + 1);
      return s;
    }
    return nullptr;
  }
  bool has(std::uint64_t key) const {
    const Way* s = &way_[set_of(key) * ways_];
    return std::any_of(s, s + ways_, [key](const Way& w) { return w.key == key; });
  }
  // Puts it in as the most recent one; gives what had to go (key no_line: nothing).
  Way put(std::uint64_t key, Cycle ready = 0, bool dirty = false, bool prefetched = false) {
    Way* s = set(key);
    const Way gone = s[ways_ - 1];
    std::move_backward(s, s + ways_ - 1, s + ways_);
    s[0] = {key, ready, dirty, prefetched};
    return gone;
  }
  // Takes it out; what it was.
  Way take(std::uint64_t key) {
    Way* s = set(key);
    for (std::size_t i = 0; i < ways_; ++i) {
      if (s[i].key != key) continue;
      const Way found = s[i];
      std::move(s + i + 1, s + ways_, s + i);
      s[ways_ - 1] = {};
      return found;
    }
    return {};
  }

 private:
  std::size_t set_of(std::uint64_t key) const { return in_sets_(key); }
  Way* set(std::uint64_t key) { return &way_[set_of(key) * ways_]; }

  std::size_t ways_, sets_;
  Remainder in_sets_;
  std::vector<Way> way_;
};

}  // namespace tracekit::hardware
