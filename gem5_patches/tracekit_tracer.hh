// The tracer that every CPU model calls: rows with addresses, outcomes, fetch and commit ticks.
#ifndef TRACEKIT_TRACER_HH
#define TRACEKIT_TRACER_HH

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "params/TracekitTracer.hh"
#include "sim/eventq.hh"
#include "tracekit_compat.hh"
#include "tracekit_trace.hh"

namespace gem5 {
namespace tracekit_plugin {

// A memory access, by the sequence number of its instruction.
struct Access {
  InstSeqNum seq{};
  Addr addr{};
  std::uint16_t size{};
};

inline std::uint16_t narrow(Addr size) {
  return static_cast<std::uint16_t>(std::min<Addr>(size, 0xffff));
}

class Tracer : public InstTracer {
 public:
  using Params = TracekitTracerParams;
  explicit Tracer(const Params& p);

  InstRecord* getInstRecord(Tick when, ThreadContext* tc, const StaticInstPtr inst,
                            const PCStateBase& pc, const StaticInstPtr macro = nullptr) override;
  void startup() override;

  // Begins and ends a region of interest; also called from the simulation script.
  void start() { trace_.start(); }
  void stop() { trace_.stop(); }

  // The run's config.ini by zlib, which the trace's header holds.
  void configuration(const std::string& deflated) { trace_.configuration(deflated); }

  CpuTrace& trace() { return trace_; }

  // From now on rows come from an O3 listener, and records are made for vector accesses alone: one
  // that is masked off as a whole has its address nowhere else.
  void serve_listener() { serves_ = true; }
  const Access& last_access() const { return access_; }  // of the one that was dumped last

 private:
  class Record;
  class AccessRecord;
  void learn_model(ThreadContext* tc, const PCStateBase& pc);

  CpuTrace trace_;
  Tick start_tick_, stop_tick_;
  EventFunctionWrapper start_event_, stop_event_;
  Access access_;
  bool serves_{}, simple_{}, timed_{};
};

}  // namespace tracekit_plugin
}  // namespace gem5

#endif
