// Bytes of any contiguous Python buffer, kept while the view lives.
#pragma once

#include "bind/register.hpp"

namespace tracekit {

class ByteView {
 public:
  explicit ByteView(const pybind11::buffer& b) : info_(b.request()) {
    pybind11::ssize_t expected = info_.itemsize;
    for (pybind11::ssize_t d = info_.ndim; d-- > 0;) {
      if (info_.shape[static_cast<std::size_t>(d)] > 1 &&
          info_.strides[static_cast<std::size_t>(d)] != expected)
        throw pybind11::value_error("a contiguous buffer is needed");
      expected *= info_.shape[static_cast<std::size_t>(d)];
    }
  }
  const char* data() const { return static_cast<const char*>(info_.ptr); }
  std::size_t size() const { return static_cast<std::size_t>(info_.size * info_.itemsize); }
  const std::uint8_t* bytes() const { return static_cast<const std::uint8_t*>(info_.ptr); }

 private:
  pybind11::buffer_info info_;
};

}  // namespace tracekit
