// What the two multiperspective perceptrons are made of: their tables, the view of the past that
// indexes each, and the sizes that gem5 gives to them out of a budget of bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tracekit::bp::multiperspective {

// The views, with the meaning of a table's `a`, `b` and `c`.  Where elements are "shifted", each is
// added to the sum of the younger ones shifted left by that much, in 32 bits.
enum class View : std::uint8_t {
  bias,
  global,             // outcomes a to b, the youngest is 0, summed up in blocks
  global_path,        // a branches and their outcomes, shifted by b
  short_global_path,  // the same of few, which gem5 does not count (SGHISTPATH)
  global_path_bit,    // a outcomes, XORed with bit b of the branches, folded to a block
  modulo_path,        // b branches whose hash is a multiple of a + 2, shifted by c
  modulo_outcomes,    // b outcomes of such branches
  modulo_both,        // b branches and outcomes, shifted by c
  path,               // a branches, shifted by b
  local,              // the branch's own outcomes
  loop,               // gem5's IMLI counter a
  recency,            // the a branches used last, each once, shifted by b
  recency_position,
  acyclic,  // the last outcome of the branches with the same hash modulo a + 2, all a + 2 of them
  blurry_path,  // the last b regions of 2^a bytes, summed up
};

struct Table {
  // Of the numbers a to c those that the view has.
  constexpr Table(View v, double k, int n = 0) : view(v), coefficient(k), entries(n) {}
  constexpr Table(View v, int first, double k, int n = 0)
      : view(v), a(first), coefficient(k), entries(n) {}
  constexpr Table(View v, int first, int second, double k, int n = 0, int bits = 6)
      : view(v), a(first), b(second), coefficient(k), entries(n), width(bits) {}
  constexpr Table(View v, int first, int second, int third, double k, int n = 0)
      : view(v), a(first), b(second), c(third), coefficient(k), entries(n) {}

  View view;
  int a{}, b{}, c{};
  double coefficient;
  int entries;   // 0: an equal part of what the budget leaves
  int width{6};  // bits of a weight: a sign and a magnitude
};

struct Budget {
  int bits, local_histories, filter_entries;
  // Tables whose index is XORed with a loop counter or with the recency position.
  std::uint64_t with_loop1, with_loop4, with_position;
};

// gem5's defaults (BranchPredictor.py), the same for both.
inline constexpr int block = 21, local_bits = 11, recency_depth = 31, sign_bits = 2,
                     tuning_bits = 24, tables_asked = 20;

inline constexpr std::array<Table, 16> tables_8kb{{
    {View::bias, 2.40625},
    {View::global, 0, 19, 1.4375},
    {View::global, 0, 65, 1.0},
    {View::global, 21, 64, 1.0},
    {View::global, 75, 150, 1.0625},
    {View::modulo_both, 0, 7, 3, 1.625},
    {View::global_path, 11, 2, 1.25},
    {View::global_path, 15, 4, 1.125},
    {View::global_path, 31, 1, 1.40625},
    {View::global_path, 7, 1, 1.5, 600},
    {View::loop, 4, 1.28125, 375},
    {View::local, 1.5625, 512},
    {View::recency, 14, 4, 1.25},
    {View::recency_position, 1.875},
    {View::short_global_path, 4, 3, 1.65625},
    {View::short_global_path, 2, 5, 2.53125, 0, 5},
}};
inline constexpr Budget budget_8kb{8192 * 8 + 2048, 48, 0, 0x6, 0x4400, 0x90};

inline constexpr std::array<Table, 37> tables_64kb{{
    {View::acyclic, 10, 1.0},
    {View::blurry_path, 10, 7, 1.0},
    {View::global, 0, 19, 1.3125},
    {View::global, 0, 65, 0.85},
    {View::global, 111, 222, 1.0},
    {View::global, 115, 206, 1.0},
    {View::global, 190, 336, 1.0},
    {View::global, 21, 64, 1.0},
    {View::global, 48, 119, 1.0},
    {View::global, 67, 203, 0.75},
    {View::global, 75, 150, 1.0},
    {View::modulo_both, 1, 5, 4, 1.45, 1913},
    {View::modulo_both, 3, 13, 1, 1.0},
    {View::global_path_bit, 105, 4, 1.0},
    {View::global_path, 11, 2, 1.25},
    {View::global_path, 15, 4, 1.125},
    {View::global_path, 23, 4, 1.0},
    {View::global_path, 31, 1, 1.0},
    {View::global_path, 32, 2, 1.0},
    {View::global_path, 36, 4, 1.0},
    {View::global_path_bit, 51, 1, 1.0},
    {View::global_path, 7, 1, 1.5},
    {View::global_path, 72, 1, 1.0},
    {View::global_path_bit, 86, 4, 1.0},
    {View::loop, 1, 1.8125},
    {View::loop, 4, 1.78125, 1536},
    {View::local, 1.0, 1024},
    {View::local, 2.0, 3467},
    {View::modulo_outcomes, 1, 16, 0.9375},
    {View::modulo_path, 3, 20, 1, 1.0},
    {View::path, 13, 2, 1.4375},
    {View::path, 27, 5, 1.0},
    {View::recency, 10, 3, 0.55, 1024},
    {View::recency, 14, 4, 1.3125},
    {View::recency_position, 1.5},
    {View::short_global_path, 2, 5, 1.25, 768},
    {View::short_global_path, 5, 2, 1.3125, 972},
}};
inline constexpr Budget budget_64kb{65536 * 8 + 2048, 510, 18025, 0xC1000, 0x80008000, 0x100000090};

// Lengths of what the views look at, as gem5 counts them.
struct Lengths {
  int global{}, path{};
  std::array<int, 8> modulo_outcomes{}, modulo_path{};  // of branches with hash % (i + 2) == 0
  int loop_counters{}, acyclic{}, blurry{};             // bits
};

template <std::size_t n>
constexpr Lengths lengths(const std::array<Table, n>& tables) {
  Lengths l;
  bool loop[5]{};
  const auto up_to = [](int& length, int last) { length = std::max(length, last + 1); };
  for (std::size_t i = 0; i < n; ++i) {
    const Table& t = tables[i];
    const auto modulus = static_cast<std::size_t>(t.a & 7);
    switch (t.view) {
      case View::global:
        up_to(l.global, t.b);
        break;
      case View::global_path:
      case View::global_path_bit:
        up_to(l.global, t.a);
        up_to(l.path, t.a);
        break;
      case View::path:
        up_to(l.path, t.a);
        break;
      case View::modulo_both:
      case View::modulo_path:
        up_to(l.modulo_path[modulus], t.b);
        up_to(l.path, t.b);
        if (t.view == View::modulo_both) up_to(l.modulo_outcomes[modulus], t.b);
        break;
      case View::modulo_outcomes:
        up_to(l.modulo_outcomes[modulus], t.b);
        break;
      case View::loop:
        if (!loop[t.a]) l.loop_counters += 32;
        loop[t.a] = true;
        break;
      case View::acyclic:
        l.acyclic += t.a + 2;
        break;
      case View::blurry_path:
        l.blurry += t.b * (32 - t.a);
        break;
      default:
        break;
    }
  }
  return l;
}

// Entries of each table: computeBits.
template <std::size_t n>
constexpr std::array<int, n> table_entries(const std::array<Table, n>& tables, const Budget& b) {
  const Lengths l = lengths(tables);
  int left = b.bits - l.loop_counters - l.global - 16 * l.path - tuning_bits * static_cast<int>(n) -
             b.local_histories * local_bits - 16 * recency_depth - l.blurry - 2 * b.filter_entries -
             l.acyclic;
  for (int length : l.modulo_outcomes) left -= length;
  for (int length : l.modulo_path) left -= 16 * length;
  int unsized = 0;
  for (const Table& t : tables) {
    left -= t.entries * (t.width + sign_bits - 1);
    unsized += t.entries == 0;
  }
  std::array<int, n> entries{};
  for (std::size_t i = 0; i < n; ++i)
    entries[i] =
        tables[i].entries ? tables[i].entries : left / unsized / (tables[i].width + sign_bits - 1);
  return entries;
}

}  // namespace tracekit::bp::multiperspective
