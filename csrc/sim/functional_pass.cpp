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

// Until a line of code is there that the first cache has, or has not.  Measured, as PassClock's
// times until branches are resolved, on python, cc1, lua.arm, xz, speedtest1.arm: half as long or
// twice makes little difference.
constexpr Cycle hit = 3, miss = 15;

// So many touches of lines later a line ahead may be asked for again.
constexpr std::uint64_t just_now = 256;

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
    if (!predictor_.contains(kind)) predictor_.emplace(kind, make_predictor(kind));
    btb_.try_emplace(entries, entries);
    returns_.try_emplace(returns, returns);
    if (PrefetchedCaches::prefetches(p)) prefetched_.try_emplace(shapes_of(p), p);
  }
}

FunctionalPass::Set FunctionalPass::set_of(const CoreParameters& core) {
  return {static_cast<std::size_t>(core.predictor()), static_cast<std::size_t>(core.btb()),
          static_cast<std::size_t>(core.ras())};
}

FunctionalPass::Shapes FunctionalPass::shapes_of(const CoreParameters& p) {
  return {p.in_order_,   p.l1i_kb_,         p.l1i_assoc_,         p.l1d_kb_,
          p.l1d_assoc_,  p.l1d_prefetch_,   p.l1d_replacement_,   p.l2_kb_,
          p.l2_assoc_,   p.l2_prefetch_,    p.l2_replacement_,    p.l3_kb_,
          p.l3_assoc_,   p.l3_replacement_, p.memory_controller_, p.memory_activate_,
          p.memory_cas_, p.memory_burst_};
}

const PrefetchedCaches* FunctionalPass::prefetched(const CoreParameters& core) const {
  const auto own = prefetched_.find(shapes_of(core));
  return own == prefetched_.end() ? nullptr : &own->second;
}

bool FunctionalPass::touch_code(std::uint64_t line, bool in_order) {
  use(line << line_bits, 0, in_order ? CacheUse::code_in_order : CacheUse::code_out_of_order);
  return code_[in_order]->touch(line, stamp_, false);
}

void FunctionalPass::branch(const CodeMap& code, std::uint32_t part, bool taken,
                            std::uint32_t target) {
  const CoreInst& inst = code.insts()[part];
  BranchEvent branch{inst.pc, code.insts()[target].pc, static_cast<BranchKind>(inst.branch), taken,
                     inst.is(CoreInst::compressed_branch)};
  const Cycle fetched = clock_.now();
  branches_.push_back({branch, fetched, clock_.commits()});
  branch.compressed = false;
  const bool indirect_right = targets_.right(branch);
  const auto guess = typical_.fetch(branch, indirect_right, fetched);
  typical_.commits(clock_.commits());
  if (guess == BranchUnit::Guess::wrong) {
    clock_.mispredicted();
    if (code_[false])
      fetch_wrong_lines(code, history_, part, taken, PassClock::width, 0, PassClock::to_resolve,
                        [&](std::uint64_t line, Cycle at) {
                          ++stamp_;
                          return at + (touch_code(line, false) ? hit : miss);
                        });
  }
  if ((taken || guess != BranchUnit::Guess::right) && code_[true])
    for (std::uint64_t k = 1; k <= InOrderLines::lines_ahead; ++k)
      fetch_ahead((branch.pc >> line_bits) + k);
  history_.remember(code, part, taken, target, typical_.predicted_taken());
}

void FunctionalPass::fetch_ahead(std::uint64_t line) {
  Ahead& last = ahead_[line % ahead_.size()];
  if (last.line == line && stamp_ - last.stamp < just_now) return;
  ++stamp_;
  touch_code(line, true);
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
  const auto compressed = [](const Branch& b) { return b.event.compressed; };
  if (units_.empty() && std::ranges::any_of(branches_, compressed)) own_units();
  for (const Branch& b : branches_)
    for (auto& [size, stack] : returns_) stack.right(b.event);
  for (auto& [size, buffer] : btb_)
    for (const auto& [event, fetched, commits] : branches_)
      if (event.taken && BranchUnit::in_btb(event.kind))
        buffer.of(event.pc).put(event.pc, event.next);
  std::vector<BranchUnit*> units;
  for (auto& [set, unit] : units_) units.push_back(&unit);
  std::vector<LatePredictor*> kinds;
  for (auto& [kind, learner] : predictor_) kinds.push_back(&learner);
  std::vector<PrefetchedCaches*> caches;
  for (auto& [shapes, own] : prefetched_) caches.push_back(&own);
  const auto learn = [&](std::size_t k) {
    if (k < units.size()) {
      for (const Branch& b : branches_) {
        units[k]->fetch(b.event, true, b.fetched);
        units[k]->commits(b.commits);
      }
    } else if (k -= units.size(); k < kinds.size()) {
      for (const auto& [event, fetched, commits] : branches_) {
        kinds[k]->learn(fetched);
        BranchEvent alone = event;
        alone.compressed = false;
        (*kinds[k])->fetch(alone);
        kinds[k]->commits(commits);
      }
    } else {
      caches[k - kinds.size()]->pass(uses_);
    }
  };
  const std::size_t learners = units.size() + kinds.size() + caches.size();
  std::atomic<std::size_t> turn{0};
  const auto some = [&] {
    for (std::size_t k; (k = turn.fetch_add(1)) < learners;) learn(k);
  };
  {
    std::vector<std::jthread> pool;
    for (unsigned t = 1; t < std::min<std::size_t>(threads, learners); ++t) pool.emplace_back(some);
    some();
  }
  branches_.clear();
  uses_.clear();
}

BranchUnit FunctionalPass::branches(const CoreParameters& core) const {
  const auto own = units_.find(set_of(core));
  if (!core.in_order() && own != units_.end()) return own->second.settled();
  return {predictor_.at(static_cast<unsigned>(core.predictor())).settled(),
          btb_.at(static_cast<std::size_t>(core.btb())),
          returns_.at(static_cast<std::size_t>(core.ras()))};
}

}  // namespace tracekit
