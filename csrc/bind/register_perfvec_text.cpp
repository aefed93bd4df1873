#include "bind/buffer.hpp"
#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "formats/perfvec_text/perfvec_text.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

struct PerfvecSource {
  PerfvecText text;
  Handover handover;
};

}  // namespace

void register_perfvec_text(py::module_& m) {
  py::class_<PerfvecSource>(m, "PerfvecText", "Parser of the two-file trace of PerfVec's authors.")
      .def(py::init<>())
      .def(
          "feed",
          [](PerfvecSource& s, const py::buffer& data) {
            const ByteView view(data);
            py::gil_scoped_release release;
            s.text.feed(view.data(), view.size());
          },
          py::arg("data"))
      .def(
          "feed_stores",
          [](PerfvecSource& s, const py::buffer& data) {
            const ByteView view(data);
            py::gil_scoped_release release;
            s.text.feed_stores(view.data(), view.size());
          },
          py::arg("data"))
      .def("stores_end", [](PerfvecSource& s) { s.text.stores_end(); })
      .def("wants_stores", [](const PerfvecSource& s) { return s.text.wants_stores(); })
      .def("finish", [](PerfvecSource& s) { s.text.finish(); })
      .def("take",
           [](PerfvecSource& s) {
             return s.handover.all(s.text.rows(), Arch::unknown, s.text.statics());
           })
      .def(
          "table", [](PerfvecSource& s) -> const StaticTable& { return s.text.statics(); },
          py::return_value_policy::reference_internal)
      .def("counters", [](const PerfvecSource& s) { return export_counters(s.text.counters()); })
      .def("lines", [](const PerfvecSource& s) { return s.text.lines(); });
}

}  // namespace tracekit
