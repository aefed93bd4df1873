// From a pc to what stands there: decoded once for each pc and content, over all epochs, and
// compared with memory again only where it may have changed (a new epoch, a store to that page, a
// changed mapping).
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/common/native_batch.hpp"
#include "record/operands.hpp"

namespace tracekit::record {

// Decodes the instruction at the start of up to 15 bytes; a recipe of length 0 = not an
// instruction.
using Decode = std::function<Recipe(std::uint64_t pc, std::string_view bytes)>;

class CodeCache {
 public:
  explicit CodeCache(Decode decode) : decode_(std::move(decode)), slots_(1 << 12) {}

  struct Entry {
    std::uint64_t pc{};
    std::uint32_t generation{};  // of the slot's content; 0 = empty
    std::uint32_t encoding{};
    const Recipe* recipe{};
  };

  // Nothing where no code can be read or decoded at `pc`.
  const Entry* find(pid_t pid, std::uint64_t pc) {
    Entry& e = slots_[slot(pc)];
    if (e.pc == pc && e.generation == generation_) return &e;
    return load(pid, pc);
  }
  // Memory may have changed anywhere.
  void forget();
  // `size` bytes at `address` are about to be written.
  void wrote(std::uint64_t address, std::uint64_t size) {
    const std::uint64_t last = (address + (size ? size - 1 : 0)) >> 12;
    for (std::uint64_t page = address >> 12; page <= last; ++page) {
      if (!maybe_code(page)) continue;
      if (pages_.contains(page)) return forget();
    }
  }
  const EncodingTable& encodings() const { return encodings_; }

 private:
  using Page = std::array<std::uint8_t, 4096>;

  std::size_t slot(std::uint64_t pc) const {
    return static_cast<std::size_t>((pc * 0x9e3779b97f4a7c15ULL) >> 32) & (slots_.size() - 1);
  }
  bool maybe_code(std::uint64_t page) const { return filter_[page & (filter_.size() - 1)]; }
  const Entry* load(pid_t pid, std::uint64_t pc);
  const Page* page(pid_t pid, std::uint64_t number);

  Decode decode_;
  EncodingTable encodings_;
  std::deque<Recipe> recipes_;  // by encoding
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_pc_;
  std::vector<Entry> slots_;  // direct-mapped
  std::uint32_t generation_{1};
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::array<bool, 4096>
      filter_{};  // pages that hold code, by their low bits: most stores stop here
};

}  // namespace tracekit::record
#endif
