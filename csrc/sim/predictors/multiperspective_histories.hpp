// What a multiperspective perceptron remembers of the branches, held so that a table's view of it
// is at hand: sums over many branches are moved on by one branch, not made again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/predictors/multiperspective_tables.hpp"
#include "sim/predictors/predictor_parts.hpp"

namespace tracekit::bp::multiperspective {

inline constexpr std::uint32_t block_mask = (1u << block) - 1;

// The last `size` elements that were pushed; element 0 is the youngest.
template <std::uint32_t size>
class Ring {
 public:
  static constexpr int length = size;
  void push(std::uint32_t element) { element_[--at_ % size] = element; }
  std::uint32_t operator[](int i) const {
    return element_[(at_ + static_cast<std::uint32_t>(i)) % size];
  }

 private:
  std::array<std::uint32_t, size> element_{};
  std::uint32_t at_{};
};

// How many of `depth` elements reach the 32 bits of a sum in which each is shifted by `shift` more
// than the older one before it: the oldest.
constexpr int reaching(int depth, int shift) { return std::min(depth, 31 / shift + 1); }

// That sum of bits `from` and up of a ring's elements, when the ring has moved on by one.  Elements
// have 17 bits, so that 64 hold what is shifted out of gem5's 32 and no carry is lost.
template <int depth, int shift, int from, class R>
std::uint64_t slide(std::uint64_t sum, const R& ring) {
  static_assert(depth < R::length);  // element `depth` has just left
  constexpr int n = reaching(depth, shift);
  return ((sum - (ring[depth] >> from)) >> shift) +
         (std::uint64_t{ring[depth - n] >> from} << (shift * (n - 1)));
}

// gem5's hash of a pc, for its default shift of -10.
inline std::uint16_t hashed(std::uint32_t pc) {
  std::uint32_t a = (pc ^ 0xdeadbeef) + (pc << 4);
  a ^= a >> 10;
  a += a << 7;
  a ^= a >> 13;
  std::uint32_t b = (pc ^ 61) ^ (pc >> 16);
  b += b << 3;
  b ^= b >> 4;
  b *= 0x27d4eb2d;
  b ^= b >> 15;
  return static_cast<std::uint16_t>(b * 10 + a);
}

template <const auto& tables, int local_histories>
class Histories {
 public:
  // Where a branch stands in the recency stack; recency_depth if it does not.
  int recency_position(std::uint32_t pc) const {
    const auto pc2 = static_cast<std::uint16_t>(pc >> 2);
    std::int16_t first = recency_depth;
    for (std::int16_t i = 0; i < recency_depth + 1; ++i) {  // all of them: 16-bit lanes
      const std::int16_t here = recent_[static_cast<std::size_t>(i)] == pc2 ? i : recency_depth;
      first = here < first ? here : first;
    }
    return first;
  }

  // The branch's own outcomes, the youngest in bit 0.
  int local(std::uint32_t pc) const { return local_[local_slot(pc)]; }
  std::uint32_t loop(int counter) const { return counter == 1 ? loop1_ : loop4_; }
  // What table i is indexed by; all but the recency position.
  template <int i>
  std::uint32_t view(std::uint32_t pc) const {
    constexpr Table t = tables[i];
    if constexpr (t.view == View::global) {
      return summed_outcomes<t.a, t.b>();
    } else if constexpr (t.view == View::modulo_outcomes) {
      static_assert(t.b <= block);
      return modulo_outcomes_[t.a] & ((1u << t.b) - 1);
    } else if constexpr (t.view == View::local) {
      return local(pc);
    } else if constexpr (t.view == View::loop) {
      static_assert(t.a == 1 || t.a == 4);
      return loop(t.a);
    } else if constexpr (t.view == View::recency) {
      std::uint32_t x = 0;
      for (int k = t.a - reaching(t.a, t.b); k < t.a; ++k) x = (x << t.b) + recent_[k];
      return x;
    } else if constexpr (t.view == View::bias) {
      return 0;
    } else {
      return static_cast<std::uint32_t>(sum_[i]);  // moved on with the histories
    }
  }

  // Of conditional branches when they commit, of others when they are fetched.
  void push_global(std::uint32_t pc, bool outcome) {
    const auto before = words_;
    words_[0] = (before[0] << 1 & block_mask) | outcome;
    for (std::size_t k = 1; k < words; ++k)
      words_[k] = (before[k] << 1 & block_mask) | before[k - 1] >> (block - 1);
    path_.push((pc >> 2 & 0xffff) << 1 | outcome);
    unrolled<n>([&]<int i>() {
      constexpr Table t = tables[i];
      if constexpr (t.view == View::global_path || t.view == View::short_global_path)
        sum_[i] = slide<t.a, t.b, 0>(sum_[i], path_);
      else if constexpr (t.view == View::path)
        sum_[i] = slide<t.a, t.b, 1>(sum_[i], path_);
      else if constexpr (t.view == View::global_path_bit) {
        const auto bit = [&](int k) { return (path_[k] ^ path_[k] >> (t.b + 1)) & 1; };
        const std::uint64_t turned = (sum_[i] << 1 & block_mask) | sum_[i] >> (block - 1);
        sum_[i] = turned ^ bit(0) ^ std::uint64_t{bit(t.a)} << t.a % block;
      }
    });
  }

  // Moves all but the local history on by a conditional branch; `position`: of recency.
  void commit(std::uint32_t pc, std::uint16_t hash, bool taken, bool backwards, int position) {
    if (backwards)
      loop1_ = taken ? loop1_ + 1 : 0;
    else
      loop4_ = taken ? 0 : loop4_ + 1;
    push_global(pc, taken);
    push_modulo(pc, hash, taken);
    push_others(pc, hash, taken);
    const auto younger = static_cast<std::size_t>(std::min(position, recency_depth - 1));
    std::memmove(&recent_[1], &recent_[0], younger * sizeof recent_[0]);
    recent_[0] = static_cast<std::uint16_t>(pc >> 2);
  }

  void push_local(std::uint32_t pc, bool taken) {
    std::uint16_t& local = local_[local_slot(pc)];
    local = static_cast<std::uint16_t>((local << 1 | taken) & ((1 << local_bits) - 1));
  }

 private:
  static constexpr int n = std::size(tables);
  static constexpr bool has(View view, int a) {
    return std::any_of(tables.begin(), tables.end(),
                       [=](const Table& t) { return t.view == view && t.a == a; });
  }
  static constexpr bool has_modulus(int a) {
    return has(View::modulo_both, a) || has(View::modulo_path, a) || has(View::modulo_outcomes, a);
  }

  static std::size_t local_slot(std::uint32_t pc) { return (pc >> 2) % local_histories; }

  template <int a, int b>
  std::uint32_t summed_outcomes() const {
    constexpr int first = a / block, last = b / block, rest = b - last * block;
    // gem5 shifts by a negative number, of which x86 takes the low five bits.
    std::uint32_t x = words_[first] >> ((a - (first + 1) * block) & 31);
    for (int i = first + 1; i < last; ++i) x += words_[i];
    return x + ((words_[last] & ((1u << rest) - 1)) << (block - rest));
  }

  void push_modulo(std::uint32_t pc, std::uint16_t hash, bool taken) {
    unrolled<moduli>([&]<int a>() {
      if constexpr (has_modulus(a))
        if (hash % (a + 2) == 0) {
          modulo_outcomes_[a] = modulo_outcomes_[a] << 1 | taken;
          auto& ring = modulo_[a];
          ring.push((pc >> 2 & 0xffff) << 1 | taken);
          unrolled<n>([&]<int i>() {
            constexpr Table t = tables[i];
            if constexpr (t.view == View::modulo_both && t.a == a)
              sum_[i] = slide<t.b, t.c, 0>(sum_[i], ring);
            else if constexpr (t.view == View::modulo_path && t.a == a)
              sum_[i] = slide<t.b, t.c, 1>(sum_[i], ring);
          });
        }
    });
  }

  void push_others(std::uint32_t pc, std::uint16_t hash, bool taken) {
    unrolled<n>([&]<int i>() {
      constexpr Table t = tables[i];
      if constexpr (t.view == View::acyclic) {
        const std::uint64_t bit = std::uint64_t{1} << hash % (t.a + 2);
        sum_[i] = taken ? sum_[i] | bit : sum_[i] & ~bit;
      } else if constexpr (t.view == View::blurry_path) {
        const std::uint32_t region = pc >> t.a;
        if (regions_[0] == region) return;
        regions_.push(region);
        sum_[i] += region - std::uint64_t{regions_[t.b]};
      }
    });
  }

  static constexpr int moduli = 4;
  static constexpr auto words = static_cast<std::size_t>(lengths(tables).global / block + 1);
  std::array<std::uint64_t, n> sum_{};  // of the tables whose view is moved on with its history
  std::array<std::uint32_t, words> words_{};  // outcomes in blocks, the youngest in bit 0
  Ring<128> path_;                            // branch and outcome
  std::array<Ring<32>, moduli> modulo_;
  std::array<std::uint32_t, moduli> modulo_outcomes_{};
  Ring<8> regions_;
  std::array<std::uint16_t, recency_depth + 1> recent_{};  // and one more, for whole vectors
  std::array<std::uint16_t, local_histories> local_{};
  std::uint32_t loop1_{}, loop4_{};  // backward branches taken, forward ones untaken, in a row
};

}  // namespace tracekit::bp::multiperspective
