#include "reference/cache_model.hpp"

#include <algorithm>

namespace tracekit {
namespace {

// Cycles that the parts between the levels take (gem5's crossbars with their default latencies).
constexpr Cycle to_second = 2, from_second = 2, to_third = 4, to_memory = 10, zero_extra = 18,
                zero_third = 10;
// After a miss register is free again: until a load is issued again, and a store or a cache's
// request sent again.
constexpr Cycle retry_load = 3, retry = 1;
// Accesses that one miss register takes (tgts_per_mshr): 20 in the runs on X86, and fewer in those
// on ARM, where sixteen stores to a line hold up all the others, and eight do not.
constexpr int targets_x86 = 20, targets_arm = 16;
// Cycles that a line takes of a crossbar, and a request: 32 bytes a cycle between caches, 16 before
// the memory, and one for the head.
constexpr double line_between = 3, line_to_memory = 5, head = 1;

std::uint64_t page(std::uint64_t line) { return line >> 6; }

}  // namespace

CacheHierarchy::CacheHierarchy(const CoreParameters& p)
    : p_(p),
      l1i_(p.l1i_kb(), p.l1i_assoc()),
      l1d_(p.l1d_kb(), p.l1d_assoc()),
      l2_(p.l2_kb(), p.l2_assoc()),
      l3_(std::max(1, p.l3_kb()), p.l3_assoc()),
      first_load_(p.l1d_mshrs()),
      first_store_(p.l1d_mshrs()),
      second_load_(p.l2_mshrs()),
      second_store_(p.l2_mshrs()),
      memory_(p),
      maps_(static_cast<Cycle>(1.5 * p.memory_controller_)) {}

void CacheHierarchy::write_back(Cycle at, std::uint64_t line) {
  written_ = std::max(written_, memory_.write(to_memory_.place(at, line_to_memory), line));
}

void CacheHierarchy::put_third(std::uint64_t line, Cycle ready, bool dirty) {
  const std::uint64_t gone = l3_.put(line, ready, dirty);
  if (gone != no_line) write_back(now_, gone);
}

void CacheHierarchy::put_second(std::uint64_t line, Cycle ready, bool dirty, bool prefetched) {
  const std::uint64_t gone = l2_.put(line, ready, dirty, 0, prefetched);
  if (gone == no_line) return;
  if (!p_.l3_kb()) {
    write_back(now_, gone);
    return;
  }
  to_third_.place(now_, line_between);
  if (Cache::Way* w = l3_.find(gone))
    w->dirty = true;
  else
    put_third(gone, ready, true);
}

void CacheHierarchy::put_first(std::uint64_t line, Cycle asked, Cycle ready, bool dirty,
                               bool prefetched) {
  const std::uint64_t gone = l1d_.put(line, ready, dirty, ready - asked, prefetched);
  if (gone == no_line) return;
  to_second_.place(now_, line_between);
  if (Cache::Way* w = l2_.find(gone))
    w->dirty = true;
  else
    put_second(gone, ready, true);
}

Cycle CacheHierarchy::from_memory(Cycle at, std::uint64_t line) {
  const Cycle there = memory_.read(to_memory_.place(at + to_memory, head), line);
  return from_memory_.place(there, line_to_memory);
}

// What a cache adds to a line that it passes on, beyond the one cycle that is in the constants
// above (gem5's Cache::serviceMSHRTargets, response_latency).  It is 1 in the runs on X86; in those
// on ARM, streams of misses and first fetches show half of the cache's latency, at L2 and L3 alike.
Cycle CacheHierarchy::passes_on(int latency) const {
  return p_.tso() ? 0 : std::max(1, latency / 2) - 1;
}

// A line that the second level does not have, asked for at `at`.
Cycle CacheHierarchy::below_second(std::uint64_t line, Cycle at) {
  if (!p_.l3_kb()) return from_memory(at, line);
  at = to_third_.place(at, head) + to_third;
  if (const Cache::Way* w = l3_.find(line))
    return from_third_.place(std::max(at + p_.l3_lat(), w->ready), line_between) + 1;
  const Cycle ready = from_memory(at + p_.l3_lat(), line);
  put_third(line, ready, false);
  return ready + passes_on(p_.l3_lat());
}

// What a prefetcher wants after a miss is sent before the miss itself, which the cache holds back
// until it has looked its tags up (gem5's BaseCache::getNextQueueEntry).
Cycle CacheHierarchy::second_level(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand) {
  MissRegisters& registers = storing_ ? second_store_ : second_load_;
  at = std::max(at, registers.free_at() + retry);
  Cache::Way* w = l2_.find(line);
  Cycle ready = at + p_.l2_lat();
  bool told = !w;
  if (w) {
    told = w->ready > ready || w->prefetched;
    ready = std::max(ready, w->ready);
    w->prefetched = false;
  }
  if (demand && told && p_.l2_prefetch()) prefetch_second(line, at, pc);
  if (!w) {
    ready = below_second(line, ready);
    registers.take(ready);
    ready += passes_on(p_.l2_lat());
    put_second(line, ready, false);
  }
  return ready;
}

// The second level's answer to the first data cache, which asks at `at`.
Cycle CacheHierarchy::over_the_bus(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand) {
  const Cycle there = second_level(line, to_second_.place(at, head) + to_second, pc, demand);
  return from_second_.place(there, line_between) + from_second;
}

void CacheHierarchy::prefetch_second(std::uint64_t line, Cycle at, std::uint64_t pc) {
  const auto go = [&](std::uint64_t wanted) {
    ++at;
    if (page(wanted) != page(line) || l2_.has(wanted)) return;
    MissRegisters& registers = storing_ ? second_store_ : second_load_;
    if (!registers.spare(at)) return;
    const Cycle ready = below_second(wanted, at);
    registers.take(ready);
    put_second(wanted, ready, false, true);
  };
  switch (p_.l2_prefetch()) {
    case prefetch::stride: {
      if (!pc) break;  // not of fetches
      if (const std::int64_t step = stride2_[pc >> 2 & 63].see(pc, line))
        for (std::uint64_t k = 1; k <= 4; ++k) go(line + static_cast<std::uint64_t>(step) * k);
      break;
    }
    case prefetch::tagged:
      for (std::uint64_t k = 1; k <= 2; ++k) go(line + k);
      break;
    case prefetch::access_map:
      for (const int d : maps_.see(line, at))
        go(line + static_cast<std::uint64_t>(static_cast<std::int64_t>(d)));
      break;
    default:
      break;  // best_offset compares bytes with lines (BOP::tag shifts by 64), and finds nothing
  }
}

void CacheHierarchy::prefetch_first(std::uint64_t address, Cycle at, std::uint64_t pc) {
  const std::uint64_t line = address >> line_bits;
  const auto go = [&](std::uint64_t wanted) {
    ++at;
    if (page(wanted) != page(line) || l1d_.has(wanted)) return;
    MissRegisters& registers = storing_ ? first_store_ : first_load_;
    if (!registers.spare(at)) return;
    // The second level takes nothing now; when it does, the next lines to be zeroed wait here and
    // go first, and their prefetches are not wanted any more (gem5's BaseCache::getNextQueueEntry,
    // prefetch::Queued::notify).
    if (zeroing_ && second_store_.free_at() > at) return;
    const Cycle ready = over_the_bus(wanted, at, pc, true);
    registers.take(ready);
    put_first(wanted, at, ready, false, true);
  };
  if (p_.l1d_prefetch() == prefetch::stride) {
    std::int64_t step = stride1_[pc >> 2 & 63].see(pc, address);
    if (!step) return;
    if (step > 0 && step < 64) step = 64;
    if (step < 0 && step > -64) step = -64;
    for (std::uint64_t k = 1; k <= 4; ++k)
      go((address + static_cast<std::uint64_t>(step) * k) >> line_bits);
  } else if (p_.l1d_prefetch() == prefetch::tagged) {
    for (std::uint64_t k = 1; k <= 2; ++k) go(line + k);
  }
}

Cycle CacheHierarchy::data(std::uint64_t address, Cycle at, std::uint64_t pc, bool store) {
  const std::uint64_t line = address >> line_bits;
  MissRegisters& registers = store ? first_store_ : first_load_;
  const Cycle again = store ? retry : retry_load;
  if (registers.free_at() > at) at = registers.free_at() + again;
  if (at > blocked_ && at < blocked_until_) at = blocked_until_ + again;
  taken_ = at;
  if (Cache::Way* w = l1d_.find(line)) {
    // Rows come in the program's order, their accesses do not: an access before the one that asked
    // for the line would have asked for it itself.
    if (at < w->ready - w->taken) w->ready = at + w->taken;
    w->dirty |= store;
    const bool pending = w->ready > at + p_.l1d_lat();
    const Cycle ready = std::max(at + p_.l1d_lat(), w->ready);
    // gem5's BaseCache::handleTimingReqMiss, setBlocked(Blocked_NoTargets).
    if (pending && ++w->targets == (p_.tso() ? targets_x86 : targets_arm)) {
      blocked_ = at;
      blocked_until_ = w->ready;
    }
    if (p_.l1d_prefetch() && (pending || w->prefetched)) {
      w->prefetched = false;
      prefetch_first(address, at, pc);
    }
    return ready;
  }
  now_ = at;
  storing_ = store;
  if (p_.l1d_prefetch()) prefetch_first(address, at, pc);
  const Cycle ready = over_the_bus(line, at + p_.l1d_lat(), pc, true);
  registers.take(ready);
  put_first(line, at, ready, store);
  return ready;
}

Cycle CacheHierarchy::load(std::uint64_t address, Cycle at, std::uint64_t pc) {
  return data(address, at, pc, false);
}

Cycle CacheHierarchy::store(std::uint64_t address, Cycle at, std::uint64_t pc) {
  return data(address, at, pc, true);
}

Cycle CacheHierarchy::zero_line(std::uint64_t address, Cycle at, std::uint64_t pc) {
  const std::uint64_t line = address >> line_bits;
  taken_ = at;
  if (Cache::Way* w = l1d_.find(line)) {
    const bool late = w->ready > at + p_.l1d_lat();
    w->dirty = true;
    const Cycle ready = std::max(at + p_.l1d_lat(), w->ready);
    if (late && p_.l1d_prefetch()) {
      storing_ = zeroing_ = true;
      prefetch_first(address, at, pc);
      zeroing_ = false;
    }
    return ready;
  }
  now_ = at;
  storing_ = true;
  if (first_store_.free_at() > at) at = first_store_.free_at() + retry;
  taken_ = at;
  // What is sent is an invalidation.  The second level only hands it on, but its register is taken
  // until the answer is there (gem5's Cache::createMissPacket, MSHR::isForward).
  const Cycle sent = std::max(at + p_.l1d_lat() + to_second, second_store_.free_at() + retry);
  Cycle ready = sent + from_second + p_.l2_lat() + zero_extra;
  if (p_.l3_kb()) ready += p_.l3_lat() + to_third + zero_third;
  to_second_.place(at, head);
  to_memory_.place(at, head);
  written_ = 0;
  put_first(line, at, ready, true);
  ready = std::max(ready, written_ - static_cast<Cycle>(Memory::queued_writes * p_.memory_burst_));
  first_store_.take(ready);
  second_store_.take(ready - from_second);
  zeroing_ = true;
  if (p_.l1d_prefetch()) prefetch_first(address, at, pc);
  zeroing_ = false;
  return ready;
}

Cycle CacheHierarchy::fetch(std::uint64_t address, Cycle at) {
  const std::uint64_t line = address >> line_bits;
  if (const Cache::Way* w = l1i_.find(line)) return std::max(at + p_.l1i_lat(), w->ready);
  now_ = at;
  storing_ = false;
  const Cycle ready = second_level(line, at + p_.l1i_lat() + to_second, 0, true) + from_second;
  l1i_.put(line, ready, false);
  return ready;
}

}  // namespace tracekit
