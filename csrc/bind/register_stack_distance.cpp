#include <mutex>
#include <optional>

#include "bind/register.hpp"
#include "features/stack_distance.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

// Not converted: a caller should know when megabytes are copied.
using Addresses = py::array_t<std::uint64_t, py::array::c_style>;
using Updates = py::array_t<bool, py::array::c_style>;
using Distances = py::array_t<std::uint32_t>;

Isa isa_of(const std::optional<std::string>& name) {
  if (!name) return active_isa();
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    if (*name == isa_name(isa)) {
      if (isa > active_isa()) throw py::value_error("isa: not on this CPU, or not allowed");
      return isa;
    }
  throw py::value_error("isa: portable, avx2 or avx512");
}

// The lock: two threads may share a stack, for the interpreter's lock is not held in a batch.
struct Bound {
  explicit Bound(const StackDistance::Options& o) : stack(o) {}
  Bound(const Bound& o) : Bound(o, std::scoped_lock<std::mutex>(o.mutex)) {}
  template <class Call>
  auto locked(Call&& call) {
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex);
    return call(stack);
  }
  StackDistance stack;
  mutable std::mutex mutex;

 private:
  Bound(const Bound& o, const std::scoped_lock<std::mutex>&) : stack(o.stack) {}
};

Bound* make_stack_distance(unsigned line_bits, const std::optional<std::string>& isa,
                           std::uint64_t first_stamps, unsigned stamps_per_line,
                           std::uint64_t most_stamps) {
  if (line_bits > 63) throw py::value_error("line_bits: 0 to 63");
  if (most_stamps < 1 || most_stamps > RankTree::most_positions)
    throw py::value_error("most_stamps: 1 to 2**30");
  if (first_stamps < 1 || first_stamps > most_stamps)
    throw py::value_error("first_stamps: 1 to most_stamps");
  if (stamps_per_line < 2 || stamps_per_line > 64)
    throw py::value_error("stamps_per_line: 2 to 64");
  StackDistance::Options o;
  o.line_shift = line_bits;
  o.isa = isa_of(isa);
  o.first_stamps = first_stamps;
  o.stamps_per_line = stamps_per_line;
  o.most_stamps = most_stamps;
  return new Bound(o);
}

std::size_t length(const py::array& a, const char* what) {
  if (a.ndim() != 1) throw py::value_error(std::string(what) + ": one dimension is needed");
  return static_cast<std::size_t>(a.size());
}

// The caller's array, or a new one.
Distances result(const std::optional<Distances>& out, std::size_t n) {
  if (!out) return Distances(static_cast<py::ssize_t>(n));
  if (length(*out, "out") != n || !out->writeable() || (n > 1 && out->strides(0) != 4))
    throw py::value_error("out: writable, contiguous, one for each address");
  return *out;
}

Distances access(Bound& bound, const Addresses& addresses, const std::optional<Distances>& given) {
  const std::size_t n = length(addresses, "addresses");
  Distances out = result(given, n);
  const auto* in = addresses.data();
  auto* to = out.mutable_data();
  bound.locked([&](StackDistance& stack) { stack.access_batch(in, n, to); });
  return out;
}

Distances access_some(Bound& bound, const Addresses& addresses, const Updates& updates,
                      const std::optional<Distances>& given) {
  const std::size_t n = length(addresses, "addresses");
  if (length(updates, "updates") != n) throw py::value_error("updates: one for each address");
  Distances out = result(given, n);
  const auto* in = addresses.data();
  const auto* which = reinterpret_cast<const std::uint8_t*>(updates.data());
  auto* to = out.mutable_data();
  bound.locked([&](StackDistance& stack) { stack.access_batch(in, which, n, to); });
  return out;
}

}  // namespace

void register_stack_distance(py::module_& m) {
  py::class_<Bound>(m, "StackDistance")
      .def(py::init(&make_stack_distance), py::arg("line_bits") = 0, py::kw_only(),
           py::arg("isa") = py::none(), py::arg("first_stamps") = 16384,
           py::arg("stamps_per_line") = 6, py::arg("most_stamps") = RankTree::most_positions)
      .def("access", &access, py::arg("addresses").noconvert(), py::kw_only(),
           py::arg("out").noconvert() = py::none())
      .def("access", &access_some, py::arg("addresses").noconvert(), py::arg("updates").noconvert(),
           py::kw_only(), py::arg("out").noconvert() = py::none())
      .def(
          "access_one",
          [](Bound& b, std::uint64_t address) {
            return b.locked([&](StackDistance& s) { return s.access(address); });
          },
          py::arg("address"))
      .def(
          "peek_one",
          [](Bound& b, std::uint64_t address) {
            return b.locked([&](StackDistance& s) { return s.peek(address); });
          },
          py::arg("address"))
      .def("copy", [](const Bound& b) { return new Bound(b); })
      .def("__copy__", [](const Bound& b) { return new Bound(b); })
      .def("__deepcopy__", [](const Bound& b, const py::dict&) { return new Bound(b); })
      .def_property_readonly(
          "distinct",
          [](Bound& b) { return b.locked([](StackDistance& s) { return s.distinct(); }); })
      .def_property_readonly(
          "nbytes", [](Bound& b) { return b.locked([](StackDistance& s) { return s.bytes(); }); });
  m.attr("COLD") = py::int_(StackDistance::cold);
}

}  // namespace tracekit
