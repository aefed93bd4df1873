#include "reference/cache_model.hpp"

#include <bit>

namespace tracekit {
namespace {

constexpr std::uint64_t line_bits = 6;
// Cycles that the parts between the levels take (gem5's crossbars with their default latencies).
constexpr Cycle to_second = 2, from_second = 2, to_third = 4, to_memory = 10, zero_extra = 40;
// Writes that wait in the memory controller before a core notices.
constexpr double queued_writes = 16;

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

std::uint64_t Cache::put(std::uint64_t line, Cycle ready, bool dirty) {
  Way* s = set(line);
  const Way gone = s[ways_ - 1];
  std::rotate(s, s + ways_ - 1, s + ways_);
  s[0] = {line, ready, dirty};
  return gone.dirty ? gone.line : no_line;
}

Cycle Memory::place(Cycle at, double cost) {
  for (Cycle b = at >> 6;; ++b) {
    const auto k = static_cast<std::size_t>(b) & (interval_.size() - 1);
    if (interval_[k] > b) return at;  // longer ago than is kept
    if (interval_[k] != b) interval_[k] = b, load_[k] = 0;
    if (load_[k] > 0 && load_[k] + cost > 64) continue;
    const Cycle start = b == at >> 6 ? at : (b << 6) + static_cast<Cycle>(load_[k]);
    load_[k] += static_cast<float>(cost);
    return start;
  }
}

Cycle Memory::read(Cycle at, std::uint64_t line, bool store) {
  const std::uint64_t row = line >> 7;  // 8 kB
  std::uint64_t& open = open_[row & 15];
  const double gain = open == row && !store ? p_.memory_row_gain_ : 0;
  open = row;
  return static_cast<Cycle>(static_cast<double>(place(at, p_.memory_read_)) + p_.memory_lat_ -
                            gain);
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

void CacheHierarchy::put_third(std::uint64_t line, Cycle ready, bool dirty) {
  if (l3_.put(line, ready, dirty) != no_line) write_back(now_);
}

void CacheHierarchy::put_second(std::uint64_t line, Cycle ready, bool dirty) {
  const std::uint64_t gone = l2_.put(line, ready, dirty);
  if (gone == no_line) return;
  if (!p_.l3_kb())
    write_back(now_);
  else if (Cache::Way* w = l3_.find(gone))
    w->dirty = true;
  else
    put_third(gone, ready, true);
}

void CacheHierarchy::put_first(std::uint64_t line, Cycle ready, bool dirty) {
  const std::uint64_t gone = l1d_.put(line, ready, dirty);
  if (gone == no_line) return;
  if (Cache::Way* w = l2_.find(gone))
    w->dirty = true;
  else
    put_second(gone, ready, true);
}

// A line that the second level does not have, asked for at `at`.
Cycle CacheHierarchy::below_second(std::uint64_t line, Cycle at) {
  if (!p_.l3_kb()) return memory_.read(at + to_memory, line, storing_);
  at += to_third;
  if (const Cache::Way* w = l3_.find(line)) return std::max(at + p_.l3_lat(), w->ready) + 1;
  const Cycle ready = memory_.read(at + p_.l3_lat() + to_memory, line, storing_);
  put_third(line, ready, false);
  return ready;
}

Cycle CacheHierarchy::second_level(std::uint64_t line, Cycle at, std::uint64_t pc, bool demand) {
  Cycle ready;
  bool late = true;
  if (const Cache::Way* w = l2_.find(line)) {
    ready = std::max(at + p_.l2_lat(), w->ready);
    late = ready > at + p_.l2_lat();
  } else {
    MissRegisters& registers = storing_ ? second_store_ : second_load_;
    const std::size_t k = registers.first_free();
    ready = below_second(line, std::max(at + p_.l2_lat(), registers[k]));
    registers[k] = ready;
    put_second(line, ready, false);
  }
  if (demand && late && p_.l2_prefetch()) prefetch_second(line, std::max(ready, at), pc);
  return ready;
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
    const std::size_t k = registers.first_free();
    if (registers[k] > at + p_.l1d_lat()) return;  // a prefetch does not wait for a register
    const Cycle ready = second_level(wanted, at + p_.l1d_lat() + to_second, 0, false) + from_second;
    registers[k] = ready;
    put_first(wanted, ready, false);
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
  if (Cache::Way* w = l1d_.find(line)) {
    pending_ = w->ready > at + p_.l1d_lat();
    w->dirty |= store;
    const Cycle ready = std::max(at + p_.l1d_lat(), w->ready);
    if (pending_ && p_.l1d_prefetch()) prefetch_first(address, at, pc);
    return ready;
  }
  pending_ = false;
  now_ = at;
  storing_ = store;
  MissRegisters& registers = store ? first_store_ : first_load_;
  const std::size_t k = registers.first_free();
  const Cycle start = std::max(at + p_.l1d_lat(), registers[k]);
  const Cycle ready = second_level(line, start + to_second, pc, true) + from_second;
  registers[k] = ready;
  put_first(line, ready, store);
  if (p_.l1d_prefetch()) prefetch_first(address, at, pc);
  return ready;
}

Cycle CacheHierarchy::load(std::uint64_t address, Cycle at, std::uint64_t pc) {
  return data(address, at, pc, false);
}

Cycle CacheHierarchy::store(std::uint64_t address, Cycle at, std::uint64_t pc) {
  return data(address, at, pc, true);
}

Cycle CacheHierarchy::zero_line(std::uint64_t address, Cycle at) {
  const std::uint64_t line = address >> line_bits;
  if (Cache::Way* w = l1d_.find(line)) {
    w->dirty = true;
    return std::max(at + p_.l1d_lat(), w->ready);
  }
  now_ = at;
  storing_ = true;
  const std::size_t k = first_store_.first_free();
  Cycle ready = std::max(at + p_.l1d_lat(), first_store_[k]) + to_second + from_second +
                p_.l2_lat() + zero_extra;
  if (p_.l3_kb()) ready += p_.l3_lat() + to_third;
  written_ = 0;
  put_first(line, ready, true);
  ready = std::max(ready, written_ - static_cast<Cycle>(queued_writes * p_.memory_read_));
  first_store_[k] = ready;
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
