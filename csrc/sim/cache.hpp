// One cache's tags (set-associative).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/remainder.hpp"
#include "sim/cycle.hpp"
#include "sim/replacement.hpp"
#include "warm/cache_contents.hpp"

namespace tracekit {

// Who had the data.  `memory_queue`: memory, where most of the time went by waiting for others;
// `mshrs`: any of them, where most of it went by waiting for a miss register.
enum class CacheLevel : std::uint8_t { l1, l2, l3, memory, memory_queue, mshrs };

class Cache {
 public:
  struct Way {
    std::uint64_t line{no_line};
    Cycle ready{};         // when the line's data is there
    std::int32_t taken{};  // from its request until then
    bool dirty : 1 {};
    bool prefetched : 1 {};  // and not asked for since
    bool shared : 1 {};      // the first store must ask for it once more
    bool upgraded : 1 {};    // which one has done: before that it was there
    std::uint8_t targets{};  // accesses that wait, or waited, for it
    CacheLevel source{};     // who had it
    std::uint8_t first{};    // the byte that was asked for first
  };
  Cache() = default;
  Cache(int kb, int ways, int policy = replacement::lru);

  // The line's way, made the most recent one; null on a miss.
  Way* find(std::uint64_t line) {
    Way* s = set(line);
    return !policy_ && s->line == line ? s : find_in(s, line);
  }
  bool has(std::uint64_t line);
  // Puts a line in; the line that had to go where it was dirty, else no_line.
  std::uint64_t put(std::uint64_t line, Cycle ready, bool dirty, Cycle taken = 0,
                    bool prefetched = false, CacheLevel source = {}) {
    return put({.line = line,
                .ready = ready,
                .taken = static_cast<std::int32_t>(taken),
                .dirty = dirty,
                .prefetched = prefetched,
                .targets = 1,
                .source = source});
  }
  std::uint64_t put(const Way& way);

  // Of one of so many KiB.
  static warm::CacheShape shape(int kb, int ways);
  warm::CacheShape shape() const { return {sets_, ways_}; }
  // A line that will be asked for soon: its set is brought into the processor's own cache.
  void expect(std::uint64_t line) const { __builtin_prefetch(&way_[set_of(line) * ways_]); }
  // From now on it holds what `contents`, of its shape, says; each set is filled when it is asked
  // for.  `above`: of the cache before this one, or 0: a line that is dirty there is none here.
  void restore(std::shared_ptr<const warm::CacheContents> contents, std::uint32_t above);
  // A set's, the one used last first unless a policy says otherwise; of one that was not restored.
  std::span<const Way> ways(std::size_t set) const { return {&way_[set * ways_], ways_}; }
  // It holds what `other`, of its shape and policy, does, and all of it is there.
  void restore(const Cache& other);
  std::uint32_t size_bit() const { return warm::size_bit(sets_ * ways_); }

 private:
  void fill(std::size_t set);
  // `way` becomes the first one instead of the one at `i`.
  static void to_front(Way* s, std::size_t i, const Way& way) {
    std::move_backward(s, s + i, s + i + 1);
    s[0] = way;
  }
  Way* find_in(Way* s, std::uint64_t line);
  // Of a number of sets that is no power of two (36 MB of 12 ways) the remainder, as hardware that
  // has such caches does in effect; gem5 refuses them.
  std::size_t set_of(std::uint64_t line) const { return in_sets_(line); }
  Way* set(std::uint64_t line) {
    const std::size_t s = set_of(line);
    if (restored_ && !filled_[s]) fill(s);
    return &way_[s * ways_];
  }
  std::size_t ways_{}, sets_{1};
  Remainder in_sets_{1};
  std::vector<Way> way_;
  std::unique_ptr<Replacement> policy_;  // null: least recently used, the last way goes
  std::shared_ptr<const warm::CacheContents> restored_;  // null: it was always simulated
  std::uint32_t dirty_above_{};
  std::vector<std::uint8_t> filled_;  // with restored_, by set
};

}  // namespace tracekit
