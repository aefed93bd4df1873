// Rows in commit order, column by column: what every source hands to the feature stage.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace tracekit {

// A growable array without the zeroing of std::vector: the parser writes every element once.
template <class T>
class Column {
 public:
  Column() = default;
  Column(Column&&) noexcept = default;
  Column& operator=(Column&&) noexcept = default;
  void reserve(std::size_t n) {
    if (n <= capacity_) return;
    std::size_t cap = capacity_ ? capacity_ : 4096;
    while (cap < n) cap *= 2;
    std::unique_ptr<T[]> grown(new T[cap]);
    if (size_) std::memcpy(grown.get(), data_.get(), size_ * sizeof(T));
    data_ = std::move(grown);
    capacity_ = cap;
  }
  void push_back(T v) {
    if (size_ == capacity_) reserve(size_ + 1);
    data_[size_++] = v;
  }
  void resize(std::size_t n) {  // new elements are not initialised
    if (n > capacity_) [[unlikely]]
      reserve(n);
    size_ = n;
  }
  std::size_t capacity() const { return capacity_; }
  void clear() { size_ = 0; }
  void drop_front(std::size_t n) {
    n = std::min(n, size_);
    if (n < size_) std::memmove(data_.get(), data_.get() + n, (size_ - n) * sizeof(T));
    size_ -= n;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_{}, capacity_{};
};

namespace row_bit {
enum : std::uint8_t {
  has_addr = 1,         // the row accessed memory at `addr`
  taken = 2,            // the branch was taken
  fault = 4,            // trapped: a system call, or a page's first touch
  untimed = 8,          // committed, but no stage tick is known
  taken_known = 16,     // the source told `taken`; else the next row decides (features/outcome)
  fault_known = 32,     // the source told `fault`; else the next row decides
  predicated_off = 64,  // its predicate was false
  mispredicted = 128,
};
}  // namespace row_bit

namespace stage {
enum : unsigned { fetch, decode, rename, dispatch, issue, complete, retire, store, count };
}  // namespace stage

struct RowBatch {
  Column<std::uint32_t> sid;   // index into the StaticTable
  Column<std::uint64_t> addr;  // 0 where none
  Column<std::uint8_t> bits;   // row_bit
  // Stage ticks (ps), 0 = not reached; filled only when `timed`.
  std::array<Column<std::uint64_t>, stage::count> ticks;
  bool timed{};

  std::size_t size() const { return sid.size(); }
  void reserve(std::size_t n) {
    each([n](auto& column) { column.reserve(n); });
  }
  // One more row, all of its columns to be written: their number.
  std::size_t extend() {
    const std::size_t n = size();
    if (n == sid.capacity()) reserve(n + 1);
    each([n](auto& column) { column.resize(n + 1); });
    return n;
  }
  // As many rows, of which the new ones are to be written; ticks only when `timed`.
  void resize(std::size_t n) {
    sid.resize(n), addr.resize(n), bits.resize(n);
    if (timed)
      for (auto& t : ticks) t.resize(n);
  }
  void append(const RowBatch& from, std::size_t begin, std::size_t count) {
    const std::size_t n = size();
    if (n + count > sid.capacity()) reserve(n + count);
    const auto copy = [&](auto& to, const auto& of) {
      to.resize(n + count);
      if (count) std::memcpy(to.data() + n, of.data() + begin, count * sizeof(of[0]));
    };
    copy(sid, from.sid), copy(addr, from.addr), copy(bits, from.bits);
    for (unsigned s = 0; s < stage::count; ++s) copy(ticks[s], from.ticks[s]);
  }
  void truncate(std::size_t n) {
    each([n](auto& column) { column.resize(n); });
  }
  void drop_front(std::size_t n) {
    each([n](auto& column) { column.drop_front(n); });
  }
  void clear() { truncate(0); }

 private:
  template <class F>
  void each(F f) {
    f(sid), f(addr), f(bits);
    for (auto& t : ticks) f(t);
  }
};

}  // namespace tracekit
