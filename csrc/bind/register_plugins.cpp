#include "bind/register.hpp"
#include "sim/plugins.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

// Addresses are those of functions of the types in tracekit_plugin.h: a Numba cfunc's, or what a
// shared library exports.
template <class F>
F function(std::uint64_t address) {
  return reinterpret_cast<F>(static_cast<std::uintptr_t>(address));
}

unsigned added(std::unique_ptr<plugin::Entry> entry) {
  constexpr std::size_t most = std::size_t{1} << 24;
  if (entry->state_bytes > most) throw py::value_error("a state has at most 16 MiB");
  const unsigned number = plugin::add(std::move(entry));
  if (number == 0) throw py::value_error("no more than 900 plug-ins");
  return number;
}

unsigned add_predictor(const std::string& name, std::size_t bytes, std::uint64_t predict,
                       std::uint64_t resolve, std::uint64_t update) {
  if (!predict || !update) throw py::value_error("predict and update are needed");
  auto e = std::make_unique<plugin::Entry>();
  e->part = plugin::Part::predictor;
  e->name = name;
  e->state_bytes = bytes;
  e->predictor.predict = function<decltype(e->predictor.predict)>(predict);
  e->predictor.resolve = function<decltype(e->predictor.resolve)>(resolve);
  e->predictor.update = function<decltype(e->predictor.update)>(update);
  return added(std::move(e));
}

unsigned add_prefetcher(const std::string& name, std::size_t bytes, std::uint64_t access) {
  if (!access) throw py::value_error("access is needed");
  auto e = std::make_unique<plugin::Entry>();
  e->part = plugin::Part::prefetcher;
  e->name = name;
  e->state_bytes = bytes;
  e->prefetcher.access = function<decltype(e->prefetcher.access)>(access);
  return added(std::move(e));
}

unsigned add_replacement(const std::string& name, std::size_t bytes, std::uint64_t touch,
                         std::uint64_t victim) {
  if (!touch || !victim) throw py::value_error("touch and victim are needed");
  auto e = std::make_unique<plugin::Entry>();
  e->part = plugin::Part::replacement;
  e->name = name;
  e->state_bytes = bytes;
  e->replacement.touch = function<decltype(e->replacement.touch)>(touch);
  e->replacement.victim = function<decltype(e->replacement.victim)>(victim);
  return added(std::move(e));
}

}  // namespace

void register_plugins(py::module_& m) {
  m.def("add_predictor", add_predictor, py::arg("name"), py::arg("state_bytes"), py::arg("predict"),
        py::arg("resolve"), py::arg("update"));
  m.def("add_prefetcher", add_prefetcher, py::arg("name"), py::arg("state_bytes"),
        py::arg("access"));
  m.def("add_replacement", add_replacement, py::arg("name"), py::arg("set_bytes"), py::arg("touch"),
        py::arg("victim"));
  m.def("plugin_complaint", plugin::complaint);
}

}  // namespace tracekit
