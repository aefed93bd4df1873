#include "reference/predictors/multiperspective_perceptron.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "reference/predictors/multiperspective_tables.hpp"

namespace tracekit::bp {
namespace {

// Magnitude to weight, of tables of six bits and of five.
constexpr std::array<std::uint8_t, 32> transfer6{1,  3,  4,  5,  7,  8,  9,  11, 12, 14, 15,
                                                 17, 19, 21, 23, 25, 27, 29, 32, 34, 37, 41,
                                                 45, 49, 53, 58, 63, 69, 76, 85, 94, 106};
constexpr std::array<std::uint8_t, 32> transfer5{0,  4,  5,  7,  9,  11, 12, 14,
                                                 16, 17, 19, 22, 28, 33, 39, 45};

constexpr std::uint32_t block_mask = (1u << block) - 1;

// The last `size` elements that were pushed; element 0 is the youngest.
template <std::uint32_t size>
class Ring {
 public:
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
  constexpr int n = reaching(depth, shift);
  return ((sum - (ring[depth] >> from)) >> shift) +
         (std::uint64_t{ring[depth - n] >> from} << (shift * (n - 1)));
}

std::uint16_t hashed(std::uint32_t pc) {
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

template <const auto& tables, const Budget& budget>
class MultiperspectivePerceptron final : public DirectionPredictor {
 public:
  MultiperspectivePerceptron() {
    each([this](auto i) {
      // Signs of odd hashes are negative at first, in odd tables those of even ones too.
      std::fill_n(weight_.begin() + offset[i], entries[i],
                  static_cast<std::uint8_t>(0x40 | (i % 2 ? 0x20 : 0)));
    });
  }

  bool fetch(const BranchEvent& branch) override {
    if (size_ == in_flight_.size()) grow();
    InFlight& b = in_flight_[(first_ + size_++) & (in_flight_.size() - 1)];
    b = {static_cast<std::uint32_t>(branch.pc),
         0,
         0,
         branch.conditional(),
         branch.taken,
         false,
         false};
    if (!b.conditional) {
      push_global(!(b.pc & 4), b.pc >> 2);
      return true;
    }
    b.hash = hashed(b.pc);
    b.backwards = branch.next < b.pc;  // gem5 compares all of `next` with the low 32 bits of the pc
    bool seen = true;
    if constexpr (budget.filter_entries > 0) {
      const std::uint8_t outcomes = filter_[filter_slot(b)];
      b.filtered = outcomes == only_untaken || outcomes == only_taken;
      if (b.filtered) return outcomes == only_taken;
      seen = outcomes != 0;
    }
    const int doubtful = output(b);
    return seen && (std::abs(b.output) <= threshold ? doubtful : b.output) >= 1;
  }

  void commit() override {
    const InFlight b = in_flight_[first_];
    first_ = (first_ + 1) & (in_flight_.size() - 1);
    --size_;
    if (!b.conditional) return;
    const auto pc2 = static_cast<std::uint16_t>(b.pc >> 2);
    const int position = find_recent(pc2);
    if (passes_filter(b)) train(b, position);
    // gem5's record mask of 191: branches that were filtered move on all histories but the local.
    if (b.backwards)
      loop1_ = b.taken ? loop1_ + 1 : 0;
    else
      loop4_ = b.taken ? 0 : loop4_ + 1;
    push_global(b.taken, pc2);
    push_others(b, pc2);
    const auto older = static_cast<std::size_t>(std::min(position, recency_depth - 1));
    std::memmove(&recent_[1], &recent_[0], older * sizeof recent_[0]);
    recent_[0] = pc2;
    if (!b.filtered) {
      std::uint16_t& local = local_[local_slot(b.pc)];
      local = static_cast<std::uint16_t>((local << 1 | b.taken) & ((1 << local_bits) - 1));
    }
    last_taken_ = b.taken;
  }

 private:
  struct InFlight {
    std::uint32_t pc{};
    std::uint16_t hash{};
    std::int16_t output{};  // of the time of the fetch
    bool conditional{}, taken{}, backwards{}, filtered{};
  };

  static constexpr std::size_t n = std::size(tables);
  static constexpr auto entries = table_entries(tables, budget);
  static constexpr auto offset = [] {
    std::array<int, n + 1> at{};
    for (std::size_t i = 0; i < n; ++i) at[i + 1] = at[i] + entries[i];
    return at;
  }();
  static constexpr std::array<std::uint8_t, 32> transfer(std::size_t table) {
    return tables[table].width == 5 ? transfer5 : transfer6;
  }
  // The weight that a magnitude and, in bit 5, a sign stand for, times the table's coefficient.
  static constexpr auto scaled = [] {
    std::array<std::array<std::int16_t, 64>, n> value{};
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < 32; ++k) {
        value[i][k] = static_cast<std::int16_t>(tables[i].coefficient * transfer(i)[k]);
        value[i][k + 32] = static_cast<std::int16_t>(-value[i][k]);
      }
    return value;
  }();
  static constexpr bool has(View view, int a) {
    return std::any_of(tables.begin(), tables.end(),
                       [=](const Table& t) { return t.view == view && t.a == a; });
  }
  static constexpr bool has_modulus(int a) {
    return has(View::modulo_both, a) || has(View::modulo_path, a) || has(View::modulo_outcomes, a);
  }

  static constexpr int threshold = 1, speed = 9;
  static constexpr double fudge = 0.245;
  static constexpr std::uint8_t only_untaken = 1, only_taken = 2;
  static constexpr bool choosy = n > tables_asked;  // else all tables are asked in doubt, too

  template <class F>
  static void each(F f) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (f(std::integral_constant<std::size_t, i>{}), ...);
    }
    (std::make_index_sequence<n>{});
  }

  void grow() {
    std::vector<InFlight> bigger(2 * in_flight_.size());
    for (std::size_t i = 0; i < size_; ++i)
      bigger[i] = in_flight_[(first_ + i) & (in_flight_.size() - 1)];
    in_flight_ = std::move(bigger);
    first_ = 0;
  }

  static std::size_t local_slot(std::uint32_t pc) { return (pc >> 2) % budget.local_histories; }
  std::size_t filter_slot(const InFlight& b) const {
    return (std::uint32_t{last_taken_} ^ b.hash) % std::uint32_t{budget.filter_entries};
  }
  // Notes the outcome; false of branches that so far have gone one way only.
  bool passes_filter(const InFlight& b) {
    if constexpr (budget.filter_entries > 0) {
      std::uint8_t& outcomes = filter_[filter_slot(b)];
      const bool passes = outcomes != only_untaken && outcomes != only_taken;
      outcomes |= b.taken ? only_taken : only_untaken;
      return passes;
    }
    return true;
  }

  // Where a branch stands in the recency stack; recency_depth if it does not.
  int find_recent(std::uint16_t pc2) const {
    int i = 0;
    while (i < recency_depth && recent_[static_cast<std::size_t>(i)] != pc2) ++i;
    return i;
  }
  template <std::size_t i>
  static std::uint32_t scaled_position(int position) {
    return static_cast<std::uint32_t>(
        position < recency_depth ? position * entries[i] / recency_depth : entries[i] - 1);
  }

  template <int a, int b>
  std::uint32_t summed_outcomes() const {
    constexpr int first = a / block, last = b / block, rest = b - last * block;
    // gem5 shifts by a negative number, of which x86 takes the low five bits.
    std::uint32_t x = words_[first] >> ((a - (first + 1) * block) & 31);
    for (int i = first + 1; i < last; ++i) x += words_[i];
    return x + ((words_[last] & ((1u << rest) - 1)) << (block - rest));
  }

  template <std::size_t i>
  std::uint32_t view(std::uint32_t pc, int position) const {
    constexpr Table t = tables[i];
    if constexpr (t.view == View::global) {
      return summed_outcomes<t.a, t.b>();
    } else if constexpr (t.view == View::modulo_outcomes) {
      static_assert(t.b <= block);
      return modulo_outcomes_[t.a] & ((1u << t.b) - 1);
    } else if constexpr (t.view == View::local) {
      return local_[local_slot(pc)];
    } else if constexpr (t.view == View::loop) {
      static_assert(t.a == 1 || t.a == 4);
      return t.a == 1 ? loop1_ : loop4_;
    } else if constexpr (t.view == View::recency) {
      std::uint32_t x = 0;
      for (int k = t.a - reaching(t.a, t.b); k < t.a; ++k) x = (x << t.b) + recent_[k];
      return x;
    } else if constexpr (t.view == View::recency_position) {
      static_assert(t.a == recency_depth);
      return scaled_position<i>(position);
    } else if constexpr (t.view == View::bias) {
      return 0;
    } else {
      return static_cast<std::uint32_t>(sum_[i]);  // moved on with the histories
    }
  }

  template <std::size_t i>
  std::size_t slot(std::uint32_t pc, int position) const {
    std::uint64_t h = std::uint64_t{view<i>(pc, position)} << 6 ^ (pc >> 2 & 0xffff);
    if constexpr (budget.with_loop1 >> i & 1) h ^= loop1_;
    if constexpr (budget.with_loop4 >> i & 1) h ^= loop4_;
    if constexpr (budget.with_position >> i & 1) h ^= scaled_position<i>(position);
    return static_cast<std::size_t>(offset[i]) + h % static_cast<std::uint64_t>(entries[i]);
  }

  // A magnitude with the branch's sign in bit 5: odd and even hashes have signs of their own.
  static std::uint32_t signed_magnitude(std::uint8_t weight, std::uint32_t odd) {
    return (weight & 0x1fu) | (weight >> odd & 0x20u);
  }

  // Sets the branch's output; the sum that decides in doubt, of the tables that err least.
  int output(InFlight& b) {
    const int local = local_[local_slot(b.pc)], odd = b.hash & 1,
              position = find_recent(static_cast<std::uint16_t>(b.pc >> 2));
    constexpr int half = 1 << (local_bits - 1);
    const int start = local == 0              ? -5
                      : local == 2 * half - 1 ? 5
                      : local == half         ? -1
                      : local == half - 1     ? 1
                                              : 0;
    std::array<std::int16_t, n> value;
    int sum = 0;
    each([&](auto i) {
      const std::uint8_t w = weight_[slot<i>(b.pc, position)];
      value[i] = scaled[i][signed_magnitude(w, static_cast<std::uint32_t>(odd))];
      sum += value[i];
    });
    b.output = static_cast<std::int16_t>((start + sum) * fudge);
    if constexpr (choosy)
      if (std::abs(b.output) <= threshold) return best_sum(value);
    return sum;
  }

  int best_sum(const std::array<std::int16_t, n>& value) {
    if (order_old_) {
      for (std::size_t i = 0; i < n; ++i) order_[i] = {static_cast<int>(i), mistakes_[i]};
      // As gem5 does it: which of equals come first is the library's choice there, too.
      std::sort(order_.begin(), order_.end(),
                [](const auto& x, const auto& y) { return x.mistakes < y.mistakes; });
      order_old_ = false;
    }
    int sum = 0;
    for (int k = 0; k < tables_asked; ++k) sum += value[static_cast<std::size_t>(order_[k].table)];
    return sum;
  }

  void train(const InFlight& b, int position) {
    const int size = std::abs(b.output);
    const bool correct = (b.output >= 1) == b.taken, doubtful = size <= threshold;
    const bool learns = !correct || size <= theta_, counts = choosy && doubtful;
    if (!learns && !counts) return;
    const std::uint32_t odd = b.hash & 1;
    std::array<std::uint8_t*, n> at;
    each([&](auto i) { at[i] = &weight_[slot<i>(b.pc, position)]; });
    if constexpr (choosy)
      if (counts) count_mistakes(b, at);
    if (!learns) return;
    if (correct && size < theta_ && --patience_ <= -speed) --theta_, patience_ = 0;
    if (!correct && ++patience_ >= speed) ++theta_, patience_ = 0;
    int sum = 0;  // with the new weights, without coefficients
    std::array<std::int16_t, n> value;
    each([&](auto i) {
      constexpr unsigned most = (1u << (tables[i].width - 1)) - 1;
      constexpr auto weights = transfer(i);
      const unsigned w = *at[i], sign = w >> odd & 0x20;
      unsigned magnitude = w & 0x1f, other = sign;
      if (b.taken == !sign)
        magnitude += magnitude < most;
      else if (magnitude)
        --magnitude;
      else
        other ^= 0x20;
      *at[i] = static_cast<std::uint8_t>((w & 0x60 & ~(0x20u << odd)) | other << odd | magnitude);
      value[i] = static_cast<std::int16_t>(other ? -weights[magnitude] : weights[magnitude]);
      sum += value[i];
    });
    if ((sum >= 1) == b.taken) return;
    // One weight without which the branch would have been right is made smaller, from a random
    // table on.
    auto i = random_() % n;
    for (std::size_t k = 0; k < n; ++k, i = (i + 1) % n)
      if ((sum - value[i] >= 1) == b.taken) {
        if ((*at[i] & 0x1f) > 1) --*at[i];
        break;
      }
  }

  void count_mistakes(const InFlight& b, const std::array<std::uint8_t*, n>& at) {
    bool halve = false;
    for (std::size_t i = 0; i < n; ++i)
      if ((scaled[i][signed_magnitude(*at[i], b.hash & 1u)] >= 1) != b.taken)
        halve |= ++mistakes_[i] == (1 << tuning_bits) - 1;
    if (halve)
      for (int& m : mistakes_) m /= 2;
    order_old_ = true;
  }

  void push_global(bool outcome, std::uint32_t pc2) {
    pc2 &= 0xffff;
    const auto before = words_;
    words_[0] = (before[0] << 1 & block_mask) | outcome;
    for (std::size_t k = 1; k < words; ++k)
      words_[k] = (before[k] << 1 & block_mask) | before[k - 1] >> (block - 1);
    path_.push(pc2 << 1 | outcome);
    each([&](auto i) {
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

  // The histories that only conditional branches are in.
  void push_others(const InFlight& b, std::uint32_t pc2) {
    const auto push_modulo = [&](auto a) {
      if constexpr (has_modulus(a))
        if (b.hash % (a + 2) == 0) {
          modulo_outcomes_[a] = modulo_outcomes_[a] << 1 | b.taken;
          auto& ring = modulo_[a];
          ring.push(pc2 << 1 | b.taken);
          each([&](auto i) {
            constexpr Table t = tables[i];
            if constexpr (t.view == View::modulo_both && t.a == a)
              sum_[i] = slide<t.b, t.c, 0>(sum_[i], ring);
            else if constexpr (t.view == View::modulo_path && t.a == a)
              sum_[i] = slide<t.b, t.c, 1>(sum_[i], ring);
          });
        }
    };
    [&]<int... a>(std::integer_sequence<int, a...>) {
      (push_modulo(std::integral_constant<int, a>{}), ...);
    }
    (std::make_integer_sequence<int, moduli>{});
    each([&](auto i) {
      constexpr Table t = tables[i];
      if constexpr (t.view == View::acyclic) {
        const std::uint64_t bit = std::uint64_t{1} << b.hash % (t.a + 2);
        sum_[i] = b.taken ? sum_[i] | bit : sum_[i] & ~bit;
      } else if constexpr (t.view == View::blurry_path) {
        const std::uint32_t region = b.pc >> t.a;
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
  std::array<std::uint16_t, recency_depth> recent_{};
  std::array<std::uint16_t, budget.local_histories> local_{};
  std::uint32_t loop1_{}, loop4_{};  // backward branches taken, forward ones untaken, in a row
  bool last_taken_{};
  int theta_{10}, patience_{};
  // Bits 0-4: magnitude; 5 and 6: the signs of even and odd hashes.
  std::array<std::uint8_t, static_cast<std::size_t>(offset[n])> weight_;
  std::array<std::uint8_t, std::max(budget.filter_entries, 1)> filter_{};
  struct Mistakes {
    int table, mistakes;
  };
  std::array<int, n> mistakes_{};
  std::array<Mistakes, n> order_{};
  bool order_old_{true};
  std::minstd_rand random_{1};
  std::vector<InFlight> in_flight_ = std::vector<InFlight>(256);
  std::size_t first_{}, size_{};
};

}  // namespace

std::unique_ptr<DirectionPredictor> multiperspective_perceptron_8kb() {
  return std::make_unique<MultiperspectivePerceptron<tables_8kb, budget_8kb>>();
}

std::unique_ptr<DirectionPredictor> multiperspective_perceptron_64kb() {
  return std::make_unique<MultiperspectivePerceptron<tables_64kb, budget_64kb>>();
}

}  // namespace tracekit::bp
