#include "sim/functional_pass.hpp"

#include <algorithm>
#include <atomic>
#include <ranges>
#include <set>
#include <thread>

#include "sim/cache.hpp"
#include "sim/in_order_lines.hpp"
#include "sim/predictors/make.hpp"
#include "sim/wrong_path_lines.hpp"

namespace tracekit {
namespace {

// Branches that are fetched before one's outcome is taught, as in a pipeline: predictors of loops
// learn other things when they hear of each outcome at once.
constexpr std::size_t lag = 8;

// A machine in the middle of those that there are: cycles until a misprediction is resolved, and
// until a line is there that the first cache has, or has not; rows a cycle.  Measured, on python,
// cc1, lua.arm, xz, speedtest1.arm: half as long or twice makes little difference.
constexpr Cycle to_resolve = 14, hit = 3, miss = 15;
constexpr int typical_width = 4;

// So many touches of lines later a line ahead may be asked for again.
constexpr std::uint64_t just_now = 256;

// Those whose histories move on when branches commit look up what they have learnt with the history
// that they had then; where nothing was in flight that is each branch's own past, whatever the
// core.
std::size_t lag_of(unsigned predictor) {
  return predictor >= predictor::tage_sc_l_8kb && predictor < predictor::count ? 1 : lag;
}

// The first caches of those cores, each once.
template <typename Cores, typename Shape>
std::vector<warm::CacheShape> shapes(Cores&& cores, const Shape& shape) {
  std::set<warm::CacheShape> out;
  for (const CoreParameters& p : cores) out.insert(shape(p));
  return {out.begin(), out.end()};
}

}  // namespace

FunctionalPass::FunctionalPass(std::span<const CoreParameters> cores)
    : data_(shapes(
          cores, [](const CoreParameters& p) { return Cache::shape(p.l1d_kb(), p.l1d_assoc()); })),
      typical_(predictor::tournament, 2048, 16),
      cores_(cores.begin(), cores.end()) {
  for (const bool in_order : {false, true}) {
    const auto own = shapes(
        cores | std::views::filter([&](const auto& p) { return (p.in_order() != 0) == in_order; }),
        [](const CoreParameters& p) { return Cache::shape(p.l1i_kb(), p.l1i_assoc()); });
    if (!own.empty()) code_[in_order].emplace(own);
  }
  for (const CoreParameters& p : cores) {
    const auto kind = static_cast<unsigned>(p.predictor());
    const auto entries = static_cast<std::size_t>(p.btb());
    const auto returns = static_cast<std::size_t>(p.ras());
    if (!predictor_.contains(kind))
      predictor_.emplace(kind, Learner{make_predictor(kind), lag_of(kind)});
    btb_.try_emplace(entries, entries);
    returns_.try_emplace(returns, returns);
  }
}

FunctionalPass::Set FunctionalPass::set_of(const CoreParameters& core) {
  return {static_cast<std::size_t>(core.predictor()), static_cast<std::size_t>(core.btb()),
          static_cast<std::size_t>(core.ras())};
}

void FunctionalPass::branch(const CodeMap& code, std::uint32_t part, bool taken,
                            std::uint32_t target) {
  const CoreInst& inst = code.insts()[part];
  BranchEvent branch{inst.pc, code.insts()[target].pc, static_cast<BranchKind>(inst.branch), taken,
                     inst.is(CoreInst::compressed_branch)};
  branches_.push_back(branch);
  branch.compressed = false;
  const bool indirect_right = targets_.right(branch);
  const auto guess = typical_.fetch(branch, indirect_right, ++branches_seen_);
  typical_.commits(branches_seen_ + static_cast<Cycle>(lag));
  if (guess == BranchUnit::Guess::wrong && code_[false])
    fetch_wrong_lines(code, history_, part, taken, typical_width, 0, to_resolve,
                      [&](std::uint64_t line, Cycle at) {
                        return at + (code_[false]->touch(line, ++stamp_, false) ? hit : miss);
                      });
  if ((taken || guess != BranchUnit::Guess::right) && code_[true])
    for (std::uint64_t k = 1; k <= InOrderLines::lines_ahead; ++k)
      fetch_ahead((branch.pc >> line_bits) + k);
  history_.remember(code, part, taken, target, typical_.predicted_taken());
}

void FunctionalPass::fetch_ahead(std::uint64_t line) {
  Ahead& last = ahead_[line % ahead_.size()];
  if (last.line == line && stamp_ - last.stamp < just_now) return;
  code_[true]->touch(line, ++stamp_, false);
  last = {line, stamp_};
}

void FunctionalPass::own_units() {
  for (const CoreParameters& p : cores_)
    if (!p.in_order() && !units_.contains(set_of(p))) units_.emplace(set_of(p), branches(p));
  const auto nobody_asks = [&](const auto& part, std::size_t which) {
    return std::ranges::none_of(cores_, [&](const CoreParameters& p) {
      return p.in_order() && set_of(p)[which] == part.first;
    });
  };
  std::erase_if(predictor_, [&](const auto& part) { return nobody_asks(part, 0); });
  std::erase_if(btb_, [&](const auto& part) { return nobody_asks(part, 1); });
  std::erase_if(returns_, [&](const auto& part) { return nobody_asks(part, 2); });
}

void FunctionalPass::end_block(unsigned threads) {
  const auto compressed = [](const BranchEvent& b) { return b.compressed; };
  if (units_.empty() && std::ranges::any_of(branches_, compressed)) own_units();
  struct OwnUnit {
    BranchUnit* unit;
    Cycle lag;
  };
  std::vector<OwnUnit> units;
  for (auto& [set, unit] : units_)
    units.push_back({&unit, static_cast<Cycle>(lag_of(static_cast<unsigned>(set[0])))});
  const Cycle before = branches_seen_ - static_cast<Cycle>(branches_.size());
  for (const BranchEvent& b : branches_)
    for (auto& [size, stack] : returns_) stack.right(b);
  for (auto& [size, buffer] : btb_)
    for (const BranchEvent& b : branches_)
      if (b.taken && BranchUnit::in_btb(b.kind)) buffer.of(b.pc).put(b.pc, b.next);
  std::vector<Learner*> kinds;
  for (auto& [kind, learner] : predictor_) kinds.push_back(&learner);
  std::atomic<std::size_t> turn{0};
  const auto learn = [&] {
    for (std::size_t k; (k = turn.fetch_add(1)) < kinds.size() + units.size();) {
      for (std::size_t i = 0; i < branches_.size(); ++i) {
        BranchEvent b = branches_[i];
        if (k < units.size()) {
          const Cycle now = before + static_cast<Cycle>(i);
          units[k].unit->fetch(b, true, now);
          units[k].unit->commits(now + units[k].lag);
          continue;
        }
        b.compressed = false;
        Learner& l = *kinds[k - units.size()];
        if (l.in_flight == l.lag)
          l.predictor->commit();
        else
          ++l.in_flight;
        l.predictor->fetch(b);
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (unsigned t = 1; t < std::min<std::size_t>(threads, kinds.size() + units.size()); ++t)
      pool.emplace_back(learn);
    learn();
  }
  branches_.clear();
}

BranchUnit FunctionalPass::branches(const CoreParameters& core) const {
  const auto own = units_.find(set_of(core));
  if (!core.in_order() && own != units_.end()) return own->second.settled();
  const Learner& l = predictor_.at(static_cast<unsigned>(core.predictor()));
  auto p = l.predictor->clone();
  for (std::size_t i = 0; i < l.in_flight; ++i) p->commit();
  return {std::move(p), btb_.at(static_cast<std::size_t>(core.btb())),
          returns_.at(static_cast<std::size_t>(core.ras()))};
}

}  // namespace tracekit
