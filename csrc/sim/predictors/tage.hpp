// gem5's TAGE family of direction predictors, with its default parameters (src/cpu/pred and
// BranchPredictor.py of gem5 v24.0) and its timing.  TAGE and LTAGE move their histories on when a
// branch is fetched, and teach their tables (and count the trips of loops) when it commits;
// TAGE-SC-L moves nothing at all before the branch commits.
#pragma once

#include <memory>

#include "sim/predictors/direction_predictor.hpp"

namespace tracekit::bp {

std::unique_ptr<DirectionPredictor> make_tage();            // TAGE: 7 tables, histories of 5 to 130
std::unique_ptr<DirectionPredictor> make_ltage();           // LTAGE: 12 tables, 4 to 640, and loops
std::unique_ptr<DirectionPredictor> make_tage_sc_l_8kb();   // TAGE_SC_L_8KB
std::unique_ptr<DirectionPredictor> make_tage_sc_l_64kb();  // TAGE_SC_L_64KB

}  // namespace tracekit::bp
