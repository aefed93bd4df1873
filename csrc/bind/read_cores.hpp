// Parameters of cores, as Python hands them over.
#pragma once

#include <pybind11/numpy.h>

#include <vector>

#include "sim/core_parameters.hpp"

namespace tracekit {

// Cores x parameters; ValueError tells what is out of range.
std::vector<CoreParameters> read_cores(
    const pybind11::array_t<double, pybind11::array::c_style>& cores);

}  // namespace tracekit
