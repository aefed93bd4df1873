#pragma once

#include <memory>

#include "sim/predictors/direction_predictor.hpp"

namespace tracekit {

// The predictor of a number of core_parameters.hpp's.
std::unique_ptr<DirectionPredictor> make_predictor(unsigned kind);

}  // namespace tracekit
