// Small helpers to read disassembly: views into the text, no allocation, any input is safe.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tracekit::isa {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

constexpr std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// The text up to the first blank, which is taken off `s` together with the blanks after it.
constexpr std::string_view take_word(std::string_view& s) {
  s = trim(s);
  const std::size_t n = std::min(s.find_first_of(" \t"), s.size());
  const std::string_view word = s.substr(0, n);
  s = trim(s.substr(n));
  return word;
}

// The text up to the next comma, which is taken off `s`; blanks around it are dropped.
constexpr std::string_view take_operand(std::string_view& s) {
  const std::size_t n = std::min(s.find(','), s.size());
  const std::string_view operand = trim(s.substr(0, n));
  s.remove_prefix(std::min(n + 1, s.size()));
  return operand;
}

// The leading run of letters, digits and underscores.
constexpr std::string_view head_word(std::string_view s) {
  std::size_t n = 0;
  while (n < s.size() && is_word(s[n])) ++n;
  return s.substr(0, n);
}

// A decimal number that is the whole of `s` (at most five digits: an index).
inline std::optional<std::uint16_t> index_of(std::string_view s) {
  std::uint16_t v = 0;
  if (s.empty() || s.size() > 5) return std::nullopt;
  const auto [end, err] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (err != std::errc{} || end != s.data() + s.size()) return std::nullopt;
  return v;
}

// The decimal number that `s` begins with; 0 if there is none or it is too large.
inline std::uint16_t leading_number(std::string_view s) {
  std::uint16_t v = 0;
  const auto [end, err] = std::from_chars(s.data(), s.data() + s.size(), v);
  return err == std::errc{} ? v : std::uint16_t{0};
}

// The index in `text` = letter(s) `prefix`, then a decimal number.
inline std::optional<std::uint16_t> index_after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return index_of(text.substr(prefix.size()));
}

}  // namespace tracekit::isa
