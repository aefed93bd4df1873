#include "reference/cache_model.hpp"

#include <bit>

namespace tracekit {
namespace {

constexpr std::uint64_t line_bits = 6;
// Cycles that the parts between the levels take (gem5's crossbars with their default latencies).
constexpr Cycle to_second = 2, from_second = 2, to_third = 4, to_memory = 10, zero_extra = 18,
                zero_third = 10;
// Writes that wait in the memory controller before a core notices, and that go together.
constexpr double queued_writes = 16, writes_of_batch = 16;
constexpr int accesses_of_row = 16;  // then a bank closes it
// Reads of one row come back to back but for a part; a write to another row than the last one waits
// for part of its precharge.
constexpr double crowded = 1.2, row_change = 0.5;
constexpr Cycle out_of_order = 100;  // requests that come so much before the last one are apart
// After a miss register is free again: until a load is issued again, and a store or a cache's
// request sent again.
constexpr Cycle retry_load = 3, retry = 1;
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

std::uint64_t Cache::put(std::uint64_t line, Cycle ready, bool dirty, Cycle taken) {
  Way* s = set(line);
  const Way gone = s[ways_ - 1];
  std::rotate(s, s + ways_ - 1, s + ways_);
  s[0] = {line, ready, static_cast<std::int32_t>(taken), dirty};
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

Cycle Memory::read(Cycle at, std::uint64_t line) {
  const std::uint64_t row = line / row_lines_;
  Bank& b = bank_[row % banks_];
  const auto t = static_cast<double>(at);
  reads_ = true;
  double column;
  if (at + out_of_order <
      b.asked) {  // before the last one was there: the bank's state then is not known
    column = t + p_.memory_activate_;
  } else {
    const bool open =
        b.row == row && b.accesses < accesses_of_row && !(p_.memory_closes() && t > b.column);
    if (open) {
      column = std::max(t, b.column);
    } else {
      // A row that nobody waits for was closed before; another one is closed now.
      const bool closed = p_.memory_closes() || b.accesses >= accesses_of_row || b.row == no_line;
      const double precharged = closed ? std::max(t, b.idle + p_.memory_precharge_)
                                       : std::max(t, b.idle) + p_.memory_precharge_;
      const auto activate = static_cast<double>(
          activations_.place(static_cast<Cycle>(precharged), p_.memory_activation_));
      column = activate + p_.memory_activate_;
      b.row = row;
      b.accesses = 0;
      b.idle = activate + p_.memory_ras_;
    }
    ++b.accesses;
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
  return bus_.place(at, cost);
}

bool CacheHierarchy::Stride::see(std::uint64_t at_pc, std::uint64_t at) {
  if (pc != at_pc) {
    *this = {at_pc, at, 0, 0};
    return false;
  }
  const auto moved = static_cast<std::int64_t>(at - last);
  last = at;
  if (moved == step) {
    confidence = std::min(7, confidence + 1);
  } else {
    confidence = std::max(0, confidence - 1);
    if (confidence < 4) step = moved;
  }
  return confidence >= 3 && step != 0;
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
      memory_(p) {}

void CacheHierarchy::write_back(Cycle at, std::uint64_t line) {
  written_ = std::max(written_, memory_.write(to_memory_.place(at, line_to_memory), line));
}

void CacheHierarchy::put_third(std::uint64_t line, Cycle ready, bool dirty) {
  const std::uint64_t gone = l3_.put(line, ready, dirty);
  if (gone != no_line) write_back(now_, gone);
}

void CacheHierarchy::put_second(std::uint64_t line, Cycle ready, bool dirty) {
  const std::uint64_t gone = l2_.put(line, ready, dirty);
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

void CacheHierarchy::put_first(std::uint64_t line, Cycle asked, Cycle ready, bool dirty) {
  const std::uint64_t gone = l1d_.put(line, ready, dirty, ready - asked);
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

// A line that the second level does not have, asked for at `at`.
Cycle CacheHierarchy::below_second(std::uint64_t line, Cycle at) {
  if (!p_.l3_kb()) return from_memory(at, line);
  at = to_third_.place(at, head) + to_third;
  if (const Cache::Way* w = l3_.find(line))
    return from_third_.place(std::max(at + p_.l3_lat(), w->ready), line_between) + 1;
  const Cycle ready = from_memory(at + p_.l3_lat(), line);
  put_third(line, ready, false);
  return ready;
}

Cycle CacheHierarchy::second_level(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand) {
  Cycle ready;
  bool late = true;
  at = std::max(at, (storing_ ? second_store_ : second_load_).free_at() + retry);
  if (const Cache::Way* w = l2_.find(line)) {
    ready = std::max(at + p_.l2_lat(), w->ready);
    late = ready > at + p_.l2_lat();
  } else {
    MissRegisters& registers = storing_ ? second_store_ : second_load_;
    ready = below_second(line, at + p_.l2_lat());
    registers.take(ready);
    put_second(line, ready, false);
  }
  if (demand && late && p_.l2_prefetch()) prefetch_second(line, std::max(ready, at), pc);
  return ready;
}

// The second level's answer to the first data cache, which asks at `at`.
Cycle CacheHierarchy::over_the_bus(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand) {
  const Cycle there = second_level(line, to_second_.place(at, head) + to_second, pc, demand);
  return from_second_.place(there, line_between) + from_second;
}

void CacheHierarchy::prefetch_second(std::uint64_t line, Cycle at, std::uint64_t pc) {
  const auto go = [&](std::uint64_t wanted) {
    if (page(wanted) != page(line) || l2_.has(wanted)) return;
    put_second(wanted, below_second(wanted, at + (p_.l3_kb() ? 0 : p_.l2_lat())), false);
  };
  switch (p_.l2_prefetch()) {
    case prefetch::stride: {
      Stride& s = stride2_[pc >> 2 & 63];
      if (s.see(pc, line))
        for (std::uint64_t k = 1; k <= 4; ++k) go(line + static_cast<std::uint64_t>(s.step) * k);
      break;
    }
    case prefetch::tagged:
      for (std::uint64_t k = 1; k <= 2; ++k) go(line + k);
      break;
    case prefetch::access_map:
      for (std::uint64_t d = 1; d <= 4; ++d) {
        if (l2_.has(line - d) && l2_.has(line - 2 * d)) go(line + d);
        if (l2_.has(line + d) && l2_.has(line + 2 * d)) go(line - d);
      }
      break;
    default:
      break;  // best_offset learns over more rounds than a short trace has
  }
}

void CacheHierarchy::prefetch_first(std::uint64_t address, Cycle at, std::uint64_t pc) {
  const std::uint64_t line = address >> line_bits;
  const auto go = [&](std::uint64_t wanted) {
    if (page(wanted) != page(line) || l1d_.has(wanted)) return;
    MissRegisters& registers = storing_ ? first_store_ : first_load_;
    if (registers.free_at() > at + p_.l1d_lat()) return;  // a prefetch does not wait for a register
    const Cycle ready = over_the_bus(wanted, at + p_.l1d_lat(), 0, false);
    registers.take(ready);
    put_first(wanted, at, ready, false);
  };
  if (p_.l1d_prefetch() == prefetch::stride) {
    Stride& s = stride1_[pc >> 2 & 63];
    if (!s.see(pc, address)) return;
    std::int64_t step = s.step;
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
  if (registers.free_at() > at) at = registers.free_at() + (store ? retry : retry_load);
  if (Cache::Way* w = l1d_.find(line)) {
    // Rows come in the program's order, their accesses do not: an access before the one that asked
    // for the line would have asked for it itself.
    if (at < w->ready - w->taken) w->ready = at + w->taken;
    pending_ = w->ready > at + p_.l1d_lat();
    w->dirty |= store;
    const Cycle ready = std::max(at + p_.l1d_lat(), w->ready);
    if (pending_ && p_.l1d_prefetch()) prefetch_first(address, at, pc);
    return ready;
  }
  pending_ = false;
  now_ = at;
  storing_ = store;
  const Cycle ready = over_the_bus(line, at + p_.l1d_lat(), pc, true);
  registers.take(ready);
  put_first(line, at, ready, store);
  if (p_.l1d_prefetch()) prefetch_first(address, at, pc);
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
  if (Cache::Way* w = l1d_.find(line)) {
    const bool late = w->ready > at + p_.l1d_lat();
    w->dirty = true;
    const Cycle ready = std::max(at + p_.l1d_lat(), w->ready);
    if (late && p_.l1d_prefetch()) prefetch_first(address, at, pc);
    return ready;
  }
  now_ = at;
  storing_ = true;
  if (first_store_.free_at() > at) at = first_store_.free_at() + retry;
  Cycle ready = at + p_.l1d_lat() + to_second + from_second + p_.l2_lat() + zero_extra;
  if (p_.l3_kb()) ready += p_.l3_lat() + to_third + zero_third;
  to_second_.place(at, head);
  to_memory_.place(at, head);
  written_ = 0;
  put_first(line, at, ready, true);
  ready = std::max(ready, written_ - static_cast<Cycle>(queued_writes * p_.memory_burst_));
  first_store_.take(ready);
  if (p_.l1d_prefetch()) prefetch_first(address, at, pc);
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
