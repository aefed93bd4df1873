#include "sim/predictors/tage.hpp"

#include <algorithm>

#include "sim/predictors/loop_predictor.hpp"
#include "sim/predictors/tagged_tables.hpp"

namespace tracekit::bp {
namespace {

// Arrays by table; table 0 is the bimodal one.  Lengths: shortest * (longest / shortest)^(i / n).
struct TageSpec {  // TAGEBase's own parameters
  static constexpr int tables = 7, log_reset = 18;
  static constexpr std::array length{0, 5, 9, 15, 25, 44, 76, 130};
  static constexpr std::array log_size{13, 9, 9, 9, 9, 9, 9, 9};
  static constexpr std::array tag_bits{0, 9, 9, 10, 10, 11, 11, 12};
};

struct LTageSpec {  // LTAGE_TAGE
  static constexpr int tables = 12, log_reset = 19;
  static constexpr std::array length{0, 4, 6, 10, 16, 25, 40, 64, 101, 160, 254, 403, 640};
  static constexpr std::array log_size{14, 10, 10, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9};
  static constexpr std::array tag_bits{0, 7, 7, 8, 8, 9, 10, 11, 12, 12, 13, 14, 15};
};

// TAGEBase with speculative histories.
template <class Spec>
class Tables {
 public:
  using Lookup = TageLookup<Spec::tables>;

  bool predict(std::uint64_t pc, Lookup& l) const {
    l.slot[0] = static_cast<std::uint16_t>(pc >> shift & ((1u << Spec::log_size[0]) - 1));
    std::uint64_t matches = 0;
    unrolled<Spec::tables>([&]<int i>() {
      constexpr int t = i + 1;
      l.slot[t] = slot<t>(pc);
      l.tag[t] = tag<t>(pc);
      matches |= std::uint64_t{entry_[l.slot[t]].tag == l.tag[t]} << t;
    });
    l.match(matches);
    l.alternate_taken =
        l.alternate ? entry_[l.slot[l.alternate]].counter >= 0 : bimodal_.taken(l.slot[0]);
    l.longest_taken = l.alternate_taken;
    l.fresh = false;
    if (l.hit) {
      const int counter = entry_[l.slot[l.hit]].counter;
      l.longest_taken = counter >= 0;
      l.fresh = strength(counter) == 1;
    }
    l.taken = l.fresh && use_alternate_ >= 0 ? l.alternate_taken : l.longest_taken;
    return l.taken;
  }

  void push(std::uint64_t pc, bool taken) {
    const unsigned in = taken;
    unrolled<Spec::tables>([&]<int i>() {
      constexpr int length = Spec::length[i + 1], tag_bits = Spec::tag_bits[i + 1];
      const unsigned out = history_.leaving(length, 1);
      fold<length, Spec::log_size[i + 1]>(index_fold_[i], in, out, 1);
      fold<length, tag_bits>(tag_fold_[i], in, out, 1);
      fold<length, tag_bits - 1>(tag_fold2_[i], in, out, 1);
    });
    history_.push(in, 1);
    path_ = (path_ << 1 | (pc >> shift & 1)) & ((1u << path_bits) - 1);
  }

  void learn(bool taken, const Lookup& l, unsigned draw) {
    bool allocates = l.taken != taken && l.hit < Spec::tables;
    if (l.hit && l.fresh) {
      // the entry was right even where the whole was not: there is nothing to allocate
      if (l.longest_taken == taken) allocates = false;
      if (l.longest_taken != l.alternate_taken)
        nudge(use_alternate_, l.alternate_taken == taken, 4);
    }
    if (allocates) allocate(taken, l, draw);
    if ((++ticks_ & ((1u << Spec::log_reset) - 1)) == 0)
      for (TaggedEntry& e : entry_) e.useful >>= 1;

    if (!l.hit) return bimodal_.learn(l.slot[0], taken);
    TaggedEntry& e = entry_[l.slot[l.hit]];
    nudge(e.counter, taken, 3);
    if (e.useful == 0) {
      if (l.alternate)
        nudge(entry_[l.slot[l.alternate]].counter, taken, 3);
      else
        bimodal_.learn(l.slot[0], taken);
    }
    if (l.taken != l.alternate_taken) {
      if (l.taken == taken)
        e.useful = static_cast<std::uint8_t>(std::min(e.useful + 1, 3));
      else if (e.useful)
        --e.useful;
    }
  }

  void go_wrong(bool other) {
    right_ = {index_fold_, tag_fold_, tag_fold2_, path_, history_.at(), other};
    pushes_ = 0;
    if (!other) return;
    history_.turn_last();
    unrolled<Spec::tables>([&]<int i>() {
      index_fold_[i] ^= 1;
      tag_fold_[i] ^= 1;
      tag_fold2_[i] ^= 1;
    });
  }
  // Of ways that are longer than any core's reorder buffer the first part counts.
  void pass(std::uint64_t pc, bool taken) {
    if (pushes_++ < most_pushes) push(pc, taken);
  }
  void go_back() {
    index_fold_ = right_.index_fold;
    tag_fold_ = right_.tag_fold;
    tag_fold2_ = right_.tag_fold2;
    path_ = right_.path;
    history_.back_to(right_.at);
    if (right_.other) history_.turn_last();
  }

 private:
  static constexpr int shift = 2, path_bits = 16;
  static constexpr unsigned most_pushes = 256;  // along a wrong path
  static constexpr std::size_t history_size =
      std::bit_ceil(static_cast<unsigned>(Spec::length.back()) + 1 + most_pushes);
  using Folds = std::array<std::uint32_t, Spec::tables>;
  // As a wrong path finds it; `other`: of the branch before it the history has the other direction
  // then.
  struct Right {
    Folds index_fold, tag_fold, tag_fold2;
    std::uint32_t path;
    std::size_t at;
    bool other;
  };

  // The first entry of table t: one vector holds all tables.
  static constexpr std::uint32_t base(int t) {
    std::uint32_t at = 0;
    for (int i = 1; i < t; ++i) at += 1u << Spec::log_size[static_cast<std::size_t>(i)];
    return at;
  }
  static_assert(base(Spec::tables + 1) <= 65536);

  template <int t>
  std::uint16_t slot(std::uint64_t pc) const {
    constexpr int log = Spec::log_size[t];
    const auto p = static_cast<std::uint32_t>(pc >> shift);
    const std::uint32_t index =
        p ^ p >> ((log > t ? log - t : t - log) + 1) ^ index_fold_[t - 1] ^
        mix_path<t, log, std::min(Spec::length[t], path_bits), false>(path_);
    return static_cast<std::uint16_t>(base(t) + (index & ((1u << log) - 1)));
  }
  template <int t>
  std::uint16_t tag(std::uint64_t pc) const {
    const std::uint32_t tag =
        static_cast<std::uint32_t>(pc >> shift) ^ tag_fold_[t - 1] ^ tag_fold2_[t - 1] << 1;
    return static_cast<std::uint16_t>(tag & ((1u << Spec::tag_bits[t]) - 1));
  }

  // One entry of the next three longer tables that has not been useful.
  void allocate(bool taken, const Lookup& l, unsigned draw) {
    bool all_useful = true;
    for (int t = l.hit + 1; t <= Spec::tables; ++t) all_useful &= entry_[l.slot[t]].useful > 0;
    const unsigned skip = draw & ((1u << (Spec::tables - l.hit - 1)) - 1);
    int t = l.hit + 1 + (skip & 1 ? (skip & 2 ? 2 : 1) : 0);
    if (all_useful) entry_[l.slot[t]].useful = 0;
    for (; t <= Spec::tables; ++t) {
      TaggedEntry& e = entry_[l.slot[t]];
      if (e.useful) continue;
      e.tag = l.tag[t];
      e.counter = taken ? 0 : -1;
      break;
    }
  }

  BimodalTable bimodal_{Spec::log_size[0]};
  std::vector<TaggedEntry> entry_ = std::vector<TaggedEntry>(base(Spec::tables + 1));
  OutcomeHistory<history_size> history_;
  Folds index_fold_{}, tag_fold_{}, tag_fold2_{};
  std::uint32_t path_{};
  Right right_{};
  unsigned pushes_{};
  std::int8_t use_alternate_{};
  std::uint32_t ticks_{1u << 17};
};

class Tage final : public DirectionPredictor {
 public:
  bool fetch(const BranchEvent& branch) override {
    Record& r = in_flight_.push();
    r.branch = branch;
    const bool predicted = !branch.conditional() || tables_.predict(branch.pc, r.tables);
    r.branch.taken = branch.learnt(predicted);
    tables_.push(branch.pc, r.branch.taken);
    return predicted;
  }
  void commit() override {
    const Record& r = in_flight_.pop();
    const unsigned draw = random_(3);
    if (r.branch.conditional()) tables_.learn(r.branch.taken, r.tables, draw);
  }
  void go_wrong(bool other) override { tables_.go_wrong(other); }
  bool foresee(std::uint64_t pc) override {
    typename Tables<TageSpec>::Lookup l;
    return tables_.predict(pc, l);
  }
  void pass(std::uint64_t pc, BranchKind, bool taken) override { tables_.pass(pc, taken); }
  void go_back() override { tables_.go_back(); }
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<Tage>(*this);
  }

 private:
  struct Record {
    BranchEvent branch;
    Tables<TageSpec>::Lookup tables;
  };
  Tables<TageSpec> tables_;
  Random random_;
  InFlight<Record> in_flight_;
};

class LTage final : public DirectionPredictor {
 public:
  bool fetch(const BranchEvent& branch) override {
    Record& r = in_flight_.push();
    r.branch = branch;
    bool predicted = true;
    if (branch.conditional()) {
      predicted = loops_.predict(branch.pc, tables_.predict(branch.pc, r.tables), r.loop);
      r.loop.final_taken = predicted;
    }
    r.branch.taken = branch.learnt(predicted);
    tables_.push(branch.pc, r.branch.taken);
    return predicted;
  }
  void commit() override {
    const Record& r = in_flight_.pop();
    const unsigned draw = random_(3);
    if (r.branch.conditional()) {
      loops_.learn(r.branch.pc, r.branch.taken, r.tables.taken, r.loop, random_);
      tables_.learn(r.branch.taken, r.tables, draw);
    }
  }
  void go_wrong(bool other) override { tables_.go_wrong(other); }
  bool foresee(std::uint64_t pc) override {
    typename Tables<LTageSpec>::Lookup l;
    LoopLookup loop;
    const bool tables = tables_.predict(pc, l);
    return loops_.predict(pc, tables, loop);
  }
  void pass(std::uint64_t pc, BranchKind, bool taken) override { tables_.pass(pc, taken); }
  void go_back() override { tables_.go_back(); }
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<LTage>(*this);
  }

 private:
  struct Record {
    BranchEvent branch;
    Tables<LTageSpec>::Lookup tables;
    LoopLookup loop;
  };
  Tables<LTageSpec> tables_;
  LoopPredictor<LTageLoops> loops_;
  Random random_;
  InFlight<Record> in_flight_;
};

}  // namespace

std::unique_ptr<DirectionPredictor> make_tage() { return std::make_unique<Tage>(); }
std::unique_ptr<DirectionPredictor> make_ltage() { return std::make_unique<LTage>(); }

}  // namespace tracekit::bp
