// Instructions since the last access to exactly this byte address, at most 1000 (perfvec-ref,
// column 22).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tracekit {

// Only the last 1000 rows can matter, so two small tables take turns: one fills for 1000 rows while
// the other keeps the 1000 before.  An entry of an older turn counts as empty, so nothing is ever
// cleared.
class DataReuse {
 public:
  static constexpr std::uint64_t cap = 1000;

  // The row numbers must not decrease; where rows are instructions, one may have any number of
  // accesses.
  std::uint32_t access(std::uint64_t addr, std::uint64_t row) {
    const std::uint64_t turn = row / cap;
    if (turn != turn_) {
      std::swap(now_, before_);
      turn_ = turn;
      used_ = 0;
      if (now_.size() > slots) now_ = std::vector<Entry>(slots);
    }
    const std::uint64_t start = turn * cap;
    Entry* e = &find(now_, addr, start);
    std::uint64_t last = none;
    if (e->row_plus_1 > start) {
      last = e->row_plus_1 - 1;
    } else {
      if (turn) {
        const Entry& old = find(before_, addr, start - cap);
        if (old.row_plus_1 > start - cap && old.row_plus_1 <= start) last = old.row_plus_1 - 1;
      }
      if (++used_ > now_.size() / 2) {
        grow(start);
        e = &find(now_, addr, start);
      }
    }
    e->addr = addr;
    e->row_plus_1 = row + 1;
    return static_cast<std::uint32_t>(last == none || row - last > cap ? cap : row - last);
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  static constexpr std::size_t slots = 4096;  // enough for one access a row: probes stay short
  struct Entry {
    std::uint64_t addr{}, row_plus_1{};
  };
  // The entry of addr, or the free one that it would take: free = last written before `start`.
  static Entry& find(std::vector<Entry>& table, std::uint64_t addr, std::uint64_t start) {
    const std::uint64_t h = (addr * 0x9e3779b97f4a7c15ULL) >> 32;
    const std::size_t mask = table.size() - 1;
    for (std::size_t i = static_cast<std::size_t>(h) & mask;; i = (i + 1) & mask) {
      Entry& e = table[i];
      if (e.row_plus_1 <= start || e.addr == addr) return e;
    }
  }
  void grow(std::uint64_t start) {
    std::vector<Entry> larger(2 * now_.size());
    for (const Entry& e : now_)
      if (e.row_plus_1 > start) find(larger, e.addr, start) = e;
    now_ = std::move(larger);
  }

  std::vector<Entry> now_ = std::vector<Entry>(slots), before_ = std::vector<Entry>(slots);
  std::size_t used_{};  // entries of this turn in now_
  std::uint64_t turn_{};
};

}  // namespace tracekit
