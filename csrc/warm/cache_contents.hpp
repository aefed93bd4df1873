// What a cache of some shape holds at a moment, from the lines' last uses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "warm/recent_lines.hpp"

namespace tracekit::warm {

struct HeldLine {
  std::uint64_t line{}, asked{};
  // By size, as LineHistory has them: up to its last use, and up to now.
  std::uint32_t written{}, dirty{};

  // Whether it is dirty in a cache of the size of bit `own` that has it, behind one of the size of
  // bit `above` (0: none), where it may be dirty instead.  It has not left the first of them since
  // its last use, since it is there; only of the other that is to be guessed.
  bool dirty_in(std::uint32_t own, std::uint32_t above) const {
    return (written & own) && !(dirty & above);
  }
};

// Of a cache whose sets each keep the `ways` lines that were asked for last.
class CacheContents {
 public:
  // A first cache's, which is asked for every use.
  CacheContents(CacheShape shape, RecentLines& lines);
  // Of one behind first caches, numbers of the histories', which asks for what they do not have.
  CacheContents(CacheShape shape, RecentLines& code, std::size_t code_first, RecentLines& data,
                std::size_t data_first);
  // The lines of a set, the one used last first.
  std::span<const HeldLine> set(std::size_t number) const {
    return {line_.data() + number * shape_.ways, held_[number]};
  }

 private:
  // `asked` is at most the line's stamp.
  void put(const UsedLine& l, std::uint64_t asked);
  // Of one that nothing has come to yet.
  explicit CacheContents(CacheShape shape)
      : shape_(shape),
        open_(shape.sets),
        line_(shape.lines()),
        held_(shape.sets),
        closed_(shape.sets) {}

  CacheShape shape_;
  std::size_t open_;  // sets to which an earlier line may still belong
  std::vector<HeldLine> line_;
  std::vector<std::uint8_t> held_, closed_;
};

// The contents of caches of all shapes at one moment, each found once; by several threads at once.
class ContentsByShape {
 public:
  ContentsByShape(RecentLines& code, RecentLines& data) : code_(code), data_(data) {}
  std::shared_ptr<const CacheContents> first(CacheShape shape, bool code);
  // Behind first caches of these shapes, which the histories have.
  std::shared_ptr<const CacheContents> behind(CacheShape shape, CacheShape code, CacheShape data);

 private:
  using Key = std::array<std::size_t, 4>;
  template <class Make>
  std::shared_ptr<const CacheContents> once(const Key& key, const Make& make);

  RecentLines &code_, &data_;
  struct Found {
    std::once_flag once;
    std::shared_ptr<const CacheContents> contents;
  };
  std::mutex lock_;
  std::map<Key, Found> found_;
};

}  // namespace tracekit::warm
