// What the accesses behind a branch tell of values there: cores that take it the wrong way may need
// them, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/code_map.hpp"
#include "sim/core_inst.hpp"
#include "sim/symbolic_values.hpp"

namespace tracekit {

// Of the rows of one block; each branch that is asked for is looked behind once, whichever core
// asks.
class AddressesAhead {
 public:
  // Rows that are looked at.
  static constexpr std::ptrdiff_t most = 128;
  explicit AddressesAhead(const CodeMap& code) : code_(code) {}
  // What the root of values behind `row` of the block stands for, as far as the rows that follow
  // tell.  A call of the system may write any register.
  std::optional<std::int64_t> value(const CoreRow& row, std::uint64_t root) {
    if (root == SymbolicValue::zero) return 0;
    if (&row != last_) {
      const auto [at, first] = behind_.try_emplace(&row);
      if (first) at->second = looked(row);
      last_ = &row;
      told_ = at->second;
    }
    for (std::size_t k = told_.from; k < told_.to; ++k)
      if (roots_[k] == root) return values_[k];
    return {};
  }

 private:
  struct Told {
    std::size_t from{}, to{};
  };
  Told looked(const CoreRow& row) {
    const std::size_t from = roots_.size();
    registers_.begin();
    for (const CoreRow* at = &row + 1; at <= &row + most && at->inst; ++at) {
      const std::uint32_t part = code_.number(*at->inst);
      const RegisterValue& says = code_.value(part);
      if (at->inst->is(CoreInst::load | CoreInst::store)) {
        const SymbolicValue address = registers_.address(*at->inst, part, says);
        const auto own = roots_.begin() + static_cast<std::ptrdiff_t>(from);
        if (std::find(own, roots_.end(), address.root) == roots_.end()) {
          roots_.push_back(address.root);
          values_.push_back(static_cast<std::int64_t>(at->addr) - address.number);
        }
      }
      if (at->inst->serializes()) break;
      registers_.run(*at->inst, part, says);
    }
    return {from, roots_.size()};
  }

  const CodeMap& code_;
  SymbolicRegisters registers_;
  std::unordered_map<const CoreRow*, Told> behind_;
  std::vector<std::uint64_t> roots_;
  std::vector<std::int64_t> values_;
  const CoreRow* last_{};
  Told told_;
};

}  // namespace tracekit
