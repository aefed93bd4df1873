// Parts of a real processor's core on their own, for the tests that compare them with oracles.
#include <cstdint>
#include <vector>

#include "bind/register.hpp"
#include "hardware/indirect_predictor.hpp"
#include "hardware/lines.hpp"
#include "hardware/port_calendar.hpp"
#include "hardware/prefetch.hpp"
#include "hardware/store_buffer.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

using hardware::StoreBuffer;

// What became of each (operation, key): 0 find: 1 where it was there; 1 put: the key that had to
// go; 2 take: 1 where it was there.
std::vector<std::uint64_t> lines(std::size_t entries, std::size_t ways,
                                 const std::vector<std::pair<int, std::uint64_t>>& what) {
  hardware::Lines cache(entries, ways);
  std::vector<std::uint64_t> out;
  for (const auto& [operation, key] : what) {
    if (operation == 0)
      out.push_back(cache.find(key) != nullptr);
    else if (operation == 1)
      out.push_back(cache.put(key).key);
    else
      out.push_back(cache.take(key).key == key);
  }
  return out;
}

// When each (advance to, ready, ports, cycles) issues.
std::vector<Cycle> ports(const std::vector<std::tuple<Cycle, Cycle, std::uint32_t, int>>& wanted) {
  hardware::PortCalendar calendar;
  std::vector<Cycle> out;
  for (const auto& [to, ready, mask, cycles] : wanted) {
    calendar.advance(to);
    out.push_back(calendar.book(ready, mask, cycles));
  }
  return out;
}

// When each (at the earliest, issues so many cycles later) is let in.
std::vector<Cycle> scheduler(int entries, const std::vector<std::pair<Cycle, Cycle>>& given) {
  hardware::Scheduler s(entries);
  std::vector<Cycle> out;
  for (const auto& [at, waits] : given) {
    const Cycle in = s.room(out.empty() ? at : std::max(at, out.back()));
    s.wait(in + waits);
    out.push_back(in);
  }
  return out;
}

// Of each load (address, size, at, stores before it) what the stores (address, size, written) have:
// Match, and the number of the store, from 1 on.
std::vector<std::pair<int, Cycle>> forwards(
    const std::vector<std::tuple<std::uint64_t, unsigned, Cycle>>& stores,
    const std::vector<std::tuple<std::uint64_t, unsigned, Cycle, std::size_t>>& loads) {
  StoreBuffer buffer;
  std::size_t put = 0;
  std::vector<std::pair<int, Cycle>> out;
  for (const auto& [address, size, at, before] : loads) {
    for (; put < before && put < stores.size(); ++put) {
      const auto& [a, n, written] = stores[put];
      StoreBuffer::Store s;
      s.address = a;
      s.size = n;
      s.data = static_cast<Cycle>(put) + 1;
      s.written = written;
      buffer.put(s);
    }
    const StoreBuffer::Found found = buffer.find(address, size, at);
    out.emplace_back(static_cast<int>(found.match), found.store ? found.store->data : 0);
  }
  return out;
}

std::vector<bool> indirect(std::size_t entries,
                           const std::vector<std::pair<std::uint64_t, std::uint64_t>>& branches,
                           std::size_t history) {
  hardware::IndirectPredictor predictor(entries, history);
  std::vector<bool> out;
  for (const auto& [pc, target] : branches) {
    out.push_back(predictor.right(pc, target));
    predictor.push(pc, target);
  }
  return out;
}

std::vector<std::int64_t> strides(
    const std::vector<std::pair<std::uint64_t, std::uint64_t>>& accesses) {
  hardware::StridePrefetcher prefetcher;
  std::vector<std::int64_t> out;
  for (const auto& [pc, address] : accesses) out.push_back(prefetcher.see(pc, address));
  return out;
}

}  // namespace

void register_hardware_parts(py::module_& m) {
  m.def("hardware_lines", lines, py::arg("entries"), py::arg("ways"), py::arg("operations"));
  m.def("hardware_ports", ports, py::arg("wanted"));
  m.def("hardware_scheduler", scheduler, py::arg("entries"), py::arg("given"));
  m.def("hardware_forwards", forwards, py::arg("stores"), py::arg("loads"));
  m.def("hardware_indirect", indirect, py::arg("entries"), py::arg("branches"),
        py::arg("history") = 54);
  m.def("hardware_strides", strides, py::arg("accesses"));
}

}  // namespace tracekit
