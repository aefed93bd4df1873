#include "warm/recent_lines.hpp"

namespace tracekit::warm {

RecentLines::RecentLines(const LineHistory& of) : of_(of), rest_(of) {
  for (const FirstCache& c : of.first_caches()) first_bit_.push_back(size_bit(c.shape().lines()));
}

const RecentLines::Block* RecentLines::block(std::size_t number) {
  const std::lock_guard hold(lock_);
  while (blocks_.size() <= number && !rest_.ends()) copy_block();
  return number < blocks_.size() ? blocks_[number].get() : nullptr;
}

void RecentLines::copy_block() {
  auto block = std::make_unique<Block>();
  for (; !rest_.ends() && block->line.size() < block_lines; rest_.next()) {
    block->line.push_back(rest_.line());
    const auto asked = rest_.asked();
    block->asked.insert(block->asked.end(), asked.begin(), asked.end());
  }
  blocks_.push_back(std::move(block));
}

}  // namespace tracekit::warm
