// The store buffer of gem5's Minor CPU, and how many accesses its memory takes at a time
// (src/cpu/minor/lsq.cc).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "sim/cycle.hpp"

namespace tracekit {

// Stores go to the cache in order once they have retired, and leave in any order.  Stores and loads
// together are `at_a_time` on their way at most; a load goes before the stores that wait.
class DrainingStores {
 public:
  struct Store {
    std::uint64_t address{};
    unsigned bytes{};
    Cycle sent{}, done{};
    std::uint64_t number{};
    bool covers(std::uint64_t at, unsigned n) const {
      return address <= at && at + n <= address + bytes;
    }
  };

  // When one that retires at `retired` is sent.
  Cycle sends(Cycle retired) const {
    const Cycle behind = last_sent_ + (sent_then_ < a_cycle ? 0 : 1);
    return free_from(std::max(retired + 1, behind), 1);
  }
  void put(std::uint64_t address, unsigned bytes, Cycle sent, Cycle done) {
    sent_then_ = sent == last_sent_ ? sent_then_ + 1 : 1;
    last_sent_ = sent;
    *std::ranges::min_element(held_, {}, &Store::done) = {address, bytes, sent, done, ++seen_};
    drained_ = std::max(drained_, done);
  }
  // When it has a place for one more.
  Cycle room() const { return std::ranges::min_element(held_, {}, &Store::done)->done; }
  // The last one of these bytes that has not left at `at`; null where there is none.
  const Store* last(std::uint64_t address, unsigned n, Cycle at) const {
    const Store* found = nullptr;
    for (const Store& s : held_) {
      if (s.done <= at || s.address >= address + n || address >= s.address + s.bytes) continue;
      if (!found || s.number > found->number) found = &s;
    }
    return found;
  }
  // When memory takes a load that is ready at `at`.
  Cycle memory_takes(Cycle at) const { return free_from(at, 0); }
  // It did, until `done`; the stores that would have gone then go later.
  void loaded(Cycle at, Cycle done) {
    std::size_t busy = 1;
    for (const Store& s : held_) busy += s.sent < at && s.done > at ? 1U : 0U;
    load_done_ = std::max(load_done_, done);
    if (busy < at_a_time) return;
    for (Store& s : held_)
      if (s.sent >= at && s.sent < done) {
        s.done += done - s.sent;
        s.sent = done;
      }
  }
  Cycle drained() const { return drained_; }

 private:
  static constexpr std::size_t size = 5, at_a_time = 2;
  static constexpr int a_cycle = 2;

  // From when on fewer than `at_a_time` are on their way; `too`: 1 if one that is sent then counts.
  Cycle free_from(Cycle at, Cycle too) const {
    for (;;) {
      std::size_t busy = load_done_ > at ? 1U : 0U;
      Cycle first = load_done_ > at ? load_done_ : std::numeric_limits<Cycle>::max();
      for (const Store& s : held_) {
        if (s.sent >= at + too || s.done <= at) continue;
        ++busy;
        first = std::min(first, s.done);
      }
      if (busy < at_a_time) return at;
      at = first;
    }
  }

  std::array<Store, size> held_{};
  std::uint64_t seen_{};
  Cycle last_sent_{}, load_done_{}, drained_{};
  int sent_then_{};
};

}  // namespace tracekit
