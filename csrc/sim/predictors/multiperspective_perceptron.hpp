// The multiperspective perceptron predictor (Jimenez, "Multiperspective Perceptron Predictor",
// CBP-5 2016) as gem5 has it (MultiperspectivePerceptron8KB and 64KB of v24.0,
// src/cpu/pred/multiperspective_perceptron.cc): a sum of weights, each from a table that another
// view of the past indexes.
//
// gem5 does not move histories on speculatively.  A conditional branch is predicted with what has
// committed, and at its own commit it moves the histories on and trains the weights that they
// select then, which are not those that it was predicted with.  Unconditional branches push the
// global and the path history when they are fetched, and do nothing more.
#pragma once

#include <memory>

#include "sim/predictors/direction_predictor.hpp"

namespace tracekit::bp {

std::unique_ptr<DirectionPredictor> multiperspective_perceptron_8kb();
std::unique_ptr<DirectionPredictor> multiperspective_perceptron_64kb();

}  // namespace tracekit::bp
