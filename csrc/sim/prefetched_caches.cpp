#include "sim/prefetched_caches.hpp"

#include <algorithm>

#include "sim/memory_model.hpp"

namespace tracekit {
namespace {

// For so many rows others wait for a line with the one that has asked for it, of which prefetchers
// hear: one that the second cache has, or has not.  Measured on dijkstra.arm: twice as many make
// little difference, none at all a large one.
constexpr Cycle from_l2 = 30, from_memory = 120;
// Of so many misses the waiting overlaps.
constexpr Cycle overlap = 4;

bool brings_lines(int kind) { return kind != prefetch::none && kind != prefetch::best_offset; }

}  // namespace

bool PrefetchedCaches::prefetches(const CoreParameters& p) {
  return brings_lines(p.l1d_prefetch()) || brings_lines(p.l2_prefetch());
}

PrefetchedCaches::PrefetchedCaches(const CoreParameters& p)
    : in_order_(p.in_order() != 0),
      has_l3_(p.l3_kb() != 0),
      l1i_(Cache::shape(p.l1i_kb(), p.l1i_assoc())),
      l1d_(p.l1d_kb(), p.l1d_assoc(), p.l1d_replacement()),
      l2_(p.l2_kb(), p.l2_assoc(), p.l2_replacement()),
      l3_(std::max(1, p.l3_kb()), p.l3_assoc(), p.l3_replacement()),
      l1d_prefetcher_(p.l1d_prefetch()),
      l2_prefetcher_(p),
      waits_(Memory::unloaded(p) / overlap) {}

void PrefetchedCaches::pass(std::span<const CacheUse> uses) {
  for (const CacheUse& u : uses) use(u);
}

inline void PrefetchedCaches::use(const CacheUse& use) {
  row_ += use.rows;
  const bool code = use.kind <= CacheUse::code_out_of_order;
  if (code && (use.kind == CacheUse::code_in_order) != in_order_) return;
  unheard_ = !code && use.pc == 0;
  if (!code)
    data(use.address, use.pc, use.kind == CacheUse::store);
  else if (!l1i_.use(use.address >> line_bits))
    ask_l2(use.address, 0, strides2_);
}

inline void PrefetchedCaches::data(std::uint64_t address, std::uint64_t pc, bool store) {
  const std::uint64_t line = address >> line_bits;
  if (Cache::Way* w = l1d_.find(line)) {
    w->dirty |= store;
    if (w->prefetched || w->ready > row_) {
      w->prefetched = false;
      prefetch_l1d(address, pc, true);
    }
    return;
  }
  prefetch_l1d(address, pc, false);
  ask_l2(address, pc, strides2_);
  fill_l1d(line, store, false);
}

void PrefetchedCaches::fill_l1d(std::uint64_t line, bool dirty, bool prefetched) {
  const Cycle ready = row_ + (near_ ? from_l2 : from_memory);
  const std::uint64_t gone = l1d_.put(line, ready, dirty, 0, prefetched);
  if (gone == no_line) return;
  if (Cache::Way* w = l2_.find(gone))
    w->dirty = true;
  else
    fill_l2(gone, true, false);
}

void PrefetchedCaches::prefetch_l1d(std::uint64_t address, std::uint64_t pc, bool hit) {
  if (unheard_) return;
  l1d_prefetcher_.see(address, pc, hit, strides1_, [&](std::uint64_t wanted) {
    if (!same_page(wanted, address >> line_bits) || l1d_.has(wanted)) return;
    ask_l2(wanted << line_bits, pc, strides2_prefetched_);
    fill_l1d(wanted, false, true);
  });
}

void PrefetchedCaches::ask_l2(std::uint64_t address, std::uint64_t pc, Strides& strides) {
  const std::uint64_t line = address >> line_bits;
  if (Cache::Way* w = l2_.find(line)) {
    near_ = w->ready <= row_;
    if (!w->prefetched && near_) return;
    w->prefetched = false;
    prefetch_l2(address, pc, true, strides);
    return;
  }
  waited_ += waits_;
  prefetch_l2(address, pc, false, strides);
  fill_l2(line, take_dirty_from_l3(line), false);
  near_ = false;
}

void PrefetchedCaches::fill_l2(std::uint64_t line, bool dirty, bool prefetched) {
  const std::uint64_t gone = l2_.put(line, row_ + from_memory, dirty, 0, prefetched);
  if (gone == no_line || !has_l3_) return;
  if (Cache::Way* w = l3_.find(gone))
    w->dirty = true;
  else
    l3_.put(gone, 0, true);
}

// A line that comes from there dirty is so in the second cache from then on.
bool PrefetchedCaches::take_dirty_from_l3(std::uint64_t line) {
  if (!has_l3_) return false;
  if (Cache::Way* w = l3_.find(line)) {
    const bool dirty = w->dirty;
    w->dirty = false;
    return dirty;
  }
  l3_.put(line, 0, false);
  return false;
}

void PrefetchedCaches::prefetch_l2(std::uint64_t address, std::uint64_t pc, bool hit,
                                   Strides& strides) {
  if (unheard_) return;
  l2_prefetcher_.see(address, pc, hit, row_ + waited_, strides, [&](std::uint64_t wanted) {
    if (!same_page(wanted, address >> line_bits) || l2_.has(wanted)) return;
    fill_l2(wanted, take_dirty_from_l3(wanted), true);
  });
}

}  // namespace tracekit
