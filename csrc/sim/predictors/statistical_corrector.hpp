// The statistical corrector of TAGE-SC-L (Seznec, "TAGE-SC-L branch predictors again", CBP 2016):
// sums of counters by pc and several histories, which overrule TAGE where they are surer.  As
// gem5's StatisticalCorrector (src/cpu/pred/statistical_corrector.cc), whose histories move on when
// branches commit; the counters to teach are found anew then, with the histories of that time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "sim/predictors/predictor_parts.hpp"

namespace tracekit::bp {

// What a lookup found: kept until the branch commits.
struct CorrectorLookup {
  int total{}, threshold{};
  bool before{};                    // the prediction that it may overrule
  bool low{}, medium{}, high{};     // TAGE's confidence
  bool differs{};                   // the longest match from the alternate
  std::uint8_t hit{}, alternate{};  // tables
};

inline constexpr std::size_t corrector_weights = 8, corrector_thresholds = 64;
inline constexpr int corrector_counter_bits = 6, corrector_weight_bits = 6;

inline std::uint64_t hashed_pc(std::uint64_t pc) { return pc ^ pc >> 2; }
inline std::size_t weight_of(std::uint64_t pc) { return hashed_pc(pc) & (corrector_weights - 1); }

// Counters by pc and the last `lengths` bits of one history (a GEHL predictor): one table of
// 2^log_size a length, of which the last two use only half where `halves`.
template <bool halves, int log_size, int first_weight, int... lengths>
class Gehl {
 public:
  Gehl() {
    for (std::size_t i = 0; i < counter_.size(); i += 2) counter_[i] = -1;
    weight_.fill(first_weight);
  }
  bool trusted(std::uint64_t pc) const { return weight_[weight_of(pc)] >= 0; }

  // 2c + 1 of the counters, twice where trusted.
  int sum(std::uint64_t key, std::uint64_t history) const {
    int sum = 0;
    unrolled<count>([&]<int i>() { sum += 2 * counter_[slot<i>(key, history)] + 1; });
    return trusted(key) ? 2 * sum : sum;
  }

  // `total`: of the whole corrector when it predicted.
  void learn(std::uint64_t key, std::uint64_t history, bool taken, int total) {
    int sum = 0;
    unrolled<count>([&]<int i>() {
      std::int8_t& counter = counter_[slot<i>(key, history)];
      sum += 2 * counter + 1;
      nudge(counter, taken, corrector_counter_bits);
    });
    const int others = trusted(key) ? total - sum : total;
    if ((others + sum >= 0) != (others >= 0))
      nudge(weight_[weight_of(key)], (sum >= 0) == taken, corrector_weight_bits);
  }

 private:
  static constexpr int count = sizeof...(lengths);
  static constexpr std::array<int, count> length{lengths...};

  template <int i>
  static std::size_t slot(std::uint64_t key, std::uint64_t history) {
    // gem5 shifts an int by the length, which its machines take modulo 32: 40 bits are 8
    const std::uint64_t h = history & ((std::uint64_t{1} << (length[i] & 31)) - 1);
    const std::uint64_t mixed = key ^ h ^ h >> (8 - i) ^ h >> (16 - 2 * i) ^ h >> (24 - 3 * i) ^
                                h >> (32 - 3 * i) ^ h >> (40 - 4 * i);
    constexpr int bits = log_size - (halves && i >= count - 2 ? 1 : 0);
    return (std::size_t{i} << log_size) + (mixed & ((1u << bits) - 1));
  }

  std::vector<std::int8_t> counter_ =
      std::vector<std::int8_t>(std::size_t{count} << log_size, std::int8_t{0});
  std::array<std::int8_t, corrector_weights> weight_;
};

// The outcomes of the branches that share one of `size` places.
template <std::size_t size, int shift>
class LocalHistory {
 public:
  std::uint32_t operator[](std::uint64_t pc) const { return bits_[slot(pc)]; }
  void push(std::uint64_t pc, bool taken, std::uint32_t salt = 0) {
    std::uint32_t& bits = bits_[slot(pc)];
    bits = (bits << 1 | unsigned{taken}) ^ salt;
  }

 private:
  static std::size_t slot(std::uint64_t pc) { return (pc ^ pc >> shift) & (size - 1); }
  std::array<std::uint32_t, size> bits_{};
};

// The histories that both sizes have.
struct BackwardHistory {
  std::uint32_t outcomes{};  // of branches, taken only where backward
  std::uint32_t trips{};     // IMLI: of the innermost loop

  void push(std::uint64_t pc, std::uint64_t next, bool taken) {
    // the target that gem5 hands on is where the branch went, so that hardly a loop's end has a
    // backward one, and the count stays at its most
    const bool backward = next < pc;
    if (backward) trips = !taken ? 0 : trips < 255 ? trips + 1 : trips;
    outcomes = outcomes << 1 | unsigned{taken && backward};
  }
};

class SmallCorrectorTables {  // TAGE_SC_L_8KB_StatisticalCorrector
 public:
  static constexpr int log_bias = 7;
  static constexpr bool bank_by_pc = false;

  // Calls visit(tables, key, history) of each kind of history.
  template <class Self, class Visit>
  static void each(Self& self, std::uint64_t pc, bool, std::uint32_t, Visit&& visit) {
    visit(self.global_, pc, self.outcomes_);
    visit(self.backward_, pc, self.back_.outcomes);
    visit(self.local_, pc, self.first_[pc]);
    visit(self.imli_, pc, self.back_.trips);
  }
  int trusted(std::uint64_t) const { return 0; }
  void push(std::uint64_t pc, std::uint64_t next, bool taken) {
    outcomes_ = outcomes_ << 1 | unsigned{taken};
    back_.push(pc, next, taken);
    first_.push(pc, taken);
  }

 private:
  Gehl<false, 7, 7, 6, 3> global_;
  Gehl<false, 7, 7, 16, 8> backward_;
  Gehl<false, 7, 7, 6, 3> local_;
  Gehl<false, 7, 7, 8> imli_;
  std::uint32_t outcomes_{};
  BackwardHistory back_;
  LocalHistory<64, 2> first_;
};

class LargeCorrectorTables {  // TAGE_SC_L_64KB_StatisticalCorrector
 public:
  static constexpr int log_bias = 8;
  static constexpr bool bank_by_pc = true;

  template <class Self, class Visit>
  static void each(Self& self, std::uint64_t pc, bool before, std::uint32_t path, Visit&& visit) {
    visit(self.backward_, (pc << 1) + before, self.back_.outcomes);
    visit(self.path_, pc, path);
    visit(self.local_, pc, self.first_[pc]);
    visit(self.local2_, pc, self.second_[pc]);
    visit(self.local3_, pc, self.third_[pc]);
    visit(self.imli_outcomes_, pc, self.trip_outcomes_[self.back_.trips]);
    visit(self.imli_, pc, self.back_.trips);
  }
  // How many kinds are trusted (gem5's threshold leaves out the one by trip).
  int trusted(std::uint64_t pc) const {
    return backward_.trusted(pc) + path_.trusted(pc) + local_.trusted(pc) + local2_.trusted(pc) +
           local3_.trusted(pc) + imli_.trusted(pc);
  }
  void push(std::uint64_t pc, std::uint64_t next, bool taken) {
    std::uint32_t& outcomes = trip_outcomes_[back_.trips];
    outcomes = outcomes << 1 | unsigned{taken};
    second_.push(pc, taken, pc & 15);
    third_.push(pc, taken);
    back_.push(pc, next, taken);
    first_.push(pc, taken);
  }

 private:
  Gehl<true, 10, 7, 40, 24, 10> backward_;
  Gehl<true, 9, 7, 25, 16, 9> path_;
  Gehl<true, 10, 7, 11, 6, 3> local_;
  Gehl<true, 9, 7, 16, 11, 6> local2_;
  Gehl<true, 10, 7, 9, 4> local3_;
  Gehl<true, 9, 0, 10, 4> imli_outcomes_;
  Gehl<true, 8, 7, 8> imli_;
  BackwardHistory back_;
  LocalHistory<256, 2> first_;
  LocalHistory<16, 5> second_;
  LocalHistory<16, 10> third_;
  std::array<std::uint32_t, 256> trip_outcomes_{};  // by the trip of the innermost loop
};

template <class Tables>
class StatisticalCorrector {
 public:
  StatisticalCorrector() {
    weight_.fill(4);
    constexpr std::array<std::int8_t, 4> plain{-32, 31, -1, 0}, skewed{-8, 7, -32, 31};
    for (std::size_t i = 0; i < bias_.size(); ++i) {
      bias_[i] = bank_[i] = plain[i & 3];
      skewed_[i] = skewed[i & 3];
    }
  }

  // The direction, given `c` but for its sums; `path`: TAGE's path history.
  bool predict(std::uint64_t pc, std::uint32_t path, CorrectorLookup& c) const {
    const Biases b = biases(pc, c);
    const int sum = 2 * (bias_[b.plain] + skewed_[b.skewed] + bank_[b.bank]) + 3;
    const bool trusted = weight_[weight_of(pc)] >= 0;
    int total = trusted ? 2 * sum : sum;
    Tables::each(tables_, pc, c.before, path,
                 [&](const auto& gehl, std::uint64_t key, std::uint64_t history) {
                   total += gehl.sum(key, history);
                 });
    c.total = total;
    c.threshold = (threshold_ >> 3) + threshold_by_pc_[hashed_pc(pc) & (corrector_thresholds - 1)];
    if constexpr (Tables::bank_by_pc) c.threshold += 12 * (trusted + tables_.trusted(pc));

    const bool corrected = total >= 0;
    if (corrected == c.before) return c.before;
    const int sure = std::abs(total);
    if (c.high && sure < c.threshold / 4) return c.before;
    if (c.high && sure < c.threshold / 2) return second_ < 0 ? corrected : c.before;
    if (c.medium && sure < c.threshold / 4) return first_ < 0 ? corrected : c.before;
    return corrected;
  }

  void learn(std::uint64_t pc, std::uint32_t path, bool taken, const CorrectorLookup& c) {
    const bool corrected = c.total >= 0;
    const int sure = std::abs(c.total);
    if (c.before != corrected) {
      if (c.high && sure < c.threshold / 2 && sure >= c.threshold / 4)
        nudge(second_, c.before == taken, chooser_bits);
      if (c.medium && sure < c.threshold / 4) nudge(first_, c.before == taken, chooser_bits);
    }
    if (corrected == taken && sure >= c.threshold) return;

    nudge(threshold_, corrected != taken, 12);
    nudge(threshold_by_pc_[hashed_pc(pc) & (corrector_thresholds - 1)], corrected != taken, 8);
    const Biases b = biases(pc, c);
    const int sum = 2 * (bias_[b.plain] + skewed_[b.skewed] + bank_[b.bank]) + 3;
    std::int8_t& weight = weight_[weight_of(pc)];
    const int others = weight >= 0 ? c.total - sum : c.total;
    if ((others + sum >= 0) != (others >= 0))
      nudge(weight, (sum >= 0) == taken, corrector_weight_bits);
    nudge(bias_[b.plain], taken, corrector_counter_bits);
    nudge(skewed_[b.skewed], taken, corrector_counter_bits);
    nudge(bank_[b.bank], taken, corrector_counter_bits);
    Tables::each(tables_, pc, c.before, path,
                 [&](auto& gehl, std::uint64_t key, std::uint64_t history) {
                   gehl.learn(key, history, taken, c.total);
                 });
  }

  // Of conditional branches only.
  void push(std::uint64_t pc, std::uint64_t next, bool taken) { tables_.push(pc, next, taken); }

 private:
  struct Biases {
    std::size_t plain, skewed, bank;
  };
  static Biases biases(std::uint64_t pc, const CorrectorLookup& c) {
    constexpr std::uint64_t mask = (1u << Tables::log_bias) - 1;
    const std::uint64_t plain = (hashed_pc(pc) << 1 ^ unsigned{c.low && c.differs}) << 1;
    const std::uint64_t skewed = ((pc ^ pc >> (Tables::log_bias - 2)) << 1 ^ unsigned{c.high}) << 1;
    std::uint64_t bank = (unsigned{c.hit} + 1) / 4 << 4 | unsigned{c.alternate != 0} << 3 |
                         unsigned{c.low} << 2 | unsigned{c.high} << 1;
    if constexpr (Tables::bank_by_pc) bank += hashed_pc(pc) << 7;
    return {(plain + c.before) & mask, (skewed + c.before) & mask, (bank + c.before) & mask};
  }

  static constexpr int chooser_bits = 7;
  Tables tables_;
  std::array<std::int8_t, std::size_t{1} << Tables::log_bias> bias_, skewed_, bank_;
  std::array<std::int8_t, corrector_weights> weight_;
  std::array<std::int8_t, corrector_thresholds> threshold_by_pc_{};
  int threshold_{35 << 3};
  std::int8_t first_{}, second_{};  // which to follow where TAGE is half sure, and where sure
};

}  // namespace tracekit::bp
