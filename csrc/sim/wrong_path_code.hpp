// Where a core goes when it follows a wrong path: as branches were predicted of late.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/code_map.hpp"

namespace tracekit {

// Where branches went the last time that they were taken, how they were predicted since, and where
// the calls that are open return to.
class BranchHistory {
 public:
  struct Branch {
    std::uint32_t part{CodeMap::nowhere}, target{CodeMap::nowhere};
    std::uint32_t predicted{};  // as taken: the last time is the lowest bit
    // The `n`-th last time.
    bool taken(unsigned n) const { return predicted >> (n % 32) & 1; }
  };
  const Branch* find(std::uint32_t part) const {
    const Branch& b = branch_[part % size];
    return b.part == part ? &b : nullptr;
  }
  void see(std::uint32_t part, bool taken, std::uint32_t target, bool predicted) {
    Branch& b = branch_[part % size];
    if (b.part == part)
      b.predicted = b.predicted << 1 | unsigned{predicted};
    else if (taken)
      b = {part, target, predicted ? ~0u : 0u};
    if (taken) b.target = target;
  }
  // The program has come to the branch `part`; `predicted`: as taken.
  void remember(const CodeMap& code, std::uint32_t part, bool taken, std::uint32_t target,
                bool predicted) {
    if (!code.known()) return;
    see(part, taken, target, predicted);
    const auto kind = static_cast<BranchKind>(code.insts()[part].branch);
    if (kind == BranchKind::ret)
      returned();
    else if (kind == BranchKind::call || kind == BranchKind::indirect_call)
      call(code.behind(part));
  }
  void call(std::uint32_t returns_to) { returns_[calls_++ % depth] = returns_to; }
  void returned() {
    if (calls_ > 0) --calls_;
  }
  // Where the k-th open call returns to, from the last one.
  std::uint32_t returns_to(std::size_t k) const {
    return k < calls_ && k < depth ? returns_[(calls_ - 1 - k) % depth] : CodeMap::nowhere;
  }

 private:
  static constexpr std::size_t size = 2048, depth = 16;
  std::vector<Branch> branch_ = std::vector<Branch>(size);
  std::array<std::uint32_t, depth> returns_{};
  std::size_t calls_{};
};

// The calls of a wrong path that are open.
class WrongCalls {
 public:
  void call(std::uint32_t returns_to) {
    if (open_ < most) calls_[open_] = returns_to;
    ++open_;
  }
  // Where a return goes: behind the last one, or behind those that were open before.
  std::uint32_t returned(const BranchHistory& before) {
    if (open_ == 0) return before.returns_to(returns_++);
    --open_;
    return open_ < most ? calls_[open_] : CodeMap::nowhere;
  }

 private:
  static constexpr std::size_t most = 8;
  std::array<std::uint32_t, most> calls_{};
  std::size_t open_{}, returns_{};
};

// The way of a core behind a branch that it foresees wrongly.
class WrongPathCode {
 public:
  WrongPathCode(const CodeMap& code, const BranchHistory& history)
      : code_(code), history_(history) {}
  // Where it begins behind the branch `part`; nowhere where that is not known.
  std::uint32_t begin(std::uint32_t part, bool taken) {
    if (!code_.known()) return CodeMap::nowhere;
    const auto* const before = history_.find(part);
    const bool conditional =
        static_cast<BranchKind>(code_.insts()[part].branch) == BranchKind::conditional;
    std::uint32_t goes = CodeMap::nowhere;
    // Without a target it is fetched straight on, whatever the direction.
    if (taken && (conditional || !before))
      goes = code_.behind(part);
    else if (before)
      goes = before->target;
    taken_ = goes != code_.behind(part);
    return goes;
  }
  // The part behind `part`, which is no branch.
  std::uint32_t straight_on(std::uint32_t part) {
    decoded_ = taken_ = false;
    return code_.behind(part);
  }
  // The part behind `part`.  `decoded`: the target of a direct one that nobody knows before it is
  // decoded.  `taken`: whether a conditional branch is, given how the n-th one of the way was
  // predicted the n-th last time; so each goes either way as often as it was of late.
  template <typename Decoded, typename Taken>
  std::uint32_t behind(std::uint32_t part, const Decoded& decoded, const Taken& taken) {
    const CoreInst& inst = code_.insts()[part];
    const auto kind = static_cast<BranchKind>(inst.branch);
    const std::uint32_t behind = straight_on(part);
    if (kind == BranchKind::none) return behind;
    if (kind == BranchKind::ret) {
      taken_ = true;
      return calls_.returned(history_);
    }
    const auto* const before = history_.find(part);
    taken_ =
        kind != BranchKind::conditional || taken(inst, before && before->taken(conditionals_++));
    if (kind == BranchKind::call || kind == BranchKind::indirect_call) calls_.call(behind);
    if (before && taken_) return before->target;
    if (kind == BranchKind::call || kind == BranchKind::jump) {
      decoded_ = true;
      return decoded(inst);
    }
    taken_ = false;  // of unknown target
    return behind;
  }
  // As branches were predicted of late.
  template <typename Decoded>
  std::uint32_t behind(std::uint32_t part, const Decoded& decoded) {
    return behind(part, decoded, [](const CoreInst&, bool of_late) { return of_late; });
  }
  // Of the last part: whether it was a branch that is taken, and whether decode had to find out.
  bool taken() const { return taken_; }
  bool was_decoded() const { return decoded_; }

 private:
  const CodeMap& code_;
  const BranchHistory& history_;
  WrongCalls calls_;
  unsigned conditionals_{};
  bool taken_{}, decoded_{};
};

}  // namespace tracekit
