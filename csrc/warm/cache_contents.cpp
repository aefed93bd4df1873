#include "warm/cache_contents.hpp"

#include <algorithm>
#include <bit>

namespace tracekit::warm {
namespace {

// A program whose lines leave some sets empty would be walked to its first line: sets that are not
// full after so many times the cache's lines stay so.
constexpr std::size_t patience = 32;

std::size_t nearest_first(std::size_t lines) {
  const int log = std::bit_width(size_bit(lines)) - 1;
  return static_cast<std::size_t>(
      std::clamp(log - static_cast<int>(first_size), 0, static_cast<int>(first_sizes) - 1));
}

}  // namespace

CacheContents::CacheContents(std::size_t sets, std::size_t ways, const LineHistory& history)
    : sets_(sets), ways_(ways), open_(sets), line_(sets * ways), held_(sets), closed_(sets) {
  std::size_t left = patience * sets * ways;
  for (auto c = history.latest(); open_ && left && !c.ends(); c.next(), --left) put(c, c.stamp());
}

CacheContents::CacheContents(std::size_t sets, std::size_t ways, const LineHistory& code,
                             std::size_t code_lines, const LineHistory& data,
                             std::size_t data_lines)
    : sets_(sets), ways_(ways), open_(sets), line_(sets * ways), held_(sets), closed_(sets) {
  const std::size_t code_size = nearest_first(code_lines), data_size = nearest_first(data_lines);
  auto a = code.latest(), b = data.latest();
  for (std::size_t left = patience * sets * ways; open_ && left && !(a.ends() && b.ends());
       --left) {
    const bool from_code = b.ends() || (!a.ends() && a.stamp() > b.stamp());
    auto& c = from_code ? a : b;
    put(c, c.asked(from_code ? code_size : data_size));
    c.next();
  }
}

void CacheContents::put(const LineHistory::Cursor& c, std::uint64_t asked) {
  const std::uint64_t line = c.line();
  const std::size_t set = line % sets_;
  if (closed_[set]) return;
  HeldLine* const first = &line_[set * ways_];
  std::uint8_t& held = held_[set];
  // Lines come by their last use: no later one was asked for after this.
  if (held == ways_ && first[held - 1].asked >= c.stamp()) {
    closed_[set] = 1;
    --open_;
    return;
  }
  HeldLine own{line, asked, c.written(), c.dirty()};
  HeldLine* at =
      std::find_if(first, first + held, [&](const HeldLine& h) { return h.line == line; });
  if (at != first + held) {  // code that is data, too
    own.asked = std::max(own.asked, at->asked);
    own.written |= at->written;
    own.dirty |= at->dirty;
    std::move(at + 1, first + held, at);
    --held;
  }
  at = std::find_if(first, first + held, [&](const HeldLine& h) { return h.asked < own.asked; });
  if (at == first + ways_) return;
  if (held < ways_) ++held;
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

std::shared_ptr<const CacheContents> ContentsByShape::first(std::size_t sets, std::size_t ways,
                                                            bool code) {
  return once({sets, ways, code, 0}, [&] {
    return std::make_shared<const CacheContents>(sets, ways, code ? code_ : data_);
  });
}

std::shared_ptr<const CacheContents> ContentsByShape::behind(std::size_t sets, std::size_t ways,
                                                             std::size_t code_lines,
                                                             std::size_t data_lines) {
  return once({sets, ways, 2 + size_bit(code_lines), size_bit(data_lines)}, [&] {
    return std::make_shared<const CacheContents>(sets, ways, code_, code_lines, data_, data_lines);
  });
}

}  // namespace tracekit::warm
