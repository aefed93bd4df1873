// A vector of at most N small values without allocation; what does not fit is dropped and counted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tracekit {

template <class T, std::size_t N>
class SmallVector {
 public:
  void push_back(const T& v) {
    if (size_ < N)
      data_[size_++] = v;
    else if (dropped_ != 255)
      ++dropped_;
  }
  void push_unique(const T& v) {
    if (!contains(v)) push_back(v);
  }
  bool contains(const T& v) const { return std::find(begin(), end(), v) != end(); }
  void clear() { size_ = dropped_ = 0; }
  std::size_t size() const { return size_; }
  std::size_t dropped() const { return dropped_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T* begin() const { return data_.data(); }
  const T* end() const { return data_.data() + size_; }
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<T, N> data_{};
  std::uint8_t size_{};
  std::uint8_t dropped_{};
};

}  // namespace tracekit
