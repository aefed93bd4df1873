// A direction predictor that is taught a branch when that commits, which is when gem5 tells its
// predictors (BPredUnit::update in Fetch's checkSignalsAndUpdate).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "sim/cycle.hpp"
#include "sim/predictors/direction_predictor.hpp"
#include "sim/predictors/in_flight.hpp"

namespace tracekit {

class LatePredictor {
 public:
  explicit LatePredictor(std::unique_ptr<DirectionPredictor> predictor)
      : predictor_(std::move(predictor)) {}
  DirectionPredictor& operator*() const { return *predictor_; }
  DirectionPredictor* operator->() const { return predictor_.get(); }
  // What has committed by `now`.
  void learn(Cycle now) {
    while (!commits_.empty() && commits_.oldest() < now) {  // known in the next cycle
      commits_.pop();
      predictor_->commit();
    }
  }
  // The branch fetched last commits at `at`.
  void commits(Cycle at) { commits_.push() = at; }
  // Another one that has learnt the same, and what this one has fetched besides.
  std::unique_ptr<DirectionPredictor> settled() const {
    auto out = predictor_->clone();
    for (std::size_t k = 0; k < commits_.size(); ++k) out->commit();
    return out;
  }

 private:
  std::unique_ptr<DirectionPredictor> predictor_;
  bp::InFlight<Cycle> commits_;
};

}  // namespace tracekit
