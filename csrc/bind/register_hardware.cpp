#include <string>

#include "bind/register.hpp"
#include "hardware/machine_parameters.hpp"
#include "hardware/op.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

void register_definitions(py::module_& m) {
  py::list ranges;
  for (const auto& r : hardware::parameter_ranges)
    ranges.append(py::make_tuple(std::string(r.name), r.least, r.most));
  m.attr("HARDWARE_PARAMETERS") = py::tuple(ranges);
  py::dict bits;
#define BIT(name, place) bits[#name] = py::int_(std::uint32_t{hardware::op_bit::name});
  TRACEKIT_HARDWARE_OP_BITS(BIT)
#undef BIT
  m.attr("HARDWARE_OP_BITS") = bits;
  m.attr("MOST_SCHEDULERS") = py::int_(hardware::most_schedulers);
}

}  // namespace

void register_hardware(py::module_& m) { register_definitions(m); }

}  // namespace tracekit
