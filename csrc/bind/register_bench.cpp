#include "bench/text_peers.hpp"
#include "bind/buffer.hpp"
#include "bind/register.hpp"

namespace py = pybind11;

namespace tracekit {

void register_bench(py::module_& m) {
  m.def("bench_newlines", [](const py::buffer& b) {
    const ByteView v(b);
    return bench::newlines(v.data(), v.size());
  });
  m.def("bench_getline", [](const py::buffer& b) {
    const ByteView v(b);
    return bench::getline_reader(v.data(), v.size());
  });
}

}  // namespace tracekit
