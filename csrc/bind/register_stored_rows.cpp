// The rows of a feats.zst once more, for extraction at another level or with other options.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "bind/register.hpp"
#include "bind/rows.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

template <class T>
using Converted = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <class T>
Converted<T> column_of(const py::dict& columns, const char* name, std::size_t rows,
                       std::size_t width = 1) {
  auto a = columns[name].cast<Converted<T>>();
  if (static_cast<std::size_t>(a.size()) != rows * width)
    throw py::value_error(std::string("static column of a wrong length: ") + name);
  return a;
}

// Registers until the first absent one.  `lost`: those that did not fit, told of once for an
// instruction; a vector that is full counts them.
template <class Regs>
void fill(Regs& to, const std::uint8_t* cls, const std::uint16_t* index, std::size_t width,
          unsigned& lost) {
  constexpr std::uint8_t no_reg = 255;
  std::size_t k = 0;
  for (; k < width && cls[k] != no_reg; ++k)
    to.push_back({static_cast<RegClass>(cls[k]), index[k]});
  if (k == width)
    for (; lost; --lost) to.push_back({});
}

// What export_statics gave.
StaticTable import_statics(const py::dict& columns) {
  const auto texts = columns["disassembly"].cast<py::list>();
  const auto codes = columns["bytes"].cast<py::list>(), names = columns["op_name"].cast<py::list>();
  const std::size_t n = texts.size();
  if (codes.size() != n || names.size() != n)
    throw py::value_error("static columns of different lengths");
  const auto pc = column_of<std::uint64_t>(columns, "pc", n);
  const auto flags = column_of<std::uint64_t>(columns, "flags", n);
  const auto upc = column_of<std::uint16_t>(columns, "upc", n);
  const auto access_size = column_of<std::uint16_t>(columns, "access_size", n);
  const auto op = column_of<std::uint8_t>(columns, "op", n);
  const auto branch = column_of<std::uint8_t>(columns, "branch", n);
  const auto inferred = column_of<std::uint8_t>(columns, "inferred", n);
  const auto lost = column_of<std::uint8_t>(columns, "operands_lost", n);
  const auto src_class = column_of<std::uint8_t>(columns, "src_class", n, max_src);
  const auto dst_class = column_of<std::uint8_t>(columns, "dst_class", n, max_dst);
  const auto src_index = column_of<std::uint16_t>(columns, "src_index", n, max_src);
  const auto dst_index = column_of<std::uint16_t>(columns, "dst_index", n, max_dst);
  StaticTable out;
  for (std::size_t i = 0; i < n; ++i) {
    StaticInst s;
    s.pc = pc.data()[i], s.upc = upc.data()[i], s.flags = flags.data()[i];
    s.access_size = access_size.data()[i], s.inferred = inferred.data()[i] != 0;
    if (op.data()[i] >= op_class_names.size() || branch.data()[i] >= branch_kind_names.size())
      throw py::value_error("op class or branch kind out of range");
    s.op = static_cast<OpClass>(op.data()[i]);
    s.branch = static_cast<BranchKind>(branch.data()[i]);
    unsigned left = lost.data()[i];
    fill(s.src, src_class.data() + i * max_src, src_index.data() + i * max_src, max_src, left);
    fill(s.dst, dst_class.data() + i * max_dst, dst_index.data() + i * max_dst, max_dst, left);
    s.disassembly = texts[i].cast<std::string>();
    s.bytes = codes[i].cast<std::string>();
    s.op_name = names[i].cast<std::string>();
    out.add(std::move(s));
  }
  return out;
}

struct StoredRows {
  StaticTable statics;
  Arch arch;
  Handover handover;

  // What happened to a row is known: nothing is asked of the row behind it.
  Rows rows(const Converted<std::uint32_t>& sid, const Converted<std::uint64_t>& addr,
            const Converted<std::uint8_t>& bits,
            const std::optional<std::vector<Converted<std::uint64_t>>>& ticks) {
    const auto n = static_cast<std::size_t>(sid.size());
    const auto same = [n](const auto& a) { return static_cast<std::size_t>(a.size()) == n; };
    if (!same(addr) || !same(bits) || (ticks && ticks->size() != stage::count))
      throw py::value_error("columns of different lengths");
    RowBatch batch = handover.spare();
    batch.timed = ticks.has_value();
    batch.resize(n);
    if (n) {
      std::memcpy(batch.sid.data(), sid.data(), n * sizeof(std::uint32_t));
      std::memcpy(batch.addr.data(), addr.data(), n * sizeof(std::uint64_t));
    }
    for (std::size_t i = 0; i < n; ++i)
      batch.bits[i] = bits.data()[i] | row_bit::taken_known | row_bit::fault_known;
    for (unsigned s = 0; ticks && s < stage::count; ++s) {
      if (!same((*ticks)[s])) throw py::value_error("columns of different lengths");
      if (n) std::memcpy(batch.ticks[s].data(), (*ticks)[s].data(), n * sizeof(std::uint64_t));
    }
    return handover.rows(std::move(batch), arch, statics);
  }
};

}  // namespace

void register_stored_rows(py::module_& m) {
  py::class_<StoredRows>(m, "StoredRows", "The rows of a feats.zst of the micro level once more.")
      .def(py::init([](const py::dict& statics, const std::string& arch) {
             return StoredRows{import_statics(statics), arch_of(arch), {}};
           }),
           py::arg("statics"), py::arg("arch"))
      .def("rows", &StoredRows::rows, py::arg("static_id"), py::arg("addr"), py::arg("bits"),
           py::arg("ticks") = py::none())
      .def(
          "table", [](StoredRows& s) -> const StaticTable& { return s.statics; },
          py::return_value_policy::reference_internal);
}

}  // namespace tracekit
