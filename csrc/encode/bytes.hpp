// Variable-length integers: writing into a growing buffer, reading from untrusted bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace tracekit {

// The bytes of a column are not what its codec writes.
struct DecodeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr std::uint64_t zigzag(std::int64_t v) {
  return static_cast<std::uint64_t>(v) << 1 ^ static_cast<std::uint64_t>(v >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t v) {
  return static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
}

inline std::uint8_t* write_varint(std::uint8_t* p, std::uint64_t v) {
  while (v >= 0x80) {
    *p++ = static_cast<std::uint8_t>(v) | 0x80;
    v >>= 7;
  }
  *p++ = static_cast<std::uint8_t>(v);
  return p;
}

class ByteWriter {
 public:
  // Room for n varints of at most ten bytes, so that `varint` need not look.
  void reserve_varints(std::size_t n) {
    if (data_.size() < used_ + 10 * n + 16) data_.resize(2 * data_.size() + 10 * n + 16);
  }
  void varint(std::uint64_t v) {
    used_ = static_cast<std::size_t>(write_varint(data_.data() + used_, v) - data_.data());
  }
  void byte(std::uint8_t v) { data_[used_++] = v; }  // where room was reserved
  // For loops over several writers: where to write_varint to, and where that ended.
  std::uint8_t* begin_varints() { return data_.data() + used_; }
  void end_varints(const std::uint8_t* end) {
    used_ = static_cast<std::size_t>(end - data_.data());
  }
  void raw(const void* from, std::size_t n) {
    if (n == 0) return;  // memcpy takes no null pointer
    if (data_.size() < used_ + n) data_.resize(2 * data_.size() + n);
    std::memcpy(data_.data() + used_, from, n);
    used_ += n;
  }
  void clear() { used_ = 0; }
  const std::uint8_t* data() const { return data_.data(); }
  std::size_t size() const { return used_; }

 private:
  std::vector<std::uint8_t> data_;
  std::size_t used_{};
};

class ByteReader {
 public:
  ByteReader(const void* data, std::size_t size)
      : p_(static_cast<const std::uint8_t*>(data)), end_(p_ + size) {}
  std::uint64_t varint() {
    if (p_ != end_ && *p_ < 0x80) return *p_++;
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (p_ == end_) throw DecodeError("column ends early");
      const std::uint8_t b = *p_++;
      if (shift == 63 && b > 1) break;
      v |= std::uint64_t{b & 0x7fU} << shift;
      if (b < 0x80) return v;
    }
    throw DecodeError("number of over 64 bits");
  }
  const std::uint8_t* raw(std::size_t n) {
    if (static_cast<std::size_t>(end_ - p_) < n) throw DecodeError("column ends early");
    const std::uint8_t* at = p_;
    p_ += n;
    return at;
  }
  void expect_end() const {
    if (p_ != end_) throw DecodeError("column is longer than its rows");
  }
  std::size_t left() const { return static_cast<std::size_t>(end_ - p_); }

 private:
  const std::uint8_t* p_;
  const std::uint8_t* end_;
};

}  // namespace tracekit
