// The tables of a TAGE predictor (Seznec and Michaud, "A case for (partially) tagged geometric
// history length branch prediction", JILP 2006): a bimodal one, and tagged ones over ever longer
// histories, of which the longest that matches predicts.  As gem5's TAGEBase has them
// (src/cpu/pred/tage_base.cc).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/predictors/predictor_parts.hpp"

namespace tracekit::bp {

// Directions by pc; 2^shared_log of them share a bit of hysteresis.
class BimodalTable {
 public:
  explicit BimodalTable(int log_size)
      : direction_(std::size_t{1} << log_size, 0),
        hysteresis_(std::size_t{1} << (log_size - shared_log), 1) {}
  // 0 to 3; taken from 2 on.
  int state(std::size_t i) const { return direction_[i] << 1 | hysteresis_[i >> shared_log]; }
  bool taken(std::size_t i) const { return direction_[i] != 0; }
  void learn(std::size_t i, bool taken) {
    int s = state(i);
    if (taken ? s < 3 : s > 0) s += taken ? 1 : -1;
    direction_[i] = static_cast<std::uint8_t>(s >> 1);
    hysteresis_[i >> shared_log] = static_cast<std::uint8_t>(s & 1);
  }

 private:
  static constexpr int shared_log = 2;
  std::vector<std::uint8_t> direction_, hysteresis_;
};

struct TaggedEntry {
  std::uint16_t tag{};
  std::int8_t counter{};
  std::uint8_t useful{};
};

// What a lookup found: kept until the branch commits.  Table 0 is the bimodal one.
template <int tables>
struct TageLookup {
  std::array<std::uint16_t, tables + 1> slot{}, tag{};  // of each table; the slot in all entries
  std::uint8_t hit{}, alternate{};                      // tables; the longest two that match
  bool longest_taken{}, alternate_taken{};
  bool fresh{};  // the entry hit looks newly allocated
  bool taken{};  // the prediction of the tables
  // of TAGE-SC-L: the strength of the entry hit (a sure bimodal state counts as 7), and whether the
  // alternate is sure
  std::uint8_t strength{};
  bool alternate_sure{};

  // Bit t of `matches`: table t has the branch's tag.
  void match(std::uint64_t matches) {
    hit = static_cast<std::uint8_t>(std::bit_width(matches | 1) - 1);
    matches &= ~(std::uint64_t{1} << hit);
    alternate = static_cast<std::uint8_t>(std::bit_width(matches | 1) - 1);
  }
};

// The path history as table `bank` of 2^log_size entries mixes it in.  TAGE-SC-L does not rotate it
// for banks beyond the log size; elsewhere those shift by less than nothing, which gem5's machines
// take modulo 32.
template <int bank, int log_size, int path_bits, bool small_banks_only>
std::uint32_t mix_path(std::uint32_t path) {
  constexpr std::uint32_t mask = (1u << log_size) - 1;
  constexpr bool rotate = bank < log_size || !small_banks_only;
  constexpr int back = (log_size - bank) & 31;
  path &= (1u << path_bits) - 1;
  std::uint32_t low = path & mask, high = path >> log_size;
  if constexpr (rotate) high = (high << bank & mask) + (high >> back);
  path = low ^ high;
  if constexpr (rotate) path = (path << bank & mask) + (path >> back);
  return path;
}

}  // namespace tracekit::bp
