#include <deque>

#include "bind/buffer.hpp"
#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "formats/gem5_text/gem5_text.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

struct Gem5Source {
  Gem5Text text;
  std::deque<Handover> handover;  // one a CPU

  CpuStream& cpu(std::size_t i) {
    if (i >= text.cpus().size()) throw py::index_error("no such CPU");
    return *text.cpus()[i];
  }
};

}  // namespace

void register_gem5_text(py::module_& m) {
  py::class_<Gem5Source>(m, "Gem5Text",
                         "Parser of gem5's O3PipeView and Exec text, in chunks cut anywhere.")
      .def(py::init<>())
      .def(
          "feed",
          [](Gem5Source& s, const py::buffer& data) {
            const ByteView view(data);
            py::gil_scoped_release release;
            s.text.feed(view.data(), view.size());
          },
          py::arg("data"))
      .def(
          "finish", [](Gem5Source& s) { s.text.finish(); },
          py::call_guard<py::gil_scoped_release>())
      .def("cpus",
           [](const Gem5Source& s) {
             py::list names;
             for (const auto& c : s.text.cpus()) names.append(c->name);
             return names;
           })
      .def(
          "take",
          [](Gem5Source& s, std::size_t i) {
            CpuStream& c = s.cpu(i);
            if (s.handover.size() <= i) s.handover.resize(i + 1);
            Handover& h = s.handover[i];
            return h.rows(c.take(h.spare()), s.text.arch(), c.statics);
          },
          py::arg("cpu"), py::call_guard<py::gil_scoped_release>())
      .def(
          "table",
          [](Gem5Source& s, std::size_t i) -> const StaticTable& { return s.cpu(i).statics; },
          py::arg("cpu"), py::return_value_policy::reference_internal)
      .def("counters", [](const Gem5Source& s) { return export_counters(s.text.counters()); })
      .def("arch", [](const Gem5Source& s) { return arch_name(s.text.arch()); })
      .def("stats",
           [](const Gem5Source& s) {
             const OrderStats o = s.text.order_stats();
             py::dict d;
             d["exec_lines"] = s.text.exec_lines();
             d["blocks"] = s.text.blocks();
             d["squashed"] = o.squashed;
             d["exec_flags"] = s.text.has_flags();
             d["fetch_seq"] = s.text.has_seq();
             return d;
           })
      .def(
          "cpu_stats",
          [](Gem5Source& s, std::size_t i) {
            const CpuStream& c = s.cpu(i);
            py::dict d;
            d["exec_lines"] = c.lines;
            d["blocks"] = c.blocks;
            return d;
          },
          py::arg("cpu"));
}

}  // namespace tracekit
