// A fixed-size array on a cache-line boundary (a huge-page boundary when it is large), copyable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tracekit {

template <class T>
class AlignedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedArray() = default;
  // The elements are not initialised.
  explicit AlignedArray(std::size_t n) : size_(n) {
    if (!n) return;
    constexpr std::size_t huge = std::size_t{1} << 21;
    const std::size_t align = n * sizeof(T) >= huge ? huge : 64;
    const std::size_t bytes = (n * sizeof(T) + align - 1) / align * align;
    data_ = static_cast<T*>(std::aligned_alloc(align, bytes));
    if (!data_) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    // Random access over megabytes misses the TLB; the advice may be refused without harm.
    if (align == huge) (void)madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  }
  AlignedArray(const AlignedArray& o) : AlignedArray(o.size_) {
    if (size_) std::memcpy(data_, o.data_, size_ * sizeof(T));
  }
  AlignedArray(AlignedArray&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  AlignedArray& operator=(AlignedArray o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~AlignedArray() { std::free(data_); }

  void fill(const T& v) { std::fill(data_, data_ + size_, v); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

 private:
  T* data_{};
  std::size_t size_{};
};

}  // namespace tracekit
