// One CPU's trace: what is traced when, the static table, and the stream it goes to.
#ifndef TRACEKIT_TRACE_HH
#define TRACEKIT_TRACE_HH

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arch/generic/pcstate.hh"
#include "base/types.hh"
#include "cpu/static_inst.hh"
#include "formats/tkt/tkt_writer.hpp"
#include "tracekit_sink.hh"

namespace gem5 {

class BaseCPU;
class ThreadContext;

namespace tracekit_plugin {

namespace tkt = ::tracekit::tkt;

struct Region {
  std::uint64_t start_inst{};  // committed instructions (not micro-ops) before the first traced one
  std::uint64_t max_insts{};   // traced instructions; 0 = no limit
  bool waits{};                // for start(): a tick or a work item begins the region
  bool exit_when_done{};       // end the simulation when the limit is reached
};

class CpuTrace {
 public:
  // An empty path traces nothing.
  CpuTrace(std::string path, const Region& region);
  // Called before a region or the stream ends, to hand over rows that wait for something.
  void before_end(std::function<void()> hook) { before_end_ = std::move(hook); }

  // The run's config.ini by zlib, for the header; before the first instruction.
  void configuration(std::string deflated) { configuration_ = std::move(deflated); }

  // What the header says; the first call opens the destination.
  void describe(ThreadContext* tc, const PCStateBase& pc, const std::string& model,
                std::uint16_t stages, std::uint16_t knows);
  bool described() const { return writer_ != nullptr; }

  void start();
  void stop();
  void finish();  // writes the end marker; idempotent

  // False once nothing can be traced any more.
  bool wanted() const { return !done_; }
  // Counts one committed (micro-)op, and tells whether it belongs to the trace.
  bool count(const StaticInst& inst) {
    const bool last = !inst.isMicroop() || inst.isLastMicroop();
    if (!active_ && !waits_ && !done_ && seen_ >= region_.start_inst) start();
    const bool traced = active_ && !reached_;
    seen_ += last;
    if (traced && last && ++traced_ == region_.max_insts) reached_ = true;
    return traced;
  }
  bool active() const { return active_; }
  // A trapped instruction is traced and not counted, on every CPU: it has not committed.
  bool trapped() const { return active_ && !reached_; }

  // The number of a static instruction, which is written when it is new.
  std::uint32_t number(const StaticInstPtr& inst, const PCStateBase& pc, ThreadContext* tc);
  // Fetches what number() will look at: by then the simulator has filled the caches otherwise.
  void foresee(const StaticInst* inst, const PCStateBase& pc) const {
    __builtin_prefetch(&slots_[hash(inst, pc.instAddr(), pc.microPC()) & (slots_.size() - 1)]);
  }
  void write(const tkt::Row& row) { writer_->add(row); }
  // The last row that the limit allows has been counted: end_at_limit() is due.
  bool limit_reached() const { return reached_ && !done_; }
  void end_at_limit();

 private:
  struct alignas(32) Slot {  // never across two cache lines
    const StaticInst* inst{};
    Addr pc{};
    std::uint32_t upc{}, sid{};
  };
  static std::size_t hash(const StaticInst* inst, Addr pc, std::uint32_t upc) {
    return (reinterpret_cast<std::uintptr_t>(inst) * 0x9e3779b97f4a7c15ull ^
            pc * 0xff51afd7ed558ccdull ^ upc) >>
           7;
  }
  std::uint32_t make(const StaticInstPtr& inst, const PCStateBase& pc, ThreadContext* tc);
  void grow();

  std::string path_;
  Region region_;
  bool waits_, active_{}, done_{}, reached_{};
  std::uint64_t seen_{}, traced_{};
  std::function<void()> before_end_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<tkt::Writer> writer_;
  std::string isa_, configuration_;
  std::vector<Slot> slots_;  // open addressing, a power of two
  std::size_t used_{};
  std::vector<StaticInstPtr> alive_;  // so that an address stands for one object
  std::unordered_map<std::string, std::uint32_t> by_content_;
  std::unordered_map<Addr, unsigned> lengths_;
};

}  // namespace tracekit_plugin
}  // namespace gem5

#endif
