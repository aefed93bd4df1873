// TAGE-SC-L (Seznec, CBP 2016) in the two sizes of gem5 (src/cpu/pred/tage_sc_l*.cc): TAGE with
// tables two by two over the same history, out of two shared stores of interleaved banks; a loop
// predictor; a statistical corrector.  gem5 does not speculate on any of its histories: they know
// of the branches that have committed.
#include <algorithm>

#include "sim/predictors/loop_predictor.hpp"
#include "sim/predictors/statistical_corrector.hpp"
#include "sim/predictors/tage.hpp"
#include "sim/predictors/tagged_tables.hpp"

namespace tracekit::bp {
namespace {

// Tables 2p + 1 and 2p + 2 are over the last length[p] bits; live bit t: table t exists.
struct SmallSpec {  // TAGE_SC_L_TAGE_8KB
  static constexpr bool small = true;
  static constexpr int pairs = 15, log_bimodal = 12, log_bank = 7;
  static constexpr std::array length{4,  6,   9,   13,  19,  29,  43,  63,
                                     94, 139, 206, 306, 454, 674, 1000};
  static constexpr std::uint64_t live = 0b101'0101'0101'1111'1111'1111'1101'0100;
  static constexpr int first_long = 11, short_banks = 9, long_banks = 17;
  static constexpr int most_useful = 3;

  static constexpr int index_width(int pair) { return 17 + 2 * pair % 4; }
  static constexpr int tag_width(int) { return 13; }
  static constexpr int tag_width2(int) { return 11; }
};

struct LargeSpec {  // TAGE_SC_L_TAGE_64KB
  static constexpr bool small = false;
  static constexpr int pairs = 18, log_bimodal = 13, log_bank = 10;
  static constexpr std::array length{6,   9,   12,  18,  26,  37,   54,   78,   112,
                                     161, 232, 335, 482, 695, 1002, 1444, 2081, 3000};
  static constexpr std::uint64_t live = 0b1'0001'0001'0101'0111'1111'1111'1110'0100'0100;
  static constexpr int first_long = 13, short_banks = 10, long_banks = 20;
  static constexpr int most_useful = 1;

  static constexpr int index_width(int) { return log_bank; }
  static constexpr int tag_width(int pair) { return 2 * pair + 1 < first_long ? 8 : 12; }
  static constexpr int tag_width2(int pair) { return tag_width(pair) - 1; }
};

template <class Spec>
class BankedTables {
 public:
  static constexpr int tables = 2 * Spec::pairs;
  using Lookup = TageLookup<tables>;

  std::uint32_t path() const { return path_; }

  bool predict(std::uint64_t pc, Lookup& l) const {
    l.slot[0] = static_cast<std::uint16_t>((pc ^ pc >> 2) & ((1u << Spec::log_bimodal) - 1));
    const std::uint32_t short_bank = first_bank<Spec::length[0], Spec::short_banks>(pc);
    const std::uint32_t long_bank =
        first_bank<Spec::length[Spec::first_long / 2], Spec::long_banks>(pc);
    std::uint64_t matches = 0;
    unrolled<Spec::pairs>([&]<int pair>() {
      constexpr int t = 2 * pair + 1;
      if constexpr (!is_live(t) && !is_live(t + 1)) return;
      const std::uint32_t tag = this->template tag<pair>(pc);
      const std::uint32_t index = this->template index<pair>(pc);
      const std::uint32_t bank = t < Spec::first_long ? short_bank : long_bank;
      if constexpr (is_live(t)) matches |= find<t>(l, index, tag, bank);
      if constexpr (is_live(t + 1)) matches |= find<t + 1>(l, index ^ (tag & bank_mask), tag, bank);
    });
    l.match(matches);

    const int state = bimodal_.state(l.slot[0]);
    const bool sure = state == 0 || state == 3;
    l.alternate_taken = state >= 2;
    l.alternate_sure = sure;
    if (l.alternate) {
      const int counter = entry_[l.slot[l.alternate]].counter;
      l.alternate_taken = counter >= 0;
      l.alternate_sure = strength(counter) > 1;
    }
    l.longest_taken = l.alternate_taken;
    l.strength = sure ? 7 : 1;
    l.fresh = false;
    if (l.hit) {
      const int counter = entry_[l.slot[l.hit]].counter;
      l.longest_taken = counter >= 0;
      l.strength = static_cast<std::uint8_t>(strength(counter));
      l.fresh = l.strength == 1;
    }
    l.taken =
        l.fresh && use_alternate_[alternate_use(l)] >= 0 ? l.alternate_taken : l.longest_taken;
    return l.taken;
  }

  void learn(bool taken, bool final_taken, const Lookup& l, Random& random) {
    bool allocates = l.taken != taken && l.hit < tables;
    if (l.fresh) {
      if (l.longest_taken == taken) allocates = false;
      if (l.longest_taken != l.alternate_taken)
        nudge(use_alternate_[alternate_use(l)], l.alternate_taken == taken, 5);
    }
    // seldom where the whole was right
    if (final_taken == taken && random(31) != 0) allocates = false;
    if (allocates) {
      ticks_ += allocate(taken, l, random);
      ticks_ = std::max(ticks_, 0);
      if (ticks_ >= 1 << 10) {
        for (TaggedEntry& e : entry_)
          e.useful =
              static_cast<std::uint8_t>(Spec::small ? std::max(e.useful - 1, 0) : e.useful >> 1);
        ticks_ = 0;
      }
    }
    learn_entries(taken, l);
  }

  void push(const BranchEvent& branch) {
    const bool jumps_anywhere = branch.kind == BranchKind::indirect ||
                                branch.kind == BranchKind::indirect_call ||
                                branch.kind == BranchKind::ret;
    const int count = jumps_anywhere ? 3 : 2;
    std::uint64_t bits = branch.pc ^ branch.pc >> 2 ^ std::uint64_t{branch.taken};
    std::uint64_t path = branch.pc ^ branch.pc >> 2 ^ branch.pc >> 4;
    if (branch.kind == BranchKind::indirect_conditional && branch.taken) {
      bits ^= branch.next >> 2;
      path ^= branch.next >> 2 ^ branch.next >> 4;
    }
    unsigned in = 0;
    for (int i = 0; i < count; ++i) {
      in = in << 1 | (bits >> i & 1);
      path_ = path_ << 1 ^ (path >> i & 127);
    }
    if constexpr (!Spec::small) path_ &= (1u << path_bits) - 1;
    unrolled<Spec::pairs>([&]<int pair>() {
      if constexpr (!is_live(2 * pair + 1) && !is_live(2 * pair + 2)) return;
      constexpr int length = Spec::length[pair];
      const unsigned out = history_.leaving(length, count);
      fold<length, Spec::index_width(pair)>(index_fold_[pair], in, out, count);
      fold<length, Spec::tag_width(pair)>(tag_fold_[pair], in, out, count);
      fold<length, Spec::tag_width2(pair)>(tag_fold2_[pair], in, out, count);
    });
    history_.push(in, count);
  }

 private:
  static constexpr int path_bits = 27, counter_bits = 3;
  static constexpr std::uint32_t bank_mask = (1u << Spec::log_bank) - 1;
  static constexpr std::size_t history_size =
      std::bit_ceil(static_cast<unsigned>(Spec::length.back()) + 1);

  static constexpr bool is_live(int t) { return Spec::live >> t & 1; }
  static constexpr int tag_bits(int t) { return t < Spec::first_long ? 8 : 12; }
  // How many of a store's tables stand before table t: its bank, counted from the first one's.
  static constexpr std::uint32_t rank(int t) {
    const int first = t < Spec::first_long ? 1 : Spec::first_long;
    const std::uint64_t before = Spec::live >> first & ((std::uint64_t{1} << (t - first)) - 1);
    return static_cast<std::uint32_t>(std::popcount(before));
  }
  static_assert(rank(Spec::first_long - 1) < Spec::short_banks && rank(tables) < Spec::long_banks);

  template <int length, int banks>
  std::uint32_t first_bank(std::uint64_t pc) const {
    return static_cast<std::uint32_t>((pc ^ (path_ & ((1u << (length & 31)) - 1))) % banks);
  }

  template <int t>
  std::uint64_t find(Lookup& l, std::uint32_t index, std::uint32_t tag, std::uint32_t bank) const {
    constexpr bool is_short = t < Spec::first_long;
    constexpr std::uint32_t banks = is_short ? Spec::short_banks : Spec::long_banks;
    bank += rank(t);
    if (bank >= banks) bank -= banks;
    if constexpr (!is_short) bank += Spec::short_banks;
    l.slot[t] = static_cast<std::uint16_t>((bank << Spec::log_bank) + index);
    l.tag[t] = static_cast<std::uint16_t>(tag);
    return std::uint64_t{entry_[l.slot[t]].tag == tag} << t;
  }

  template <int pair>
  std::uint32_t mixed_path() const {
    return mix_path<2 * pair + 1, Spec::log_bank, std::min(Spec::length[pair], path_bits), true>(
        path_);
  }
  template <int pair>
  std::uint32_t index(std::uint64_t pc) const {
    constexpr int t = 2 * pair + 1, log = Spec::log_bank;
    const auto p = static_cast<std::uint32_t>(pc);
    std::uint32_t index = p ^ p >> ((log > t ? log - t : t - log) + 1) ^ index_fold_[pair] ^
                          this->template mixed_path<pair>();
    if constexpr (Spec::small) index ^= index >> log ^ index >> 2 * log;
    return index & bank_mask;
  }
  template <int pair>
  std::uint32_t tag(std::uint64_t pc) const {
    constexpr int bits = tag_bits(2 * pair + 1);
    auto tag = static_cast<std::uint32_t>(pc);
    if constexpr (Spec::small) {
      if constexpr (pair > 0) tag ^= index_fold_[pair - 1] << 2;
      tag ^= static_cast<std::uint32_t>(pc >> 2) ^ index_fold_[pair];
      tag = tag >> 1 ^ (tag & 1) << 10 ^ this->template mixed_path<pair>();
    }
    tag ^= tag_fold_[pair] ^ tag_fold2_[pair] << 1;
    if constexpr (Spec::small) tag ^= tag >> bits;
    return tag & ((1u << bits) - 1);
  }

  static std::size_t alternate_use(const Lookup& l) {
    return l.hit ? ((l.hit - 1u) / 8 << 1) + l.alternate_sure : 0;
  }

  // Up to two entries of longer tables; how short the tables are of entries to take.
  int allocate(bool taken, const Lookup& l, Random& random) {
    int penalty = 0, allocated = 0;
    const int step = random(127) < 32 ? 2 : 1;
    int at = ((l.hit - 1 + 2 * step) & 0xffe) ^ static_cast<int>(random(1));
    for (; at < tables && allocated < 2; at += 2) {
      for (int way = 0; way < 2; ++way) {
        const int t = (at ^ way) + 1;
        if constexpr (Spec::small) {
          if (t > tables || !is_live(t)) break;
        } else {
          if (!is_live(t)) continue;
        }
        TaggedEntry& e = entry_[l.slot[static_cast<std::size_t>(t)]];
        if (e.useful == 0) {
          if (!Spec::small && strength(e.counter) > 3) {
            e.counter = static_cast<std::int8_t>(e.counter > 0 ? e.counter - 1 : e.counter + 1);
            continue;
          }
          if constexpr (Spec::small) e.useful = random(31) == 0;  // some are safe for a while
          e.tag = l.tag[static_cast<std::size_t>(t)];
          e.counter = taken ? 0 : -1;
          ++allocated;
          if (Spec::small && allocated == 2) break;
          at += 2;
          if constexpr (!Spec::small) break;
        } else {
          ++penalty;
          if constexpr (Spec::small) {
            if (e.useful != 1 || strength(e.counter) != 1)
              ++penalty;
            else if (random(7) == 0)
              e.useful = 0;
          }
        }
      }
    }
    return penalty - (Spec::small ? 5 : 2) * allocated;
  }

  void learn_entries(bool taken, const Lookup& l) {
    if (!l.hit) return bimodal_.learn(l.slot[0], taken);
    TaggedEntry& e = entry_[l.slot[l.hit]];
    TaggedEntry* const alternate = l.alternate ? &entry_[l.slot[l.alternate]] : nullptr;
    // In the small one, entries that a step takes from or to the weakest values lose protection.
    const auto step = [&](TaggedEntry& x) {
      if (Spec::small && strength(x.counter) == 1) x.useful = 0;
      nudge(x.counter, taken, counter_bits);
    };
    if (strength(e.counter) == 1 && l.longest_taken != taken) {
      if (alternate) {
        step(*alternate);
        if (Spec::small && strength(alternate->counter) == 1) alternate->useful = 0;
      } else {
        bimodal_.learn(l.slot[0], taken);
      }
    }
    step(e);
    if (strength(e.counter) == 1) e.useful = 0;
    if (l.longest_taken != taken) return;
    if (l.alternate_taken != taken) {
      if (e.useful < Spec::most_useful) ++e.useful;
    } else if (alternate && strength(alternate->counter) == 7 && e.useful == 1) {
      e.useful = 0;
    }
  }

  BimodalTable bimodal_{Spec::log_bimodal};
  std::vector<TaggedEntry> entry_ = std::vector<TaggedEntry>(  // short tags', then long ones'
      std::size_t{Spec::short_banks + Spec::long_banks} << Spec::log_bank);
  OutcomeHistory<history_size> history_;
  std::array<std::uint32_t, Spec::pairs> index_fold_{}, tag_fold_{}, tag_fold2_{};
  std::uint32_t path_{};
  std::array<std::int8_t, 16> use_alternate_{};
  int ticks_{1 << 9};
};

template <int log>
struct SclLoops {  // TAGE_SC_L_LoopPredictor
  static constexpr int log_size = log, age_bits = 4, confidence_bits = 4, tag_bits = 10,
                       trip_bits = 10, first_trip = 0, first_age = 7;
  static constexpr bool hashed = true, directed = true, cautious = true, forgets_age = false,
                        long_is_sure = true;
};

template <class Spec, class CorrectorTables, class LoopSpec>
class TageScL final : public DirectionPredictor {
 public:
  bool fetch(const BranchEvent& branch) override {
    Record& r = in_flight_.push();
    r.branch = branch;
    if (!branch.conditional()) return true;
    r.loop.final_taken = predict(branch.pc, r.tables, r.loop, r.corrector);
    r.branch.taken = branch.learnt(r.loop.final_taken);
    return r.loop.final_taken;
  }

  bool foresee(std::uint64_t pc) override {
    typename BankedTables<Spec>::Lookup tables;
    LoopLookup loop;
    CorrectorLookup c;
    return predict(pc, tables, loop, c);
  }
  void commit() override {
    const Record& r = in_flight_.pop();
    const BranchEvent& b = r.branch;
    random_(3);  // gem5 draws for TAGE's allocation, which does without it here
    if (b.conditional()) {
      corrector_.learn(b.pc, tables_.path(), b.taken, r.corrector);
      loops_.learn(b.pc, b.taken, r.tables.taken, r.loop, random_);
      tables_.learn(b.taken, r.loop.final_taken, r.tables, random_);
      corrector_.push(b.pc, b.next, b.taken);
    }
    tables_.push(b);
  }
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<TageScL>(*this);
  }

 private:
  bool predict(std::uint64_t pc, typename BankedTables<Spec>::Lookup& tables, LoopLookup& loop,
               CorrectorLookup& c) {
    const bool tables_taken = tables_.predict(pc, tables);
    c.before = loops_.predict(pc, tables_taken, loop);
    c.low = tables.strength == 1;
    c.medium = tables.strength == 5;
    c.high = tables.strength >= 7;
    c.differs = tables.longest_taken != tables.alternate_taken;
    c.hit = tables.hit;
    c.alternate = tables.alternate;
    return corrector_.predict(pc, tables_.path(), c);
  }
  struct Record {
    BranchEvent branch;
    typename BankedTables<Spec>::Lookup tables;
    LoopLookup loop;
    CorrectorLookup corrector;
  };
  BankedTables<Spec> tables_;
  LoopPredictor<LoopSpec> loops_;
  StatisticalCorrector<CorrectorTables> corrector_;
  Random random_;
  InFlight<Record> in_flight_;
};

}  // namespace

std::unique_ptr<DirectionPredictor> make_tage_sc_l_8kb() {
  return std::make_unique<TageScL<SmallSpec, SmallCorrectorTables, SclLoops<3>>>();
}
std::unique_ptr<DirectionPredictor> make_tage_sc_l_64kb() {
  return std::make_unique<TageScL<LargeSpec, LargeCorrectorTables, SclLoops<5>>>();
}

}  // namespace tracekit::bp
