// The branch predictors that the reference cores share: the same for every core that has that kind,
// so that each branch is predicted once.  Tables and indices follow gem5's defaults (src/cpu/pred);
// predicted and updated in trace order, that is without the wrong path and with updates that are
// never late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tracekit {

// A two-bit counter for each of 2048 pcs (LocalBP).
class LocalPredictor {
 public:
  bool step(std::uint64_t pc, bool taken);  // the prediction; learns the outcome

 private:
  std::vector<std::uint8_t> counter_ = std::vector<std::uint8_t>(2048, 1);
};

// Local histories against a global one, chosen by a third table (TournamentBP).
class TournamentPredictor {
 public:
  bool step(std::uint64_t pc, bool taken);

 private:
  std::vector<std::uint16_t> history_ = std::vector<std::uint16_t>(2048, 0);
  std::vector<std::uint8_t> local_ = std::vector<std::uint8_t>(2048, 0);
  std::vector<std::uint8_t> global_ = std::vector<std::uint8_t>(8192, 0);
  std::vector<std::uint8_t> choice_ = std::vector<std::uint8_t>(8192, 0);
  std::uint32_t path_{};
};

// Two global tables, of mostly taken and mostly untaken branches (BiModeBP).
class BiModePredictor {
 public:
  bool step(std::uint64_t pc, bool taken);

 private:
  std::vector<std::uint8_t> choice_ = std::vector<std::uint8_t>(8192, 0);
  std::vector<std::uint8_t> taken_ = std::vector<std::uint8_t>(8192, 0);
  std::vector<std::uint8_t> untaken_ = std::vector<std::uint8_t>(8192, 0);
  std::uint32_t path_{};
};

// Tagged tables over geometrically longer histories (Seznec and Michaud 2006), with a loop
// predictor where asked for (L-TAGE).
class TagePredictor {
 public:
  TagePredictor(int tables, int shortest, int longest, bool loops);
  bool step(std::uint64_t pc, bool taken);
  void push(std::uint64_t pc,
            bool taken);  // an outcome that was not predicted: unconditional branches

 private:
  struct Entry {
    std::int8_t counter{};
    std::uint8_t useful{};
    std::uint16_t tag{};
  };
  struct Loop {
    std::uint16_t tag{}, trips{}, at{};
    std::uint8_t confidence{}, age{};
    bool direction{true};
  };
  struct Folded {  // a history of `length` outcomes, XORed down to `bits`
    std::uint32_t value{};
    int length{}, bits{}, out{};
    void push(const std::vector<std::uint8_t>& history, std::size_t at);
  };
  bool loop(std::uint64_t pc, bool taken, bool predicted);

  static constexpr int table_bits = 10, tag_bits = 9, most_tables = 16;
  static constexpr std::size_t history_mask = 4095;
  int tables_;
  bool loops_on_;
  std::vector<int> length_;
  std::vector<std::vector<Entry>> table_;
  std::vector<std::int8_t> base_;
  std::vector<std::uint8_t> history_;
  std::size_t at_{history_mask};
  std::uint32_t path_{};
  std::int8_t prefer_alternate_{};
  std::uint64_t ticks_{};
  std::minstd_rand random_{1};
  std::vector<Folded> index_, tag_, tag2_;
  std::vector<Loop> loop_;
};

// Targets of indirect branches by pc, global history and the last three targets
// (SimpleIndirectPredictor).
class IndirectPredictor {
 public:
  bool step(std::uint64_t pc, std::uint64_t target);  // was it right; learns the target
  void outcome(bool taken) { history_ = (history_ << 1 | unsigned{taken}) & 8191; }

 private:
  struct Entry {
    std::uint16_t tag{0xffff};
    std::uint64_t target{};
  };
  std::vector<Entry> entry_ = std::vector<Entry>(512);
  std::uint64_t path_[3]{};
  std::uint32_t history_{}, random_{1};
};

// What each kind of predictor got wrong: bit k of `wrong` is predictor k.
class BranchOutcomes {
 public:
  struct Branch {
    std::uint8_t kind{};  // BranchKind
    std::uint64_t pc{}, next{};
    bool taken{};
  };
  std::uint8_t wrong(const Branch& b);

 private:
  static constexpr std::size_t return_stack = 16;
  LocalPredictor local_;
  TournamentPredictor tournament_;
  BiModePredictor bimode_;
  TagePredictor tage_{7, 5, 130, false}, tage_long_{12, 4, 640, true};
  IndirectPredictor indirect_;
  std::vector<std::uint64_t> returns_;
};

}  // namespace tracekit
