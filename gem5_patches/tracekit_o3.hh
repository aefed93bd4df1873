// The listener on an O3 CPU: commits and traps in order, with the ticks of every pipeline stage.
#ifndef TRACEKIT_O3_HH
#define TRACEKIT_O3_HH

#include <cstdint>
#include <deque>
#include <vector>

#include "cpu/o3/dyn_inst_ptr.hh"
#include "params/TracekitO3Probe.hh"
#include "tracekit_compat.hh"
#include "tracekit_tracer.hh"

namespace gem5 {
namespace tracekit_plugin {

class O3Probe : public ProbeOwner {
 public:
  using Params = TracekitO3ProbeParams;
  explicit O3Probe(const Params& p);
  void regProbeListeners() override;

 private:
  void fetched(const o3::DynInstPtr& inst);
  void executed(const o3::DynInstPtr& inst);
  void committed(const o3::DynInstPtr& inst);
  void squashed(const o3::DynInstPtr& inst);

  void describe(const o3::DynInstPtr& inst);
  tkt::Row row_of(const o3::DynInstPtr& inst);
  void add_access(const o3::DynInst& inst, tkt::Row& row) const;
  void add_ticks(const o3::DynInstPtr& inst, tkt::Row& row);
  Tick fetch_tick(InstSeqNum seq) const;
  void write_held(bool all);
  void mute(const o3::DynInstPtr& inst);

  // A store's completion comes after its commit: the rows from the oldest such store on wait for
  // it.
  struct Held {
    tkt::Row row;
    o3::DynInstPtr store;  // null when complete
  };
  static constexpr std::size_t max_held = 4096;
  static constexpr std::size_t ring_size = std::size_t{1} << 15;  // sequence numbers in flight

  const Tracer& tracer_;
  CpuTrace& trace_;
  bool stages_;                  // the flag O3PipeView was switched on
  std::vector<Tick> ring_;       // fetch tick by sequence number
  std::vector<Access> faulted_;  // by sequence number
  InstSeqNum newest_{};
  o3::DynInstPtr last_;
  std::deque<Held> held_;
};

}  // namespace tracekit_plugin
}  // namespace gem5

#endif
