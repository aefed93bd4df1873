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

}  // namespace

void register_isa(py::module_& m) {
  m.def(
      "detect_arch", [](const std::string& raw) { return arch_name(detect_arch(raw)); },
      py::arg("raw"));
  m.def("decode_text", &decode, py::arg("arch"), py::arg("disassembly"), py::arg("op") = py::none(),
        py::arg("flags") = std::vector<std::string>{}, py::arg("pc") = 0, py::arg("upc") = 0,
        py::arg("infer_flags") = false, "One line of disassembly as the extractor understands it.");
}

}  // namespace tracekit
