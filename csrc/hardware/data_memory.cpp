#include "hardware/data_memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tracekit::hardware {
namespace {

constexpr double line_bytes = 64;
// Where the tables of pages lie: no program's addresses.
constexpr std::uint64_t page_tables = std::uint64_t{1} << 57;

std::size_t lines_of(double kb) { return static_cast<std::size_t>(kb * 1024 / line_bytes); }
std::size_t count(double n) { return static_cast<std::size_t>(n); }
Cycle cycles(double c) { return static_cast<Cycle>(std::lround(c)); }

}  // namespace

DataMemory::DataMemory(const MachineParameters& p)
    : p_(p),
      page_bytes_(static_cast<std::uint64_t>(p.page_kb * 1024)),
      l2_latency_(cycles(p.l2_latency)),
      l3_latency_(cycles(p.l3_latency)),
      memory_latency_(cycles(p.memory_ns * p.clock_ghz)),
      l2_line_(line_bytes / p.l2_bytes),
      l3_line_(line_bytes / p.l3_bytes),
      memory_line_(line_bytes * p.clock_ghz / p.memory_gb_s),
      l1i_(lines_of(p.l1i_kb), count(p.l1i_ways)),
      l1d_(lines_of(p.l1d_kb), count(p.l1d_ways)),
      l2_(lines_of(p.l2_kb), count(p.l2_ways)),
      l3_(std::max<std::size_t>(1, lines_of(p.l3_kb)), count(p.l3_ways)),
      itlb_(count(p.itlb), count(p.itlb) <= 128 ? count(p.itlb) : 8),
      dtlb_(count(p.dtlb), count(p.dtlb) <= 128 ? count(p.dtlb) : 8),
      tlb_(std::max<std::size_t>(1, count(p.tlb_l2)), 8),
      load_misses_(p.l1d_misses),
      store_misses_(p.l1d_misses),
      l2_misses_(p.l2_misses),
      prefetch_misses_(p.l2_misses),
      walkers_(p.page_walkers) {}

bool DataMemory::within(std::uint64_t from, std::uint64_t line) const {
  return p_.prefetch_page_cross != 0 || from / (4096 / 64) == line / (4096 / 64);
}

// A page's number to where it is: what that adds to the access at `at`.
Cycle DataMemory::translate(std::uint64_t address, Cycle at) {
  const std::uint64_t page = page_of(address);
  if (dtlb_.find(page)) return 0;
  dtlb_.put(page);
  return walk(page, at);
}

Cycle DataMemory::walk(std::uint64_t page, Cycle at) {
  const Cycle second = cycles(p_.tlb_l2_latency);
  if (p_.tlb_l2 != 0 && tlb_.find(page)) return second;
  tlb_.put(page);
  const Cycle start = std::max(at + second, walkers_.free_at());
  // The entry's line comes by way of the second cache, whose latency is in page_walk.
  const std::uint64_t line = page_tables + page / 8;
  const Cycle there = from_l2(line, start, false) - l2_latency_ + cycles(p_.page_walk);
  walkers_.take(there);
  return there - at;
}

void DataMemory::fill_l2(std::uint64_t line, Cycle ready, bool dirty, bool prefetched) {
  const Lines::Way gone = l2_.put(line, ready, dirty, prefetched);
  if (gone.key == no_line) return;
  if (p_.l3_kb == 0) {
    if (gone.dirty) memory_way_.place(ready, memory_line_);
    return;
  }
  if (p_.l3_victim == 0) {
    if (!gone.dirty) return;
    if (Lines::Way* w = l3_.find(gone.key)) {
      w->dirty = true;
      return;
    }
  }
  const Lines::Way out = l3_.put(gone.key, std::min(gone.ready, ready), gone.dirty);
  if (out.key != no_line && out.dirty) memory_way_.place(ready, memory_line_);
}

void DataMemory::fill_l1(std::uint64_t line, Cycle ready, bool dirty, bool prefetched) {
  const Lines::Way gone = l1d_.put(line, ready, dirty, prefetched);
  if (gone.key == no_line || !gone.dirty) return;
  if (Lines::Way* w = l2_.find(gone.key))
    w->dirty = true;
  else
    fill_l2(gone.key, ready, true, false);
}

// When a line that the second cache, asked at `at`, does not have is there.
Cycle DataMemory::below_l2(std::uint64_t line, Cycle at) {
  if (p_.l3_kb != 0) {
    if (p_.l3_victim != 0) {
      const Lines::Way w = l3_.take(line);
      if (w.key == line) {
        const Cycle sent = l3_way_.place(std::max(at, w.ready), l3_line_);
        return sent + l3_latency_;
      }
    } else if (const Lines::Way* w = l3_.find(line)) {
      return std::max(l3_way_.place(at, l3_line_) + l3_latency_, w->ready);
    }
  }
  const Cycle ready = memory_way_.place(at, memory_line_) + memory_latency_;
  if (p_.l3_kb != 0 && p_.l3_victim == 0) {
    const Lines::Way out = l3_.put(line, ready);
    if (out.key != no_line && out.dirty) memory_way_.place(ready, memory_line_);
  }
  return ready;
}

// When the line is in the first cache, for an access at `at` that missed there.
Cycle DataMemory::from_l2(std::uint64_t line, Cycle at, bool demand, bool keep) {
  if (Lines::Way* w = l2_.find(line)) {
    const bool first = w->prefetched;
    w->prefetched = false;
    const Cycle ready = std::max(l2_way_.place(at, l2_line_) + l2_latency_, w->ready);
    if (demand && first) train_l2(line, at);
    return ready;
  }
  const Cycle start = std::max(at, l2_misses_.free_at());
  const Cycle ready = below_l2(line, start);
  l2_misses_.take(ready);
  if (keep) fill_l2(line, ready, false, false);
  if (demand) train_l2(line, at);
  return ready;
}

void DataMemory::bring_l2(std::uint64_t from, std::uint64_t line, Cycle at) {
  if (!within(from, line) || l2_.has(line) || prefetch_misses_.free_at() > at) return;
  const Cycle ready = below_l2(line, at);
  prefetch_misses_.take(ready);
  fill_l2(line, ready, false, true);
}

void DataMemory::train_l2(std::uint64_t line, Cycle at) {
  for (std::uint64_t k = 1; k <= static_cast<std::uint64_t>(p_.l2_next_line); ++k)
    bring_l2(line, line + k, at);
  if (p_.l2_stream == 0) return;
  const int way = l2_stream_.see(line);
  if (way == 0) return;
  const auto step = static_cast<std::uint64_t>(std::int64_t{way});
  for (std::uint64_t k = 1; k <= static_cast<std::uint64_t>(p_.l2_stream); ++k)
    bring_l2(line, line + step * k, at);
}

void DataMemory::bring_l1(std::uint64_t from, std::uint64_t line, Cycle at) {
  if (!within(from, line) || l1d_.has(line) || prefetch_misses_.free_at() > at) return;
  const Cycle ready = from_l2(line, at, true);
  if (ready > at + l2_latency_ + 2) prefetch_misses_.take(ready);
  fill_l1(line, ready, false, true);
}

// What the first cache's prefetchers bring after an access; `missed`: or the first to a line that
// was brought.
void DataMemory::train_l1(std::uint64_t line, std::uint64_t address, std::uint64_t pc, Cycle at,
                          bool missed) {
  if (p_.l1_stride != 0) {
    if (const std::int64_t step = stride_.see(pc, address)) {
      const auto far = static_cast<std::uint64_t>(step * static_cast<std::int64_t>(p_.l1_stride));
      // One of less than a line goes at least to the next line.
      std::uint64_t wanted = (address + far) >> line_bits;
      if (wanted == line) wanted = step > 0 ? line + 1 : line - 1;
      if (p_.prefetch_page_cross != 0 || wanted >> 6 == line >> 6) bring_l1(line, wanted, at);
    }
  }
  if (p_.l1_region != 0) {
    const std::uint64_t first = line / RegionPrefetcher::lines * RegionPrefetcher::lines;
    for (std::uint32_t left = region_.see(pc, line); left; left &= left - 1)
      bring_l1(line, first + static_cast<unsigned>(std::countr_zero(left)), at);
  }
  if (!missed) return;
  for (std::uint64_t k = 1; k <= static_cast<std::uint64_t>(p_.l1_next_line); ++k)
    bring_l1(line, line + k, at);
  if (p_.l1_stream == 0) return;
  const int way = l1_stream_.see(line);
  if (way == 0) return;
  const auto step = static_cast<std::uint64_t>(std::int64_t{way});
  for (std::uint64_t k = 1; k <= static_cast<std::uint64_t>(p_.l1_stream); ++k)
    bring_l1(line, line + step * k, at);
}

// When the line is in the first cache (at or before `at`: it is).
Cycle DataMemory::line_in_l1(std::uint64_t line, Cycle at, std::uint64_t pc, std::uint64_t address,
                             bool store) {
  if (Lines::Way* w = l1d_.find(line)) {
    const bool first = w->prefetched;
    const Cycle ready = w->ready;
    w->prefetched = false;
    w->dirty |= store;
    train_l1(line, address, pc, at, first);
    return ready;
  }
  Misses& misses = store ? store_misses_ : load_misses_;
  const Cycle start = std::max(at, misses.free_at());
  const Cycle ready = from_l2(line, start, true);
  misses.take(ready);
  fill_l1(line, ready, store, false);
  train_l1(line, address, pc, start, true);
  return ready;
}

Cycle DataMemory::load(const Access& a, Cycle latency) {
  const Cycle at = a.at + translate(a.address, a.at);
  const std::uint64_t line = a.address >> line_bits;
  const std::uint64_t last = (a.address + std::max(a.size, 1U) - 1) >> line_bits;
  Cycle ready = std::max(at + latency, line_in_l1(line, at, a.pc, a.address, false));
  if (last != line) [[unlikely]] {
    const bool pages = page_of(a.address) != page_of(last << line_bits);
    const Cycle second = at + (pages ? translate(last << line_bits, at) : 0);
    ready = std::max(ready, line_in_l1(last, second, a.pc, last << line_bits, false));
    ready = std::max(ready, at + latency) + cycles(pages ? p_.page_split : p_.line_split);
  }
  return ready;
}

Cycle DataMemory::store(const Access& a, bool nontemporal) {
  const Cycle at = a.at + translate(a.address, a.at);
  const std::uint64_t line = a.address >> line_bits;
  const std::uint64_t last = (a.address + std::max(a.size, 1U) - 1) >> line_bits;
  if (nontemporal) {  // lines are written whole: each store pays its part of one
    const double part = std::min(1.0, std::max(a.size, 1U) / line_bytes);
    return memory_way_.place(at, memory_line_ * part);
  }
  Cycle ready = std::max(at, line_in_l1(line, at, a.pc, a.address, true));
  if (last != line) [[unlikely]]
    ready = std::max(ready, line_in_l1(last, at, a.pc, last << line_bits, true));
  return ready;
}

void DataMemory::prefetch(std::uint64_t address, Cycle at) {
  const std::uint64_t line = address >> line_bits;
  at += translate(address, at);
  if (l1d_.has(line)) return;
  const Cycle start = std::max(at, load_misses_.free_at());
  const Cycle ready = from_l2(line, start, true);
  load_misses_.take(ready);
  fill_l1(line, ready, false, true);
}

Cycle DataMemory::fetch(std::uint64_t line, Cycle at) {
  const std::uint64_t page = page_of(line << line_bits);
  if (!itlb_.find(page)) {
    itlb_.put(page);
    at += walk(page, at);
  }
  if (const Lines::Way* w = l1i_.find(line)) return std::max(at, w->ready);
  const Cycle ready = from_l2(line, at, false);
  l1i_.put(line, ready);
  return ready;
}

}  // namespace tracekit::hardware
