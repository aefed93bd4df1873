#include "bind/read_cores.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace py = pybind11;

namespace tracekit {
namespace {

constexpr std::size_t most_cores = 1024;

}  // namespace

std::vector<CoreParameters> read_cores(const py::array_t<double, py::array::c_style>& cores) {
  if (cores.ndim() != 2 || cores.shape(1) != static_cast<py::ssize_t>(core_parameter_count) ||
      cores.shape(0) > static_cast<py::ssize_t>(most_cores))
    throw py::value_error("cores: at most " + std::to_string(most_cores) + " rows of " +
                          std::to_string(core_parameter_count) + " parameters");
  std::vector<CoreParameters> out(static_cast<std::size_t>(cores.shape(0)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double* row = cores.data(static_cast<py::ssize_t>(i), 0);
    for (std::size_t k = 0; k < core_parameter_count; ++k) {
      const auto& range = core_parameter_ranges[k];
      if (!(row[k] >= range.least && row[k] <= range.most))
        throw py::value_error("core " + std::to_string(i) + ": " + std::string(range.name) +
                              " is " + std::to_string(row[k]) + "; from " +
                              std::to_string(range.least) + " to " + std::to_string(range.most));
    }
    std::array<double, core_parameter_count> given;
    std::copy_n(row, given.size(), given.begin());
    out[i] = CoreParameters(std::bit_cast<CoreParameterRow>(given));
  }
  return out;
}

}  // namespace tracekit
