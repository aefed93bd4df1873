#include "tracekit_tracer.hh"

#include <algorithm>
#include <new>
#include <typeinfo>
#include <vector>

#include "arch/generic/pcstate.hh"
#include "base/debug.hh"
#include "base/logging.hh"
#include "base/output.hh"
#include "cpu/base.hh"
#include "cpu/thread_context.hh"
#include "sim/core.hh"
#include "sim/cur_tick.hh"

namespace gem5 {
namespace tracekit_plugin {
namespace {

// Records come and go once an instruction: their memory is kept and handed out again.
template <std::size_t Size>
class Pool {
 public:
  void* take() {
    if (free_.empty()) return ::operator new(Size);
    void* p = free_.back();
    free_.pop_back();
    return p;
  }
  void give(void* p) { free_.push_back(p); }

 private:
  std::vector<void*> free_;
};

std::string destination(const std::string& name) {
  // An absolute path (a FIFO, say) stays; any other lies in gem5's output folder.
  return name.empty() || name[0] == '/' ? name : simout.resolve(name);
}

}  // namespace

class Tracer::Record : public InstRecord {
 public:
  Record(Tracer& tracer, Tick when, ThreadContext* tc, const StaticInstPtr& inst,
         const PCStateBase& pc, const StaticInstPtr& macro)
      : InstRecord(when, tc, inst, pc, macro), tracer_(tracer) {}

  static void* operator new(std::size_t) { return pool().take(); }
  static void operator delete(void* p) { pool().give(p); }

  void dump() override {
    CpuTrace& trace = tracer_.trace_;
    if (!trace.described()) tracer_.learn_model(thread, *pc);
    if (!(faulting ? trace.trapped() : trace.count(*staticInst))) return;
    tkt::Row row;
    row.sid = trace.number(staticInst, *pc, thread);
    row.thread = static_cast<std::uint8_t>(thread->threadId());
    if (mem_valid) {
      row.flags |= tkt::row_flag::has_addr;
      row.addr = addr;
      row.access_size = narrow(size);
    }
    if (faulting) row.flags |= tkt::row_flag::fault;
    if (!predicate) row.flags |= tkt::row_flag::predicated_off;
    // A simple CPU has executed the instruction and not yet advanced: its pc holds the outcome.
    if (tracer_.simple_ && staticInst->isControl() && !faulting &&
        (!staticInst->isCondCtrl() || thread->pcState().branching()))
      row.flags |= tkt::row_flag::taken;
    if (tracer_.timed_) {
      row.ticks[tkt::stage::fetch] = when;
      row.ticks[tkt::stage::retire] = faulting ? 0 : curTick();
    }
    trace.write(row);
    if (trace.limit_reached()) trace.end_at_limit();
  }

 private:
  static Pool<512>& pool() {
    static_assert(sizeof(Record) <= 512, "Record outgrew its pool");
    static Pool<512> pool;
    return pool;
  }
  Tracer& tracer_;
};

// Only for the address: it knows neither its instruction nor its place.
class Tracer::AccessRecord : public InstRecord {
 public:
  AccessRecord(Tracer& tracer, Tick when, ThreadContext* tc, const PCStateBase& pc)
      : InstRecord(when, tc, nullptr, pc), tracer_(tracer) {}

  static void* operator new(std::size_t) { return pool().take(); }
  static void operator delete(void* p) { pool().give(p); }

  void dump() override {
    if (mem_valid) tracer_.access_ = {fetch_seq, addr, narrow(size)};
  }

 private:
  static Pool<512>& pool() {
    static_assert(sizeof(AccessRecord) <= 512, "AccessRecord outgrew its pool");
    static Pool<512> pool;
    return pool;
  }
  Tracer& tracer_;
};

Tracer::Tracer(const Params& p)
    : InstTracer(p),
      trace_(destination(p.output),
             Region{p.start_inst, p.max_insts, p.roi || p.start_tick > 0, p.exit_when_done}),
      start_tick_(p.start_tick),
      stop_tick_(p.stop_tick),
      start_event_([this] { start(); }, name() + ".start"),
      stop_event_([this] { trace_.end_at_limit(); }, name() + ".stop") {
  // The CPUs hand trapped instructions to a tracer only under this flag; it prints nothing itself.
  if (!debug::changeFlag("ExecFaulting", true)) warn("tracekit: no flag ExecFaulting: no faults");
  registerExitCallback([this] { trace_.finish(); });
}

void Tracer::startup() {
  InstTracer::startup();
  EventQueue* queue = curEventQueue() ? curEventQueue() : mainEventQueue[0];
  if (start_tick_ > curTick()) queue->schedule(&start_event_, start_tick_);
  if (stop_tick_ > curTick()) queue->schedule(&stop_event_, stop_tick_);
}

void Tracer::learn_model(ThreadContext* tc, const PCStateBase& pc) {
  const BaseCPU& cpu = *tc->getCpuPtr();
  const std::string type = typeid(cpu).name();
  const auto is = [&type](const char* part) { return type.find(part) != std::string::npos; };
  std::string model = "other";
  if (is("MinorCPU"))
    model = "minor";
  else if (is("TimingSimpleCPU"))
    model = "timing";
  else if (is("NonCachingSimpleCPU") || is("AtomicSimpleCPU"))
    model = "atomic";
  else if (is("o3"))
    model = "o3";
  simple_ = model == "timing" || model == "atomic";
  timed_ = model != "atomic";  // an atomic CPU's ticks are no timing
  const std::uint16_t stages = timed_ ? (1u << tkt::stage::fetch) | (1u << tkt::stage::retire) : 0;
  std::uint16_t knows = tkt::knows::predicated_off;
  if (simple_) knows |= tkt::knows::taken;
  // Minor does not tell a tracer that an access has faulted; the row behind it, the same again,
  // does.
  if (model != "minor") knows |= tkt::knows::fault;
  trace_.describe(tc, pc, model, stages, knows);
}

InstRecord* Tracer::getInstRecord(Tick when, ThreadContext* tc, const StaticInstPtr inst,
                                  const PCStateBase& pc, const StaticInstPtr macro) {
  if (!trace_.wanted()) return nullptr;
  if (serves_) {
    return inst->isMemRef() && inst->isVector() ? new AccessRecord(*this, when, tc, pc) : nullptr;
  }
  return new Record(*this, when, tc, inst, pc, macro);
}

}  // namespace tracekit_plugin
}  // namespace gem5
