// Which branches were mispredicted when they last ran.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tracekit {

class LastGuesses {
 public:
  bool wrong(std::uint64_t pc) const { return wrong_[of(pc)]; }
  void put(std::uint64_t pc, bool wrong) { wrong_[of(pc)] = wrong; }

 private:
  static constexpr std::size_t kept = 1024;
  static std::size_t of(std::uint64_t pc) { return pc >> 1 & (kept - 1); }
  std::array<bool, kept> wrong_{};
};

}  // namespace tracekit
