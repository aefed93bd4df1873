#include "encode/column_moments.hpp"

#include <algorithm>

namespace tracekit {
namespace {

// Squares of distances, which are below 10^8, fit into 64 bits for this many rows.
constexpr std::size_t exact_rows = 1024;

template <class Get>
void add_integers(Moments& m, std::size_t n, Get&& get) {
  for (std::size_t begin = 0; begin < n; begin += exact_rows) {
    const std::size_t end = std::min(n, begin + exact_rows);
    std::uint64_t total = 0, squares = 0;
    std::uint32_t least = far_distance, most = 0, never = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t value = get(i);
      const bool none = value == far_distance;
      const std::uint64_t counted = none ? 0 : value;
      never += none;
      total += counted;
      squares += counted * counted;
      least = std::min(least, value);
      most = std::max(most, static_cast<std::uint32_t>(counted));
    }
    m.never += never;
    if (never == end - begin) continue;
    m.count += end - begin - never;
    m.total += static_cast<double>(total);
    m.squares += static_cast<double>(squares);
    m.least = std::min(m.least, static_cast<double>(least));
    m.most = std::max(m.most, static_cast<double>(most));
  }
}

void add_reals(Moments& m, const float* values, const std::vector<std::uint32_t>& at) {
  m.count += at.size();
  for (const std::uint32_t i : at) {
    const double value = values[i];
    m.total += value;
    m.squares += value * value;
    m.least = std::min(m.least, value);
    m.most = std::max(m.most, value);
  }
}

}  // namespace

void ColumnMoments::add(const FeatureBatch& rows, std::size_t begin, std::size_t end,
                        const std::vector<HotStatic>& statics) {
  memory_.resize(end - begin), branch_.resize(end - begin);
  std::uint32_t *memory = memory_.data(), *branch = branch_.data();
  for (std::size_t i = begin; i < end; ++i) {
    *memory = *branch = static_cast<std::uint32_t>(i);
    memory += (rows.bits[i] & row_bit::has_addr) != 0;
    branch += statics[rows.sid[i]].is(HotStatic::conditional);
  }
  memory_.resize(static_cast<std::size_t>(memory - memory_.data()));
  branch_.resize(static_cast<std::size_t>(branch - branch_.data()));
  const auto of_all = [&](unsigned id, const auto& values) {
    add_integers(moments_[id], end - begin, [&](std::size_t i) { return values[begin + i]; });
  };
  const auto of_some = [&](unsigned id, const auto& values, const auto& at) {
    add_integers(moments_[id], at.size(), [&](std::size_t i) { return values[at[i]]; });
  };
  of_all(column::fetch_distance, rows.fetch_distance);
  of_some(column::load_distance, rows.load_distance, memory_);
  of_some(column::store_distance, rows.store_distance, memory_);
  of_some(column::load_distance_ref, rows.load_distance_ref, memory_);
  of_some(column::store_distance_ref, rows.store_distance_ref, memory_);
  of_some(column::data_distance, rows.data_distance, memory_);
  of_some(column::data_reuse, rows.data_reuse, memory_);
  of_some(column::window_before, rows.window_before, branch_);
  of_some(column::window_now, rows.window_now, branch_);
  add_reals(moments_[column::p_local], rows.p_local.data(), branch_);
  add_reals(moments_[column::p_global], rows.p_global.data(), branch_);
  count_instructions(rows, begin, end, statics);
  if (!rows.timed) return;
  const std::uint64_t* retired = rows.ticks[stage::retire].data();
  for (std::size_t i = begin; i < end; ++i) {
    if (!first_retired_) first_retired_ = retired[i];
    last_retired_ = std::max(last_retired_, retired[i]);
  }
}

void ColumnMoments::count_instructions(const FeatureBatch& rows, std::size_t begin, std::size_t end,
                                       const std::vector<HotStatic>& statics) {
  for (std::size_t i = begin; i < end; ++i) {
    const HotStatic& h = statics[rows.sid[i]];
    begun_ += !open_ || h.pc != pc_ || (h.upc == 0 && !faulted_);
    pc_ = h.pc;
    faulted_ = rows.bits[i] & row_bit::fault;
    ends_known_ |= h.upc != 0 && h.is(HotStatic::last);
    open_ = !h.is(faulted_ ? HotStatic::syscall : HotStatic::last);
  }
}

}  // namespace tracekit
