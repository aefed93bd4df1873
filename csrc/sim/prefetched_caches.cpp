#include "sim/prefetched_caches.hpp"

#include <algorithm>

namespace tracekit {
namespace {

// For so many rows others wait for a line with the one that has asked for it, of which prefetchers
// hear: one that the second cache has, or has not.  Measured on dijkstra.arm: half as many or twice
// makes little difference, none at all a large one.
constexpr Cycle from_l2 = 30, from_memory = 120;
// Of so many misses the waiting overlaps.
constexpr Cycle overlap = 4;

std::uint64_t page(std::uint64_t line) { return line >> 6; }

bool brings_lines(int kind) { return kind != prefetch::none && kind != prefetch::best_offset; }

}  // namespace

bool PrefetchedCaches::prefetches(const CoreParameters& p) {
  return brings_lines(p.l1d_prefetch()) || brings_lines(p.l2_prefetch());
}

PrefetchedCaches::PrefetchedCaches(const CoreParameters& p)
    : in_order_(p.in_order() != 0),
      has_l3_(p.l3_kb() != 0),
      l1d_kind_(p.l1d_prefetch()),
      l2_kind_(p.l2_prefetch()),
      l1i_(Cache::shape(p.l1i_kb(), p.l1i_assoc())),
      l1d_(p.l1d_kb(), p.l1d_assoc(), p.l1d_replacement()),
      l2_(p.l2_kb(), p.l2_assoc(), p.l2_replacement()),
      l3_(std::max(1, p.l3_kb()), p.l3_assoc(), p.l3_replacement()),
      maps_(p),
      l1d_plugin_(make_plugin_prefetcher(p.l1d_prefetch())),
      l2_plugin_(make_plugin_prefetcher(p.l2_prefetch())),
      waits_(static_cast<Cycle>(p.memory_controller_ + p.memory_activate_ + p.memory_cas_ +
                                p.memory_burst_) /
             overlap) {}

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
  if (unheard_ || l1d_kind_ == prefetch::none) return;
  const std::uint64_t line = address >> line_bits;
  const auto go = [&](std::uint64_t wanted) {
    if (page(wanted) != page(line) || l1d_.has(wanted)) return;
    ask_l2(wanted << line_bits, pc, strides2_prefetched_);
    fill_l1d(wanted, false, true);
  };
  if (l1d_kind_ == prefetch::stride) {
    strides1_.see(pc, address, go);
  } else if (l1d_kind_ == prefetch::tagged) {
    for (std::uint64_t k = 1; k <= 2; ++k) go(line + k);
  } else if (l1d_plugin_) {
    l1d_plugin_->see(line, pc, hit, go);
  }
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
  if (unheard_ || l2_kind_ == prefetch::none) return;
  const std::uint64_t line = address >> line_bits;
  const auto go = [&](std::uint64_t wanted) {
    if (page(wanted) != page(line) || l2_.has(wanted)) return;
    fill_l2(wanted, take_dirty_from_l3(wanted), true);
  };
  switch (l2_kind_) {
    case prefetch::stride:
      if (pc) strides.see(pc, address, go);  // not of fetches
      break;
    case prefetch::tagged:
      for (std::uint64_t k = 1; k <= 2; ++k) go(line + k);
      break;
    case prefetch::access_map:
      for (const int d : maps_.see(line, row_ + waited_))
        go(line + static_cast<std::uint64_t>(static_cast<std::int64_t>(d)));
      break;
    default:
      if (l2_plugin_) l2_plugin_->see(line, pc, hit, go);
      break;
  }
}

}  // namespace tracekit
