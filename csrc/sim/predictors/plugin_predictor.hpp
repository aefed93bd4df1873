// A user's direction predictor.
#pragma once

#include "sim/plugins.hpp"
#include "sim/predictors/direction_predictor.hpp"
#include "sim/predictors/in_flight.hpp"

namespace tracekit::bp {

class PluginPredictor : public DirectionPredictor {
 public:
  explicit PluginPredictor(plugin::Entry& entry)
      : of_(entry.predictor), state_(entry, entry.state_bytes) {}
  bool fetch(const BranchEvent& branch) override {
    const auto kind = static_cast<std::int64_t>(branch.kind);
    const bool taken = of_.predict(state_.at(), branch.pc, kind) != 0 || !branch.conditional();
    if (of_.resolve) of_.resolve(state_.at(), branch.pc, kind, branch.taken);
    waiting_.push() = branch;
    return taken;
  }
  void commit() override {
    const BranchEvent& b = waiting_.pop();
    of_.update(state_.at(), b.pc, static_cast<std::int64_t>(b.kind), b.taken);
    state_.check();
  }
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<PluginPredictor>(*this);
  }

 private:
  const tracekit_predictor of_;
  plugin::State state_;
  InFlight<BranchEvent> waiting_;
};

}  // namespace tracekit::bp
