#include "sim/cache.hpp"

namespace tracekit {

warm::CacheShape Cache::shape(int kb, int ways) {
  const std::size_t lines = static_cast<std::size_t>(kb) * 1024 >> line_bits;
  const auto in_set = static_cast<std::size_t>(ways);
  return {std::max<std::size_t>(1, lines / in_set), in_set};
}

Cache::Cache(int kb, int ways, int policy)
    : ways_(shape(kb, ways).ways), sets_(shape(kb, ways).sets), in_sets_(sets_) {
  way_.resize(sets_ * ways_);
  policy_ = make_replacement(policy, sets_, ways_);
}

Cache::Way* Cache::find_in(Way* s, std::uint64_t line) {
  for (std::size_t i = 0; i < ways_; ++i) {
    if (s[i].line != line) continue;
    if (policy_) {
      policy_->touch(set_of(line), i, false);
      return s + i;
    }
    to_front(s, i, Way{s[i]});
    return s;
  }
  return nullptr;
}

bool Cache::has(std::uint64_t line) {
  const Way* s = set(line);
  return std::any_of(s, s + ways_, [line](const Way& w) { return w.line == line; });
}

std::uint64_t Cache::put(const Way& way) {
  Way* s = set(way.line);
  if (policy_) {
    const auto* free = std::find_if(s, s + ways_, [](const Way& w) { return w.line == no_line; });
    const std::size_t i =
        free == s + ways_ ? policy_->victim(set_of(way.line)) : static_cast<std::size_t>(free - s);
    const Way gone = s[i];
    s[i] = way;
    policy_->touch(set_of(way.line), i, true);
    return gone.dirty ? gone.line : no_line;
  }
  const Way gone = s[ways_ - 1];
  to_front(s, ways_ - 1, way);
  return gone.dirty ? gone.line : no_line;
}

void Cache::restore(std::shared_ptr<const warm::CacheContents> contents, std::uint32_t above) {
  restored_ = std::move(contents);
  dirty_above_ = above;
  filled_.assign(sets_, 0);
}

void Cache::restore(const Cache& other) {
  restored_.reset();
  way_ = other.way_;
  for (Way& w : way_) w.ready = 0;
  if (policy_) policy_ = other.policy_->clone();
}

void Cache::fill(std::size_t set) {
  filled_[set] = 1;
  const auto lines = restored_->set(set);
  const std::uint32_t own = size_bit();
  Way* const s = &way_[set * ways_];
  for (std::size_t i = ways_; i-- > 0;) {  // the latest one last, as a policy would have met them
    s[i] = {};
    if (i >= lines.size()) continue;
    s[i].line = lines[i].line;
    s[i].dirty = lines[i].dirty_in(own, dirty_above_);
    if (policy_) policy_->touch(set, i, true);
  }
}

}  // namespace tracekit
