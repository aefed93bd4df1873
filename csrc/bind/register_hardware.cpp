#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bind/register.hpp"
#include "core/static_inst.hpp"
#include "hardware/core.hpp"
#include "hardware/machine_parameters.hpp"
#include "hardware/op.hpp"
#include "sim/core_parameters.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

[[noreturn]] void refuse(const std::string& why) { throw py::value_error(why); }

template <class T>
Array<T> array_of(const py::dict& arrays, const char* name, std::size_t n, std::size_t width = 1) {
  if (!arrays.contains(name)) refuse(std::string(name) + " is missing");
  auto out = arrays[name].cast<Array<T>>();
  if (static_cast<std::size_t>(out.size()) != n * width)
    refuse(std::string(name) + ": an array of another length");
  return out;
}

std::vector<hardware::PortUse> read_uses(const py::dict& arrays) {
  const auto n = static_cast<std::size_t>(arrays["use_ports"].cast<Array<std::uint32_t>>().size());
  const auto ports = array_of<std::uint32_t>(arrays, "use_ports", n);
  const auto cycles = array_of<float>(arrays, "use_cycles", n);
  const auto kind = array_of<std::uint8_t>(arrays, "use_kind", n);
  std::vector<hardware::PortUse> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (kind.data()[i] >= static_cast<unsigned>(hardware::UseKind::count) ||
        !(cycles.data()[i] >= 0 && cycles.data()[i] <= 4096) || !ports.data()[i])
      refuse("use " + std::to_string(i) + " is none");
    out[i] = {ports.data()[i], cycles.data()[i], static_cast<hardware::UseKind>(kind.data()[i])};
  }
  return out;
}

// Sources and results: registers below most_registers, no_register behind the last.
void check_registers(const hardware::Op& op) {
  for (const std::uint16_t r : op.source)
    if (r != hardware::no_register && r >= hardware::most_registers) refuse("no such register");
  for (const std::uint16_t r : op.result)
    if (r != hardware::no_register && r >= hardware::most_registers) refuse("no such register");
  for (unsigned k = 0; k < hardware::most_sources; ++k)
    if (((op.address_sources | op.data_sources) >> k & 1) != 0 &&
        op.source[k] == hardware::no_register)
      refuse("a role of a source that there is not");
}

hardware::OpTable read_table(const py::dict& arrays) {
  hardware::OpTable out;
  out.uses = read_uses(arrays);
  const auto n = static_cast<std::size_t>(arrays["pc"].cast<Array<std::uint64_t>>().size());
  const auto pc = array_of<std::uint64_t>(arrays, "pc", n);
  const auto flags = array_of<std::uint32_t>(arrays, "flags", n);
  const auto latency = array_of<float>(arrays, "latency", n);
  const auto size = array_of<std::uint16_t>(arrays, "size", n);
  const auto source = array_of<std::uint16_t>(arrays, "source", n, hardware::most_sources);
  const auto result = array_of<std::uint16_t>(arrays, "result", n, hardware::most_results);
  const auto begin = array_of<std::uint32_t>(arrays, "use_begin", n + 1);
  const auto bytes = [&](const char* name) { return array_of<std::uint8_t>(arrays, name, n); };
  const auto length = bytes("length"), uops = bytes("uops"), branch = bytes("branch"),
             fields = bytes("fields"), address = bytes("address_sources"),
             data = bytes("data_sources"), early = bytes("early_destinations"),
             ints = bytes("int_results"), vectors = bytes("vector_results");
  out.ops.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    hardware::Op& op = out.ops[i];
    op.pc = pc.data()[i];
    op.flags = flags.data()[i];
    op.latency = latency.data()[i];
    if (!(op.latency >= 0 && op.latency <= 100'000)) refuse("a latency is out of range");
    op.size = size.data()[i];
    op.length = length.data()[i];
    op.uops = uops.data()[i];
    op.fields = fields.data()[i];
    op.branch = branch.data()[i];
    if (op.branch >= branch_kind_names.size()) refuse("no such kind of branch");
    op.use_begin = begin.data()[i];
    op.use_end = begin.data()[i + 1];
    if (op.use_begin > op.use_end || op.use_end > out.uses.size()) refuse("uses out of order");
    op.address_sources = address.data()[i];
    op.data_sources = data.data()[i];
    op.early_results = early.data()[i];
    op.int_results = ints.data()[i];
    op.vector_results = vectors.data()[i];
    std::memcpy(op.source, source.data() + i * hardware::most_sources, sizeof op.source);
    std::memcpy(op.result, result.data() + i * hardware::most_results, sizeof op.result);
    check_registers(op);
  }
  return out;
}

hardware::MachineParameters read_parameters(const Array<double>& row) {
  if (static_cast<std::size_t>(row.size()) != hardware::parameter_count)
    refuse("parameters: " + std::to_string(hardware::parameter_count) + " numbers");
  for (std::size_t k = 0; k < hardware::parameter_count; ++k) {
    const auto& range = hardware::parameter_ranges[k];
    if (!(row.data()[k] >= range.least && row.data()[k] <= range.most))
      refuse(std::string(range.name) + " is out of range");
  }
  std::array<double, hardware::parameter_count> given;
  std::copy_n(row.data(), given.size(), given.begin());
  const auto out = std::bit_cast<hardware::MachineParameters>(given);
  if (out.predictor >= double{predictor::count}) refuse("no such predictor");
  return out;
}

std::vector<hardware::SchedulerSize> read_schedulers(
    const std::vector<std::pair<int, std::uint32_t>>& given) {
  if (given.empty() || given.size() > hardware::most_schedulers) refuse("schedulers: 1 to 12");
  std::vector<hardware::SchedulerSize> out;
  for (const auto& [entries, ports] : given) {
    if (entries < 1) refuse("a scheduler without entries");
    out.push_back({entries, ports});
  }
  return out;
}

class Core {
 public:
  Core(const py::dict& ops, const Array<double>& parameters,
       const std::vector<std::pair<int, std::uint32_t>>& schedulers)
      : core_(read_parameters(parameters), read_table(ops), read_schedulers(schedulers)) {}

  Array<float> run(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                   const Array<std::uint8_t>& bits, std::uint32_t next) {
    const py::ssize_t n = sid.size();
    if (addr.size() != n || bits.size() != n) refuse("columns of different lengths");
    for (py::ssize_t i = 0; i < n; ++i)
      if (sid.data()[i] >= core_.statics()) refuse("a row names no static instruction");
    if (n && next >= core_.statics()) refuse("next names no static instruction");
    const auto rows = static_cast<std::size_t>(n);
    const hardware::Core::Block block{
        {sid.data(), rows}, {addr.data(), rows}, {bits.data(), rows}, next};
    Array<float> out(n);
    float* to = out.mutable_data();
    {
      py::gil_scoped_release free;
      core_.run(block, to);
    }
    return out;
  }

  py::dict counts() const {
    const auto& c = core_.counts();
    py::dict out;
    out["branches"] = c.branches;
    out["mispredicted"] = c.mispredicted;
    out["loads"] = c.loads;
    out["forwarded"] = c.forwarded;
    out["forward_failed"] = c.forward_failed;
    out["order_clears"] = c.order_clears;
    return out;
  }

 private:
  hardware::Core core_;
};

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
  m.attr("MOST_HARDWARE_REGISTERS") = py::int_(hardware::most_registers);
}

}  // namespace

void register_hardware(py::module_& m) {
  register_definitions(m);
  py::class_<Core>(m, "HardwareCore")
      .def(py::init<const py::dict&, const Array<double>&,
                    const std::vector<std::pair<int, std::uint32_t>>&>(),
           py::arg("ops"), py::arg("parameters"), py::arg("schedulers"))
      .def("run", &Core::run, py::arg("sid"), py::arg("addr"), py::arg("bits"), py::arg("next"))
      .def("counts", &Core::counts);
}

}  // namespace tracekit
