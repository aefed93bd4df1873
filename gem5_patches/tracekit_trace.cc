#include "tracekit_trace.hh"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "arch/generic/pcstate.hh"
#include "base/loader/symtab.hh"
#include "base/logging.hh"
#include "cpu/base.hh"
#include "cpu/reg_class.hh"
#include "cpu/thread_context.hh"
#include "enums/OpClass.hh"
#include "enums/StaticInstFlags.hh"
#include "mem/se_translating_port_proxy.hh"
#include "mem/translating_port_proxy.hh"
#include "sim/core.hh"
#include "sim/cur_tick.hh"
#include "sim/full_system.hh"
#include "sim/sim_exit.hh"
#include "tracekit_length.hh"

namespace gem5 {

extern const char* gem5Version;

namespace tracekit_plugin {
namespace {

const std::vector<std::string> reg_classes = {
    "integer",          "floating_point", "vector",        "vector_element",
    "vector_predicate", "condition_code", "miscellaneous", "other"};

std::uint8_t reg_class(const RegId& reg) {
  switch (reg.classValue()) {
    case IntRegClass:
      return 0;
    case FloatRegClass:
      return 1;
    case VecRegClass:
      return 2;
    case VecElemClass:
      return 3;
    case VecPredRegClass:
      return 4;
    case CCRegClass:
      return 5;
    case MiscRegClass:
      return 6;
    default:
      return 7;  // matrix registers, which older versions do not have
  }
}

// The instruction set from the class of its program counter: its mangled name holds the namespace.
std::string isa_of(const PCStateBase& pc) {
  const std::string name = typeid(pc).name();
  for (const auto& [part, isa] : {std::pair<const char*, const char*>{"ArmISA", "arm"},
                                  {"X86ISA", "x86"},
                                  {"RiscvISA", "riscv"},
                                  {"MipsISA", "mips"},
                                  {"PowerISA", "power"},
                                  {"SparcISA", "sparc"}})
    if (name.find(part) != std::string::npos) return isa;
  return "unknown";
}

// The flags as a set: the public interface has a method for each, and prints their names.
struct Flags : StaticInst {
  static const auto& of(const StaticInst& inst) { return inst.*(&Flags::flags); }
};

// Machine code where gem5 keeps it; else (X86) as it stands in the guest's memory.
std::string machine_code(StaticInst& inst, const std::string& isa, Addr pc, unsigned length,
                         ThreadContext* tc) {
  char raw[32];
  std::size_t n = inst.asBytes(raw, sizeof raw);
  if (n > sizeof raw) n = 0;
  if (n) {
    if (isa == "arm") n = std::min<std::size_t>(n, 4);  // what follows is decoder state
    if (isa == "riscv") n = (raw[0] & 3) == 3 ? 4 : 2;
    return std::string(raw, n);
  }
  if (length == 0 || length > sizeof raw) return {};
  const bool read = FullSystem ? TranslatingPortProxy(tc).tryReadBlob(pc, raw, length)
                               : SETranslatingPortProxy(tc).tryReadBlob(pc, raw, length);
  return read ? std::string(raw, length) : std::string();
}

}  // namespace

CpuTrace::CpuTrace(std::string path, const Region& region)
    : path_(std::move(path)),
      region_(region),
      waits_(region.waits),
      done_(path_.empty()),
      slots_(1 << 14) {}

void CpuTrace::describe(ThreadContext* tc, const PCStateBase& pc, const std::string& model,
                        std::uint16_t stages, std::uint16_t knows) {
  tkt::Header h;
  isa_ = isa_of(pc);
  h.isa = isa_;
  h.knows = knows;
  h.tick_frequency = sim_clock::Frequency;
  h.tick_unit = tc->getCpuPtr()->clockPeriod();
  h.stages = stages;
  h.cpu = tc->cpuId();
  h.threads = tc->getCpuPtr()->numThreads;
  h.cpu_name = tc->getCpuPtr()->name();
  h.model = model;
  h.producer = std::string("gem5 ") + gem5Version;
  for (int i = 0; i < enums::Num_OpClass; ++i) h.op_classes.push_back(enums::OpClassStrings[i]);
  for (int i = 0; i < StaticInstFlags::Num_Flags; ++i)
    h.flags.push_back(StaticInstFlags::FlagsStrings[i]);
  h.reg_classes = reg_classes;
  if (configuration_.size() > tkt::max_configuration)
    warn("tracekit: the configuration is too large for the trace, which won't tell its machine");
  else
    h.configuration = std::move(configuration_);
  sink_ = open_sink(path_);
  writer_ = std::make_unique<tkt::Writer>(
      h, [this](const char* data, std::size_t n) { sink_->write(data, n); });
}

void CpuTrace::start() {
  if (done_ || active_) return;
  waits_ = false;
  active_ = true;
  if (writer_) writer_->mark(true, curTick(), seen_);
}

void CpuTrace::stop() {
  if (!active_) return;
  if (before_end_) before_end_();
  active_ = false;
  waits_ = true;
  if (writer_) writer_->mark(false, curTick(), seen_);
}

void CpuTrace::end_at_limit() {
  finish();
  if (region_.exit_when_done) exitSimLoop("tracekit: the traced region is complete");
}

void CpuTrace::finish() {
  if (done_) return;
  if (before_end_) before_end_();
  done_ = true;
  active_ = false;
  if (!writer_) return;
  writer_->finish(curTick());
  sink_->close();
  inform("tracekit: %d rows, %d instructions in %s", writer_->rows(), traced_, path_);
}

std::uint32_t CpuTrace::number(const StaticInstPtr& inst, const PCStateBase& pc,
                               ThreadContext* tc) {
  const Addr at = pc.instAddr();
  const std::uint32_t upc = pc.microPC();
  std::size_t i = hash(inst.get(), at, upc) & (slots_.size() - 1);
  for (; slots_[i].inst; i = (i + 1) & (slots_.size() - 1))
    if (slots_[i].inst == inst.get() && slots_[i].pc == at && slots_[i].upc == upc)
      return slots_[i].sid;
  const std::uint32_t sid = make(inst, pc, tc);
  slots_[i] = {inst.get(), at, upc, sid};
  alive_.push_back(inst);
  if (++used_ * 2 > slots_.size()) grow();
  return sid;
}

void CpuTrace::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& s : old) {
    if (!s.inst) continue;
    std::size_t i = hash(s.inst, s.pc, s.upc) & (slots_.size() - 1);
    while (slots_[i].inst) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = s;
  }
}

std::uint32_t CpuTrace::make(const StaticInstPtr& inst, const PCStateBase& pc, ThreadContext* tc) {
  tkt::Static s;
  s.pc = pc.instAddr();
  s.upc = static_cast<std::uint16_t>(pc.microPC());
  s.op = static_cast<std::uint16_t>(inst->opClass());
  // A taken branch of X86 has lost its length by the time it commits; its first micro-op had it.
  unsigned& known = lengths_[s.pc];
  if (const unsigned length = instruction_length(pc)) known = length;
  s.length = static_cast<std::uint8_t>(known);
  s.bytes = machine_code(*inst, isa_, s.pc, known, tc);
  const auto& flags = Flags::of(*inst);
  for (std::size_t i = 0; i < flags.size(); ++i) s.flags |= std::uint64_t{flags[i]} << i;
  for (int i = 0; i < inst->numSrcRegs(); ++i) {
    const RegId& reg = inst->srcRegIdx(i);
    if (reg.classValue() != InvalidRegClass)
      s.src.push_back({reg_class(reg), static_cast<std::uint16_t>(reg.index())});
  }
  for (int i = 0; i < inst->numDestRegs(); ++i) {
    const RegId& reg = inst->destRegIdx(i);
    if (reg.classValue() != InvalidRegClass)
      s.dst.push_back({reg_class(reg), static_cast<std::uint16_t>(reg.index())});
  }
  s.disassembly = inst->disassemble(s.pc, &loader::debugSymbolTable);

  // Equal content has one number, whichever decoder made the object.
  std::string key(reinterpret_cast<const char*>(&s.pc), sizeof s.pc);
  key.append(reinterpret_cast<const char*>(&s.flags), sizeof s.flags);
  key.append(reinterpret_cast<const char*>(&s.upc), sizeof s.upc);
  key.append(reinterpret_cast<const char*>(&s.op), sizeof s.op);
  key.append(s.bytes).append(1, '\0').append(s.disassembly);
  const auto [it, fresh] = by_content_.try_emplace(std::move(key), 0);
  if (fresh) it->second = writer_->add(s);
  return it->second;
}

}  // namespace tracekit_plugin
}  // namespace gem5
