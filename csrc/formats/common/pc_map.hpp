// pc -> what a stream last saw there: an open-addressing table that is looked up once an
// instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tracekit {

struct PcEntry {
  std::uint64_t pc{};
  std::uint32_t enc{};
  std::uint8_t length{};
  std::uint8_t kind{};  // the record type that interned it
  bool used{};
  bool fetched{};  // an instruction record, not only further iterations, stood at this pc
};
static_assert(sizeof(PcEntry) == 16);

class PcMap {
 public:
  PcMap() : slots_(1024) {}
  // The entry of this pc; `used` is false where it is new, and the caller then fills it in.
  PcEntry& at(std::uint64_t pc) {
    std::size_t i = slot(pc);
    while (slots_[i].used && slots_[i].pc != pc) i = (i + 1) & (slots_.size() - 1);
    if (!slots_[i].used && 4 * ++count_ > 3 * slots_.size()) {
      grow();
      --count_;
      return at(pc);
    }
    return slots_[i];
  }
  const std::vector<PcEntry>& slots() const { return slots_; }

 private:
  std::size_t slot(std::uint64_t pc) const {
    return static_cast<std::size_t>((pc * 0x9e3779b97f4a7c15ULL) >> 32) & (slots_.size() - 1);
  }
  void grow() {
    std::vector<PcEntry> old(slots_.size() * 2);
    old.swap(slots_);
    for (const PcEntry& e : old) {
      if (!e.used) continue;
      std::size_t i = slot(e.pc);
      while (slots_[i].used) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = e;
    }
  }
  std::vector<PcEntry> slots_;
  std::size_t count_{};
};

}  // namespace tracekit
