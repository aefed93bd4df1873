// Stores of a wrong path, and which of its loads run before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cycle.hpp"

namespace tracekit {

class WrongPathStores {
 public:
  struct Store {
    std::uint64_t pc;
    Cycle issued;
    int set;  // StoreSets::no_set: none
    // Of 16 bytes, which gem5 tells apart; without any where nobody knows where it goes.
    std::uint64_t block{1}, last_block{0};
  };
  void begin() { stores_.clear(); }
  void put(const Store& store) {
    if (stores_.size() < most) stores_.push_back(store);
  }
  // When the set's last one issues; `none` if there is none.
  Cycle last_of(int set, Cycle none) const {
    for (std::size_t k = stores_.size(); k-- > 0;)
      if (stores_[k].set == set) return stores_[k].issued;
    return none;
  }
  // The first of those before a load, to what it reads, that issues behind it.
  const Store* passed(std::uint64_t address, unsigned bytes, Cycle issued) const {
    const Store* found = nullptr;
    const std::uint64_t block = address >> 4, last_block = (address + bytes - 1) >> 4;
    for (const Store& s : stores_)
      if (s.block <= last_block && block <= s.last_block && s.issued > issued &&
          (!found || s.issued < found->issued))
        found = &s;
    return found;
  }

 private:
  static constexpr std::size_t most = 64;
  std::vector<Store> stores_;
};

}  // namespace tracekit
