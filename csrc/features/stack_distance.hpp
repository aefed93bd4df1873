// Exact LRU stack distance, one value an access (Mattson et al., IBM Systems Journal 1970).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu.hpp"
#include "features/last_access_table.hpp"
#include "features/rank_tree.hpp"

namespace tracekit {

namespace stack_distance {
struct Kernels;
}

// The distance of an access is 1 + the number of distinct lines touched since its line was last
// touched; `cold` where it never was.  State lives from call to call, copies are independent, and
// scalar and batch calls mix freely.
//
// How: each live line owns one set bit at the time stamp of its last access, so a distance is a
// difference of ranks in that bitmap (Bennett and Kruskal, IBM J. R&D 1975), held in a RankTree.
// All bits of the future are set in advance: an access then only *clears* its line's old bit.  When
// the stamps run out, every line's stamp is replaced by its rank; so no trace is too long.
class StackDistance {
 public:
  static constexpr std::uint32_t cold = 0xFFFFFFFF;

  struct Options {
    unsigned line_shift = 0;  // what is passed in is shifted right by this: 6 for byte addresses
    Isa isa = active_isa();
    // For tests: stamps in the first bitmap, how many a live line is given when it is renewed, and
    // how many there can be.
    std::uint64_t first_stamps = 16384;
    unsigned stamps_per_line = 6;
    std::uint64_t most_stamps = RankTree::most_positions;
  };

  StackDistance() : StackDistance(Options{}) {}
  explicit StackDistance(const Options& options);

  // The distance of this access, which becomes the most recent one.
  std::uint32_t access(std::uint64_t address) {
    const std::uint64_t line = address >> line_shift_;
    std::uint32_t* stamp = table_.find(line);
    if (!stamp || !*stamp) return access_new(line);
    if (*stamp == now_ - 1) return 1;
    if (now_ == end_) {
      compact();
      stamp = table_.find(line);
    }
    const std::uint32_t last = *stamp;
    const std::uint32_t distance = live_ + first_stamp - tree_.rank(last);
    tree_.clear(last);
    *stamp = now_++;
    return distance;
  }
  // The distance that an access would have now; nothing changes.
  std::uint32_t peek(std::uint64_t address) const {
    const std::uint32_t* stamp = table_.find(address >> line_shift_);
    return stamp && *stamp ? live_ + first_stamp - tree_.rank(*stamp) : cold;
  }
  // access() of each in turn.
  void access_batch(const std::uint64_t* addresses, std::size_t n, std::uint32_t* out);
  // access() where updates[i] is not 0, else peek(): a stack that sees only some of the accesses
  // but is asked about all.
  void access_batch(const std::uint64_t* addresses, const std::uint8_t* updates, std::size_t n,
                    std::uint32_t* out);

  std::size_t distinct() const { return live_; }  // lines seen
  std::size_t bytes() const { return sizeof *this + table_.bytes() + tree_.bytes(); }

 private:
  // Stamp 0 is "never"; no stamp lies in the first two words, so that it is far from every other.
  static constexpr std::uint32_t first_stamp = 128;

  template <class Kernel>
  void in_batches(std::size_t n, Kernel&& kernel);
  std::uint32_t access_new(std::uint64_t line);
  // Renumbers the live lines' stamps densely; the bitmap grows when they have become many.
  void compact();

  LastAccessTable table_;
  RankTree tree_;
  std::uint32_t now_ = first_stamp;  // the next stamp
  std::uint32_t end_ = 0;            // where stamps run out
  std::uint32_t live_ = 0;
  unsigned line_shift_, stamps_per_line_;
  std::uint64_t most_stamps_;
  bool filter_ = false;  // what the kernels know of the stream so far
  const stack_distance::Kernels* kernels_;
};

}  // namespace tracekit
