// Stores in flight, and which of them a load of the same bytes takes its data from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hardware/op.hpp"
#include "sim/cycle.hpp"

namespace tracekit::hardware {

class StoreBuffer {
 public:
  struct Store {
    std::uint64_t address{};
    unsigned size{};
    Cycle known{};               // when its address is
    Cycle data{};                // when its data is there
    Cycle written{};             // when it has left for the data cache
    std::uint64_t expression{};  // of its address: registers and their versions, 0 for none
  };
  enum class Match : std::uint8_t { none, whole, part };
  struct Found {
    Match match{Match::none};
    const Store* store{};      // the youngest that has some of the bytes
    std::uint64_t distance{};  // stores since, and itself
  };

  // The stores follow each other in the program's order.
  void put(const Store& s) {
    const std::uint64_t number = ++count_;
    store_[number & (kept - 1)] = s;
    const std::uint64_t last = (s.address + std::max(1U, s.size) - 1) / grain;
    for (std::uint64_t g = s.address / grain; g <= last; ++g) {
      grain_[g & (grains - 1)] = {g, number};
      alias_[g & (aliases - 1)] = {g, number};
    }
  }
  // The youngest store with these low 12 bits of a load's address where it is to another one, and
  // not written at `at`; else null.
  const Store* aliased(std::uint64_t address, Cycle at) const {
    const std::uint64_t g = address / grain;
    const Grain& known = alias_[g & (aliases - 1)];
    if (known.number == 0 || known.grain == g || count_ - known.number >= kept) return nullptr;
    const Store& s = store_[known.number & (kept - 1)];
    return s.written > at ? &s : nullptr;
  }
  // Of a load at `at`: stores that were written before are none of them.
  Found find(std::uint64_t address, unsigned size, Cycle at) const {
    const std::uint64_t end = address + std::max(1U, size);
    std::uint64_t youngest = 0, oldest = ~std::uint64_t{0};
    bool hole = false;
    for (std::uint64_t g = address / grain; g <= (end - 1) / grain; ++g) {
      const Grain& known = grain_[g & (grains - 1)];
      if (known.number == 0 || known.grain != g || count_ - known.number >= kept) {
        hole = true;
        continue;
      }
      const Store& s = store_[known.number & (kept - 1)];
      if (s.written <= at || s.address >= end || s.address + s.size <= address) {
        hole = true;
        continue;
      }
      youngest = std::max(youngest, known.number);
      oldest = std::min(oldest, known.number);
    }
    if (youngest == 0) return {};
    const Store& s = store_[youngest & (kept - 1)];
    const bool whole = !hole && youngest == oldest && s.address <= address &&
                       end <= s.address + std::max(1U, s.size);
    return {whole ? Match::whole : Match::part, &s, count_ + 1 - youngest};
  }

 private:
  static constexpr std::size_t kept = 1024, grains = 8192, aliases = 1024;
  static constexpr std::uint64_t grain = 4;  // bytes: one store is known of each
  struct Grain {
    std::uint64_t grain{}, number{};
  };
  std::vector<Store> store_ = std::vector<Store>(kept);
  std::vector<Grain> grain_ = std::vector<Grain>(grains);
  std::vector<Grain> alias_ = std::vector<Grain>(aliases);
  std::uint64_t count_{};
};

}  // namespace tracekit::hardware
