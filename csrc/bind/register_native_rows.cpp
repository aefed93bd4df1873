#include <memory>

#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "formats/champsim/champsim.hpp"
#include "formats/native_rows/native_rows.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

using RegList = std::vector<std::pair<int, int>>;

Reg reg_of(const std::pair<int, int>& r) {
  if (r.first < 0 || r.first > static_cast<int>(RegClass::misc) || r.second < 0 ||
      r.second > 0xffff)
    throw py::value_error("no such register");
  return {static_cast<RegClass>(r.first), static_cast<std::uint16_t>(r.second)};
}

// Native batches to rows, with the static table that the rows point into.
class NativeSource {
 public:
  NativeSource(const EncodingTable& table, Described described, Arch arch, bool halves)
      : rows_(table, statics_, described, halves), arch_(arch) {}
  NativeSource(const NativeSource&) = delete;

  Rows convert(const NativeBatch& in) {
    rows_.convert(in, out_);
    return handover_.all(out_, arch_, statics_);
  }
  Rows finish() {
    rows_.finish(out_);
    return handover_.all(out_, arch_, statics_);
  }
  NativeRows& rows() { return rows_; }
  const StaticTable& statics() const { return statics_; }
  Arch arch() const { return arch_; }

 private:
  StaticTable statics_;
  NativeRows rows_;
  RowBatch out_;
  Handover handover_;
  Arch arch_;
};

// The columns of export_statics that ChampSim needs, as a table again.
StaticTable champsim_statics(const py::dict& d) {
  const auto column = [&](const char* name, auto like) {
    using T = decltype(like);
    return d[name].cast<py::array_t<T, py::array::c_style | py::array::forcecast>>();
  };
  const auto pc = column("pc", std::uint64_t{});
  const auto flags = column("flags", std::uint64_t{});
  const auto op = column("op", std::uint8_t{});
  const auto branch = column("branch", std::uint8_t{});
  const auto src_class = column("src_class", std::uint8_t{});
  const auto dst_class = column("dst_class", std::uint8_t{});
  const auto src_index = column("src_index", std::uint16_t{});
  const auto dst_index = column("dst_index", std::uint16_t{});
  const py::ssize_t n = pc.size();
  const auto wide = [n](const auto& a, std::size_t width) {
    return a.ndim() == 2 && a.shape(0) == n && a.shape(1) == static_cast<py::ssize_t>(width);
  };
  if (flags.size() != n || op.size() != n || branch.size() != n || !wide(src_class, max_src) ||
      !wide(src_index, max_src) || !wide(dst_class, max_dst) || !wide(dst_index, max_dst))
    throw py::value_error("static columns of different lengths");
  StaticTable out;
  for (py::ssize_t i = 0; i < n; ++i) {
    StaticInst s;
    s.pc = pc.at(i);
    s.flags = flags.at(i);
    if (op.at(i) >= op_class_names.size() ||
        branch.at(i) > static_cast<std::uint8_t>(BranchKind::indirect_conditional))
      throw py::value_error("an op class or branch kind that does not exist");
    s.op = static_cast<OpClass>(op.at(i));
    s.branch = static_cast<BranchKind>(branch.at(i));
    constexpr auto last = static_cast<std::uint8_t>(RegClass::misc);
    for (std::size_t k = 0; k < max_src; ++k)
      if (const std::uint8_t c = src_class.at(i, k); c <= last)
        s.src.push_back({static_cast<RegClass>(c), src_index.at(i, k)});
    for (std::size_t k = 0; k < max_dst; ++k)
      if (const std::uint8_t c = dst_class.at(i, k); c <= last)
        s.dst.push_back({static_cast<RegClass>(c), dst_index.at(i, k)});
    out.add(std::move(s));
  }
  return out;
}

struct ChampsimEncoder {
  StaticTable statics;
  ChampsimWriter writer;
};

}  // namespace

void register_native_rows(py::module_& m) {
  py::class_<NativeSource>(m, "NativeSource",
                           "Native batches to rows; see csrc/formats/native_rows/native_rows.hpp.")
      .def(py::init([](const EncodingTable& table, const std::string& described,
                       const std::string& arch, bool halves) {
             const Described how =
                 described == "branch_kind" ? Described::branch_kind
                 : described == "regdeps"   ? Described::regdeps
                 : described == "champsim"
                     ? Described::champsim
                     : throw py::value_error("described: branch_kind, regdeps or champsim");
             return std::make_unique<NativeSource>(table, how, arch_of(arch), halves);
           }),
           py::arg("table"), py::arg("described"), py::arg("arch"), py::arg("halves"),
           py::keep_alive<1, 2>())
      .def(
          "meet",
          [](NativeSource& s, const NativeBatch& batch) {
            std::vector<std::uint32_t> ids;
            s.rows().meet(batch, ids);
            return ids;
          },
          py::arg("batch"),
          "The ids of new encodings that `define` must be told of before a batch with them is "
          "converted.")
      .def(
          "define",
          [](NativeSource& s, std::uint32_t id, unsigned op, std::uint64_t flags, unsigned branch,
             unsigned access_size, const RegList& src, const RegList& dst, const std::string& text,
             unsigned length) {
            if (op >= op_class_names.size() ||
                branch > static_cast<unsigned>(BranchKind::indirect_conditional))
              throw py::value_error("an op class or branch kind that does not exist");
            StaticInst inst;
            inst.op = static_cast<OpClass>(op);
            inst.flags = flags;
            inst.branch = static_cast<BranchKind>(branch);
            inst.access_size = access_size <= 0xffff ? static_cast<std::uint16_t>(access_size) : 0;
            for (const auto& r : src) inst.src.push_back(reg_of(r));
            for (const auto& r : dst) inst.dst.push_back(reg_of(r));
            inst.disassembly = text;
            s.rows().define(id, std::move(inst),
                            static_cast<std::uint8_t>(length <= 255 ? length : 0));
          },
          py::arg("id"), py::arg("op"), py::arg("flags"), py::arg("branch"), py::arg("access_size"),
          py::arg("src"), py::arg("dst"), py::arg("text"), py::arg("length"))
      .def("convert", &NativeSource::convert, py::arg("batch"),
           py::call_guard<py::gil_scoped_release>())
      .def("finish", &NativeSource::finish, py::call_guard<py::gil_scoped_release>())
      .def(
          "table", [](const NativeSource& s) -> const StaticTable& { return s.statics(); },
          py::return_value_policy::reference_internal)
      .def("counters", [](NativeSource& s) { return export_counters(s.rows().anomalies()); })
      .def("arch", [](const NativeSource& s) { return arch_name(s.arch()); })
      .def_property_readonly("instructions",
                             [](NativeSource& s) { return s.rows().instructions(); });

  py::class_<ChampsimEncoder>(m, "ChampsimEncoder")
      .def(py::init([](const py::dict& statics, const std::string& arch) {
             return std::make_unique<ChampsimEncoder>(
                 ChampsimEncoder{champsim_statics(statics), ChampsimWriter(arch_of(arch))});
           }),
           py::arg("statics"), py::arg("arch"))
      .def(py::init([](const std::string& arch) {
             return std::make_unique<ChampsimEncoder>(
                 ChampsimEncoder{{}, ChampsimWriter(arch_of(arch))});
           }),
           py::arg("arch"))
      .def(
          "encode",
          [](ChampsimEncoder& e, const py::array_t<std::uint32_t, py::array::c_style>& sid,
             const py::array_t<std::uint64_t, py::array::c_style>& addr,
             const py::array_t<std::uint8_t, py::array::c_style>& bits) {
            const auto n = static_cast<std::size_t>(sid.size());
            if (addr.size() != sid.size() || bits.size() != sid.size())
              throw py::value_error("columns of different lengths");
            std::vector<std::uint8_t> out;
            {
              const std::uint32_t* ids = sid.data();
              const std::uint64_t* addresses = addr.data();
              const std::uint8_t* b = bits.data();
              py::gil_scoped_release release;
              for (std::size_t i = 0; i < n; ++i)
                if (ids[i] >= e.statics.size())
                  throw std::out_of_range("no such static instruction");
              e.writer.encode(e.statics, ids, addresses, b, n, out);
            }
            return py::bytes(reinterpret_cast<const char*>(out.data()), out.size());
          },
          py::arg("static_id"), py::arg("addr"), py::arg("bits"))
      .def(
          "encode_rows",
          [](ChampsimEncoder& e, const StaticTable& table, const Rows& rows) {
            std::vector<std::uint8_t> out;
            {
              py::gil_scoped_release release;
              const RowBatch& b = rows.batch;
              e.writer.encode(table, b.sid.data(), b.addr.data(), b.bits.data(), b.size(), out);
            }
            return py::bytes(reinterpret_cast<const char*>(out.data()), out.size());
          },
          py::arg("table"), py::arg("rows"),
          "Of rows that have not passed the feature stage; their outcomes must be told by the "
          "source.")
      .def_property_readonly("records", [](const ChampsimEncoder& e) { return e.writer.records(); })
      .def_property_readonly(
          "dropped", [](const ChampsimEncoder& e) { return export_counters(e.writer.dropped()); });
}

}  // namespace tracekit
