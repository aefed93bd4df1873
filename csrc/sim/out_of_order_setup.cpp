// An out-of-order core before its first row.
#include <algorithm>

#include "core/static_inst.hpp"
#include "sim/op_use.hpp"
#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {

template <bool Why>
OutOfOrderCore<Why>::OutOfOrderCore(const CoreParameters& p, const CodeMap& code)
    : p_(p),
      caches_(p),
      calendar_(p),
      stores_(p.rob(), p.sq()),
      op_cause_(op_count),
      chain_(Why ? CoreInst::all_registers : 0),
      code_(code),
      branches_(static_cast<unsigned>(p.predictor()), static_cast<std::size_t>(p.btb()),
                static_cast<std::size_t>(p.ras())),
      ledger_(p.width()),
      retired_(freed_ring(p.rob())),
      load_retired_(freed_ring(p.lq())),
      store_drained_(freed_ring(p.sq())),
      files_{{{freed_ring(p.phys_int()), 0, p.phys_int()},
              {freed_ring(p.phys_vec()), 0, p.phys_vec()}}},
      store_held_(static_cast<std::size_t>(p.sq()), Cause::store_drain),
      queued_(static_cast<std::size_t>(p.sq()) + 1),
      fetch_shift_(shift_of(static_cast<unsigned>(p.fetch_buffer()))),
      counted_twice_(std::min(p.width() * (p.rename_to_iew() - 1), p.rob() - 1)),
      counted_(static_cast<std::uint64_t>(counted_twice_ - p.rob())),
      store_executes_(p.issue_to_exec() - 1 + p.agu_lat()),
      front_end_(p) {
  for (std::size_t i = 0; i < op_count; ++i) {
    operations_[i] = operation(op_use(static_cast<OpClass>(i)), op_latency(op_class_names[i], p));
    op_cause_[i] = op_cause(static_cast<OpClass>(i));
  }
}

template OutOfOrderCore<false>::OutOfOrderCore(const CoreParameters&, const CodeMap&);
template OutOfOrderCore<true>::OutOfOrderCore(const CoreParameters&, const CodeMap&);

}  // namespace tracekit
