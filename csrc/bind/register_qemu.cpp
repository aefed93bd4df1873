#include <memory>

#include "bind/buffer.hpp"
#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "core/touched_lines.hpp"
#include "record/qemu_stream.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

using record::QemuCode;
using record::QemuStream;
using record::QemuTraits;

// (branch, loads, stores, may_fault, rep, silent, area, load_size, store_size, target or None,
// a system call)
QemuTraits traits_from(const py::handle& h) {
  const auto t = py::cast<py::tuple>(h);
  if (t.size() != 11) throw py::value_error("traits have eleven parts");
  QemuTraits out;
  out.branch = static_cast<BranchKind>(py::cast<int>(t[0]));
  out.loads = py::cast<bool>(t[1]);
  out.stores = py::cast<bool>(t[2]);
  out.may_fault = py::cast<bool>(t[3]);
  out.rep = py::cast<bool>(t[4]);
  out.silent = py::cast<bool>(t[5]);
  out.area = py::cast<bool>(t[6]);
  out.load_size = py::cast<std::uint32_t>(t[7]);
  out.store_size = py::cast<std::uint32_t>(t[8]);
  out.direct = !t[9].is_none();
  if (out.direct) out.target = py::cast<std::uint64_t>(t[9]);
  out.ends = py::cast<bool>(t[10]);
  return out;
}

QemuCode::Describe describer(py::function describe) {
  return [describe](const std::vector<Encoding>& fresh) {
    const py::gil_scoped_acquire held;
    py::list asked;
    for (const Encoding& e : fresh)
      asked.append(py::make_tuple(e.pc, py::bytes(e.code().data(), e.code().size())));
    std::vector<QemuTraits> out;
    for (const py::handle t : py::cast<py::list>(describe(asked))) out.push_back(traits_from(t));
    if (out.size() != fresh.size()) throw py::value_error("traits of each instruction");
    return out;
  };
}

}  // namespace

void register_qemu(py::module_& m) {
  m.attr("TOUCHED_PCS") =
      py::make_tuple(touched_line::read_pc, touched_line::written_pc, touched_line::code_pc);
  py::class_<QemuCode>(m, "QemuCode", "Machine code of all processes under QEMU.")
      .def(py::init([](EncodingTable& table, py::function describe, const py::bytes& load,
                       const py::bytes& store) {
             return std::make_unique<QemuCode>(table, describer(std::move(describe)),
                                               std::string(load), std::string(store));
           }),
           py::arg("table"), py::arg("describe"), py::arg("load"), py::arg("store"),
           py::keep_alive<1, 2>());
  py::class_<QemuStream>(m, "QemuStream", "See csrc/record/qemu_stream.hpp.")
      .def(py::init<QemuCode&, std::size_t>(), py::arg("code"), py::arg("piece"),
           py::keep_alive<1, 2>())
      .def(
          "feed",
          [](QemuStream& s, const py::buffer& data) {
            const ByteView bytes(data);
            const py::gil_scoped_release unlocked;
            s.feed({bytes.data(), bytes.size()});
          },
          py::arg("data"))
      .def_property_readonly("waits", &QemuStream::waits)
      .def_property_readonly("blocks", &QemuStream::blocks)
      .def("inherit", &QemuStream::inherit, py::arg("parent"), py::arg("blocks"))
      .def(
          "leftover",
          [](QemuStream& s, const py::bytes& file) { s.leftover(std::string_view(file)); },
          py::arg("file"))
      .def("finish", &QemuStream::finish)
      .def(
          "take",
          [](QemuStream& s) {
            py::list out;
            for (auto& p : s.take())
              out.append(py::make_tuple(p.tid, p.ns, p.silent,
                                        std::make_unique<NativeBatch>(std::move(p.rows))));
            return out;
          },
          "(thread, nanoseconds, accesses that QEMU does not show, rows) of each stretch.")
      .def(
          "take_texts",
          [](QemuStream& s) {
            py::list out;
            for (const auto& t : s.take_texts())
              out.append(py::make_tuple(t.kind, py::bytes(t.content)));
            return out;
          },
          "(kind, content) of frames that are no events.")
      .def("executed", &QemuStream::executed)
      .def("silent", [](const QemuStream& s) { return s.silent(); })
      .def_property_readonly("anomalies",
                             [](const QemuStream& s) { return export_counters(s.anomalies()); });
}

}  // namespace tracekit
