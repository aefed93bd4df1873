#include "features/stack_distance.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tracekit {

StackDistance::StackDistance(const Options& options)
    : tree_(std::max<std::uint64_t>(options.first_stamps, 1)),
      end_(static_cast<std::uint32_t>(tree_.positions())),
      line_shift_(options.line_shift),
      stamps_per_line_(std::max(options.stamps_per_line, 2U)),
      kernel_(nullptr) {}

std::uint32_t StackDistance::access_new(std::uint64_t line) {
  if (now_ == end_) compact();
  *table_.find_or_insert(line, live_) = now_++;
  ++live_;
  return cold;
}

void StackDistance::compact() {
  // Looking through the table must stay cheap against the accesses between two compactions.
  const std::uint64_t want =
      std::max((std::uint64_t{live_} + 1) * stamps_per_line_, std::uint64_t{table_.places()} / 4);
  RankTree next;  // made before anything changes: memory may run out
  const bool grow = want > tree_.positions() && tree_.positions() < RankTree::most_positions;
  if (grow) next.resize(std::min(std::max(want, 2 * tree_.positions()), RankTree::most_positions));
  if (!grow && live_ + first_stamp >= tree_.positions())
    throw std::length_error("stack distance: more than 1e9 distinct lines");
  table_.each_array([this](std::uint32_t* stamps, std::size_t n, std::size_t stride) {
    for (std::size_t i = 0; i < n; ++i)
      if (std::uint32_t& s = stamps[i * stride]) s = tree_.rank(s);
  });
  if (grow)
    tree_ = std::move(next);
  else
    tree_.set_all();
  now_ = live_ + first_stamp;
  end_ = static_cast<std::uint32_t>(tree_.positions());
}

void StackDistance::access_batch(const std::uint64_t* addresses, std::size_t n,
                                 std::uint32_t* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = access(addresses[i]);
}

void StackDistance::access_batch(const std::uint64_t* addresses, const std::uint8_t* updates,
                                 std::size_t n, std::uint32_t* out) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = updates[i] ? access(addresses[i]) : peek(addresses[i]);
}

}  // namespace tracekit
