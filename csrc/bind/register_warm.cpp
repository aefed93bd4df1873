#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bind/read_cores.hpp"
#include "bind/register.hpp"
#include "sim/prefetched_caches.hpp"
#include "warm/cache_contents.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

// What caches hold after accesses to lines, by their last uses alone: of each set the lines, and
// whether they are dirty.  `first`: sets and ways of the first cache before it, 0 for a first one.
py::list warm_contents(const Array<std::uint64_t>& lines, const Array<std::uint8_t>& writes,
                       std::size_t sets, std::size_t ways,
                       std::pair<std::size_t, std::size_t> first) {
  if (lines.size() != writes.size()) throw py::value_error("columns of different lengths");
  if (sets < 1 || sets > 65536 || ways < 1 || ways > 64) throw py::value_error("no such cache");
  const warm::CacheShape shape{first.first, first.second};
  const bool behind = shape.lines() > 0;
  if (behind && (shape.sets > 65536 || shape.ways > 64)) throw py::value_error("no such cache");
  const std::vector<warm::CacheShape> shapes(behind ? 1 : 0, shape);
  warm::LineHistory code(shapes), data(shapes);
  for (py::ssize_t i = 0; i < lines.size(); ++i)
    data.touch(lines.at(i), static_cast<std::uint64_t>(i) + 1, writes.at(i) != 0);
  const warm::CacheShape own_shape{sets, ways};
  warm::RecentLines recent_code(code), recent_data(data);
  const warm::CacheContents found =
      behind ? warm::CacheContents(own_shape, recent_code, 0, recent_data, 0)
             : warm::CacheContents(own_shape, recent_data);
  const std::uint32_t own = warm::size_bit(sets * ways);
  const std::uint32_t above = behind ? warm::size_bit(shape.lines()) : 0;
  py::list out;
  for (std::size_t s = 0; s < sets; ++s) {
    py::list held;
    for (const warm::HeldLine& l : found.set(s))
      held.append(py::make_tuple(l.line, l.dirty_in(own, above)));
    out.append(held);
  }
  return out;
}

// What a cache holds: of each set line, dirty, prefetched, the one used last first.
py::list held(const Cache& cache) {
  py::list out;
  for (std::size_t s = 0; s < cache.shape().sets; ++s) {
    py::list own;
    for (const Cache::Way& w : cache.ways(s))
      if (w.line != no_line) own.append(py::make_tuple(w.line, bool{w.dirty}, bool{w.prefetched}));
    out.append(own);
  }
  return out;
}

// The data cache and the second one of a machine with prefetchers, after uses of lines:
// PrefetchedCaches.
py::tuple prefetched_contents(const Array<double>& core, const Array<std::uint64_t>& address,
                              const Array<std::uint64_t>& pc, const Array<std::uint8_t>& kind,
                              const Array<std::uint32_t>& rows) {
  const std::vector<CoreParameters> cores = read_cores(core);
  if (cores.size() != 1) throw py::value_error("one core");
  const py::ssize_t n = address.size();
  if (pc.size() != n || kind.size() != n || rows.size() != n)
    throw py::value_error("columns of different lengths");
  std::vector<CacheUse> uses;
  for (py::ssize_t i = 0; i < n; ++i) {
    if (kind.at(i) > CacheUse::store) throw py::value_error("no such kind of use");
    uses.push_back({address.at(i), pc.at(i), rows.at(i), static_cast<CacheUse::Kind>(kind.at(i))});
  }
  PrefetchedCaches caches(cores.front());
  caches.pass(uses);
  return py::make_tuple(held(caches.l1d()), held(caches.l2()));
}

}  // namespace

void register_warm(py::module_& m) {
  m.def("warm_contents", warm_contents, py::arg("lines"), py::arg("writes"), py::arg("sets"),
        py::arg("ways"), py::arg("first") = std::pair<std::size_t, std::size_t>{});
  m.def("prefetched_contents", prefetched_contents, py::arg("core"), py::arg("address"),
        py::arg("pc"), py::arg("kind"), py::arg("rows"));
}

}  // namespace tracekit
