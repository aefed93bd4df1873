// What a core knows when it goes a wrong way: where branches went the last time, and what registers
// hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/code_map.hpp"
#include "sim/core_inst.hpp"

namespace tracekit {

// Where branches went the last time that they were taken, whether they were the last time, and
// where the calls that are open return to.
class BranchHistory {
 public:
  struct Branch {
    std::uint32_t part{CodeMap::nowhere}, target{CodeMap::nowhere};
    bool taken{};
  };
  const Branch* find(std::uint32_t part) const {
    const Branch& b = branch_[part % size];
    return b.part == part ? &b : nullptr;
  }
  void see(std::uint32_t part, bool taken, std::uint32_t target) {
    Branch& b = branch_[part % size];
    if (taken)
      b = {part, target, true};
    else if (b.part == part)
      b.taken = false;
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

// Values of registers on a wrong path, as far as they are known.
class KnownRegisters {
 public:
  explicit KnownRegisters(std::size_t registers) : of_(registers) {}
  // A wrong path begins: none is known.
  void forget() { ++now_; }
  bool decided(std::uint16_t r) const { return of_[r].when == now_; }
  bool known(std::uint16_t r) const { return decided(r) && of_[r].known; }
  // Whether the wrong path has written it.
  bool written(std::uint16_t r) const { return decided(r) && of_[r].written; }
  std::int64_t value(std::uint16_t r) const { return of_[r].value; }
  // What it holds where the path begins.
  void put(std::uint16_t r, std::optional<std::int64_t> value) {
    of_[r] = {now_, value.has_value(), false, value.value_or(0)};
  }
  // What the part, of the wrong path, does to them.
  void run(const CoreInst& inst, const RegisterValue& value) {
    const bool sum = value.kind == RegisterValue::sum && known(value.base);
    const std::int64_t is = value.number + (sum ? this->value(value.base) : 0);
    for (const std::uint16_t r : inst.dst) {
      if (r == CoreInst::no_register) break;
      of_[r] = {now_, sum || value.kind == RegisterValue::constant, true, is};
    }
  }

 private:
  struct Register {
    std::uint32_t when{};
    bool known{}, written{};
    std::int64_t value{};
  };
  std::vector<Register> of_;
  std::uint32_t now_{};
};

}  // namespace tracekit
