#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "isa/text_decode.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

template <class Regs>
std::vector<std::pair<int, int>> pairs(const Regs& regs) {
  std::vector<std::pair<int, int>> out;
  for (const Reg& r : regs) out.emplace_back(static_cast<int>(r.cls), r.index);
  return out;
}

py::dict decode(const std::string& arch, const std::string& disassembly,
                const std::optional<std::string>& op, const std::vector<std::string>& flags,
                std::uint64_t pc, std::uint16_t upc, bool infer_flags) {
  StaticInst inst;
  inst.disassembly = disassembly;
  inst.pc = pc;
  inst.upc = upc;
  inst.inferred = !op || infer_flags;
  if (op) inst.op = op_class_from(*op).value_or(OpClass::Other);
  for (const std::string& f : flags) inst.flags |= flag_from(f).value_or(0);
  decode_text(arch_of(arch), inst);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < flag_names.size(); ++i)
    if (inst.has(Flags{1} << i)) names.emplace_back(flag_names[i]);
  py::dict d;
  d["op"] = op && inst.op == OpClass::Other
                ? *op
                : std::string(op_class_names[static_cast<std::size_t>(inst.op)]);
  d["flags"] = names;
  d["src"] = pairs(inst.src);
  d["dst"] = pairs(inst.dst);
  d["access_size"] = inst.access_size;
  d["branch"] = static_cast<int>(inst.branch);
  d["syscall"] = is_syscall(inst);
  d["displacement"] = x86_branch_displacement(inst);
  return d;
}

// Classes and indices of the operands that gem5's cores rename, as the columns of a static table.
py::tuple renamed_operands(const py::list& disassembly, const py::array_t<std::uint16_t>& upc,
                           const py::array_t<std::uint64_t>& flags) {
  const auto n = static_cast<py::ssize_t>(disassembly.size());
  if (upc.ndim() != 1 || flags.ndim() != 1 || upc.size() != n || flags.size() != n)
    throw std::invalid_argument("one upc and one word of flags for each disassembly");
  const auto both = [n](auto width) {
    const std::array shape{n, static_cast<py::ssize_t>(width)};
    return std::pair(py::array_t<std::uint8_t>(shape), py::array_t<std::uint16_t>(shape));
  };
  auto [src_class, src_index] = both(max_src);
  auto [dst_class, dst_index] = both(max_dst);
  const auto fill = [](const auto& regs, std::size_t width, std::uint8_t* cls,
                       std::uint16_t* index) {
    for (std::size_t i = 0; i < width; ++i) {
      cls[i] = i < regs.size() ? static_cast<std::uint8_t>(regs[i].cls) : std::uint8_t{255};
      index[i] = i < regs.size() ? regs[i].index : std::uint16_t{0};
    }
  };
  for (py::ssize_t i = 0; i < n; ++i) {
    StaticInst inst;
    inst.disassembly = disassembly[static_cast<std::size_t>(i)].cast<std::string>();
    inst.upc = upc.at(i);
    inst.flags = flags.at(i);
    decode_renamed(inst);
    fill(inst.src, max_src, src_class.mutable_data(i, 0), src_index.mutable_data(i, 0));
    fill(inst.dst, max_dst, dst_class.mutable_data(i, 0), dst_index.mutable_data(i, 0));
  }
  return py::make_tuple(src_class, src_index, dst_class, dst_index);
}

}  // namespace

void register_isa(py::module_& m) {
  m.def(
      "detect_arch", [](const std::string& raw) { return arch_name(detect_arch(raw)); },
      py::arg("raw"));
  m.def("decode_text", &decode, py::arg("arch"), py::arg("disassembly"), py::arg("op") = py::none(),
        py::arg("flags") = std::vector<std::string>{}, py::arg("pc") = 0, py::arg("upc") = 0,
        py::arg("infer_flags") = false, "One line of disassembly as the extractor understands it.");
  m.def("renamed_operands", &renamed_operands, py::arg("disassembly"), py::arg("upc"),
        py::arg("flags"), "Operands of X86 micro-ops as gem5's cores rename them.");
}

}  // namespace tracekit
