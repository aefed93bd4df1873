#include "reference/branch_predictors.hpp"

#include <algorithm>
#include <cmath>

#include "core/static_inst.hpp"
#include "reference/core_parameters.hpp"

namespace tracekit {
namespace {

void count2(std::uint8_t& c, bool up) {
  if (up && c < 3) ++c;
  if (!up && c > 0) --c;
}

void count(std::int8_t& c, bool up, int most, int least) {
  if (up && c < most) ++c;
  if (!up && c > least) --c;
}

}  // namespace

bool LocalPredictor::step(std::uint64_t pc, bool taken) {
  std::uint8_t& c = counter_[pc >> 2 & 2047];
  const bool predicted = c >= 2;
  count2(c, taken);
  return predicted;
}

bool TournamentPredictor::step(std::uint64_t pc, bool taken) {
  std::uint16_t& history = history_[pc >> 2 & 2047];
  std::uint8_t &l = local_[history & 2047], &g = global_[path_], &choice = choice_[path_];
  const bool by_local = l >= 2, by_global = g >= 2;
  const bool predicted = choice >= 2 ? by_global : by_local;
  if (by_local != by_global) count2(choice, by_global == taken);
  count2(l, taken);
  count2(g, taken);
  history = static_cast<std::uint16_t>((history << 1 | int{taken}) & 2047);
  path_ = (path_ << 1 | unsigned{taken}) & 8191;
  return predicted;
}

bool BiModePredictor::step(std::uint64_t pc, bool taken) {
  std::uint8_t& choice = choice_[pc >> 2 & 8191];
  const std::size_t at = ((pc >> 2) ^ path_) & 8191;
  const bool mostly = choice >= 2;
  std::uint8_t& used = mostly ? taken_[at] : untaken_[at];
  const bool predicted = used >= 2;
  count2(used, taken);
  if (mostly == taken || predicted != taken) count2(choice, taken);
  path_ = (path_ << 1 | unsigned{taken}) & 8191;
  return predicted;
}

TagePredictor::TagePredictor(int tables, int shortest, int longest, bool loops)
    : tables_(tables),
      loops_on_(loops),
      length_(static_cast<std::size_t>(tables)),
      table_(static_cast<std::size_t>(tables), std::vector<Entry>(std::size_t{1} << table_bits)),
      base_(16384, 0),
      history_(history_mask + 1, 0),
      index_(static_cast<std::size_t>(tables)),
      tag_(static_cast<std::size_t>(tables)),
      tag2_(static_cast<std::size_t>(tables)),
      loop_(256) {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const double step = static_cast<double>(i) / (tables - 1);
    length_[i] =
        static_cast<int>(shortest * std::pow(static_cast<double>(longest) / shortest, step) + 0.5);
    const auto fold = [&](int bits) { return Folded{0, length_[i], bits, length_[i] % bits}; };
    index_[i] = fold(table_bits);
    tag_[i] = fold(tag_bits);
    tag2_[i] = fold(tag_bits - 1);
  }
}

void TagePredictor::Folded::push(const std::vector<std::uint8_t>& history, std::size_t at) {
  value = (value << 1) | history[at & history_mask];
  value ^= std::uint32_t{history[(at + static_cast<std::size_t>(length)) & history_mask]} << out;
  value ^= value >> bits;
  value &= (1u << bits) - 1;
}

void TagePredictor::push(std::uint64_t pc, bool taken) {
  at_ = (at_ - 1) & history_mask;
  history_[at_] = taken;
  path_ = (path_ << 1 | static_cast<std::uint32_t>(pc >> 2 & 1)) & 0xffff;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    index_[i].push(history_, at_);
    tag_[i].push(history_, at_);
    tag2_[i].push(history_, at_);
  }
}

// The loop predictor: overrides `predicted` where a loop's number of trips is known; learns.
bool TagePredictor::loop(std::uint64_t pc, bool taken, bool predicted) {
  Loop& l = loop_[(pc ^ (pc >> 8)) & 255];
  const bool known = l.tag != 0 && l.tag == (pc & 0xffff);
  bool out = predicted;
  if (known && l.confidence >= 3) out = l.at + 1 == l.trips ? !l.direction : l.direction;
  if (!known) {
    if (predicted == taken) return out;
    if (l.age > 0) {
      --l.age;
    } else {
      l = Loop{};
      l.tag = static_cast<std::uint16_t>(pc & 0xffff);
      l.direction = !taken;
      l.age = 7;
    }
    return out;
  }
  if (taken == l.direction) {
    ++l.at;
    if (l.trips && l.at >= l.trips && l.confidence) l.confidence = 0, l.trips = 0;
    if (l.at > 16000) l = Loop{};
  } else {
    if (l.at + 1 == l.trips) {
      if (l.confidence < 7) ++l.confidence;
    } else {
      l.trips = static_cast<std::uint16_t>(l.at + 1);
      l.confidence = 0;
    }
    l.at = 0;
  }
  if (l.age < 31) ++l.age;
  return out;
}

bool TagePredictor::step(std::uint64_t address, bool taken) {
  const std::uint64_t pc = address >> 2;
  std::size_t index[most_tables];
  std::uint32_t tag[most_tables];
  int hit = -1, alternate = -1;
  for (int i = 0; i < tables_; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::uint64_t path = path_ & ((1u << std::min(length_[k], 16)) - 1);
    index[i] =
        (pc ^ (pc >> (table_bits - i % 4)) ^ index_[k].value ^ path) & ((1u << table_bits) - 1);
    tag[i] = static_cast<std::uint32_t>(pc ^ tag_[k].value ^ (tag2_[k].value << 1)) &
             ((1u << tag_bits) - 1);
  }
  const auto entry = [&](int i) -> Entry& { return table_[static_cast<std::size_t>(i)][index[i]]; };
  for (int i = tables_ - 1; i >= 0 && alternate < 0; --i)
    if (entry(i).tag == tag[i]) (hit < 0 ? hit : alternate) = i;
  std::int8_t& base = base_[pc & 16383];
  const bool other = alternate >= 0 ? entry(alternate).counter >= 0 : base >= 0;
  bool predicted = base >= 0, weak = false;
  if (hit >= 0) {
    const Entry& e = entry(hit);
    weak = (e.counter == 0 || e.counter == -1) && e.useful == 0;
    predicted = weak && prefer_alternate_ >= 0 ? other : e.counter >= 0;
  }
  const bool out = loops_on_ ? loop(pc, taken, predicted) : predicted;

  bool allocate = predicted != taken && hit < tables_ - 1;
  if (hit >= 0 && weak) {
    const bool own = entry(hit).counter >= 0;
    if (own == taken) allocate = false;
    if (own != other) count(prefer_alternate_, other == taken, 7, -8);
  }
  if (allocate) {
    int first = hit + 1;
    if (first < tables_ - 1 && (random_() & 1)) ++first;
    int free = first;
    while (free < tables_ && entry(free).useful != 0) ++free;
    if (free < tables_) {
      entry(free) = {static_cast<std::int8_t>(taken ? 0 : -1), 0,
                     static_cast<std::uint16_t>(tag[free])};
    } else {
      for (int i = hit + 1; i < tables_; ++i)
        if (entry(i).useful) --entry(i).useful;
    }
  }
  if ((++ticks_ & 0x3ffff) == 0)
    for (auto& t : table_)
      for (Entry& e : t) e.useful >>= 1;
  if (hit >= 0) {
    Entry& e = entry(hit);
    const bool own = e.counter >= 0;
    if (e.useful == 0) {
      if (alternate >= 0)
        count(entry(alternate).counter, taken, 3, -4);
      else
        count(base, taken, 1, -2);
    }
    count(e.counter, taken, 3, -4);
    if (own != other) {
      if (own == taken && e.useful < 3) ++e.useful;
      if (own != taken && e.useful > 0) --e.useful;
    }
  } else {
    count(base, taken, 1, -2);
  }
  push(address, taken);
  return out;
}

bool IndirectPredictor::step(std::uint64_t pc, std::uint64_t target) {
  std::uint64_t hash = (pc >> 2) ^ history_;
  for (int p = 0; p < 3; ++p) hash ^= path_[p] >> (2 + 2 * p);
  const std::size_t set = hash & 255;
  const auto tag = static_cast<std::uint16_t>(pc >> 2 & 0xfffe);
  Entry* found = nullptr;
  for (std::size_t way = 0; way < 2; ++way)
    if (entry_[2 * set + way].tag == tag) found = &entry_[2 * set + way];
  const bool right = found && found->target == target;
  if (!found) {
    random_ = random_ * 1103515245u + 12345u;
    found = &entry_[2 * set + (random_ >> 16 & 1)];
  }
  *found = {tag, target};
  path_[2] = path_[1];
  path_[1] = path_[0];
  path_[0] = target;
  return right;
}

std::uint8_t BranchOutcomes::wrong(const Branch& b) {
  const auto kind = static_cast<BranchKind>(b.kind);
  if (kind == BranchKind::none) return 0;
  if (kind == BranchKind::conditional || kind == BranchKind::indirect_conditional) {
    unsigned out = 0;
    const auto add = [&](unsigned k, bool predicted) {
      out |= unsigned{predicted != b.taken} << k;
    };
    add(predictor::local, local_.step(b.pc, b.taken));
    add(predictor::tournament, tournament_.step(b.pc, b.taken));
    add(predictor::bimode, bimode_.step(b.pc, b.taken));
    add(predictor::tage, tage_.step(b.pc, b.taken));
    add(predictor::tage_long, tage_long_.step(b.pc, b.taken));
    indirect_.outcome(b.taken);
    return static_cast<std::uint8_t>(out);
  }
  tage_.push(b.pc, true);
  tage_long_.push(b.pc, true);
  if (kind == BranchKind::call || kind == BranchKind::indirect_call) {
    if (returns_.size() == return_stack) returns_.erase(returns_.begin());
    returns_.push_back(b.pc);
  }
  bool right = true;
  if (kind == BranchKind::ret) {
    // The return address is just behind the call, by at most an X86 instruction's 15 bytes.
    right = !returns_.empty() && b.next - returns_.back() - 1 < 15;
    if (!returns_.empty()) returns_.pop_back();
  } else if (kind == BranchKind::indirect || kind == BranchKind::indirect_call) {
    right = indirect_.step(b.pc, b.next);
  }
  return right ? 0 : static_cast<std::uint8_t>((1u << predictor::count) - 1);
}

}  // namespace tracekit
