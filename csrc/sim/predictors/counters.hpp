// The predictors made of two-bit counters alone, gem5's LocalBP, TournamentBP and BiModeBP with
// their defaults (src/cpu/pred).  Like there, unconditional branches train the counters, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/predictors/direction_predictor.hpp"
#include "sim/predictors/in_flight.hpp"

namespace tracekit::bp {

// Saturating counters of two bits, from 0.
template <std::size_t n>
class Counters {
 public:
  bool high(std::size_t k) const { return counter_[k] >= 2; }
  void count(std::size_t k, bool up) {
    std::uint8_t& c = counter_[k];
    c = static_cast<std::uint8_t>(up ? c + (c < 3) : c - (c > 0));
  }

 private:
  std::array<std::uint8_t, n> counter_{};
};

// A counter for each of 1024 pcs (2048 bits).
class Local : public DirectionPredictor {
 public:
  bool fetch(const BranchEvent& branch) override;
  void commit() override;
  bool foresee(std::uint64_t pc) override;
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<Local>(*this);
  }

 private:
  struct Record {
    std::uint16_t at;
    bool taken;
  };
  Counters<1024> counters_;
  InFlight<Record> in_flight_;
};

// Local histories against a global one, chosen by a third table.
class Tournament : public DirectionPredictor {
 public:
  bool fetch(const BranchEvent& branch) override;
  void commit() override;
  void go_wrong(bool other) override;
  bool foresee(std::uint64_t pc) override;
  void pass(std::uint64_t pc, BranchKind kind, bool taken) override;
  void go_back() override;
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<Tournament>(*this);
  }

 private:
  struct Record {
    std::uint16_t local, global;
    bool by_local, by_global, conditional, taken;
  };
  std::array<std::uint16_t, 2048> history_{};
  Counters<2048> local_;
  Counters<8192> global_, choice_;
  // A branch of a wrong path changes the history at `at`.
  void change(std::uint16_t at, int history);
  struct Changed {
    std::uint16_t at, was;
  };
  std::uint16_t path_{}, right_path_{};
  std::uint16_t last_{};          // the history of the branch fetched last
  std::vector<Changed> changed_;  // by branches of a wrong path
  InFlight<Record> in_flight_;
};

// Two global tables, of branches mostly taken and mostly not.
class BiMode : public DirectionPredictor {
 public:
  bool fetch(const BranchEvent& branch) override;
  void commit() override;
  void go_wrong(bool other) override;
  bool foresee(std::uint64_t pc) override;
  void pass(std::uint64_t pc, BranchKind kind, bool taken) override;
  void go_back() override;
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<BiMode>(*this);
  }

 private:
  struct Record {
    std::uint16_t choice, at;
    bool mostly, predicted, taken;
  };
  Counters<8192> choice_, taken_, untaken_;
  std::uint16_t path_{}, right_path_{};
  InFlight<Record> in_flight_;
};

}  // namespace tracekit::bp
