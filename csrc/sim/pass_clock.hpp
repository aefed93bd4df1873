// About when branches commit, where nothing else of a core is simulated: on a machine in the middle
// of those that there are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/cycle.hpp"
#include "warm/first_cache.hpp"

namespace tracekit {

class PassClock {
 public:
  static constexpr int width = 4;
  // Until a branch is resolved, from its fetch.
  static constexpr Cycle to_resolve = 14;

  // A row is fetched, once the reorder buffer has room.
  void row() {
    if (++in_cycle_ == width) {
      in_cycle_ = 0;
      ++now_;
    }
    entry_ = entry_ + 1 == entries ? 0 : entry_ + 1;
    now_ = std::max(now_, retired_[entry_]);
    retires(now_ + to_resolve);
  }
  void access(std::uint64_t line) {
    if (line == line_) return;
    line_ = line;
    if (!l1_.use(line)) retires(now_ + to_resolve + (l2_.use(line) ? from_l2 : from_memory));
  }
  Cycle now() const { return now_; }
  // When the row does.
  Cycle commits() const { return retire_ + 1; }
  // The row is a branch that was not foreseen.
  void mispredicted() { now_ += to_resolve; }

 private:
  static constexpr std::size_t entries = 192;  // of the reorder buffer
  static constexpr Cycle from_l2 = 12, from_memory = 100;
  void retires(Cycle at) { retired_[entry_] = retire_ = std::max(retire_, at); }

  Cycle now_{}, retire_{};
  int in_cycle_{};
  std::size_t entry_{};
  std::array<Cycle, entries> retired_{};
  std::uint64_t line_{no_line};
  warm::FirstCache l1_{{64, 8}}, l2_{{2048, 8}};  // 32 kB and 1 MB
};

}  // namespace tracekit
