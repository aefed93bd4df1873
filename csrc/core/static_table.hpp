// The static instructions of a trace, interned once: what a row's `sid` points into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/static_inst.hpp"

namespace tracekit {

// Candidates for one (pc, upc) are chained: code that is rewritten (a JIT) has several.  A chain
// that grows too long begins anew, so that a search stays short whatever a trace holds; the older
// ones may then get a second id.
class StaticTable {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr unsigned max_chain = 64;

  std::uint32_t add(StaticInst inst) {
    const auto id = static_cast<std::uint32_t>(insts_.size());
    const Key key{inst.pc, inst.upc};
    if ((keys_.size() + 1) * 2 > slots_.size()) grow();
    next_.push_back(none);
    keys_.push_back(key);
    insts_.push_back(std::move(inst));
    std::uint32_t& slot = slots_[place(key)];
    if (slot == none) {
      slot = id;
      return id;
    }
    std::uint32_t at = slot;
    unsigned length = 1;
    for (; next_[at] != none; at = next_[at]) ++length;
    (length < max_chain ? next_[at] : slot) = id;
    return id;
  }
  // The first candidate of (pc, upc), then `next` of each; `none` at the end.
  std::uint32_t find(std::uint64_t pc, std::uint16_t upc) const { return slots_[place({pc, upc})]; }
  std::uint32_t next(std::uint32_t id) const { return next_[id]; }
  const StaticInst& operator[](std::uint32_t id) const { return insts_[id]; }
  StaticInst& at(std::uint32_t id) { return insts_[id]; }
  std::size_t size() const { return insts_.size(); }

 private:
  struct Key {
    std::uint64_t pc;
    std::uint16_t upc;
    friend bool operator==(const Key&, const Key&) = default;
  };
  // Open addressing, at most half full: where the key stands, or the empty slot where it would.
  std::size_t place(const Key& k) const {
    std::uint64_t h = (k.pc ^ (std::uint64_t{k.upc} << 48)) * 0x9e3779b97f4a7c15ULL;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = (h ^ h >> 32) & mask;; i = (i + 1) & mask)
      if (slots_[i] == none || keys_[slots_[i]] == k) return i;
  }
  void grow() {
    std::vector<std::uint32_t> old(slots_.size() * 2, none);
    old.swap(slots_);
    for (const std::uint32_t first : old)
      if (first != none) slots_[place(keys_[first])] = first;
  }
  std::deque<StaticInst> insts_;  // addresses stay valid while it grows
  std::vector<Key> keys_;
  std::vector<std::uint32_t> next_, slots_ = std::vector<std::uint32_t>(1024, none);
};

}  // namespace tracekit
