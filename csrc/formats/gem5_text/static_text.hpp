// The text that a trace prints for each static instruction, in one piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tracekit {

class StaticText {
 public:
  // All that a line of a known static instruction asks for, side by side.
  struct Known {
    std::size_t at;
    std::uint32_t head_size, tail_size;
    std::uint64_t pc;
    std::uint32_t next[2];  // its last two successors, of which one nearly always comes next
    std::uint16_t upc;
  };

  // What stands before and behind the dynamic fields; see formats/gem5_text/exec_line.hpp.
  void add(std::uint64_t pc, std::uint16_t upc, std::string_view head, std::string_view tail) {
    known_.push_back({text_.size(),
                      static_cast<std::uint32_t>(head.size()),
                      static_cast<std::uint32_t>(tail.size()),
                      pc,
                      {none, none},
                      upc});
    text_.insert(text_.end(), head.begin(), head.end());
    text_.insert(text_.end(), tail.begin(), tail.end());
  }
  const Known& operator[](std::uint32_t id) const { return known_[id]; }
  const char* head(const Known& k) const { return text_.data() + k.at; }
  const char* tail(const Known& k) const { return text_.data() + k.at + k.head_size; }
  bool is(std::uint32_t id, std::string_view head, std::string_view tail) const {
    const Known& k = known_[id];
    return head == std::string_view(this->head(k), k.head_size) &&
           tail == std::string_view(this->tail(k), k.tail_size);
  }
  // `id` came behind `last`.
  void follow(std::uint32_t last, std::uint32_t id) {
    auto& next = known_[last].next;
    if (next[0] != id && next[1] != id) {
      next[1] = next[0];
      next[0] = id;
    }
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::vector<Known> known_;
  std::vector<char> text_;
};

}  // namespace tracekit
