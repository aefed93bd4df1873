// Numbers out of text, eight bytes at a time (portable SWAR; no instruction set beyond the
// baseline).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tracekit::scan {

inline constexpr std::size_t margin = 32;  // bytes that the unchecked readers may look ahead

inline std::uint64_t load8(const char* p) {
  std::uint64_t w;
  std::memcpy(&w, p, 8);
  if constexpr (std::endian::native == std::endian::big) w = __builtin_bswap64(w);
  return w;
}

// Eight digit values (first one in the lowest byte) as a number.
inline std::uint64_t eight_digits(std::uint64_t x) {
  x = (x * 10 + (x >> 8)) & 0x00ff00ff00ff00ffULL;
  x = (x * 100 + (x >> 16)) & 0x0000ffff0000ffffULL;
  return (x * 10000 + (x >> 32)) & 0xffffffffULL;
}

inline constexpr std::uint64_t zeros = 0x3030303030303030ULL;  // the text 00000000

// Flags (bit 7) of the bytes that are no digit; x = bytes ^ zeros.
// A carry can only leave a byte that is itself flagged, so the lowest flag is always right.
inline std::uint64_t no_digits(std::uint64_t x) {
  return ((x + 0x7676767676767676ULL) | x) & 0x8080808080808080ULL;
}

// How many of the eight bytes are digits before the first that is not.
inline unsigned leading_digits(std::uint64_t x) {
  const std::uint64_t bad = no_digits(x);
  return bad ? static_cast<unsigned>(std::countr_zero(bad)) >> 3 : 8;
}

inline constexpr std::uint64_t pow10[9] = {1,      10,      100,      1000,     10000,
                                           100000, 1000000, 10000000, 100000000};

// `decimal` of at least eight digits; apart, so that the short ones are in line.
[[gnu::noinline]] inline const char* long_decimal(const char* p, std::uint64_t& value) {
  std::uint64_t v = eight_digits(load8(p) ^ zeros);
  p += 8;
  const std::uint64_t x = load8(p) ^ zeros;
  const unsigned n = leading_digits(x);
  if (n < 8) {
    value = n ? v * pow10[n] + eight_digits(x << (8 * (8 - n))) : v;
    return p + n;
  }
  v = v * pow10[8] + eight_digits(x);
  p += 8;
  for (int i = 0; i < 5; ++i, ++p) {
    const unsigned d = static_cast<unsigned char>(*p) - unsigned{'0'};
    if (d > 9) {
      value = v;
      return p;
    }
    if (__builtin_mul_overflow(v, std::uint64_t{10}, &v) ||
        __builtin_add_overflow(v, std::uint64_t{d}, &v))
      return nullptr;
  }
  return nullptr;
}

// Reads a decimal number at p (up to `margin` readable bytes behind it).  Returns the first byte
// after it; p itself where there is no digit, and nullptr where the number does not fit 64 bits.
inline const char* decimal(const char* p, std::uint64_t& value) {
  const std::uint64_t x = load8(p) ^ zeros;
  const unsigned n = leading_digits(x);
  if (n == 8) return long_decimal(p, value);
  value = n ? eight_digits(x << (8 * (8 - n))) : 0;
  return p + n;
}

// Flags (bit 7) of the bytes that are no hexadecimal digit.
inline std::uint64_t not_hex(std::uint64_t w) {
  constexpr std::uint64_t ones = 0x0101010101010101ULL, high = 0x8080808080808080ULL;
  const std::uint64_t digit = (w & ~high) ^ 0x30 * ones;  // 0-9 for '0'-'9'
  const std::uint64_t letter =
      ((w & ~high) | 0x20 * ones) ^ 0x60 * ones;  // 1-6 for 'a'-'f', 'A'-'F'
  const std::uint64_t no_digit = digit + 0x76 * ones;
  const std::uint64_t no_letter = (letter + 0x79 * ones) | ~(letter + 0x7f * ones);
  return ((no_digit & no_letter) | w) & high;  // no byte is over 0x7f before the sums: no carries
}

// Eight hexadecimal digits (first one in the lowest byte) as a number.
inline std::uint64_t eight_hex(std::uint64_t w) {
  std::uint64_t v = (w & 0x0f0f0f0f0f0f0f0fULL) + 9 * (w >> 6 & 0x0101010101010101ULL);
  v = __builtin_bswap64(v);
  v = (v | v >> 4) & 0x00ff00ff00ff00ffULL;
  v = (v | v >> 8) & 0x0000ffff0000ffffULL;
  return (v | v >> 16) & 0xffffffffULL;
}

// Reads a hexadecimal number without 0x; like `decimal`.
inline const char* hexadecimal(const char* p, std::uint64_t& value) {
  std::uint64_t v = 0;
  for (int word = 0; word < 3; ++word, p += 8) {
    const std::uint64_t w = load8(p), bad = not_hex(w);
    const unsigned n = bad ? static_cast<unsigned>(std::countr_zero(bad)) >> 3 : 8;
    if (n) {
      if (v >> (64 - 4 * n)) return nullptr;
      v = (n == 8 ? v << 32 : v << 4 * n) | eight_hex(n == 8 ? w : w << (8 * (8 - n)));
    }
    if (n < 8 || p[8] == ':' || p[8] == ' ') {
      value = v;
      return p + n;
    }
  }
  return nullptr;
}

// Reads numbers that are mostly as long as the one read just before and share all but its last
// eight digits, as ticks do: the place of what follows does not wait for the digits.
class NearbyDecimal {
 public:
  // Like `decimal`, where the number is near the anchor and a colon or an end of line follows; else
  // nullptr.
  const char* read(const char* p, std::uint64_t& value) const {
    const char* end = p + width_;
    if (*end != '\n' && *end != ':') return nullptr;
    const std::uint64_t x = load8(end - 8) ^ zeros;
    if (no_digits(x) | ((load8(p) & mask_) ^ lead_)) return nullptr;
    value = base_ + eight_digits(x);
    return end;
  }
  // `value` was read from [p, end); false where it is too short or too long to be an anchor.
  bool anchor(const char* p, const char* end, std::uint64_t value) {
    const auto width = static_cast<unsigned>(end - p);
    if (width < 8 || width > 16) return false;
    width_ = width;
    mask_ = width == 16 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * (width - 8))) - 1;
    lead_ = load8(p) & mask_;
    base_ = value - value % pow10[8];
    return true;
  }
  std::uint64_t base() const { return base_; }

 private:
  unsigned width_{8};
  std::uint64_t mask_{0}, lead_{1}, base_{};  // near nothing before the first anchor
};

template <std::size_t N>
inline bool starts(const char* p, const char (&text)[N]) {
  return std::memcmp(p, text, N - 1) == 0;
}

// The bounds-checked readers of the slow path: a cursor over one line.
class Cursor {
 public:
  Cursor(const char* begin, const char* end) : p_(begin), end_(end) {}
  bool done() const { return p_ == end_; }
  const char* at() const { return p_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - p_); }
  char peek() const { return p_ < end_ ? *p_ : '\0'; }
  void skip(std::size_t n) { p_ += n < left() ? n : left(); }
  void skip_blanks() {
    while (p_ < end_ && *p_ == ' ') ++p_;
  }
  template <std::size_t N>
  bool eat(const char (&text)[N]) {
    if (left() < N - 1 || std::memcmp(p_, text, N - 1) != 0) return false;
    p_ += N - 1;
    return true;
  }
  bool eat_decimal(std::uint64_t& value) { return eat_with(decimal, value); }
  bool eat_hex(std::uint64_t& value) { return eat_with(hexadecimal, value); }

 private:
  bool eat_with(const char* (*read)(const char*, std::uint64_t&), std::uint64_t& value) {
    char copy[2 * margin] = {};  // the readers look ahead
    std::memcpy(copy, p_, left() < margin ? left() : margin);
    const char* q = read(copy, value);
    if (q == nullptr || q == copy) return false;
    p_ += q - copy;
    return true;
  }

  const char* p_;
  const char* end_;
};

}  // namespace tracekit::scan
