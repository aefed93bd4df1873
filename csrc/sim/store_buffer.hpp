// The stores that are in flight, by what they write: which one a load gets its bytes from, and
// which one finds that a load has run too early.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/cycle.hpp"
#include "sim/ring.hpp"

namespace tracekit {

// The last store to each 4-byte word (for forwarding) and the last ones to each 16-byte block (for
// the order check).  Tables have their numbers alone: few of many stores are in flight, and those
// lie side by side.
class StoreBuffer {
 public:
  static constexpr Cycle not_sent = std::numeric_limits<Cycle>::max();
  struct Store {
    std::uint64_t address{no_line};
    std::uint32_t bytes : 31 {};
    bool masked : 1 {};  // not all of these bytes: it forwards none (gem5's LSQUnit::read)
    Cycle issued{};
    Cycle sent{not_sent};  // to the cache: a load no longer finds it here then
    bool covers(std::uint64_t at, unsigned n) const {
      return !masked && address <= at && at + n <= address + bytes;
    }
    bool touches(std::uint64_t at, unsigned n) const {
      return address < at + n && at < address + bytes;
    }
  };
  struct Executed {
    std::uint64_t block{no_line};
    Cycle issued{-1};
    std::uint64_t pc{}, row{};
    std::uint32_t store{};   // its number
    std::uint32_t before{};  // the one to the same block before it
  };
  // Of cores with a reorder buffer of `rob` rows and `sq` stores: what is older no load asks for.
  StoreBuffer(int rob, int sq)
      : store_(static_cast<std::size_t>(sq) + 1),
        kept_stores_(static_cast<std::uint32_t>(sq) + 1),
        executed_(2 * static_cast<std::size_t>(rob) + 2),
        kept_executed_(2 * static_cast<std::uint32_t>(rob) + 2) {}

  // Of the stores to any of these bytes, whose last one is `s`, the last that has issued by
  // `issued`; null where it is forgotten or there was none.
  const Store* met(const Store* s, std::uint64_t address, unsigned bytes, Cycle issued) const {
    return !s || s->issued <= issued ? s : met_before(address, bytes, issued);
  }
  // The last store that wrote any of these bytes.
  const Store* last(std::uint64_t address, unsigned bytes) const {
    std::uint32_t found = 0;
    for (std::uint64_t w = address >> 2; w <= (address + bytes - 1) >> 2; ++w) {
      const std::uint32_t number = word_[w & (size - 1)];
      if (stores_ - number < kept_stores_ && (found == 0 || stores_ - number < stores_ - found) &&
          number != 0 && store_[number].touches(address, bytes))
        found = number;
    }
    return found == 0 ? nullptr : &store_[found];
  }
  // Of the stores from row `from` on to the blocks of these bytes that issue after a load does, the
  // one that executes first: it finds the load, which has run too early.
  const Executed* passed(std::uint64_t address, unsigned bytes, Cycle issued,
                         std::uint64_t from) const {
    const Executed* found = nullptr;
    if (latest_ <= issued) return found;
    for (std::uint64_t b = address >> 4; b <= (address + bytes - 1) >> 4; ++b) {
      const Executed* first = nullptr;  // of two that issue together the older one
      std::uint32_t number = block_[b & (size - 1)];
      for (std::size_t n = kept; n > 0 && known(number); --n) {
        const Executed& s = executed_[number];
        if (s.block != b || s.row < from) break;
        if (s.issued > issued && (!first || s.issued <= first->issued)) first = &s;
        number = s.before;
      }
      if (first && (!found || first->issued < found->issued)) found = first;
    }
    return found;
  }
  // Its number, to say later when it was `sent`.
  std::uint32_t put(std::uint64_t address, unsigned bytes, Cycle issued, std::uint64_t pc,
                    std::uint64_t row, bool masked) {
    const std::uint64_t last = address + bytes - 1;
    if (++stores_ == 0) ++stores_;  // none has no number
    store_[stores_] = {address, bytes, masked, issued, not_sent};
    for (std::uint64_t w = address >> 2; w <= last >> 2; ++w) word_[w & (size - 1)] = stores_;
    latest_ = std::max(latest_, issued);
    put_block({address >> 4, issued, pc, row, stores_});
    if (last >> 4 != address >> 4) put_block({last >> 4, issued, pc, row, stores_});
    return stores_;
  }
  void sent(std::uint32_t number, Cycle at) { store_[number].sent = at; }

 private:
  static constexpr std::size_t size = 4096, kept = 4;
  bool known(std::uint32_t number) const {
    return number != 0 && executes_ - number < kept_executed_;
  }
  const Store* met_before(std::uint64_t address, unsigned bytes, Cycle issued) const {
    std::uint32_t found = 0;
    for (std::uint64_t b = address >> 4; b <= (address + bytes - 1) >> 4; ++b) {
      std::uint32_t number = block_[b & (size - 1)];
      for (std::size_t n = kept; n > 0 && known(number); --n) {
        const Executed& s = executed_[number];
        if (s.block != b || stores_ - s.store >= kept_stores_) break;
        if (s.issued <= issued && store_[s.store].touches(address, bytes)) {
          if (found == 0 || stores_ - s.store < stores_ - found) found = s.store;
          break;
        }
        number = s.before;
      }
    }
    return found == 0 ? nullptr : &store_[found];
  }
  void put_block(Executed s) {
    std::uint32_t& number = block_[s.block & (size - 1)];
    if (known(number) && executed_[number].block == s.block) s.before = number;
    if (++executes_ == 0) ++executes_;
    executed_[number = executes_] = s;
  }
  std::vector<std::uint32_t> word_ = std::vector<std::uint32_t>(size);
  std::vector<std::uint32_t> block_ = std::vector<std::uint32_t>(size);
  Ring<Store> store_;
  std::uint32_t stores_{}, kept_stores_;
  Ring<Executed> executed_;
  std::uint32_t executes_{}, kept_executed_;
  Cycle latest_{-1};  // that any of them issued
};

}  // namespace tracekit
