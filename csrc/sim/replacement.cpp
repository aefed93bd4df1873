#include "sim/replacement.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "sim/plugins.hpp"

namespace tracekit {
namespace {

// A binary tree of bits over the ways (rounded up to a power of two), each pointing to the half
// used longer ago; ways that are not there are never pointed to.
class TreePlru : public Replacement {
 public:
  TreePlru(std::size_t sets, std::size_t ways)
      : ways_(ways), leaves_(std::bit_ceil(ways)), bits_(sets * leaves_) {}
  void touch(std::size_t set, std::size_t way, bool) override {
    std::uint8_t* tree = &bits_[set * leaves_];
    for (std::size_t node = leaves_ + way; node > 1; node /= 2)
      tree[node / 2] = node % 2 == 0;  // the other half goes first
  }
  std::size_t victim(std::size_t set) override {
    const std::uint8_t* tree = &bits_[set * leaves_];
    std::size_t node = 1, first = 0, size = leaves_;
    while (node < leaves_) {
      size /= 2;
      const bool right = tree[node] && first + size < ways_;
      node = 2 * node + right;
      first += right ? size : 0;
    }
    return first;
  }
  std::unique_ptr<Replacement> clone() const override { return std::make_unique<TreePlru>(*this); }

 private:
  std::size_t ways_, leaves_;
  std::vector<std::uint8_t> bits_;
};

// Static re-reference interval prediction with two bits (Jaleel et al., ISCA 2010): a new line is
// expected in a long time, a line that was hit at once.
class Srrip : public Replacement {
 public:
  Srrip(std::size_t sets, std::size_t ways) : ways_(ways), value_(sets * ways, distant) {}
  void touch(std::size_t set, std::size_t way, bool filled) override {
    value_[set * ways_ + way] = filled ? std::uint8_t{distant - 1} : std::uint8_t{0};
  }
  std::size_t victim(std::size_t set) override {
    std::uint8_t* v = &value_[set * ways_];
    const int older = distant - *std::max_element(v, v + ways_);
    std::for_each(v, v + ways_,
                  [older](std::uint8_t& x) { x = static_cast<std::uint8_t>(x + older); });
    return static_cast<std::size_t>(std::find(v, v + ways_, distant) - v);
  }
  std::unique_ptr<Replacement> clone() const override { return std::make_unique<Srrip>(*this); }

 private:
  static constexpr std::uint8_t distant = 3;
  std::size_t ways_;
  std::vector<std::uint8_t> value_;
};

// A way drawn by xorshift64, the same ones in every run.
class Random : public Replacement {
 public:
  explicit Random(std::size_t ways) : ways_(ways) {}
  void touch(std::size_t, std::size_t, bool) override {}
  std::size_t victim(std::size_t) override {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % ways_;
  }
  std::unique_ptr<Replacement> clone() const override { return std::make_unique<Random>(*this); }

 private:
  std::size_t ways_;
  std::uint64_t state_{88172645463325252ULL};
};

class Plugged : public Replacement {
 public:
  Plugged(plugin::Entry& entry, std::size_t sets, std::size_t ways)
      : entry_(entry),
        of_(entry.replacement),
        ways_(static_cast<std::int64_t>(ways)),
        state_(entry, entry.state_bytes, sets) {}
  void touch(std::size_t set, std::size_t way, bool filled) override {
    of_.touch(state_.at(set), static_cast<std::int64_t>(way), ways_, filled);
  }
  std::size_t victim(std::size_t set) override {
    const std::int64_t way = of_.victim(state_.at(set), ways_);
    state_.check();
    if (way >= 0 && way < ways_) return static_cast<std::size_t>(way);
    entry_.wrong = "named a way that a set does not have";
    return 0;
  }
  std::unique_ptr<Replacement> clone() const override { return std::make_unique<Plugged>(*this); }

 private:
  plugin::Entry& entry_;
  const tracekit_replacement of_;
  std::int64_t ways_;
  plugin::State state_;
};

}  // namespace

std::unique_ptr<Replacement> make_replacement(int kind, std::size_t sets, std::size_t ways) {
  switch (kind) {
    case replacement::lru:
      return nullptr;
    case replacement::tree_plru:
      return std::make_unique<TreePlru>(sets, ways);
    case replacement::srrip:
      return std::make_unique<Srrip>(sets, ways);
    case replacement::random:
      return std::make_unique<Random>(ways);
    default:
      break;
  }
  if (auto* entry = plugin::find(static_cast<unsigned>(kind), plugin::Part::replacement))
    return std::make_unique<Plugged>(*entry, sets, ways);
  throw std::invalid_argument("no such replacement policy");
}

}  // namespace tracekit
