#include "bind/register.hpp"
#include "core/add_chain.hpp"
#include "core/cpu.hpp"
#include "core/no_such_isa.hpp"
#include "core/op_class.hpp"
#include "core/static_inst.hpp"

namespace py = pybind11;

namespace tracekit {

void register_core(py::module_& m) {
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const NoSuchIsa& e) {
      const py::object type = py::module_::import("tracekit.errors").attr("UsageError");
      PyErr_SetString(type.ptr(), e.what());
    }
  });
  m.def(
      "active_isa", [] { return std::string(isa_name(active_isa())); },
      "The instruction set that the kernels use (TRACEKIT_ISA forces one).");
  m.def(
      "add_chain_seconds",
      [](std::uint64_t rounds) {
        const py::gil_scoped_release unlocked;
        return add_chain_seconds(rounds);
      },
      py::arg("rounds"),
      "Processor seconds of 64 * rounds dependent additions; -1 where there is no chain.");
  m.def(
      "free_adds_seconds",
      [](std::uint64_t rounds) {
        const py::gil_scoped_release unlocked;
        return free_adds_seconds(rounds);
      },
      py::arg("rounds"), "The same of additions that do not wait for each other.");
  py::list ops, refs, flags, kinds;
  for (auto n : op_class_names) ops.append(py::str(n.data(), n.size()));
  for (auto r : op_class_ref) refs.append(py::int_(r));
  for (auto n : flag_names) flags.append(py::str(n.data(), n.size()));
  for (auto n : branch_kind_names) kinds.append(py::str(n.data(), n.size()));
  m.attr("BRANCH_KINDS") = py::tuple(kinds);
  m.attr("OP_CLASSES") = py::tuple(ops);
  m.attr("OP_CLASS_REF") = py::tuple(refs);
  m.attr("FLAGS") = py::tuple(flags);
}

}  // namespace tracekit
