#include "warm/cache_contents.hpp"

#include <algorithm>

namespace tracekit::warm {
namespace {

// A program whose lines leave some sets empty would be walked to its first line: sets that are not
// full after so many times the cache's lines stay so.
constexpr std::size_t patience = 32;

}  // namespace

CacheContents::CacheContents(CacheShape shape, RecentLines& lines) : CacheContents(shape) {
  std::size_t left = patience * shape.lines();
  for (RecentLines::Cursor c(lines); open_ && left && !c.ends(); c.next(), --left)
    put(c.line(), c.line().stamp);
}

CacheContents::CacheContents(CacheShape shape, RecentLines& code, std::size_t code_first,
                             RecentLines& data, std::size_t data_first)
    : CacheContents(shape) {
  RecentLines::Cursor a(code), b(data);
  for (std::size_t left = patience * shape.lines(); open_ && left && !(a.ends() && b.ends());
       --left) {
    const bool from_code = b.ends() || (!a.ends() && a.line().stamp > b.line().stamp);
    auto& c = from_code ? a : b;
    put(c.line(), c.asked(from_code ? code_first : data_first));
    c.next();
  }
}

void CacheContents::put(const UsedLine& l, std::uint64_t asked) {
  const std::size_t set = l.line % shape_.sets, ways = shape_.ways;
  if (closed_[set]) return;
  HeldLine* const first = &line_[set * ways];
  std::uint8_t& held = held_[set];
  // Lines come by their last use: no later one was asked for after this.
  if (held == ways && first[held - 1].asked >= l.stamp) {
    closed_[set] = 1;
    --open_;
    return;
  }
  HeldLine own{l.line, asked, l.written, l.dirty};
  HeldLine* at =
      std::find_if(first, first + held, [&](const HeldLine& h) { return h.line == l.line; });
  if (at != first + held) {  // code that is data, too
    own.asked = std::max(own.asked, at->asked);
    own.written |= at->written;
    own.dirty |= at->dirty;
    std::move(at + 1, first + held, at);
    --held;
  }
  at = first + held;
  while (at != first && at[-1].asked < own.asked) --at;
  if (at == first + ways) return;
  if (held < ways) ++held;
  std::move_backward(at, first + held - 1, first + held);
  *at = own;
}

template <class Make>
std::shared_ptr<const CacheContents> ContentsByShape::once(const Key& key, const Make& make) {
  Found* found;
  {
    const std::lock_guard hold(lock_);
    found = &found_[key];
  }
  std::call_once(found->once, [&] { found->contents = make(); });
  return found->contents;
}

std::shared_ptr<const CacheContents> ContentsByShape::first(CacheShape shape, bool code) {
  return once({shape.sets, shape.ways, code, 0},
              [&] { return std::make_shared<const CacheContents>(shape, code ? code_ : data_); });
}

std::shared_ptr<const CacheContents> ContentsByShape::behind(CacheShape shape, CacheShape code,
                                                             CacheShape data) {
  const std::size_t c = code_.number_of(code), d = data_.number_of(data);
  return once({shape.sets, shape.ways, 2 + c, d},
              [&] { return std::make_shared<const CacheContents>(shape, code_, c, data_, d); });
}

}  // namespace tracekit::warm
