// A bitmap of time stamps that answers "how many ones lie below here" while ones are cleared.
#pragma once

#include <cstddef>
#include <cstdint>

#include "features/aligned_array.hpp"

namespace tracekit {

// Bits start as ones and are only ever cleared.  Above the words of 64 bits stand nodes that hold,
// for each child, the ones of the children before it *in the same node*: u16 over words, u16 over
// those, `mid` levels of 16 x u32, and one flat array of at most 64 at the top.  A query adds one
// number a level; clearing a bit subtracts one from all later numbers of a node, one vector
// operation a level.
//
// How wide the nodes are depends on the size, so that the top (which kernels keep in registers) is
// always as fine as it can be: two accesses that follow on each other and change the same node in
// memory wait for each other.
class RankTree {
 public:
  static constexpr unsigned word_bits = 6;
  static constexpr unsigned most_mid = 2, most_tops = 64;
  static constexpr std::uint64_t most_positions = std::uint64_t{1} << 30;

  // log2 of the words in a block and of the blocks in a group (0: no such level).
  struct Layout {
    unsigned block, group;
  };
  static constexpr Layout layouts[] = {{3, 0}, {5, 0}, {5, 3}, {5, 5}};

  struct View {
    std::uint64_t* words;          // [position >> 6]
    std::uint16_t* in_block;       // [position >> 6]: ones of the block before the word
    std::uint16_t* in_group;       // [position >> block_shift]: ones of the group before the block
    std::uint32_t* mid[most_mid];  // [position >> (group_shift + 4 * i)]
    std::uint32_t* top;            // [position >> top_shift]
    unsigned layout, block_shift, group_shift, mids, top_shift, tops;
  };

  RankTree() = default;
  // `positions` is rounded up to whole groups.  Throws std::length_error over most_positions.
  explicit RankTree(std::uint64_t positions) { resize(positions); }
  RankTree(const RankTree& o);
  RankTree(RankTree&& o) noexcept = default;
  RankTree& operator=(RankTree o) noexcept;
  ~RankTree() = default;

  void resize(std::uint64_t positions);
  void set_all();
  std::uint64_t positions() const { return std::uint64_t{words_.size()} << word_bits; }
  const View& view() const { return view_; }
  std::size_t bytes() const;

  // Ones below a position.
  std::uint32_t rank(std::uint32_t at) const {
    const View& v = view_;
    std::uint32_t n =
        v.top[at >> v.top_shift] + v.in_group[at >> v.block_shift] + v.in_block[at >> word_bits];
    for (unsigned i = 0; i < v.mids; ++i) n += v.mid[i][at >> (v.group_shift + 4 * i)];
    const std::uint64_t below = v.words[at >> word_bits] & ((std::uint64_t{1} << (at & 63)) - 1);
    return n + static_cast<std::uint32_t>(__builtin_popcountll(below));
  }
  // Clears the one at a position.
  void clear(std::uint32_t at) {
    const View& v = view_;
    v.words[at >> word_bits] &= ~(std::uint64_t{1} << (at & 63));
    less_after(v.in_block, at >> word_bits, 1U << layouts[v.layout].block);
    less_after(v.in_group, at >> v.block_shift, 1U << layouts[v.layout].group);
    for (unsigned i = 0; i < v.mids; ++i) less_after(v.mid[i], at >> (v.group_shift + 4 * i), 16);
    for (unsigned i = (at >> v.top_shift) + 1; i < v.tops; ++i) --v.top[i];
  }

 private:
  template <class T>
  static void less_after(T* counts, std::uint32_t at, std::uint32_t width) {
    T* node = counts + (at & ~(width - 1));
    const std::uint32_t child = at & (width - 1);
    for (std::uint32_t i = 0; i < width; ++i) node[i] = static_cast<T>(node[i] - (i > child));
  }
  void set_view();

  AlignedArray<std::uint64_t> words_;
  AlignedArray<std::uint16_t> in_block_, in_group_;
  AlignedArray<std::uint32_t> mid_[most_mid], top_;
  View view_{};
};

}  // namespace tracekit
