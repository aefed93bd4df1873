// The loop predictor of L-TAGE and TAGE-SC-L: branches that leave a loop after the same number of
// trips each time.  As gem5's LoopPredictor without speculation (src/cpu/pred/loop_predictor.cc):
// trips are counted when branches commit, so that a loop with several of its branches in flight is
// predicted from a count that is behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/predictors/predictor_parts.hpp"

namespace tracekit::bp {

// What a lookup found: kept until the branch commits.
struct LoopLookup {
  std::int8_t way{-1};  // that holds the branch; -1: none
  bool taken{};
  bool sure{};
  bool final_taken{};  // the whole predictor's prediction
};

// LoopPredictor's own parameters, as L-TAGE uses it.
struct LTageLoops {
  static constexpr int log_size = 8, age_bits = 8, confidence_bits = 2, tag_bits = 14,
                       trip_bits = 14, first_trip = 1, first_age = 255;
  static constexpr bool hashed = false;        // sets skewed by way and pc
  static constexpr bool directed = false;      // loops may also go on while untaken
  static constexpr bool cautious = false;      // allocates one time in four, in one way only
  static constexpr bool forgets_age = true;    // where the trips differ from the last time's
  static constexpr bool long_is_sure = false;  // long loops count as sure earlier
};

template <class Spec>
class LoopPredictor {
 public:
  // The direction, given what the tables predicted.
  bool predict(std::uint64_t pc, bool predicted, LoopLookup& l) const {
    l = {};
    const std::uint16_t wanted = tag(pc);
    for (int way = 0; way < ways; ++way) {
      const Entry& e = entry_[slot(pc, way)];
      if (e.tag != wanted) continue;
      const bool last = e.trip + 1 == e.trips;
      l.way = static_cast<std::int8_t>(way);
      l.sure =
          e.confidence == most_confidence || (Spec::long_is_sure && e.confidence * e.trips > 128);
      l.taken = (Spec::directed ? e.direction : true) != last;
      break;
    }
    return l.sure && use_ >= 0 ? l.taken : predicted;
  }

  void learn(std::uint64_t pc, bool taken, bool tables_taken, const LoopLookup& l, Random& random) {
    if (l.sure && l.final_taken != l.taken) nudge(use_, l.taken == taken, 7);
    if (l.way >= 0)
      count(entry_[slot(pc, l.way)], taken, tables_taken, l, random);
    else if (Spec::directed ? l.final_taken != taken : taken)
      allocate(pc, taken, random);
  }

 private:
  struct Entry {
    std::uint16_t tag{}, trips{}, trip{};
    std::uint8_t confidence{}, age{};
    bool direction{};
  };

  static constexpr int log_ways = 2, ways = 1 << log_ways, log_sets = Spec::log_size - log_ways;
  static constexpr int most_confidence = (1 << Spec::confidence_bits) - 1;
  static constexpr std::uint64_t set_mask = (1u << log_sets) - 1;

  static std::uint16_t tag(std::uint64_t pc) {
    constexpr std::uint64_t mask = (1u << Spec::tag_bits) - 1;
    if constexpr (Spec::hashed)
      return static_cast<std::uint16_t>((pc >> log_sets ^ pc >> (log_sets + Spec::tag_bits)) &
                                        mask);
    else
      return static_cast<std::uint16_t>(pc >> (2 + log_sets) & mask);
  }
  static std::size_t slot(std::uint64_t pc, int way) {
    std::uint64_t set = pc >> 2 & set_mask;
    if constexpr (Spec::hashed) set = (set ^ pc ^ (pc >> log_sets & set_mask) >> way) & set_mask;
    return (set << log_ways) + static_cast<std::size_t>(way);
  }

  void count(Entry& e, bool taken, bool tables_taken, const LoopLookup& l, Random& random) {
    if (l.sure) {
      if (taken != l.taken) {
        e.trips = e.trip = 0;
        e.age = e.confidence = 0;
        return;
      }
      if ((l.taken != tables_taken || (Spec::long_is_sure && random(7) == 0)) &&
          e.age < (1 << Spec::age_bits) - 1)
        ++e.age;
    }
    e.trip = static_cast<std::uint16_t>((e.trip + 1) & ((1 << Spec::trip_bits) - 1));
    if (e.trip > e.trips) {
      e.confidence = 0;
      if (e.trips != 0) {
        e.trips = 0;
        if (Spec::forgets_age) e.age = 0;
      }
    }
    if (taken == (Spec::directed ? e.direction : true)) return;
    if (e.trip == e.trips) {  // it left as it did the last time
      if (e.confidence < most_confidence) ++e.confidence;
      if (e.trips < 3) {  // too short to be worth it
        e.direction = taken;
        e.trips = 0;
        e.age = e.confidence = 0;
      }
    } else {
      e.confidence = 0;
      if (e.trips == 0) {
        e.trips = e.trip;
      } else {
        e.trips = 0;
        if (Spec::forgets_age) e.age = 0;
      }
    }
    e.trip = 0;
  }

  void allocate(std::uint64_t pc, bool taken, Random& random) {
    if (random(3) != 0 && Spec::cautious) return;
    const unsigned first = random(ways - 1);
    for (unsigned i = 0; i < ways; ++i) {
      Entry& e = entry_[slot(pc, static_cast<int>((first + i) & (ways - 1)))];
      if (e.age == 0) {
        e = {.tag = tag(pc), .trip = Spec::first_trip, .age = Spec::first_age, .direction = !taken};
        return;
      }
      --e.age;
      if (Spec::cautious) return;
    }
  }

  std::vector<Entry> entry_ = std::vector<Entry>(std::size_t{1} << Spec::log_size);
  std::int8_t use_{-1};  // is it worth heeding where it differs
};

}  // namespace tracekit::bp
