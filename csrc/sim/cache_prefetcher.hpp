// What a cache's prefetcher wants by what it is asked for alone: strides, the lines behind, or a
// user's own.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"
#include "sim/plugin_prefetcher.hpp"
#include "sim/prefetchers.hpp"

namespace tracekit {

// Prefetchers stay in a page.
inline bool same_page(std::uint64_t line, std::uint64_t other) { return line >> 6 == other >> 6; }

class CachePrefetcher {
 public:
  explicit CachePrefetcher(int kind) : kind_(kind), plugin_(make_plugin_prefetcher(kind)) {}
  // Gives `want` the lines that it wants when the instruction at `pc` asks for `address`.
  // `strides`: of who asks.
  template <typename Want>
  void see(std::uint64_t address, std::uint64_t pc, bool hit, Strides& strides, const Want& want) {
    const std::uint64_t line = address >> line_bits;
    if (kind_ == prefetch::stride) {
      strides.see(pc, address, want);
    } else if (kind_ == prefetch::tagged) {
      for (std::uint64_t k = 1; k <= 2; ++k) want(line + k);
    } else if (plugin_) {
      // best_offset compares bytes with lines (BOP::tag shifts by 64), and finds nothing.
      plugin_->see(line, pc, hit, want);
    }
  }

 private:
  int kind_;
  std::unique_ptr<PluginPrefetcher> plugin_;  // null: a built-in one, or none
};

// Of a second cache, which may have access maps.
class SecondPrefetcher {
 public:
  explicit SecondPrefetcher(const CoreParameters& p)
      : kind_(p.l2_prefetch()), other_(p.l2_prefetch()), maps_(p) {}
  // The same, `at` a cycle.
  template <typename Want>
  void see(std::uint64_t address, std::uint64_t pc, bool hit, Cycle at, Strides& strides,
           const Want& want) {
    if (kind_ == prefetch::access_map)
      maps_.see(address >> line_bits, at, want);
    else if (kind_ != prefetch::stride || pc)  // not of fetches
      other_.see(address, pc, hit, strides, want);
  }
  AccessMaps& maps() { return maps_; }

 private:
  int kind_;
  CachePrefetcher other_;
  AccessMaps maps_;
};

}  // namespace tracekit
