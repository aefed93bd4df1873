#include "sim/predictors/counters.hpp"

namespace tracekit::bp {
namespace {

std::uint16_t moved(std::uint16_t history, bool taken, unsigned size) {
  return static_cast<std::uint16_t>((history << 1 | int{taken}) & (size - 1));
}

std::uint16_t place(std::uint64_t address, unsigned size) {
  return static_cast<std::uint16_t>(address & (size - 1));
}

}  // namespace

bool Local::fetch(const BranchEvent& branch) {
  const std::uint16_t at = place(branch.pc >> 2, 1024);
  const bool predicted = !branch.conditional() || counters_.high(at);
  in_flight_.push() = {at, branch.learnt(predicted)};
  return predicted;
}

void Local::commit() {
  const Record& r = in_flight_.pop();
  counters_.count(r.at, r.taken);
}

bool Tournament::fetch(const BranchEvent& branch) {
  last_ = place(branch.pc >> 2, 2048);
  std::uint16_t& history = history_[last_];
  const bool conditional = branch.conditional();
  Record r{history, path_, local_.high(history), global_.high(path_), conditional, branch.taken};
  const bool predicted = !conditional || (choice_.high(r.global) ? r.by_global : r.by_local);
  r.taken = branch.learnt(predicted);
  in_flight_.push() = r;
  if (conditional) history = moved(history, r.taken, 2048);
  path_ = moved(path_, r.taken, 8192);
  return predicted;
}

void Tournament::commit() {
  const Record& r = in_flight_.pop();
  if (r.conditional && r.by_local != r.by_global) choice_.count(r.global, r.by_global == r.taken);
  global_.count(r.global, r.taken);
  if (r.conditional) local_.count(r.local, r.taken);
}

bool BiMode::fetch(const BranchEvent& branch) {
  const std::uint16_t choice = place(branch.pc >> 2, 8192),
                      at = place((branch.pc >> 2) ^ path_, 8192);
  const bool mostly = !branch.conditional() || choice_.high(choice);
  const bool predicted = !branch.conditional() || (mostly ? taken_ : untaken_).high(at);
  const bool taken = branch.learnt(predicted);
  in_flight_.push() = {choice, at, mostly, predicted, taken};
  path_ = moved(path_, taken, 8192);
  return predicted;
}

void BiMode::commit() {
  const Record& r = in_flight_.pop();
  (r.mostly ? taken_ : untaken_).count(r.at, r.taken);
  if (r.predicted != r.taken || r.predicted == r.mostly) choice_.count(r.choice, r.taken);
}

bool Local::foresee(std::uint64_t pc) { return counters_.high(place(pc >> 2, 1024)); }

void Tournament::go_wrong(bool other) {
  right_path_ = path_;
  if (!other) return;
  path_ ^= 1;
  change(last_, history_[last_] ^ 1);
}

bool Tournament::foresee(std::uint64_t pc) {
  return choice_.high(path_) ? global_.high(path_) : local_.high(history_[place(pc >> 2, 2048)]);
}

void Tournament::pass(std::uint64_t pc, BranchKind kind, bool taken) {
  if (kind == BranchKind::conditional) {
    const std::uint16_t at = place(pc >> 2, 2048);
    change(at, moved(history_[at], taken, 2048));
  }
  path_ = moved(path_, taken, 8192);
}

void Tournament::go_back() {
  path_ = right_path_;
  for (; !changed_.empty(); changed_.pop_back()) history_[changed_.back().at] = changed_.back().was;
}

void Tournament::change(std::uint16_t at, int history) {
  changed_.push_back({at, history_[at]});
  history_[at] = static_cast<std::uint16_t>(history);
}

void BiMode::go_wrong(bool other) {
  right_path_ = path_;
  path_ ^= static_cast<std::uint16_t>(other);
}

bool BiMode::foresee(std::uint64_t pc) {
  const bool mostly = choice_.high(place(pc >> 2, 8192));
  return (mostly ? taken_ : untaken_).high(place((pc >> 2) ^ path_, 8192));
}

void BiMode::pass(std::uint64_t, BranchKind, bool taken) { path_ = moved(path_, taken, 8192); }

void BiMode::go_back() { path_ = right_path_; }

}  // namespace tracekit::bp
