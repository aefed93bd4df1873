// Tables keyed by several names at once: one string of names with a blank between.
#pragma once

#include <string_view>

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

// The first entry of `table` whose `names` hold `name`; null if there is none.
template <class Table>
constexpr const typename Table::value_type* find_entry(const Table& table, std::string_view name) {
  for (const auto& entry : table)
    if (in_list(entry.names, name)) return &entry;
  return nullptr;
}

}  // namespace tracekit::isa
