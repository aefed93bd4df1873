// Tables keyed by several names at once: one string of names with a blank between.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/scan.hpp"

namespace tracekit::isa {

// Is `name` one of the blank-separated words of `list`?  A word that ends in '*' is a prefix.
constexpr bool in_list(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    std::string_view word = take_word(list);
    if (word.ends_with('*')) {
      word.remove_suffix(1);
      if (name.starts_with(word)) return true;
    } else if (word == name) {
      return true;
    }
  }
  return false;
}

// The first entry of a table whose `names` hold a name, found by hash; the table must live on.
template <class Entry>
class NameIndex {
 public:
  template <class Table>
  explicit NameIndex(const Table& table) : first_(table.data()) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      std::string_view names = table[i].names;
      while (!names.empty()) {
        const std::string_view word = take_word(names);
        if (word.ends_with('*'))
          prefixes_.emplace_back(word.substr(0, word.size() - 1), i);
        else
          exact_.try_emplace(word, i);
      }
    }
  }
  const Entry* find(std::string_view name) const {
    const auto it = exact_.find(name);
    std::size_t best = it == exact_.end() ? none : it->second;
    for (const auto& [prefix, at] : prefixes_)
      if (at < best && name.starts_with(prefix)) best = at;
    return best == none ? nullptr : first_ + best;
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  const Entry* first_;
  std::unordered_map<std::string_view, std::size_t> exact_;
  std::vector<std::pair<std::string_view, std::size_t>> prefixes_;
};

}  // namespace tracekit::isa
