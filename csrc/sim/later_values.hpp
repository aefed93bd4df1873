// When values of rows behind the walked one will be there.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/core_inst.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

class LaterValues {
 public:
  // Nothing is known of later rows.
  void begin() {
    ++turn_;
    end_wrong_way();
  }
  // What comes is of a wrong way, until that ends and is forgotten.
  void begin_wrong_way() { wrong_ = true; }
  void end_wrong_way() {
    wrong_ = false;
    ++way_;
  }
  void put(const CoreInst& inst, Cycle there) {
    for (const std::uint16_t r : inst.written()) {
      if (wrong_)
        of_[r].wrong = {way_, there};
      else
        of_[r].right = {turn_, there};
    }
  }
  // Of a register, where a later row writes it; else `before`.
  Cycle at(std::uint16_t r, Cycle before) const {
    if (of_[r].wrong.turn == way_) return of_[r].wrong.there;
    return of_[r].right.turn == turn_ ? of_[r].right.there : before;
  }

 private:
  struct Value {
    std::uint64_t turn;
    Cycle there;
  };
  struct Values {
    Value right, wrong;
  };
  std::uint64_t turn_{}, way_{};
  bool wrong_{};
  std::vector<Values> of_ = std::vector<Values>(CoreInst::all_registers);
};

}  // namespace tracekit
