#include "sim/predictors/multiperspective_perceptron.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "sim/predictors/multiperspective_histories.hpp"
#include "sim/predictors/multiperspective_tables.hpp"
#include "sim/predictors/multiperspective_weights.hpp"
#include "sim/predictors/predictor_parts.hpp"

namespace tracekit::bp {
namespace multiperspective {
namespace {

template <const auto& tables, const Budget& budget>
class MultiperspectivePerceptron final : public DirectionPredictor {
 public:
  MultiperspectivePerceptron() {
    unrolled<n>([this]<int i>() {
      // Signs of odd hashes are negative at first, in odd tables those of even ones too.
      std::fill_n(weight_.begin() + offset[i], entries[i],
                  static_cast<std::uint8_t>(0x40 | (i % 2 ? 0x20 : 0)));
    });
  }

  bool fetch(const BranchEvent& branch) override {
    Branch& b = in_flight_.push();
    b = {.pc = static_cast<std::uint32_t>(branch.pc),
         .conditional = branch.conditional(),
         .taken = branch.taken};
    if (!b.conditional) {
      past_.push_global(b.pc, !(b.pc & 4));
      return true;
    }
    b.backwards = branch.next < b.pc;  // gem5 compares all of `next` with the low 32 bits of the pc
    const bool predicted = predict(b);
    b.taken = branch.learnt(predicted);
    return predicted;
  }

  bool foresee(std::uint64_t pc) override {
    Branch b{.pc = static_cast<std::uint32_t>(pc)};
    return predict(b);
  }
  void pass(std::uint64_t pc, BranchKind kind, bool) override {
    if (kind != BranchKind::conditional)
      past_.push_global(static_cast<std::uint32_t>(pc), !(pc & 4));
  }
  void commit() override {
    const Branch b = in_flight_.pop();
    if (!b.conditional) return;
    const int position = past_.recency_position(b.pc);
    if (passes_filter(b)) train(b, position);
    // gem5's record mask of 191: branches that were filtered move on all histories but the local.
    past_.commit(b.pc, b.hash, b.taken, b.backwards, position);
    if (!b.filtered) past_.push_local(b.pc, b.taken);
    last_taken_ = b.taken;
  }
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<MultiperspectivePerceptron>(*this);
  }

 private:
  struct Branch {
    std::uint32_t pc{};
    std::uint16_t hash{};
    std::int16_t output{};  // of the time of the fetch
    bool conditional{}, taken{}, backwards{}, filtered{};
  };

  bool predict(Branch& b) {
    b.hash = hashed(b.pc);
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

  static constexpr int n = std::size(tables);
  static constexpr auto entries = table_entries(tables, budget);
  static constexpr auto offset = [] {
    std::array<int, n + 1> at{};
    for (int i = 0; i < n; ++i) at[i + 1] = at[i] + entries[i];
    return at;
  }();
  static constexpr auto scaled = [] {
    std::array<std::array<std::int16_t, 64>, n> value{};
    for (int i = 0; i < n; ++i) value[i] = counts(tables[i].width, tables[i].coefficient);
    return value;
  }();
  static constexpr int threshold = 1, speed = 9;
  static constexpr double fudge = 0.245;
  static constexpr std::uint8_t only_untaken = 1, only_taken = 2;
  static constexpr bool choosy = n > tables_asked;  // else all tables are asked in doubt, too

  std::size_t filter_slot(const Branch& b) const {
    return (std::uint32_t{last_taken_} ^ b.hash) % std::uint32_t{budget.filter_entries};
  }
  // Notes the outcome; false of branches that so far have gone one way only.
  bool passes_filter(const Branch& b) {
    if constexpr (budget.filter_entries > 0) {
      std::uint8_t& outcomes = filter_[filter_slot(b)];
      const bool passes = outcomes != only_untaken && outcomes != only_taken;
      outcomes |= b.taken ? only_taken : only_untaken;
      return passes;
    }
    return true;
  }

  template <int i>
  static std::uint32_t scaled_position(int position) {
    return static_cast<std::uint32_t>(
        position < recency_depth ? position * entries[i] / recency_depth : entries[i] - 1);
  }

  template <int i>
  std::size_t slot(std::uint32_t pc, int position) const {
    std::uint64_t h = tables[i].view == View::recency_position ? scaled_position<i>(position)
                                                               : past_.template view<i>(pc);
    h = h << 6 ^ (pc >> 2 & 0xffff);
    if constexpr (budget.with_loop1 >> i & 1) h ^= past_.loop(1);
    if constexpr (budget.with_loop4 >> i & 1) h ^= past_.loop(4);
    if constexpr (budget.with_position >> i & 1) h ^= scaled_position<i>(position);
    return static_cast<std::size_t>(offset[i]) + h % static_cast<std::uint64_t>(entries[i]);
  }

  // Sets the branch's output; the sum that decides in doubt, of the tables that err least.
  int output(Branch& b) {
    const int local = past_.local(b.pc), position = past_.recency_position(b.pc);
    const std::uint32_t odd = b.hash & 1;
    constexpr int half = 1 << (local_bits - 1);
    const int start = local == 0              ? -5
                      : local == 2 * half - 1 ? 5
                      : local == half         ? -1
                      : local == half - 1     ? 1
                                              : 0;
    std::array<std::int16_t, n> value;
    int sum = 0;
    unrolled<n>([&]<int i>() {
      const std::uint8_t w = weight_[slot<i>(b.pc, position)];
      value[i] = scaled[i][signed_magnitude(w, odd)];
      sum += value[i];
    });
    b.output = static_cast<std::int16_t>((start + sum) * fudge);
    if constexpr (choosy)
      if (std::abs(b.output) <= threshold) return best_sum(value);
    return sum;
  }

  int best_sum(const std::array<std::int16_t, n>& value) {
    if (order_old_) {
      for (int i = 0; i < n; ++i) order_[i] = {i, mistakes_[i]};
      // As gem5 does it: which of equals come first is the library's choice there, too.
      std::sort(order_.begin(), order_.end(),
                [](const auto& x, const auto& y) { return x.mistakes < y.mistakes; });
      order_old_ = false;
    }
    int sum = 0;
    for (int k = 0; k < tables_asked; ++k) sum += value[order_[k].table];
    return sum;
  }

  void train(const Branch& b, int position) {
    const int size = std::abs(b.output);
    const bool correct = (b.output >= 1) == b.taken, doubtful = size <= threshold;
    const bool learns = !correct || size <= theta_, counts = choosy && doubtful;
    if (!learns && !counts) return;
    const std::uint32_t odd = b.hash & 1;
    std::array<std::uint8_t*, n> at;
    unrolled<n>([&]<int i>() { at[i] = &weight_[slot<i>(b.pc, position)]; });
    if constexpr (choosy)
      if (counts) count_mistakes(b, at);
    if (!learns) return;
    if (correct && size < theta_ && --patience_ <= -speed) --theta_, patience_ = 0;
    if (!correct && ++patience_ >= speed) ++theta_, patience_ = 0;
    int sum = 0;  // with the new weights, without coefficients
    std::array<std::int16_t, n> value;
    unrolled<n>([&]<int i>() {
      constexpr int width = tables[i].width;
      *at[i] = stepped<width>[b.taken][odd][*at[i]];
      value[i] = plain<width>[signed_magnitude(*at[i], odd)];
      sum += value[i];
    });
    if ((sum >= 1) == b.taken) return;
    // One weight without which the branch would have been right is made smaller, from a random
    // table on.
    unsigned i = random_(~0u) % n;
    for (int k = 0; k < n; ++k, i = (i + 1) % n)
      if ((sum - value[i] >= 1) == b.taken) {
        if ((*at[i] & 0x1f) > 1) --*at[i];
        break;
      }
  }

  void count_mistakes(const Branch& b, const std::array<std::uint8_t*, n>& at) {
    bool halve = false;
    for (int i = 0; i < n; ++i)
      if ((scaled[i][signed_magnitude(*at[i], b.hash & 1u)] >= 1) != b.taken)
        halve |= ++mistakes_[i] == (1 << tuning_bits) - 1;
    if (halve)
      for (int& m : mistakes_) m /= 2;
    order_old_ = true;
  }

  Histories<tables, budget.local_histories> past_;
  bool last_taken_{};  // of the branch that committed last
  int theta_{10}, patience_{};
  std::array<std::uint8_t, static_cast<std::size_t>(offset[n])> weight_;
  std::array<std::uint8_t, std::max(budget.filter_entries, 1)> filter_{};
  struct Mistakes {
    int table, mistakes;
  };
  std::array<int, n> mistakes_{};
  std::array<Mistakes, n> order_{};
  bool order_old_{true};
  Random random_;
  InFlight<Branch> in_flight_;
};

}  // namespace
}  // namespace multiperspective

using namespace multiperspective;

std::unique_ptr<DirectionPredictor> multiperspective_perceptron_8kb() {
  return std::make_unique<MultiperspectivePerceptron<tables_8kb, budget_8kb>>();
}

std::unique_ptr<DirectionPredictor> multiperspective_perceptron_64kb() {
  return std::make_unique<MultiperspectivePerceptron<tables_64kb, budget_64kb>>();
}

}  // namespace tracekit::bp
