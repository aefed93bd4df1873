#include "features/engine.hpp"

#include <algorithm>

#include "features/outcome.hpp"

namespace tracekit {
namespace {

StackDistance make_stack(const FeatureEngine::Options& o) {
  StackDistance::Options s;
  s.line_shift = o.line_bits;
  return StackDistance(s);
}

std::uint32_t capped(std::uint32_t d) { return std::min(d, far_distance); }

}  // namespace

FeatureEngine::FeatureEngine(const Options& options)
    : line_bits_(options.line_bits),
      fetch_(make_stack(options)),
      data_(make_stack(options)),
      pair_{make_stack(options), make_stack(options)},
      macro_(options.macro),
      entropy_(options.history) {}

void FeatureEngine::add_static(const HotStatic& hot) {
  hot_.push_back(hot);
  branch_slot_.push_back(hot.is(HotStatic::conditional) ? entropy_.slot(hot.pc) : 0);
}

void FeatureEngine::add(const RowBatch& in, std::size_t begin, std::size_t end) {
  if (begin == end) return;
  const std::size_t at = rows_.size(), n = end - begin;
  rows_.timed |= in.timed;
  rows_.resize(at + n);
  const auto append = [&](auto& to, const auto& from) {
    std::memcpy(to.data() + at, from.data() + begin, n * sizeof(from[0]));
  };
  append(rows_.sid, in.sid);
  append(rows_.addr, in.addr);
  append(rows_.bits, in.bits);
  for (unsigned s = 0; s < stage::count; ++s) {
    if (in.ticks[s].size() >= end)
      append(rows_.ticks[s], in.ticks[s]);
    else
      std::fill_n(rows_.ticks[s].data() + at, n, 0);
  }
  resolve(ready_, rows_.size() - 1, true);
}

void FeatureEngine::finish() {
  if (ready_ < rows_.size()) resolve(ready_, rows_.size(), false);
}

void FeatureEngine::resolve(std::size_t begin, std::size_t end, bool last_has_next) {
  if (begin == end) return;
  const std::uint32_t* sid = rows_.sid.data();
  for (std::size_t i = begin; i < end; ++i) {
    const HotStatic* next = i + 1 < end || last_has_next ? &hot_[sid[i + 1]] : nullptr;
    rows_.bits[i] = resolve_bits(rows_.bits[i], hot_[sid[i]], next);
  }
  fetch_pass(begin, end);
  memory_pass(begin, end);
  branch_pass(begin, end);
  done_ += end - begin;
  ready_ = end;
}

void FeatureEngine::fetch_pass(std::size_t begin, std::size_t end) {
  lines_.clear();
  at_.clear();
  std::uint32_t* out = rows_.fetch_distance.data();
  std::fill(out + begin, out + end, 1);
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t pc = hot_[rows_.sid[i]].pc;
    if (pc >> line_bits_ == last_line_) continue;
    last_line_ = pc >> line_bits_;
    lines_.push_back(pc);
    at_.push_back(static_cast<std::uint32_t>(i));
  }
  value_.resize(lines_.size());
  fetch_.access_batch(lines_.data(), lines_.size(), value_.data());
  for (std::size_t k = 0; k < at_.size(); ++k) out[at_[k]] = capped(value_[k]);
}

void FeatureEngine::Pair::run(const std::uint64_t* addr, std::uint8_t* is_load, std::size_t n,
                              std::uint32_t* to_load, std::uint32_t* to_store) {
  load.access_batch(addr, is_load, n, to_load);
  for (std::size_t k = 0; k < n; ++k) is_load[k] ^= 1;
  store.access_batch(addr, is_load, n, to_store);
}

void FeatureEngine::memory_pass(std::size_t begin, std::size_t end) {
  const auto zero = [&](auto& column) { std::fill(column.data() + begin, column.data() + end, 0); };
  zero(rows_.load_distance), zero(rows_.store_distance), zero(rows_.data_distance);
  zero(rows_.load_distance_ref), zero(rows_.store_distance_ref), zero(rows_.data_reuse);
  // Which rows access memory cannot be predicted: they are collected without a branch.
  const std::uint32_t* sid = rows_.sid.data();
  const std::uint8_t* bits = rows_.bits.data();
  at_.resize(end - begin);
  number_.resize(end - begin);
  std::size_t n = 0;
  std::uint64_t number = done_;
  for (std::size_t i = begin; i < end; ++i) {
    at_[n] = static_cast<std::uint32_t>(i);
    if (macro_) instruction_ += ends_.cuts_off(hot_[sid[i]]);
    number_[n] = macro_ ? instruction_ : number++;
    n += (bits[i] & row_bit::has_addr) != 0;
    if (macro_) instruction_ += ends_.ends(hot_[sid[i]], bits[i]);
  }
  at_.resize(n);
  lines_.resize(n);
  kind_.resize(n);
  kind_ref_.resize(n);
  bool differ = false;
  for (std::size_t k = 0; k < n; ++k) {
    const std::uint32_t i = at_[k];
    const HotStatic& h = hot_[sid[i]];
    lines_[k] = rows_.addr[i];
    kind_[k] = h.is(HotStatic::load);
    kind_ref_[k] = h.is(HotStatic::load_ref);
    differ |= kind_[k] != kind_ref_[k];
    rows_.data_reuse[i] = static_cast<std::uint16_t>(reuse_.access(lines_[k], number_[k]));
  }
  value_.resize(n);
  value2_.resize(n);
  data_.access_batch(lines_.data(), n, value_.data());
  for (std::size_t k = 0; k < n; ++k) rows_.data_distance[at_[k]] = capped(value_[k]);

  if (differ && !pair_ref_) pair_ref_.emplace(pair_);
  if (pair_ref_) {
    pair_ref_->run(lines_.data(), kind_ref_.data(), n, value_.data(), value2_.data());
    for (std::size_t k = 0; k < n; ++k) {
      rows_.load_distance_ref[at_[k]] = capped(value_[k]);
      rows_.store_distance_ref[at_[k]] = capped(value2_[k]);
    }
  }
  pair_.run(lines_.data(), kind_.data(), n, value_.data(), value2_.data());
  for (std::size_t k = 0; k < n; ++k) {
    rows_.load_distance[at_[k]] = capped(value_[k]);
    rows_.store_distance[at_[k]] = capped(value2_[k]);
  }
  if (!pair_ref_)
    for (std::size_t k = 0; k < n; ++k) {
      rows_.load_distance_ref[at_[k]] = rows_.load_distance[at_[k]];
      rows_.store_distance_ref[at_[k]] = rows_.store_distance[at_[k]];
    }
}

void FeatureEngine::branch_pass(std::size_t begin, std::size_t end) {
  const auto zero = [&](auto& column) { std::fill(column.data() + begin, column.data() + end, 0); };
  zero(rows_.window_before), zero(rows_.window_now), zero(rows_.p_local), zero(rows_.p_global);
  at_.resize(end - begin);
  std::size_t n = 0;
  for (std::size_t i = begin; i < end; ++i) {
    at_[n] = static_cast<std::uint32_t>(i);
    n += hot_[rows_.sid[i]].is(HotStatic::conditional);
  }
  for (std::size_t k = 0; k < n; ++k) {
    const std::uint32_t i = at_[k], sid = rows_.sid[i];
    if (macro_ && hot_[sid].inner) continue;  // nobody sees it on a processor
    const BranchState s = entropy_.outcome(branch_slot_[sid], rows_.bits[i] & row_bit::taken);
    rows_.window_before[i] = s.window_before;
    rows_.window_now[i] = s.window_now;
    rows_.p_local[i] = s.p_local;
    rows_.p_global[i] = s.p_global;
  }
}

}  // namespace tracekit
