#include "bind/register.hpp"
#include "core/cpu.hpp"
#include "core/op_class.hpp"

namespace py = pybind11;

namespace tracekit {

void register_core(py::module_& m) {
  m.def(
      "active_isa", [] { return std::string(isa_name(active_isa())); },
      "The instruction set that the kernels use (TRACEKIT_ISA forces one).");
  py::list ops, refs, flags;
  for (auto n : op_class_names) ops.append(py::str(n.data(), n.size()));
  for (auto r : op_class_ref) refs.append(py::int_(r));
  for (auto n : flag_names) flags.append(py::str(n.data(), n.size()));
  m.attr("OP_CLASSES") = py::tuple(ops);
  m.attr("OP_CLASS_REF") = py::tuple(refs);
  m.attr("FLAGS") = py::tuple(flags);
}

}  // namespace tracekit
