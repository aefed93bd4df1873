#include "bind/buffer.hpp"
#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "formats/champsim/champsim.hpp"
#include "formats/common/native_append.hpp"
#include "formats/drmemtrace/drmemtrace.hpp"
#include "formats/text_streams/text_streams.hpp"

namespace py = pybind11;

namespace tracekit {

namespace {

// A read-only array over a column of `owner`, which the array keeps alive.
template <class T>
py::array_t<T> view(py::handle owner, const Column<T>& column) {
  static const T nothing{};
  py::array_t<T> out(column.size(), column.size() ? column.data() : &nothing, owner);
  py::detail::array_proxy(out.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return out;
}

template <class T>
void add_column(py::class_<NativeBatch>& c, const char* name, Column<T> NativeBatch::* member) {
  c.def_property_readonly(
      name, [member](py::object self) { return view(self, self.cast<NativeBatch&>().*member); });
}

py::dict counts(const DrCounts& c) {
  py::dict d;
#define COUNT(name) d[#name] = c.name
  COUNT(instructions);
  COUNT(no_fetch);
  COUNT(kernel_instructions);
  COUNT(loads);
  COUNT(stores);
  COUNT(prefetches);
  COUNT(instr_flushes);
  COUNT(data_flushes);
  COUNT(schedule_markers);
  COUNT(transfer_markers);
  COUNT(hardware_transfer_markers);
  COUNT(idle_markers);
  COUNT(wait_markers);
  COUNT(func_id_markers);
  COUNT(func_retaddr_markers);
  COUNT(func_arg_markers);
  COUNT(func_retval_markers);
  COUNT(physical_markers);
  COUNT(physical_unavailable_markers);
  COUNT(syscall_markers);
  COUNT(blocking_syscall_markers);
  COUNT(skipped_access_markers);
  COUNT(other_markers);
  COUNT(encodings);
#undef COUNT
  return d;
}

template <class Parser>
void add_feeding(py::class_<Parser>& c) {
  c.def(
       "feed",
       [](Parser& self, const py::buffer& data) {
         const ByteView bytes(data);
         py::gil_scoped_release unlocked;
         self.feed(bytes.bytes(), bytes.size());
       },
       py::arg("data"))
      .def("finish", &Parser::finish, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("anomalies",
                             [](const Parser& p) { return export_counters(p.anomalies()); });
}

}  // namespace

void register_formats(py::module_& m) {
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const FormatFault& e) {
      const py::object type = py::module_::import("tracekit.errors").attr("FormatError");
      const py::object hint = e.hint.empty() ? py::none() : py::object(py::str(e.hint));
      const py::object error = type(e.what(), py::arg("offset") = e.offset, py::arg("hint") = hint);
      PyErr_SetObject(type.ptr(), error.ptr());
    }
  });

  py::class_<EncodingTable>(m, "EncodingTable")
      .def(py::init<>())
      .def("__len__", &EncodingTable::size)
      .def(
          "__getitem__",
          [](const EncodingTable& t, std::uint32_t id) {
            if (id >= t.size()) throw py::index_error();
            const Encoding& e = t[id];
            const py::bytes raw(reinterpret_cast<const char*>(e.bytes.data()), e.bytes.size());
            return py::make_tuple(e.pc, e.length, e.known, raw);
          },
          "pc, length, whether the machine code is known, and the 15 bytes.")
      .def("pcs", [](const EncodingTable& t) {
        py::array_t<std::uint64_t> out(static_cast<py::ssize_t>(t.size()));
        for (std::uint32_t i = 0; i < t.size(); ++i) out.mutable_at(i) = t[i].pc;
        return out;
      });

  py::class_<NativeBatch> batch(m, "NativeBatch");
  batch.def(py::init<>()).def("__len__", &NativeBatch::size);
  add_column(batch, "encoding", &NativeBatch::encoding);
  add_column(batch, "bits", &NativeBatch::bits);
  add_column(batch, "first_access", &NativeBatch::first_access);
  add_column(batch, "address", &NativeBatch::address);
  add_column(batch, "access_size", &NativeBatch::access_size);
  add_column(batch, "is_store", &NativeBatch::is_store);
  batch.def_static(
      "joined",
      [](const py::list& stretches) {
        auto out = std::make_unique<NativeBatch>();
        for (const py::handle& item : stretches) {
          const auto [src, from, to, anew] =
              item.cast<std::tuple<const NativeBatch*, std::size_t, std::size_t, bool>>();
          if (from > to || to > src->size()) throw py::index_error("no such rows");
          const std::size_t at = out->size();
          append_rows(*out, *src, from, to);
          if (anew && out->size() > at) out->bits[at] |= native_bit::restart;
        }
        return out;
      },
      py::arg("stretches"),
      "The rows [from, to) of each (batch, from, to, anew); anew: they do not follow from those "
      "before.");

  py::class_<DrmemtraceParser> dr(m, "DrmemtraceParser");
  dr.def(py::init<EncodingTable&>(), py::arg("table"), py::keep_alive<1, 2>());
  add_feeding(dr);
  dr.def(
        "take",
        [](DrmemtraceParser& p) {
          auto rows = std::make_unique<NativeBatch>();
          std::vector<Timestamp> times;
          p.take(*rows, times);
          py::array_t<std::uint64_t> out({static_cast<py::ssize_t>(times.size()), py::ssize_t{2}});
          for (std::size_t i = 0; i < times.size(); ++i) {
            out.mutable_at(i, 0) = times[i].row;
            out.mutable_at(i, 1) = times[i].value;
          }
          return py::make_tuple(std::move(rows), out);
        },
        "The complete rows, and (row, microseconds) of each timestamp among them.")
      .def_property_readonly("version", &DrmemtraceParser::version)
      .def_property_readonly("filetype",
                             [](const DrmemtraceParser& p) -> py::object {
                               if (!p.filetype_known()) return py::none();
                               return py::int_(p.filetype());
                             })
      .def_property_readonly("process", &DrmemtraceParser::process)
      .def_property_readonly("threads", &DrmemtraceParser::threads)
      .def_property_readonly("counts", [](const DrmemtraceParser& p) { return counts(p.counts()); })
      .def(
          "fetched",
          [](const DrmemtraceParser& p) {
            std::vector<std::uint64_t> pcs;
            std::vector<std::uint8_t> kinds;
            p.fetched(pcs, kinds);
            const auto n = static_cast<py::ssize_t>(pcs.size());
            return py::make_tuple(py::array_t<std::uint64_t>(n, pcs.data()),
                                  py::array_t<std::uint8_t>(n, kinds.data()));
          },
          "The distinct pcs that were fetched, in no order, and the BranchKind that each record "
          "told.");

  const auto taken = [](auto& p) {
    auto rows = std::make_unique<NativeBatch>();
    p.take(*rows);
    return rows;
  };
  py::class_<ChampsimParser> cs(m, "ChampsimParser");
  cs.def(py::init<EncodingTable&, bool>(), py::arg("table"), py::arg("cloudsuite") = false,
         py::keep_alive<1, 2>());
  add_feeding(cs);
  cs.def("take", [taken](ChampsimParser& p) {
      return taken(p);
    }).def_property_readonly("record_bytes", &ChampsimParser::record_bytes);

  py::class_<TextStreamParser> text(m, "TextStreamParser");
  text.def(py::init([](EncodingTable& t, const std::string& format, const std::string& arch) {
             if (format != "execlog" && format != "lackey")
               throw py::value_error("format is execlog or lackey");
             const Arch a = arch == "x86"     ? Arch::x86
                            : arch == "arm"   ? Arch::arm
                            : arch == "riscv" ? Arch::riscv
                                              : Arch::unknown;
             return TextStreamParser(
                 t, format == "lackey" ? TextStream::lackey : TextStream::execlog, a);
           }),
           py::arg("table"), py::arg("format"), py::arg("arch") = "", py::keep_alive<1, 2>());
  text.def(
          "feed",
          [](TextStreamParser& self, const py::buffer& data) {
            const ByteView bytes(data);
            py::gil_scoped_release unlocked;
            self.feed({bytes.data(), bytes.size()});
          },
          py::arg("data"))
      .def("finish", &TextStreamParser::finish)
      .def("take", [taken](TextStreamParser& p) { return taken(p); })
      .def_property_readonly("lines", &TextStreamParser::lines)
      .def_property_readonly(
          "anomalies", [](const TextStreamParser& p) { return export_counters(p.anomalies()); });
}

}  // namespace tracekit
