// Memory dependences: which store a load has to wait for (store sets, Chrysos and Emer 1998, with
// the sizes and the granularity of gem5's O3 core).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cache_model.hpp"

namespace tracekit {

class StoreSets {
 public:
  static constexpr int no_set = -1;
  static constexpr std::uint64_t never = 1 << 20;
  struct Last {
    Cycle issue{-1}, done{-1};
    std::uint64_t row{};
    std::uint64_t store_distance{never},
        store_distance_before{never};  // rows from the store before
    // By which row another store of the set is likely.
    std::uint64_t next() const { return row + std::max(store_distance, store_distance_before); }
  };
  // The set of a memory instruction; sets are forgotten every 250,000 of them.
  int of(std::uint64_t pc) {
    if (++seen_ > 250'000) {
      seen_ = 0;
      std::fill(set_.begin(), set_.end(), std::int16_t{no_set});
      std::fill(last_.begin(), last_.end(), Last{});
    }
    return now(pc);
  }
  int now(std::uint64_t pc) const { return set_[slot(pc)]; }
  const Last& last_store(int set) const { return last_[static_cast<std::size_t>(set)]; }
  void put(int set, Cycle issue, Cycle done, std::uint64_t row) {
    Last& l = last_[static_cast<std::size_t>(set)];
    l = {issue, done, row, l.issue < 0 ? never : row - l.row, l.store_distance};
  }
  void violation(std::uint64_t store_pc, std::uint64_t load_pc) {
    std::int16_t &load = set_[slot(load_pc)], &store = set_[slot(store_pc)];
    if (load < 0 && store < 0)
      load = store = static_cast<std::int16_t>((load_pc ^ (load_pc >> 10)) & (size - 1));
    else if (load < 0)
      load = store;
    else if (store < 0)
      store = load;
    else
      load = store = std::min(load, store);
  }

 private:
  static constexpr std::size_t size = 1024;
  static std::size_t slot(std::uint64_t pc) { return pc >> 2 & (size - 1); }
  std::vector<std::int16_t> set_ = std::vector<std::int16_t>(size, std::int16_t{no_set});
  std::vector<Last> last_ = std::vector<Last>(size);
  std::size_t seen_{};
};

// The last store to each 4-byte word (for forwarding) and the last ones to each 16-byte block (for
// the order check).
class StoreBuffer {
 public:
  struct Store {
    std::uint64_t address{no_line};
    std::uint32_t bytes : 31 {};
    bool masked : 1 {};      // not all of these bytes: it forwards none (gem5's LSQUnit::read)
    Cycle issued{}, sent{};  // when a load no longer finds it here
    std::uint64_t row{};
    bool covers(std::uint64_t at, unsigned n) const {
      return !masked && address <= at && at + n <= address + bytes;
    }
    bool touches(std::uint64_t at, unsigned n) const {
      return address < at + n && at < address + bytes;
    }
  };
  struct Executed {
    Cycle issued{-1};
    std::uint64_t pc{}, row{};
  };
  // The last store that wrote any of these bytes; null where it is forgotten or there was none.
  const Store* last(std::uint64_t address, unsigned bytes) const {
    const Store* found = nullptr;
    for (std::uint64_t w = address >> 2; w <= (address + bytes - 1) >> 2; ++w) {
      const Store& s = word_[w & (size - 1)];
      if (s.touches(address, bytes) && (!found || s.row > found->row)) found = &s;
    }
    return found;
  }
  // Of the stores from row `from` on to the blocks of these bytes that issue after a load does, the
  // one that executes first: it finds the load, which has run too early.
  const Executed* passed(std::uint64_t address, unsigned bytes, Cycle issued,
                         std::uint64_t from) const {
    const Executed* found = nullptr;
    for (std::uint64_t b = address >> 4; b <= (address + bytes - 1) >> 4; ++b) {
      const Block& block = block_[b & (size - 1)];
      if (block.number != b) continue;
      for (const Executed& s : block.last)
        if (s.issued > issued && s.row >= from && (!found || s.issued < found->issued)) found = &s;
    }
    return found;
  }
  void put(std::uint64_t address, unsigned bytes, Cycle issued, Cycle sent, std::uint64_t pc,
           std::uint64_t row, bool masked) {
    const unsigned n = std::clamp(bytes, 1u, 64u);
    const std::uint64_t last = address + n - 1;
    for (std::uint64_t w = address >> 2; w <= last >> 2; ++w)
      word_[w & (size - 1)] = {address, n, masked, issued, sent, row};
    put_block(address >> 4, {issued, pc, row});
    if (last >> 4 != address >> 4) put_block(last >> 4, {issued, pc, row});
  }

 private:
  static constexpr std::size_t size = 4096, kept = 4;
  struct Block {
    std::uint64_t number{no_line};
    std::size_t next{};
    std::array<Executed, kept> last{};
  };
  void put_block(std::uint64_t number, const Executed& s) {
    Block& b = block_[number & (size - 1)];
    if (b.number != number) b = {number, 0, {}};
    b.last[b.next] = s;
    b.next = (b.next + 1) % kept;
  }
  std::vector<Store> word_ = std::vector<Store>(size);
  std::vector<Block> block_ = std::vector<Block>(size);
};

}  // namespace tracekit
