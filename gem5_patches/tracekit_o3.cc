#include "tracekit_o3.hh"

#include <algorithm>
#include <memory>

#include "base/debug.hh"
#include "base/logging.hh"
#include "cpu/base.hh"
#include "cpu/o3/dyn_inst.hh"
#include "cpu/o3/lsq.hh"
#include "debug/O3PipeView.hh"
#include "sim/core.hh"
#include "sim/cur_tick.hh"
#include "sim/faults.hh"

namespace gem5 {
namespace tracekit_plugin {

// How the stage ticks are had without the text.  gem5 stores them in DynInst only while the flag
// O3PipeView is on, as 32-bit differences from fetchTick; and a DynInst whose fetchTick is not -1
// when it dies then prints its block.  So the flag is on, and fetchTick is set back to -1 before
// any instruction can die: for the one fetched last (which this listener holds) when the next one
// is fetched.  Differences stored before that are moved to the base -1 too, and from then on gem5
// itself stores them relative to it: modulo 2^32 each of them is tick + 1, and lies after the
// fetch, whose full tick is kept here.
#if TRACING_ON
namespace {

void rebase(o3::DynInst& inst) {
  if (inst.fetchTick == static_cast<Tick>(-1)) return;
  const auto base = static_cast<std::uint32_t>(inst.fetchTick) + 1;
  for (std::int32_t* t : {&inst.decodeTick, &inst.renameTick, &inst.dispatchTick, &inst.issueTick,
                          &inst.completeTick, &inst.commitTick, &inst.storeTick})
    if (*t != -1) *t = static_cast<std::int32_t>(static_cast<std::uint32_t>(*t) + base);
  inst.fetchTick = static_cast<Tick>(-1);
}

Tick full(std::int32_t t, Tick fetch) {
  if (t == -1) return 0;
  return fetch + (static_cast<std::uint32_t>(t) - 1 - static_cast<std::uint32_t>(fetch));
}

}  // namespace
#endif

O3Probe::O3Probe(const Params& p)
    : ProbeOwner(p),
      tracer_(*p.tracer),
      trace_(p.tracer->trace()),
      stages_(p.stages),
      ring_(ring_size),
      faulted_(4096) {
  p.tracer->serve_listener();
  trace_.before_end([this] { write_held(true); });
#if TRACING_ON
  if (stages_ && !debug::changeFlag("O3PipeView", true)) stages_ = false;
#else
  stages_ = false;  // gem5.fast keeps no ticks
#endif
  registerExitCallback([this] {  // what dies from here on shall print nothing
    if (stages_) debug::changeFlag("O3PipeView", false);
    last_ = nullptr;
  });
}

void O3Probe::regProbeListeners() {
  using Listener = ProbeListenerArg<O3Probe, o3::DynInstPtr>;
  listen<Listener>(this, "Fetch", &O3Probe::fetched);
  listen<Listener>(this, "ToCommit", &O3Probe::executed);
  listen<Listener>(this, "Commit", &O3Probe::committed);
  listen<Listener>(this, "Squash", &O3Probe::squashed);
}

// As long as the flag is on, also when this CPU's trace is complete: another CPU's may not be.
void O3Probe::mute(const o3::DynInstPtr& inst) {
#if TRACING_ON
  if (!stages_) return;
  if (last_) rebase(*last_);
  last_ = inst;  // gem5 sets its fetchTick only after this call
#endif
}

void O3Probe::fetched(const o3::DynInstPtr& inst) {
  mute(inst);
  trace_.foresee(inst->staticInst.get(), inst->pcState());
  newest_ = inst->seqNum;
  ring_[newest_ % ring_size] = curTick();
}

// gem5 gives an effective address only to accesses that are sent to memory.  That of one that
// faulted is in its request, which is gone when the instruction is squashed for it.
void O3Probe::executed(const o3::DynInstPtr& inst) {
  if (!inst->isMemRef() || inst->effAddrValid()) return;
  if (!inst->translationStarted() || !inst->savedRequest) return;
  const auto& request = *inst->savedRequest;
  faulted_[inst->seqNum % faulted_.size()] = {inst->seqNum, request._addr, narrow(request._size)};
}

Tick O3Probe::fetch_tick(InstSeqNum seq) const {
  return newest_ - seq < ring_size ? ring_[seq % ring_size] : 0;
}

void O3Probe::add_ticks(const o3::DynInstPtr& inst, tkt::Row& row) {
  const Tick fetch = fetch_tick(inst->seqNum);
  if (fetch == 0) {  // fetched before the listener, or too long ago
    row.flags |= tkt::row_flag::untimed;
    return;
  }
  row.ticks[tkt::stage::fetch] = fetch;
#if TRACING_ON
  if (!stages_) return;
  rebase(*inst);
  row.ticks[tkt::stage::decode] = full(inst->decodeTick, fetch);
  row.ticks[tkt::stage::rename] = full(inst->renameTick, fetch);
  row.ticks[tkt::stage::dispatch] = full(inst->dispatchTick, fetch);
  row.ticks[tkt::stage::issue] = full(inst->issueTick, fetch);
  row.ticks[tkt::stage::complete] = full(inst->completeTick, fetch);
  row.ticks[tkt::stage::store] = full(inst->storeTick, fetch);
#endif
}

void O3Probe::add_access(const o3::DynInst& inst, tkt::Row& row) const {
  Addr addr;
  Addr size;
  if (inst.effAddrValid()) {
    addr = inst.effAddr;
    size = inst.effSize;
  } else if (const Access& faulted = faulted_[inst.seqNum % faulted_.size()];
             faulted.seq == inst.seqNum) {
    addr = faulted.addr;
    size = faulted.size;
  } else if (const Access& masked = tracer_.last_access(); masked.seq == inst.seqNum) {
    addr = masked.addr;
    size = masked.size;
  } else {
    return;
  }
  row.flags |= tkt::row_flag::has_addr;
  row.addr = addr;
  row.access_size = narrow(size);
}

tkt::Row O3Probe::row_of(const o3::DynInstPtr& inst) {
  const PCStateBase& pc = inst->pcState();
  tkt::Row row;
  row.sid = trace_.number(inst->staticInst, pc, inst->tcBase());
  row.thread = static_cast<std::uint8_t>(inst->threadNumber);
  if (inst->isMemRef()) add_access(*inst, row);
  if (!inst->readPredicate()) row.flags |= tkt::row_flag::predicated_off;
  add_ticks(inst, row);
  return row;
}

void O3Probe::describe(const o3::DynInstPtr& inst) {
  std::uint16_t stages = (1u << tkt::stage::fetch) | (1u << tkt::stage::retire);
#if TRACING_ON
  // The flag has no effect while gem5's debug output is off as a whole (--debug-start).
  if (stages_ && !debug::O3PipeView) {
    warn("tracekit: debug output is off: no stage ticks but fetch and retire");
    stages_ = false;
  }
#endif
  if (stages_) stages = (1u << tkt::stage::count) - 1;
  trace_.describe(inst->tcBase(), inst->pcState(), "o3", stages,
                  tkt::knows::taken | tkt::knows::fault | tkt::knows::mispredicted |
                      tkt::knows::predicated_off);
}

void O3Probe::committed(const o3::DynInstPtr& inst) {
  if (!trace_.wanted()) return;
  if (!trace_.described()) describe(inst);
  if (!trace_.count(*inst->staticInst)) {
    write_held(false);
    if (trace_.limit_reached() && held_.empty()) trace_.end_at_limit();
    return;
  }
  tkt::Row row = row_of(inst);
  row.ticks[tkt::stage::retire] = curTick();
  if (inst->isControl()) {
    if (!inst->isCondCtrl() || inst->pcState().branching()) row.flags |= tkt::row_flag::taken;
    if (inst->mispredicted()) row.flags |= tkt::row_flag::mispredicted;
  }
  const bool waits = stages_ && inst->isStore() && row.ticks[tkt::stage::store] == 0 &&
                     !(row.flags & tkt::row_flag::untimed);
  if (!waits && held_.empty()) {
    trace_.write(row);
  } else {
    held_.push_back({row, waits ? inst : o3::DynInstPtr()});
    write_held(false);
  }
}

void O3Probe::write_held(bool all) {
  while (!held_.empty()) {
    Held& oldest = held_.front();
    if (oldest.store) {
#if TRACING_ON
      const Tick done = full(oldest.store->storeTick, oldest.row.ticks[tkt::stage::fetch]);
      if (done == 0 && !all && held_.size() <= max_held) return;
      oldest.row.ticks[tkt::stage::store] = done;
#endif
    }
    trace_.write(oldest.row);
    held_.pop_front();
  }
}

// A trapped instruction sends no Commit: it is squashed at the head of the reorder buffer, complete
// and with its fault.  A replay is a "fault" to gem5, too, and no row.
void O3Probe::squashed(const o3::DynInstPtr& inst) {
  if (!trace_.trapped() || !trace_.described()) return;
  if (inst->getFault() == NoFault || !inst->isCompleted()) return;
  if (dynamic_cast<ReExec*>(inst->getFault().get())) return;
  tkt::Row row = row_of(inst);
  row.flags |= tkt::row_flag::fault;
  if (held_.empty())
    trace_.write(row);
  else
    held_.push_back({row, o3::DynInstPtr()});
}

}  // namespace tracekit_plugin
}  // namespace gem5
