// Loads that go before an older one of the same line.
#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "sim/out_of_order_core.hpp"
#include "sim/out_of_order_delays.hpp"

namespace tracekit {
namespace {

constexpr std::ptrdiff_t most_ahead = 32;

// Registers whose values hang on a load that waits.
class LateRegisters {
 public:
  bool reads(const CoreInst& inst) const {
    return std::ranges::any_of(inst.read(), [&](std::uint16_t r) { return late_[r]; });
  }
  void write(const CoreInst& inst, bool late) {
    for (const std::uint16_t r : inst.written()) late_[r] = late;
  }

 private:
  std::bitset<CoreInst::all_registers> late_;
};

// The stores behind the load, by their set: when its readers may go.
class LaterStores {
 public:
  struct Store {
    int set;
    Cycle done;
    bool late;
  };
  void put(const Store& store) { stores_[count_++] = store; }
  const Store* last(int set) const {
    for (std::size_t k = count_; k-- > 0;)
      if (stores_[k].set == set) return &stores_[k];
    return nullptr;
  }

 private:
  std::array<Store, most_ahead> stores_;
  std::size_t count_{};
};

}  // namespace

// The load `row` waits for a store of its set until `issued`.  Meanwhile younger loads go, and the
// first one of the same line asks for it.  Rows come in the program's order, so that it is asked
// for here, at about the time when that load will go.
template <bool Why>
void OutOfOrderCore<Why>::go_ahead(const CoreRow& row, Cycle dispatched, Cycle issued) {
  const std::uint64_t line = row.addr >> line_bits;
  if (!row.inst->is(CoreInst::load) || caches_.in_l1d(row.addr)) return;
  const CoreRow* end = &row + 1;  // behind the last row that may be the one
  const CoreRow* const far = end + most_ahead;
  for (const CoreRow* at = end; at->inst && at != far; ++at)
    if (at->addr >> line_bits == line) end = at + 1;
  if (end == &row + 1) return;
  LateRegisters late;
  LaterStores stores;
  std::uint64_t loads = loads_ + 1;
  int waiting = 1;
  IssueCalendar::Queue queue = calendar_.queue();  // at the last row that could be full
  late.write(*row.inst, true);
  for (const CoreRow* at = &row + 1; at != end; ++at) {
    const CoreInst& inst = *at->inst;
    const std::uint64_t entry = entry_ + static_cast<std::uint64_t>(at - &row);
    Cycle there =
        std::max(dispatched + (at - &row + p_.width() - 1) / p_.width(), entry_freed(entry));
    if (inst.is(CoreInst::load)) there = std::max(there, load_freed(loads++));
    if (there >= issued) return;
    if (calendar_.waiting() + waiting >= p_.iq()) {
      if (there < queue.at) queue = calendar_.queue();
      const int most = p_.iq() - waiting;
      there = calendar_.fewer_wait(most, there, issued, queue);
      if (queue.waiting >= most || there >= issued) return;
    }
    Cycle ready = std::max(operands_.at() + 1, there);
    bool waits = late.reads(inst);
    const bool memory = inst.is(CoreInst::load | CoreInst::store);
    if (const int set = memory ? sets_.now(inst.pc) : StoreSets::no_set; set != StoreSets::no_set) {
      const auto* const store = stores.last(set);
      ready = std::max(ready, store ? store->done : sets_.waits_for(set, dispatched, squashed_));
      waits |= store && store->late;
      if (inst.is(CoreInst::store)) stores.put({set, ready + 1, waits});
    }
    if (!waits && inst.is(CoreInst::load) && !inst.is(CoreInst::store | CoreInst::data_prefetch) &&
        at->addr >> line_bits == line) {
      if (ready + p_.l1d_lat() < issued) caches_.load(at->addr, ready + executes(inst.op), inst.pc);
      return;
    }
    late.write(inst, waits);
    waiting += waits;
  }
}

template void OutOfOrderCore<false>::go_ahead(const CoreRow&, Cycle, Cycle);
template void OutOfOrderCore<true>::go_ahead(const CoreRow&, Cycle, Cycle);

}  // namespace tracekit
