#include "features/rank_tree.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace tracekit {
namespace {

std::size_t round_up(std::uint64_t n, std::size_t to) {
  return static_cast<std::size_t>((n + to - 1) / to * to);
}

template <class T>
void fill_full(AlignedArray<T>& counts, std::size_t width, unsigned child_bits) {
  for (std::size_t i = 0; i < counts.size(); ++i)
    counts[i] = static_cast<T>((i & (width - 1)) << child_bits);
}

}  // namespace

RankTree::RankTree(const RankTree& o)
    : words_(o.words_),
      in_block_(o.in_block_),
      in_group_(o.in_group_),
      mid_{o.mid_[0], o.mid_[1]},
      top_(o.top_),
      view_(o.view_) {
  set_view();
}

RankTree& RankTree::operator=(RankTree o) noexcept {
  std::swap(words_, o.words_);
  std::swap(in_block_, o.in_block_);
  std::swap(in_group_, o.in_group_);
  for (unsigned i = 0; i < most_mid; ++i) std::swap(mid_[i], o.mid_[i]);
  std::swap(top_, o.top_);
  std::swap(view_, o.view_);
  return *this;
}

void RankTree::set_view() {
  view_.words = words_.data();
  view_.in_block = in_block_.data();
  view_.in_group = in_group_.data();
  for (unsigned i = 0; i < most_mid; ++i) view_.mid[i] = mid_[i].data();
  view_.top = top_.data();
}

void RankTree::resize(std::uint64_t positions) {
  if (positions == 0 || positions > most_positions)
    throw std::length_error("rank tree: positions must be 1 to 2^30");
  View v{};
  const auto covers = [&](unsigned shift) { return (positions - 1) >> shift < most_tops; };
  do {
    v.block_shift = word_bits + layouts[v.layout].block;
    v.group_shift = v.block_shift + layouts[v.layout].group;
  } while (!covers(v.group_shift) && ++v.layout < std::size(layouts));
  v.layout = std::min<unsigned>(v.layout, std::size(layouts) - 1);
  while (!covers(v.group_shift + 4 * v.mids)) ++v.mids;
  v.top_shift = v.group_shift + 4 * v.mids;
  const std::size_t words = round_up(positions, std::size_t{1} << v.group_shift) >> word_bits;
  const std::uint64_t last = (std::uint64_t{words} << word_bits) - 1;
  v.tops = static_cast<unsigned>(last >> v.top_shift) + 1;
  RankTree next;  // the old tree stands until memory for the new one is there
  next.words_ = AlignedArray<std::uint64_t>(words);
  next.in_block_ = AlignedArray<std::uint16_t>(words);
  next.in_group_ = AlignedArray<std::uint16_t>((last >> v.block_shift) + 1);
  for (unsigned i = 0; i < v.mids; ++i)
    next.mid_[i] = AlignedArray<std::uint32_t>(round_up((last >> (v.group_shift + 4 * i)) + 1, 16));
  next.top_ = AlignedArray<std::uint32_t>(most_tops);
  next.view_ = v;
  next.set_view();
  next.set_all();
  *this = std::move(next);
}

void RankTree::set_all() {
  words_.fill(~std::uint64_t{0});
  const View& v = view_;
  fill_full(in_block_, std::size_t{1} << (v.block_shift - word_bits), word_bits);
  fill_full(in_group_, std::size_t{1} << (v.group_shift - v.block_shift), v.block_shift);
  for (unsigned i = 0; i < v.mids; ++i) fill_full(mid_[i], 16, v.group_shift + 4 * i);
  fill_full(top_, most_tops, v.top_shift);
}

std::size_t RankTree::bytes() const {
  return words_.bytes() + in_block_.bytes() + in_group_.bytes() + mid_[0].bytes() +
         mid_[1].bytes() + top_.bytes();
}

}  // namespace tracekit
