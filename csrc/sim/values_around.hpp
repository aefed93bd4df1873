// What the rows around a branch tell of values behind it: cores that take it the wrong way may need
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/code_map.hpp"
#include "sim/core_inst.hpp"
#include "sim/rows_around.hpp"
#include "sim/symbolic_values.hpp"

namespace tracekit {

// Of the rows of one block: each branch that is asked for is looked around once, whichever core
// asks.
class ValuesAround {
 public:
  // Rows behind the branch that are looked at.
  static constexpr std::ptrdiff_t most = 128;
  ValuesAround(const CodeMap& code, std::span<const CoreRow> rows)
      : code_(code), rows_(rows), looked_(rows.size()) {}
  // What the root of values behind `row` of `rows` stands for: as far as the accesses of the
  // rows that follow tell, else those before, which tell of registers alone.
  std::optional<std::int64_t> value(const CoreRow& row, std::uint64_t root,
                                    const RowsAround& around) {
    if (root == SymbolicValue::zero) return 0;
    std::uint32_t& looked = looked_[static_cast<std::size_t>(&row - rows_.data())];
    if (looked == 0) {
      told_.push_back(look(row, around));
      looked = static_cast<std::uint32_t>(told_.size());
    }
    const Told& told = told_[looked - 1];
    for (std::size_t k = told.from; k < told.to; ++k)
      if (roots_[k] == root) return values_[k];
    return {};
  }

 private:
  struct Told {
    std::size_t from{}, to{};
  };
  Told look(const CoreRow& row, const RowsAround& around) {
    from_ = roots_.size();
    look_behind(row);
    look_before(row, around);
    return {from_, roots_.size()};
  }
  void tell(std::uint64_t root, std::int64_t value) {
    const auto own = roots_.begin() + static_cast<std::ptrdiff_t>(from_);
    if (std::find(own, roots_.end(), root) != roots_.end()) return;
    roots_.push_back(root);
    values_.push_back(value);
  }
  // A call of the system may write any register.
  void look_behind(const CoreRow& row) {
    registers_.begin();
    for (const CoreRow* at = &row + 1; at <= &row + most && at->inst; ++at) {
      const std::uint32_t part = code_.number(*at->inst);
      const RegisterValue& says = code_.value(part);
      if (at->inst->is(CoreInst::load | CoreInst::store)) {
        const SymbolicValue address = registers_.address(*at->inst, part, says);
        tell(address.root, static_cast<std::int64_t>(at->addr) - address.number);
      }
      if (at->inst->serializes()) break;
      registers_.run(*at->inst, part, says);
    }
  }
  // What registers hold behind `row`: from the accesses by them and the numbers that they are told
  // before.
  void look_before(const CoreRow& row, const RowsAround& around) {
    held_.clear();
    const auto forget = [this](std::uint16_t r) {
      std::erase_if(held_, [r](const Held& h) { return h.in == r; });
    };
    const auto hold = [&](std::uint16_t r, std::int64_t value) {
      forget(r);
      held_.push_back({r, value});
    };
    around.each_before(row, [&](const CoreRow& at) {
      if (at.inst->serializes()) {
        held_.clear();
        return;
      }
      const RegisterValue& says = code_.value(code_.number(*at.inst));
      const std::span<const std::uint16_t> written = at.inst->written();
      for (const std::uint16_t r : written) {
        if (says.kind == RegisterValue::constant) {
          hold(r, says.number);
        } else if (says.kind == RegisterValue::sum && says.base == r) {
          for (Held& h : held_)
            if (h.in == r) h.value += says.number;
        } else {
          forget(r);
        }
      }
      if (says.kind == RegisterValue::access &&
          std::ranges::find(written, says.base) == written.end())
        hold(says.base, static_cast<std::int64_t>(at.addr) - says.number);
    });
    for (const Held& h : held_) tell(h.in + std::uint64_t{1}, h.value);
  }

  const CodeMap& code_;
  std::span<const CoreRow> rows_;
  std::vector<std::uint32_t> looked_;  // by row: 1 + its place in told_, once it was
  std::vector<Told> told_;
  std::vector<std::uint64_t> roots_;
  std::vector<std::int64_t> values_;
  SymbolicRegisters registers_;
  struct Held {
    std::uint16_t in;
    std::int64_t value;
  };
  std::vector<Held> held_;
  std::size_t from_{};  // what is told of the row that is looked around
};

}  // namespace tracekit
