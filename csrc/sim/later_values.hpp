// When values of rows behind the walked one will be there.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/core_inst.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

class LaterValues {
 public:
  // Nothing is known of later rows.
  void begin() { ++turn_; }
  // A wrong path ends, and what it has written is forgotten.
  void end_wrong_path() {
    for (; !before_.empty(); before_.pop_back()) of_[before_.back().first] = before_.back().second;
  }
  template <bool Wrong>  // of a wrong path
  void put(const CoreInst& inst, Cycle there) {
    for (const std::uint16_t r : inst.written()) {
      if constexpr (Wrong) before_.emplace_back(r, of_[r]);
      of_[r] = {turn_, there};
    }
  }
  // Of a register, where a later row writes it; else `before`.
  Cycle at(std::uint16_t r, Cycle before) const {
    return of_[r].turn == turn_ ? of_[r].there : before;
  }

 private:
  struct Value {
    std::uint64_t turn;
    Cycle there;
  };
  std::uint64_t turn_{};
  std::vector<Value> of_ = std::vector<Value>(CoreInst::all_registers);
  std::vector<std::pair<std::uint16_t, Value>> before_;  // what the wrong path has written
};

}  // namespace tracekit
