// A user's direction predictor.
#pragma once

#include <utility>

#include "sim/plugins.hpp"
#include "sim/predictors/direction_predictor.hpp"
#include "sim/predictors/in_flight.hpp"

namespace tracekit::bp {

class PluginPredictor : public DirectionPredictor {
 public:
  explicit PluginPredictor(plugin::Entry& entry)
      : of_(entry.predictor), state_(entry, entry.state_bytes), astray_(state_) {}
  bool fetch(const BranchEvent& branch) override {
    resolve_last();
    const bool taken = predict(state_, branch.pc, branch.kind) || !branch.conditional();
    last_ = waiting_.push() = branch;
    unresolved_ = true;
    return taken;
  }
  void commit() override {
    resolve_last();
    const BranchEvent b = waiting_.pop();
    update(state_, b);
    if (on_wrong_path_) update(astray_, b);
  }
  void go_wrong(bool other) override {
    on_wrong_path_ = true;
    asked_ = false;
    astray_.copy(state_);
    if (unresolved_) resolve(astray_, last_.pc, last_.kind, last_.taken != other);
    resolve_last();
  }
  bool foresee(std::uint64_t pc) override {
    asked_ = true;
    return predict(astray_, pc, BranchKind::conditional);
  }
  void pass(std::uint64_t pc, BranchKind kind, bool taken) override {
    if (!std::exchange(asked_, false)) predict(astray_, pc, kind);
    resolve(astray_, pc, kind, taken);
  }
  void go_back() override {
    on_wrong_path_ = false;
    astray_.check();
  }
  std::unique_ptr<DirectionPredictor> clone() const override {
    return std::make_unique<PluginPredictor>(*this);
  }

 private:
  bool predict(plugin::State& state, std::uint64_t pc, BranchKind kind) const {
    return of_.predict(state.at(), pc, static_cast<std::int64_t>(kind)) != 0;
  }
  void resolve(plugin::State& state, std::uint64_t pc, BranchKind kind, bool taken) const {
    if (of_.resolve) of_.resolve(state.at(), pc, static_cast<std::int64_t>(kind), taken);
  }
  void update(plugin::State& state, const BranchEvent& b) const {
    of_.update(state.at(), b.pc, static_cast<std::int64_t>(b.kind), b.taken);
    state.check();
  }
  // Not before it is known that no wrong path begins there, whose state learns of the other
  // outcome.
  void resolve_last() {
    if (std::exchange(unresolved_, false)) resolve(state_, last_.pc, last_.kind, last_.taken);
  }

  const tracekit_predictor of_;
  plugin::State state_, astray_;  // of the right path, of the wrong path
  InFlight<BranchEvent> waiting_;
  BranchEvent last_;  // that was fetched
  bool unresolved_{}, on_wrong_path_{}, asked_{};
};

}  // namespace tracekit::bp
