// Branch entropies, from conditional branches only (features.md; PerfVec section IV-B and its Table
// I).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tracekit {

// Taken and all outcomes of (branch, history) pairs: an open-addressing table that only grows.
class PairCounts {
 public:
  struct Count {
    std::uint64_t taken{}, total{};
  };
  Count& operator()(std::uint64_t key) {
    if (used_ * 2 >= slots_.size()) grow();
    return find(key);
  }

 private:
  struct Slot {
    std::uint64_t key_plus_1{};
    Count count;
  };
  Count& find(std::uint64_t key) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = hash(key) & mask;; i = (i + 1) & mask) {
      Slot& s = slots_[i];
      if (s.key_plus_1 == key + 1) return s.count;
      if (s.key_plus_1 == 0) {
        s.key_plus_1 = key + 1;
        ++used_;
        return s.count;
      }
    }
  }
  static std::size_t hash(std::uint64_t k) {
    k *= 0x9e3779b97f4a7c15ULL;
    return static_cast<std::size_t>(k ^ k >> 32);
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    used_ = 0;
    for (const Slot& s : old)
      if (s.key_plus_1) find(s.key_plus_1 - 1) = s.count;
  }
  std::vector<Slot> slots_ = std::vector<Slot>(1024);
  std::size_t used_{};
};

struct BranchState {
  // Numerator in sixteenths of the mean of the pc's last eight outcomes, not yet seen = 0.5.
  std::uint8_t window_before{}, window_now{};
  // Taken probability of (pc, last H outcomes of this branch | of all conditional branches), past
  // only; 0.5, whose entropy is 1, for a pair never seen.
  float p_local{}, p_global{};
};

class BranchEntropy {
 public:
  static constexpr unsigned max_history = 24;
  explicit BranchEntropy(unsigned history) : history_(history) {}

  // A number for the branch at pc, to be passed to `outcome`.
  std::uint32_t slot(std::uint64_t pc) {
    const auto [it, fresh] = by_pc_.try_emplace(pc, static_cast<std::uint32_t>(branches_.size()));
    if (fresh) branches_.emplace_back();
    return it->second;
  }

  BranchState outcome(std::uint32_t slot, bool taken) {
    Branch& b = branches_[slot];
    BranchState s;
    const unsigned seen = b.seen;
    const unsigned ones = static_cast<unsigned>(__builtin_popcount(b.last8));
    s.window_before = static_cast<std::uint8_t>(2 * ones + 8 - seen);
    b.last8 = static_cast<std::uint8_t>(b.last8 << 1 | (taken ? 1 : 0));
    if (seen < 8) ++b.seen;
    s.window_now = static_cast<std::uint8_t>(
        2 * static_cast<unsigned>(__builtin_popcount(b.last8)) + 8 - b.seen);
    const std::uint64_t key = std::uint64_t{slot} << history_;
    s.p_local = count(local_(key | b.local), taken);
    s.p_global = count(global_(key | all_), taken);
    const std::uint32_t mask = (std::uint32_t{1} << history_) - 1;
    b.local = (b.local << 1 | (taken ? 1 : 0)) & mask;
    all_ = (all_ << 1 | (taken ? 1 : 0)) & mask;
    return s;
  }

 private:
  struct Branch {
    std::uint32_t local{};
    std::uint8_t last8{}, seen{};
  };
  static float count(PairCounts::Count& c, bool taken) {
    const float p =
        c.total ? static_cast<float>(static_cast<double>(c.taken) / static_cast<double>(c.total))
                : 0.5F;
    c.taken += taken ? 1 : 0;
    ++c.total;
    return p;
  }

  unsigned history_;
  std::uint32_t all_{};
  std::vector<Branch> branches_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_pc_;
  PairCounts local_, global_;
};

}  // namespace tracekit
