#include "sim/core_set.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "core/row_batch.hpp"
#include "core/static_inst.hpp"
#include "core/touched_lines.hpp"
#include "sim/in_order_core.hpp"
#include "sim/op_use.hpp"
#include "sim/out_of_order_core.hpp"

namespace tracekit {
namespace {

std::vector<CoreInst> packed(std::vector<CoreInst> insts) {
  for (CoreInst& inst : insts) inst.pack(multiplies(inst.op) || divides(inst.op));
  return insts;
}

// Whether what its predictor learns is of use only where as many branches are in flight as were
// when it learnt: TAGE-SC-L looks a branch up with a history of those that have committed.  How
// many there are a walk alone knows.
bool knows_what_is_in_flight(const CoreParameters& p) {
  const auto kind = static_cast<unsigned>(p.predictor());
  return kind == predictor::tage_sc_l_8kb || kind == predictor::tage_sc_l_64kb;
}
// So many rows at most are walked for what one without learns otherwise.
constexpr std::size_t walked_instead = 16'000;

}  // namespace

SimulatedCores::SimulatedCores(std::vector<CoreInst> insts, std::vector<RegisterValue> values,
                               unsigned reach, std::vector<std::uint32_t> begin,
                               MicrocodeLoops loops, bool joined, ProgramImage image,
                               std::span<const CoreParameters> cores, bool causes)
    : SimulatedCores(std::make_shared<const Program>(
                         Program{CodeMap(packed(std::move(insts)), std::move(values), reach),
                                 std::move(begin), std::move(loops), joined, image}),
                     cores, causes) {}

SimulatedCores::SimulatedCores(std::shared_ptr<const Program> program,
                               std::span<const CoreParameters> cores, bool causes)
    : program_(std::move(program)),
      causes_(causes),
      parameters_(cores.begin(), cores.end()),
      pages_(program_->image) {
  cores_.reserve(cores.size());
  const auto make = [&]<template <bool> class Kind>(const auto&... with) {
    if (causes)
      cores_.push_back(std::make_unique<Kind<true>>(with...));
    else
      cores_.push_back(std::make_unique<Kind<false>>(with...));
  };
  for (const CoreParameters& p : cores) {
    if (p.in_order())
      make.template operator()<InOrderCore>(p, program_->code);
    else
      make.template operator()<OutOfOrderCore>(p, program_->code);
  }
}

template <class DoPart>
void SimulatedCores::each_part(const Block& block, std::size_t row, std::uint64_t& loops,
                               const DoPart& do_part) const {
  const auto& begin = program_->begin;
  const std::uint32_t sid = block.sid[row], to = begin[sid + 1];
  const std::uint32_t behind = begin[block.behind(row)];
  const bool taken = (block.bits[row] & row_bit::taken) != 0;
  bool traps = (block.bits[row] & row_bit::fault) != 0;
  if (traps && program_->joined) {  // up to its access, then all of it again
    const std::uint32_t trapping = first_access(sid);
    if (trapping < to) {
      for (std::uint32_t k = begin[sid]; k < trapping; ++k) do_part(k, false, k + 1, false);
      do_part(trapping, false, begin[sid], true);
    }
    traps = false;
  }
  const MicrocodeLoop* loop = program_->loops.of(sid);
  unsigned turns = loop ? loop->turns_of(loops++) : 0;
  const std::span<const CoreInst> insts = program_->code.insts();
  for (std::uint32_t k = begin[sid]; k < to; ++k) {
    if (k + 1 == to || insts[k].branch == 0) {
      do_part(k, taken, behind, traps);
    } else if (loop && k == loop->branch && turns > 0) {  // a branch of the microcode
      --turns;
      do_part(k, true, loop->from, false);
      k = loop->from - 1;
    } else {
      do_part(k, false, k + 1, false);
    }
  }
}

std::uint32_t SimulatedCores::first_access(std::uint32_t sid) const {
  const auto& begin = program_->begin;
  std::uint32_t k = begin[sid];
  while (k < begin[sid + 1] && !program_->code.insts()[k].is(CoreInst::load | CoreInst::store)) ++k;
  return k;
}

void SimulatedCores::prepare(const Block& block, std::uint8_t* difficulty) {
  const CodeMap& code = program_->code;
  const std::vector<std::uint32_t>& begin = program_->begin;
  const std::span<const CoreInst> insts = code.insts();
  const std::size_t n = block.sid.size();
  walks_ = true;
  rows_.clear();
  if (difficulty) {
    std::fill_n(difficulty, n, std::uint8_t{0});
    if (!difficulty_) difficulty_.emplace();
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t to = begin[block.sid[i] + 1];
    const std::uint64_t address = physical(block, i);
    const auto add = [&](std::uint32_t k, bool goes, std::uint32_t target, bool traps) {
      const CoreInst& inst = insts[k];
      const std::uint64_t behind = insts[target].pc;
      const auto kind = static_cast<BranchKind>(inst.branch);
      const bool taken = kind != BranchKind::none && goes;
      bool indirect_right = true;
      if (kind != BranchKind::none) {
        const BranchEvent branch{inst.pc, behind, kind, taken};
        indirect_right = targets_.right(branch);
        if (difficulty) difficulty[i] |= difficulty_->wrong(branch, indirect_right);
      }
      // The calls of the system trap too, but what follows them is told by their flags.
      const bool fault =
          inst.is(CoreInst::traps) || (traps && inst.is(CoreInst::load | CoreInst::store));
      rows_.push_back({&inst, address + inst.offset, behind, taken, indirect_right, fault,
                       k + 1 == to && !(traps && program_->joined), target});
    };
    each_part(block, i, walked_loops_, add);
  }
  const std::size_t own = rows_.size();
  for (std::size_t i = 0; i < block.ahead.size(); ++i) {  // which no predictor meets here
    const Row& row = block.ahead[i];
    const bool last = i + 1 == block.ahead.size();
    const std::uint32_t target = begin[last ? row.sid : block.ahead[i + 1].sid];
    for (std::uint32_t k = begin[row.sid]; k < begin[row.sid + 1]; ++k) {
      const bool taken = !last && insts[k].branch != 0 && (row.bits & row_bit::taken);
      rows_.push_back({&insts[k], pages_.later(row.addr) + insts[k].offset, insts[target].pc, taken,
                       true, false, false, target});
    }
  }
  rows_.push_back({});  // the end; from here on no row moves
  divisions_.clear();
  for (const CoreRow& row : rows_)
    if (row.inst && divides(row.inst->op)) divisions_.push_back(&row);
  own_ = {rows_.data(), own};
}

std::uint64_t SimulatedCores::physical(const Block& block, std::size_t row) {
  const std::uint64_t address = block.addr[row];
  if (block.bits[row] & row_bit::fault && address != 0) {
    const std::uint32_t sid = block.sid[row], part = first_access(sid);
    if (part < program_->begin[sid + 1]) {
      const CoreInst& inst = program_->code.insts()[part];
      pages_.trap(address + inst.offset, inst.bytes);
    }
  }
  return pages_.physical(address);
}

std::vector<std::size_t> SimulatedCores::first_parts(std::span<const std::uint32_t> rows) const {
  std::vector<std::size_t> out;
  std::size_t k = 0, row = 0;
  for (const std::uint32_t to : rows) {
    for (; row < to; ++row)
      while (!own_[k++].last) {
      }
    out.push_back(k);
  }
  return out;
}

template <class Work>
void SimulatedCores::each_core(unsigned threads, const Work& work) {
  std::atomic<std::size_t> turn{0};
  const auto some = [&] {
    auto with = work();
    ValuesAround values(program_->code, own_);
    for (std::size_t k; (k = turn.fetch_add(1)) < cores_.size();) {
      cores_[k]->look_around(values, divisions_);
      with(k);
    }
  };
  std::vector<std::jthread> pool;
  for (unsigned t = 1; t < std::min<std::size_t>(threads, cores_.size()); ++t)
    pool.emplace_back(some);
  some();
}

void SimulatedCores::run(const Block& block, float* out, unsigned threads, bool timed,
                         std::uint8_t* difficulty) {
  prepare(block, difficulty);
  each_core(threads, [&] {
    return [&](std::size_t k) {
      if (timed)
        cores_[k]->run_timed(own_, out + k * core_timing::count,
                             cores_.size() * core_timing::count);
      else
        cores_[k]->run(own_, out + k, cores_.size());
    };
  });
}

void SimulatedCores::sums(const Block& block, std::span<const std::uint32_t> edges, double* out,
                          unsigned threads) {
  prepare(block);
  const std::vector<std::size_t> parts = first_parts(edges);
  each_core(threads, [&] {
    return [&](std::size_t k) { cores_[k]->run_sums(own_, parts, out + k, cores_.size()); };
  });
}

void SimulatedCores::class_sums(const Block& block, std::span<const std::uint16_t> labels,
                                std::size_t classes, double* out, unsigned threads) {
  prepare(block);
  const std::size_t rows = block.sid.size();
  each_core(threads, [&] {
    return [&, cycles = std::vector<float>(rows), later = std::vector<std::uint32_t>(rows),
            sums = std::vector<double>(classes)](std::size_t k) mutable {
      cores_[k]->run(own_, cycles.data(), 1);
      // Most rows retire in the cycle of the one before, and add nothing to any class.
      std::size_t count = 0;
      for (std::uint32_t i = 0; i < rows; ++i) {
        later[count] = i;
        count += cycles[i] != 0;
      }
      std::ranges::fill(sums, 0.0);
      for (std::size_t from = 0; from < labels.size(); from += rows)
        for (const std::uint32_t i : std::span(later).first(count))
          sums[labels[from + i]] += cycles[i];
      for (std::size_t c = 0; c < classes; ++c) out[c * cores_.size() + k] = sums[c];
    };
  });
}

void SimulatedCores::cause_sums(const Block& block, std::span<const std::uint32_t> labels,
                                double* out, unsigned threads) {
  prepare(block);
  each_core(threads, [&] {
    return [&](std::size_t k) {
      cores_[k]->run_causes(own_, labels.data(), out + k * cause_count,
                            cores_.size() * cause_count);
    };
  });
}

FunctionalPass& SimulatedCores::functional_pass() {
  if (!pass_) pass_ = std::make_unique<FunctionalPass>(parameters_);
  return *pass_;
}

void SimulatedCores::observe(const Block& block, unsigned threads) {
  FunctionalPass& pass = functional_pass();
  const CodeMap& code = program_->code;
  const std::span<const CoreInst> insts = code.insts();
  const std::size_t n = block.sid.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t first = physical(block, i);
    pass.row(insts[program_->begin[block.sid[i]]].pc);
    const auto see = [&](std::uint32_t k, bool taken, std::uint32_t target, bool traps) {
      const CoreInst& inst = insts[k];
      if (inst.is(CoreInst::load | CoreInst::store)) {
        if (traps) return;
        const bool store = inst.is(CoreInst::store);
        const std::uint64_t address = first + inst.offset;
        if (store) pass.stores();
        pass.access(address, inst.pc, store);
        if (const std::uint64_t second = second_line(address, inst.bytes))
          pass.access(second, inst.pc, store);
      } else if (inst.branch != 0) {
        pass.branch(code, k, taken, target);
      }
    };
    each_part(block, i, observed_loops_, see);
  }
  pass.end_block(threads);
  observed_ += n;
  if (std::exchange(walks_, false)) walked_ = observed_;
}

void SimulatedCores::observe_lines(const Block& block, unsigned threads) {
  FunctionalPass& pass = functional_pass();
  const std::span<const CoreInst> insts = program_->code.insts();
  for (std::size_t i = 0; i < block.sid.size(); ++i) {
    const CoreInst& inst = insts[program_->begin[block.sid[i]]];
    if (inst.pc == touched_line::code_pc)
      pass.fetch(block.addr[i]);
    else
      pass.access(pages_.physical(block.addr[i]), 0, inst.is(CoreInst::store));
  }
  pass.end_block(threads);
  observed_ += block.sid.size();
}

void SimulatedCores::begin_at(const FunctionalPass& pass, const Block& block,
                              std::uint64_t unwalked, unsigned threads) {
  warm::RecentLines data(pass.data());
  std::array<std::optional<warm::RecentLines>, 2> code;
  std::array<std::optional<warm::ContentsByShape>, 2> contents;
  for (const bool in_order : {false, true}) {
    if (!pass.code(in_order)) continue;
    contents[in_order].emplace(code[in_order].emplace(*pass.code(in_order)), data);
  }
  each_core(threads, [&] {
    return [&](std::size_t k) {
      const bool in_order = parameters_[k].in_order() != 0;
      cores_[k]->restore(*contents[in_order], pass.prefetched(parameters_[k]));
    };
  });
  targets_ = pass.targets();
  prepare(block);
  const std::size_t rows = block.sid.size();
  const double times =
      1 + static_cast<double>(unwalked) / static_cast<double>(std::max<std::size_t>(1, rows));
  const std::array walked{
      static_cast<std::uint32_t>(rows - std::min(rows * 4 / 5, walked_instead))};
  const std::size_t late = own_.size() - first_parts(walked).front();
  each_core(threads, [&] {
    return [&](std::size_t k) {
      const CoreParameters& p = parameters_[k];
      cores_[k]->approach(own_, times, knows_what_is_in_flight(p) ? late : 0, pass.branches(p),
                          pass.history());
    };
  });
}

void SimulatedCores::begin(SimulatedCores& others, const Block& block, unsigned threads) {
  others.walked_loops_ = observed_loops_;
  const FunctionalPass& pass = functional_pass();
  for (const auto& core : others.cores_) core->go_on_behind(pass.stored());
  others.begin_at(pass, block, observed_ - walked_, threads);
  observe(block, threads);
}

void SimulatedCores::begin_behind(const Block& block, unsigned threads) {
  begin(*this, block, threads);
}

SimulatedCores SimulatedCores::begun_behind(const Block& block) {
  SimulatedCores out(program_, parameters_, causes_);
  out.pages_ = pages_;
  begin(out, block, 1);
  return out;
}

void SimulatedCores::events(const Block& block, std::uint8_t* out, unsigned threads) {
  prepare(block);
  each_core(threads, [&] {
    return [&](std::size_t k) { cores_[k]->run_events(own_, out + k, cores_.size()); };
  });
}

}  // namespace tracekit
