// Caches and memory of a simulated core, as latencies: tags are exact, time is not simulated but
// computed access by access, in trace order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/cache.hpp"
#include "sim/cache_prefetcher.hpp"
#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"
#include "sim/lines_in_flight.hpp"
#include "sim/memory_model.hpp"
#include "sim/mshrs.hpp"
#include "sim/prefetched_caches.hpp"
#include "sim/prefetchers.hpp"
#include "sim/send_port.hpp"

namespace tracekit {

class CacheHierarchy {
 public:
  explicit CacheHierarchy(const CoreParameters& p);

  Cycle fetch(std::uint64_t address, Cycle at);  // when the instruction line is there
  Cycle load(std::uint64_t address, Cycle at, std::uint64_t pc);   // when the data is there
  Cycle store(std::uint64_t address, Cycle at, std::uint64_t pc);  // when the line can be written
  Cycle zero_line(std::uint64_t address, Cycle at, std::uint64_t pc);  // DC ZVA: no data is read
  Cycle taken_at() const { return taken_; }    // when the first cache took the last load or store
  CacheLevel level_of(std::uint64_t address);  // that has its line
  bool in_l1d(std::uint64_t address);          // or on its way there
  // When the first data cache takes an access that comes at `at`.
  Cycle takes_from(Cycle at) const { return l1d_mshrs_.free_from(at); }
  CacheLevel served() const { return served_; }  // who had the data of the last access
  // All caches hold what they would after the lines' uses, of code and of data; where prefetchers
  // have brought others (`own`, else null), the data cache and the second one what that says.
  void restore(warm::ContentsByShape& contents, const PrefetchedCaches* own);
  // Accesses from `at` on stand for those of more cycles: at passed() for so many.
  void begin_counting(Cycle at) { l2_prefetcher_.maps().begin_counting(at); }
  void passed(Cycle at, double cycles) { l2_prefetcher_.maps().passed(at, cycles); }

 private:
  Cycle data(std::uint64_t address, Cycle at, std::uint64_t pc, bool store);
  Cycle access_l2(std::uint64_t address, Cycle at, std::uint64_t pc, Strides& strides);
  Cycle request_l2(std::uint64_t address, Cycle at, std::uint64_t pc, Strides& strides);
  Cycle read_below_l2(std::uint64_t line, Cycle at);
  // The line in the first data cache at `at`, or on its way there; else null.
  Cache::Way* find_l1d(std::uint64_t line, Cycle at);
  Cache::Way asked_for(std::uint64_t line, Cycle asked, Cycle ready, bool dirty,
                       bool prefetched) const;
  template <typename Put>
  Cycle miss(std::uint64_t address, Cycle at, Cycle sends, std::uint64_t pc, Put&& put);
  Cycle upgrade(std::uint64_t address, Cycle at, Cycle there, std::uint64_t pc);
  Cache::Way& fill_l1d(std::uint64_t line, Cycle asked, Cycle ready, bool dirty,
                       bool prefetched = false);
  // When the second level has room for what is written back for it; nothing if nothing is.
  std::optional<Cycle> put_l1d(const Cache::Way& way, Cycle at);
  void fill_l2(std::uint64_t line, Cycle ready, bool dirty, bool prefetched = false);
  void fill_l3(std::uint64_t line, Cycle ready, bool dirty);
  void write_back(Cycle at, std::uint64_t line);
  Cycle from_memory(Cycle at, std::uint64_t line);
  void want_l1d(std::uint64_t address, Cycle at, std::uint64_t pc, bool hit);
  void prefetch_l1d(Cycle at, Cycle until, bool missed = false);
  void prefetch_zeroed(Cycle at, Cycle until, bool missed = false);
  void prefetch_l2(std::uint64_t address, Cycle at, std::uint64_t pc, bool hit, Strides& strides);

  const CoreParameters p_;
  Cache l1i_, l1d_, l2_, l3_;
  LinesInFlight to_l1d_;
  SendPort l1d_port_;
  Mshrs l1d_mshrs_, l2_mshrs_;
  // After one is free again: until a load is sent again, which an out-of-order core issues anew
  // (gem5's InstructionQueue::cacheUnblocked).
  Cycle retry_load_;
  Memory memory_;
  // The crossbars: requests with the lines that are written back, and answers.
  Channel l2_request_crossbar_, l2_response_crossbar_, l3_request_crossbar_, l3_response_crossbar_,
      memory_request_crossbar_, memory_response_crossbar_;
  // The second one's of what the core asks for, and of what the first prefetcher does: each
  // requestor has a table.
  Strides strides1_, strides2_, strides2_prefetched_;
  CachePrefetcher l1d_prefetcher_;
  SecondPrefetcher l2_prefetcher_;
  struct Wanted {
    std::uint64_t line, pc;
    Cycle ready;
  };
  // By the first prefetcher, in the order in which it is sent.
  std::vector<Wanted> wanted_;
  Cycle now_{}, written_{}, taken_{};
  CacheLevel served_{};
  Cycle held_{};    // by miss registers of the second level
  Cycle unloaded_;  // what memory takes that nobody else asks
  // While a line has all the targets that it may have, the first cache takes nothing.
  Cycle blocked_{}, blocked_until_{};
  bool storing_{}, zeroing_{};
  bool from_dirty_{};  // the third level had the line that the second one gave last, and dirty
};

}  // namespace tracekit
