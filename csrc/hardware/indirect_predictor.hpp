// Where indirect branches go, by the path that led to them: tagged tables over ever longer paths,
// of which the longest that matches predicts (Seznec, "A 64-Kbytes ITTAGE indirect branch
// predictor", JWAC-2, 2011), here with full tags' hashes and one bit of trust.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tracekit::hardware {

class IndirectPredictor {
 public:
  // The longest path has `history` taken branches, the others are shorter by one factor.
  IndirectPredictor(std::size_t entries, std::size_t history)
      : size_(std::max<std::size_t>(1, entries / tables)), entry_(size_ * tables) {
    for (std::size_t t = 1; t < tables; ++t) {
      const double share = static_cast<double>(t) / (tables - 1);
      length_[t] = static_cast<std::size_t>(
          std::lround(std::pow(static_cast<double>(std::min(history, kept - 1)), share)));
    }
  }

  // Whether it knows that this branch, which was taken, goes to `target`; learns it.
  bool right(std::uint64_t pc, std::uint64_t target) {
    std::array<Entry*, tables> at;
    std::array<std::uint32_t, tables> tag;
    std::size_t hit = tables;
    for (std::size_t t = 0; t < tables; ++t) {
      const std::uint64_t h = mix(pc * 0x9e3779b97f4a7c15ULL + (std::uint64_t{path_[t]} << 20) + t);
      at[t] = &entry_[t * size_ + (h >> 32) % size_];
      tag[t] = static_cast<std::uint32_t>(h) | 1;
      if (at[t]->tag == tag[t]) hit = t;
    }
    if (hit == tables) {
      *at[0] = {target, tag[0], 0};
      return false;
    }
    Entry& e = *at[hit];
    const bool good = e.target == target;
    if (good) {
      if (e.sure < 3) ++e.sure;
    } else {
      // A longer path may tell the two apart.
      for (std::size_t t = hit + 1; t < tables; ++t) {
        if (at[t]->sure == 0) {
          *at[t] = {target, tag[t], 0};
          break;
        }
        --at[t]->sure;
      }
      if (e.sure > 0)
        --e.sure;
      else
        e.target = target;
    }
    return good;
  }
  // Every taken branch of the path.
  void push(std::uint64_t pc, std::uint64_t target) {
    const auto step = static_cast<std::uint32_t>(mix(pc ^ target << 1) >> 40) & 0xffff;
    for (std::size_t t = 1; t < tables; ++t) {
      const std::uint32_t old = steps_[(now_ - length_[t]) & (kept - 1)];
      path_[t] =
          std::rotl(path_[t], 3) ^ step ^ std::rotl(old, static_cast<int>(3 * length_[t] % 32));
    }
    steps_[now_++ & (kept - 1)] = step;
  }

 private:
  static constexpr std::size_t tables = 5, kept = 128;
  struct Entry {
    std::uint64_t target{};
    std::uint32_t tag{};
    std::uint32_t sure{};
  };
  static std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9ULL;
    return x ^ x >> 29;
  }

  std::size_t size_, now_{kept};
  std::vector<Entry> entry_;
  std::array<std::size_t, tables> length_{};
  std::array<std::uint32_t, tables> path_{};
  std::array<std::uint32_t, kept> steps_{};
};

}  // namespace tracekit::hardware
