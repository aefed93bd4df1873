// The static instructions of a trace, interned once: what a row's `sid` points into.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/static_inst.hpp"

namespace tracekit {

// Candidates for one (pc, upc) are chained: code that is rewritten (a JIT) has several.  A chain that grows
// too long begins anew, so that a search stays short whatever a trace holds; the older ones may then get a
// second id.
class StaticTable {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr unsigned max_chain = 64;

  std::uint32_t add(StaticInst inst) {
    const auto id = static_cast<std::uint32_t>(insts_.size());
    auto [it, fresh] = first_.try_emplace(Key{inst.pc, inst.upc}, id);
    next_.push_back(none);
    if (!fresh) {
      std::uint32_t at = it->second;
      unsigned length = 1;
      for (; next_[at] != none; at = next_[at]) ++length;
      if (length < max_chain)
        next_[at] = id;
      else
        it->second = id;
    }
    insts_.push_back(std::move(inst));
    return id;
  }
  // The first candidate of (pc, upc), then `next` of each; `none` at the end.
  std::uint32_t find(std::uint64_t pc, std::uint16_t upc) const {
    const auto it = first_.find(Key{pc, upc});
    return it == first_.end() ? none : it->second;
  }
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
  struct Hash {
    std::size_t operator()(const Key& k) const {
      return static_cast<std::size_t>((k.pc ^ (std::uint64_t{k.upc} << 48)) * 0x9e3779b97f4a7c15ULL >> 16);
    }
  };
  std::deque<StaticInst> insts_;  // addresses stay valid while it grows
  std::vector<std::uint32_t> next_;
  std::unordered_map<Key, std::uint32_t, Hash> first_;
};

}  // namespace tracekit
