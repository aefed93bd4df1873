// The lines of an O3PipeView block, recognised as a whole.
//
// Where every stage up to `complete` was reached and the ticks are as long as that of the fetch and
// share all but its last eight digits, as they nearly always do, these lines are a constant text
// with digits at known places: one comparison under a mask, and five numbers that wait for nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/row_batch.hpp"
#include "formats/common/scan.hpp"
#include "formats/gem5_text/same_bytes.hpp"

namespace tracekit {

class BlockShape {
 public:
  // Bytes that `read` may look at.
  static constexpr std::size_t max_size = 256;

  // For ticks near the one in [p, end), which has 8 to 16 digits.  base: its value without the last
  // eight.
  void set(const char* p, const char* end, std::uint64_t base) {
    const auto width = static_cast<std::size_t>(end - p);
    base_ = base;
    std::memset(text_, 0, sizeof text_);
    std::memset(mask_, 0, sizeof mask_);
    std::size_t n = 0;
    const auto constant = [&](std::string_view s) {
      std::memcpy(text_ + n, s.data(), s.size());
      std::memset(mask_ + n, 0xff, s.size());
      n += s.size();
    };
    static constexpr std::string_view names[stages] = {
        "O3PipeView:decode:", "O3PipeView:rename:", "O3PipeView:dispatch:", "O3PipeView:issue:",
        "O3PipeView:complete:"};
    for (unsigned s = 0; s < stages; ++s) {
      constant(names[s]);
      constant({p, width - 8});
      at_[s] = n;
      n += 8;
      constant("\n");
    }
    constant("O3PipeView:retire:");
    size_ = n;
    vectors_ = (n + 15) / 16;
  }

  // The lines of `decode` to `complete` at q, and the name of `retire` behind them: their ticks and
  // the first byte behind, or nullptr where the lines are others.
  const char* read(const char* q, std::uint64_t (&tick)[stage::count]) const {
    using namespace bytes16;
    if (vectors_ == 0) return nullptr;
    Vec differs{};
    for (std::size_t i = 0; i < 16 * vectors_; i += 16)
      differs |= (load(q + i) ^ load(text_ + i)) & load(mask_ + i);
    std::uint64_t x[stages], bad = 0;
    for (unsigned s = 0; s < stages; ++s) {
      x[s] = scan::load8(q + at_[s]) ^ scan::zeros;
      bad |= scan::no_digits(x[s]);
    }
    if (any(differs) || bad) return nullptr;
    for (unsigned s = 0; s < stages; ++s)
      tick[stage::decode + s] = base_ + scan::eight_digits(x[s]);
    return q + size_;
  }

 private:
  static constexpr unsigned stages = stage::complete - stage::decode + 1;
  alignas(16) char text_[max_size];
  alignas(16) char mask_[max_size];
  std::size_t size_{}, vectors_{};
  std::size_t at_[stages]{};
  std::uint64_t base_{};
};

}  // namespace tracekit
