#include "bind/buffer.hpp"
#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "formats/tkt/tkt_reader.hpp"
#include "formats/tkt/tkt_writer.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

using Regs = std::vector<std::pair<std::uint8_t, std::uint16_t>>;

// A writer into memory: what the plug-in does inside gem5, for tests and other producers.
struct MemoryWriter {
  explicit MemoryWriter(const tkt::Header& header)
      : writer(header, [this](const char* p, std::size_t n) { out.append(p, n); }) {}
  std::string out;
  tkt::Writer writer;
};

template <class T>
py::array_t<T> copy(const Column<T>& column) {
  py::array_t<T> out(static_cast<py::ssize_t>(column.size()));
  if (column.size()) std::memcpy(out.mutable_data(), column.data(), column.size() * sizeof(T));
  return out;
}

struct TktSource {
  TktReader reader;
  Handover handover;

  // A stream holds one CPU; the argument is there so that every source has the same methods.
  TktReader& cpu(std::size_t i) {
    if (i != 0 || !reader.has_header()) throw py::index_error("no such CPU");
    return reader;
  }
};

py::dict columns(TktSource& source) {
  RowBatch& rows = source.reader.batch();
  py::dict d;
  d["sid"] = copy(rows.sid);
  d["addr"] = copy(rows.addr);
  d["bits"] = copy(rows.bits);
  if (rows.timed) {
    constexpr const char* names[] = {"fetch", "decode",   "rename", "dispatch",
                                     "issue", "complete", "retire", "store"};
    for (unsigned s = 0; s < stage::count; ++s) d[names[s]] = copy(rows.ticks[s]);
  }
  rows.clear();
  return d;
}

py::list texts(const std::vector<std::string>& names) {
  py::list out;
  for (const std::string& name : names) out.append(text(name));
  return out;
}

py::dict describe(const tkt::Header& h) {
  py::dict d;
  d["isa"] = text(h.isa);
  d["cpu_name"] = text(h.cpu_name);
  d["model"] = text(h.model);
  d["producer"] = text(h.producer);
  d["tick_frequency"] = h.tick_frequency;
  d["tick_unit"] = h.tick_unit;
  d["stages"] = h.stages;
  d["knows"] = h.knows;
  d["cpu"] = h.cpu;
  d["threads"] = h.threads;
  d["op_classes"] = texts(h.op_classes);
  d["flags"] = texts(h.flags);
  d["reg_classes"] = texts(h.reg_classes);
  return d;
}

tkt::Header header_from(const py::dict& d) {
  tkt::Header h;
  const auto get = [&d](const char* key, auto& field) {
    if (d.contains(key)) field = d[key].cast<std::decay_t<decltype(field)>>();
  };
  get("isa", h.isa), get("cpu_name", h.cpu_name), get("model", h.model),
      get("producer", h.producer);
  get("tick_frequency", h.tick_frequency), get("tick_unit", h.tick_unit), get("stages", h.stages);
  get("knows", h.knows), get("cpu", h.cpu), get("threads", h.threads);
  if (d.contains("configuration"))
    h.configuration = d["configuration"].cast<py::bytes>().cast<std::string>();
  get("op_classes", h.op_classes), get("flags", h.flags), get("reg_classes", h.reg_classes);
  return h;
}

std::vector<tkt::RegRef> refs(const Regs& regs) {
  std::vector<tkt::RegRef> out;
  for (const auto& [cls, index] : regs) out.push_back({cls, index});
  return out;
}

std::uint32_t add_static(MemoryWriter& w, std::uint64_t pc, std::uint16_t upc, std::uint16_t op,
                         std::uint64_t flags, std::string disassembly, const py::bytes& bytes,
                         const Regs& src, const Regs& dst) {
  tkt::Static s;
  s.pc = pc;
  s.upc = upc;
  s.op = op;
  s.flags = flags;
  s.disassembly = std::move(disassembly);
  s.bytes = bytes;
  s.length = static_cast<std::uint8_t>(s.bytes.size());
  s.src = refs(src);
  s.dst = refs(dst);
  return w.writer.add(s);
}

void add_row(MemoryWriter& w, std::uint32_t sid, std::uint8_t flags, std::uint64_t addr,
             std::uint16_t size, const std::vector<std::uint64_t>& ticks, std::uint8_t thread) {
  tkt::Row row;
  row.sid = sid;
  row.flags = flags;
  row.addr = addr;
  row.access_size = size;
  row.thread = thread;
  for (std::size_t s = 0; s < std::min<std::size_t>(ticks.size(), tkt::stage::count); ++s)
    row.ticks[s] = ticks[s];
  w.writer.add(row);
}

}  // namespace

void register_tkt(py::module_& m) {
  py::class_<TktSource>(m, "Tkt",
                        "Reads a .tkt stream (docs/tkt-format.md), in chunks cut anywhere.")
      .def(py::init<>())
      .def_property_readonly_static(
          "piece", [](const py::object&) { return 1 << 17; },
          "Bytes to feed at once: their rows, about a megabyte, stay in a core's own cache.")
      .def(
          "use_gem5_operands", [](TktSource& s) { s.reader.use(TktReader::Operands::trace); },
          "gem5's own registers and access sizes instead of the text's; before the first feed.")
      .def(
          "feed",
          [](TktSource& s, const py::buffer& data) {
            const ByteView view(data);
            py::gil_scoped_release release;
            s.reader.feed(view.data(), view.size());
          },
          py::arg("data"))
      .def("finish", [](TktSource& s) { s.reader.finish(); })
      .def("cpus",
           [](const TktSource& s) {
             py::list names;
             if (s.reader.has_header()) names.append(text(s.reader.header().cpu_name));
             return names;
           })
      .def(
          "take",
          [](TktSource& s, std::size_t i) {
            TktReader& r = s.cpu(i);
            return s.handover.all(r.batch(), r.arch(), r.statics());
          },
          py::arg("cpu"), py::call_guard<py::gil_scoped_release>())
      .def("columns", &columns, "The rows since the last call, copied: an array a column.")
      .def(
          "table",
          [](TktSource& s, std::size_t i) -> const StaticTable& { return s.cpu(i).statics(); },
          py::arg("cpu"), py::return_value_policy::reference_internal)
      .def("counters", [](const TktSource& s) { return export_counters(s.reader.counters()); })
      .def("arch", [](const TktSource& s) { return arch_name(s.reader.arch()); })
      .def("stats",
           [](const TktSource& s) {
             py::dict d;
             if (s.reader.has_header()) d = describe(s.reader.header());
             for (const char* table : {"op_classes", "flags", "reg_classes"})
               if (d.contains(table)) d.attr("pop")(table);
             d["complete"] = s.reader.complete();
             return d;
           })
      .def("header",
           [](const TktSource& s) -> py::object {
             if (!s.reader.has_header()) return py::none();
             return describe(s.reader.header());
           })
      .def(
          "configuration",
          [](const TktSource& s) { return py::bytes(s.reader.header().configuration); },
          "The run's config.ini by zlib; empty where the stream does not tell it.")
      .def("complete", [](const TktSource& s) { return s.reader.complete(); });

  py::class_<MemoryWriter>(m, "TktWriter", "Writes a .tkt stream into memory.")
      .def(py::init([](const py::dict& header) {
             return std::make_unique<MemoryWriter>(header_from(header));
           }),
           py::arg("header"))
      .def("add_static", &add_static, py::arg("pc"), py::arg("upc") = 0, py::arg("op") = 0,
           py::arg("flags") = 0, py::arg("disassembly") = "", py::arg("bytes") = py::bytes(),
           py::arg("src") = Regs{}, py::arg("dst") = Regs{})
      .def("add_row", &add_row, py::arg("sid"), py::arg("flags") = 0, py::arg("addr") = 0,
           py::arg("size") = 0, py::arg("ticks") = std::vector<std::uint64_t>{},
           py::arg("thread") = 0)
      .def("mark", [](MemoryWriter& w, bool begins, std::uint64_t tick,
                      std::uint64_t instructions) { w.writer.mark(begins, tick, instructions); })
      .def(
          "finish", [](MemoryWriter& w, std::uint64_t tick) { w.writer.finish(tick); },
          py::arg("tick") = 0)
      .def("take", [](MemoryWriter& w) {
        w.writer.flush();
        const py::bytes out(w.out);
        w.out.clear();
        return out;
      });
}

}  // namespace tracekit
