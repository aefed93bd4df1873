// What prefetchers leave in a machine's caches: the lines that a program uses, and those that they
// bring, without time.
#pragma once

#include <cstdint>
#include <span>

#include "sim/cache.hpp"
#include "sim/cache_prefetcher.hpp"
#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"
#include "sim/prefetchers.hpp"
#include "warm/first_cache.hpp"

namespace tracekit {

// A use of a line.
struct CacheUse {
  // Code is asked for by cores that execute in order, or out of order.
  enum Kind : std::uint8_t { code_in_order, code_out_of_order, load, store };
  std::uint64_t address, pc;  // pc: of loads and stores; 0: nobody knows it, nor does a prefetcher
  std::uint32_t rows;         // since the last use
  Kind kind;
};

// Of one machine.
class PrefetchedCaches {
 public:
  explicit PrefetchedCaches(const CoreParameters& p);
  // Whether the machine has a prefetcher that brings lines.
  static bool prefetches(const CoreParameters& p);
  void pass(std::span<const CacheUse> uses);
  const Cache& l1d() const { return l1d_; }
  const Cache& l2() const { return l2_; }

 private:
  void use(const CacheUse& use);
  void data(std::uint64_t address, std::uint64_t pc, bool store);
  void fill_l1d(std::uint64_t line, bool dirty, bool prefetched);
  void prefetch_l1d(std::uint64_t address, std::uint64_t pc, bool hit);
  void ask_l2(std::uint64_t address, std::uint64_t pc, Strides& strides);
  void fill_l2(std::uint64_t line, bool dirty, bool prefetched);
  void prefetch_l2(std::uint64_t address, std::uint64_t pc, bool hit, Strides& strides);
  bool take_dirty_from_l3(std::uint64_t line);

  bool in_order_, has_l3_;
  warm::FirstCache l1i_;
  // `ready`: the row from which on nobody waits for a line any more.
  Cache l1d_, l2_, l3_;
  Strides strides1_, strides2_, strides2_prefetched_;
  CachePrefetcher l1d_prefetcher_;
  SecondPrefetcher l2_prefetcher_;
  Cycle row_{}, waited_{};
  Cycle waits_;     // for a miss of both
  bool near_{};     // the second cache had the line that it was asked for last
  bool unheard_{};  // by prefetchers: the use that goes on
};

}  // namespace tracekit
