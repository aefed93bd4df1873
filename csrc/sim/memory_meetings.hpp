// Which loads read what a store has just written, of the pairs that some core has found in the
// wrong order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tracekit {

class MemoryMeetings {
 public:
  struct Pair {
    std::uint64_t store_pc{}, load_pc{};
    bool operator==(const Pair&) const = default;
  };
  struct PairHash {
    std::size_t operator()(const Pair& p) const {
      return static_cast<std::size_t>((p.store_pc * 3 + p.load_pc) * 0x9e3779b97f4a7c15u >> 16);
    }
  };
  // Stores until now.
  std::uint64_t counted() const { return stores_; }
  // From now on it is known when these two meet.
  void watch(const Pair& pair) {
    met_.try_emplace(pair);
    watched_[slot(pair.load_pc)] = true;
  }
  // A memory instruction more.
  void see(std::uint64_t pc, std::uint64_t address, bool reads, bool writes) {
    ++now_;
    if (reads) load(pc, address);
    if (writes) store(pc, address);
  }
  // Whether they have met when more than `since` stores were counted.
  bool met(const Pair& pair, std::uint64_t since) const {
    const auto found = met_.find(pair);
    return found != met_.end() && found->second > since;
  }

 private:
  void store(std::uint64_t pc, std::uint64_t address) {
    ++stores_;
    Written& w = written_[place(address)];
    if (w.place != address / grain) w = {address / grain};
    w.by[w.stores++ % kept] = {pc, now_};
  }
  void load(std::uint64_t pc, std::uint64_t address) {
    if (!watched_[slot(pc)]) return;
    const Written& w = written_[place(address)];
    if (w.place != address / grain) return;
    for (const auto& by : w.by) {
      if (now_ - by.at >= reach) continue;
      if (const auto found = met_.find({by.pc, pc}); found != met_.end()) found->second = stores_;
    }
  }

  // Bytes that gem5 tells apart (LSQUnit's depCheckShift), and how many memory instructions a
  // reorder buffer may hold.
  static constexpr std::uint64_t grain = 16, reach = 256;
  static constexpr std::size_t places = 4096, slots = 4096, kept = 4;
  static std::size_t place(std::uint64_t address) { return address / grain % places; }
  static std::size_t slot(std::uint64_t pc) { return pc % slots; }
  struct Written {
    struct By {
      std::uint64_t pc{}, at{};
    };
    std::uint64_t place{~std::uint64_t{0}};
    std::array<By, kept> by{};  // the last ones, from any of them on
    std::size_t stores{};
  };
  std::uint64_t now_{}, stores_{};  // memory instructions, and those of them that write
  std::vector<Written> written_ = std::vector<Written>(places);
  std::vector<std::uint8_t> watched_ = std::vector<std::uint8_t>(slots);  // by the load
  std::unordered_map<Pair, std::uint64_t, PairHash> met_;
};

}  // namespace tracekit
