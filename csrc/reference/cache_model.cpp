#include "reference/cache_model.hpp"

#include <bit>
#include <cmath>

namespace tracekit {
namespace {

constexpr std::uint64_t line_bits = 6;
// Cycles that the parts between the levels take (gem5's crossbars with their default latencies).
constexpr Cycle to_second = 2, from_second = 2, to_third = 4, to_memory = 10, zero_extra = 18,
                zero_third = 10;
// Writes that wait in the memory controller before a core notices, and that go together.
constexpr double queued_writes = 16, writes_of_batch = 16;
// Reads of one row come back to back but for a part; a write to another row than the last one waits
// for part of its precharge.
constexpr double crowded = 1.2, row_change = 0.5;
constexpr Cycle out_of_order = 100;  // requests that come so much before the last one are apart
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

Cache::Cache(int kb, int ways) : ways_(static_cast<std::size_t>(ways)) {
  const std::size_t lines = static_cast<std::size_t>(kb) * 1024 >> line_bits;
  const std::size_t sets = std::bit_floor(std::max<std::size_t>(1, lines / ways_));
  mask_ = sets - 1;
  way_.resize(sets * ways_);
}

Cache::Way* Cache::find(std::uint64_t line) {
  Way* s = set(line);
  for (std::size_t i = 0; i < ways_; ++i) {
    if (s[i].line != line) continue;
    std::rotate(s, s + i, s + i + 1);
    return s;
  }
  return nullptr;
}

bool Cache::has(std::uint64_t line) const {
  const Way* s = &way_[(line & mask_) * ways_];
  return std::any_of(s, s + ways_, [line](const Way& w) { return w.line == line; });
}

std::uint64_t Cache::put(std::uint64_t line, Cycle ready, bool dirty, Cycle taken,
                         bool prefetched) {
  Way* s = set(line);
  const Way gone = s[ways_ - 1];
  std::rotate(s, s + ways_ - 1, s + ways_);
  s[0] = {line, ready, static_cast<std::int32_t>(taken), dirty, prefetched, 1};
  return gone.dirty ? gone.line : no_line;
}

Channel::Interval* Channel::interval(Cycle number) {
  Interval& i = ring_[static_cast<std::size_t>(number) & (kept - 1)];
  if (i.number > number) return nullptr;
  if (i.number != number) i = {number, 0};
  return &i;
}

Cycle Channel::place(Cycle at, double cost) {
  constexpr float full = 64;
  Cycle number = at >> 6;
  const Cycle last = number + static_cast<Cycle>(kept) - 16;
  Interval* i = interval(number);
  if (!i) return at;
  while (i->load >= full && number < last) {
    Interval* next = interval(++number);
    if (!next) return at;
    i = next;
  }
  const Cycle start = number == at >> 6 ? at : (number << 6) + static_cast<Cycle>(i->load);
  i->load += static_cast<float>(cost);
  while (i->load > full && number < last) {  // the rest is taken from the next
    const float over = i->load - full;
    Interval* next = interval(++number);
    if (!next) break;
    i->load = full;
    i = next;
    i->load += over;
  }
  return start;
}

Memory::Memory(const CoreParameters& p)
    : p_(p),
      row_lines_(static_cast<std::size_t>(p.memory_row_lines())),
      banks_(static_cast<std::size_t>(p.memory_banks())),
      bank_(banks_),
      written_(banks_, no_line) {}

// All banks are closed and refreshed again and again, and nothing is taken meanwhile (gem5's
// DRAMInterface::Rank::processRefreshEvent).
Memory::Refreshed Memory::refreshed(double t) const {
  const double turn = std::floor((t + p_.memory_precharge_) / p_.memory_refresh_every_);
  if (turn < 1) return {t, 0};
  return {std::max(t, turn * p_.memory_refresh_every_ + p_.memory_refresh_), turn};
}

Cycle Memory::read(Cycle at, std::uint64_t line) {
  const std::uint64_t row = line / row_lines_;
  Bank& b = bank_[row % banks_];
  const auto [t, turn] = refreshed(static_cast<double>(at));
  reads_ = true;
  double column;
  if (at + out_of_order <
      b.asked) {  // before the last one was there: the bank's state then is not known
    column = t + p_.memory_activate_;
  } else {
    // What is to be done is decided as soon as the bus may be free in time (gem5's
    // MemCtrl::doBurstAccess, nextReqTime), and there too whether the row is closed behind it: when
    // no other one waits for it (close_adaptive in DRAMInterface::doBurstAccess).
    const double decided = std::max(t, next_decision_);
    const bool again = b.turn != turn;
    const bool open = b.row == row && !again && b.accesses < p_.memory_row_accesses() &&
                      !(p_.memory_closes() && t > b.decided);
    if (open) {
      column = std::max(decided, b.column);
    } else {
      double precharged = decided;
      if (!again) {  // another row is closed now, if it was not closed before
        const bool closed =
            p_.memory_closes() || b.accesses >= p_.memory_row_accesses() || b.row == no_line;
        precharged = closed ? std::max(decided, b.idle + p_.memory_precharge_)
                            : std::max(decided, b.idle) + p_.memory_precharge_;
      }
      const auto activate = static_cast<double>(
          activations_.place(static_cast<Cycle>(precharged), p_.memory_activation_));
      column = activate + p_.memory_activate_;
      b.row = row;
      b.accesses = 0;
      b.idle = activate + p_.memory_ras_;
    }
    next_decision_ = column + p_.memory_burst_ - p_.memory_precharge_ - p_.memory_activate_;
    ++b.accesses;
    b.turn = turn;
    b.decided = decided;
    b.asked = at;
    b.column = column + p_.memory_burst_;
    b.idle = std::max(b.idle, column + p_.memory_burst_);
  }
  return static_cast<Cycle>(
      static_cast<double>(bus_.place(static_cast<Cycle>(column), crowded * p_.memory_column_)) +
      p_.memory_cas_ + p_.memory_burst_ + p_.memory_controller_);
}

Cycle Memory::write(Cycle at, std::uint64_t line) {
  const std::uint64_t row = line / row_lines_;
  const std::size_t bank = row % banks_;
  double cost = p_.memory_burst_;
  if (reads_) cost += p_.memory_turnaround_ / writes_of_batch;
  reads_ = false;
  if (written_[bank] != row) {
    written_[bank] = row;
    cost = std::max(cost, p_.memory_activation_) + p_.memory_precharge_ * row_change;
    if (!p_.memory_closes() && bank_[bank].row != row)
      bank_[bank].row = row, bank_[bank].accesses = 0;
  }
  waiting_ += cost;
  // They wait until half of the queue is taken; then some go together, and no read between them
  // (gem5's MemCtrl::processNextReqEvent).
  if (++writes_ <= p_.memory_writes()) return at;
  const double together = waiting_ * writes_of_batch / writes_;
  waiting_ -= together;
  writes_ -= static_cast<int>(writes_of_batch);
  return bus_.place(at, together);
}

AccessMaps::Map& AccessMaps::map(std::uint64_t zone) {
  Map* s = &map_[zone % sets * ways];
  std::size_t i = 0;
  while (i + 1 < ways && s[i].zone != zone) ++i;
  if (s[i].zone != zone) s[i] = {zone, 0, 0};
  std::rotate(s, s + i, s + i + 1);
  return *s;
}

void AccessMaps::end_epoch() {
  const double accuracy = good_ / total_, coverage = good_ / misses_,
               hits = hits_ / (hits_ + misses_);  // none of any: neither high nor low
  if (coverage > 0.25 && (accuracy > 0.5 || hits < 0.75))
    ++useful_;
  else if ((coverage < 0.125 && (accuracy < 0.25 || hits > 0.875)) ||
           (accuracy < 0.25 && hits > 0.875))
    --useful_;
  const double bandwidth =
      (misses_ - good_ + total_) * static_cast<double>(latency_) / static_cast<double>(epoch);
  degree_ = std::min(static_cast<unsigned>(bandwidth), useful_);  // 0: no limit
  good_ = total_ = misses_ = hits_ = 0;
  next_epoch_ += epoch;
}

void AccessMaps::prefetch(std::uint64_t line) {
  Map& m = map(line >> 5);
  const std::uint32_t bit = 1u << (line & 31);
  if (!((m.accessed | m.prefetched) & bit)) ++total_;
  m.accessed &= ~bit;
  m.prefetched |= bit;
}

std::span<const int> AccessMaps::see(std::uint64_t line, Cycle at) {
  while (at >= next_epoch_) end_epoch();
  const std::uint64_t zone = line >> 5;
  {
    Map& m = map(zone);
    const std::uint32_t bit = 1u << (line & 31);
    if (m.accessed & bit) {
      ++hits_;
    } else {
      ++misses_;
      if (m.prefetched & bit) ++good_;
    }
    m.accessed |= bit;
    m.prefetched &= ~bit;
  }
  // Bit 32 is the first line of the zone.
  const unsigned __int128 before = map(zone - 1).accessed, behind = map(zone + 1).accessed;
  const unsigned __int128 accessed =
      before | static_cast<unsigned __int128>(map(zone).accessed) << 32 | behind << 64;
  const int here = static_cast<int>(line & 31) + 32;
  const auto was = [&](int i) { return (accessed >> i & 1) != 0; };
  std::size_t n = 0;
  for (int stride = 1; stride < 16; ++stride) {
    for (const int s : {stride, -stride}) {
      if (!was(here + s) || !(was(here + 2 * s) || was(here + 2 * s + 1))) continue;
      prefetch(line - static_cast<std::uint64_t>(static_cast<std::int64_t>(s)));
      found_[n++] = -s;
      if (n == degree_) return {found_.data(), n};
    }
  }
  return {found_.data(), n};
}

// gem5's Stride::calculatePrefetch: three bits of confidence, four at first, trusted from four on.
std::int64_t CacheHierarchy::Stride::see(std::uint64_t at_pc, std::uint64_t at) {
  if (pc != at_pc) {
    *this = {at_pc, at, 0, 4};
    return 0;
  }
  const auto moved = static_cast<std::int64_t>(at - last);
  last = at;
  if (moved == step && moved != 0) {
    confidence = std::min(7, confidence + 1);
  } else {
    confidence = std::max(0, confidence - 1);
    if (confidence < 4) step = moved;
  }
  return confidence < 4 ? 0 : moved;
}

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
  ready = std::max(ready, written_ - static_cast<Cycle>(queued_writes * p_.memory_burst_));
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
