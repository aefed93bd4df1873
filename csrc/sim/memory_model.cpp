#include "sim/memory_model.hpp"

#include <algorithm>
#include <cmath>

namespace tracekit {
namespace {

constexpr double writes_of_batch = 16;  // that go together
// Reads of one row come back to back but for a part; a write to another row than the last one waits
// for part of its precharge.
constexpr double crowded = 1.2, row_change = 0.5;
constexpr Cycle out_of_order = 100;  // requests that come so much before the last one are apart

// When something that takes `cost` cycles of a channel starts, from `at` on.
double placed(Channel& channel, double at, double cost) {
  const auto whole = static_cast<Cycle>(at);
  return at + static_cast<double>(channel.place(whole, cost) - whole);
}

}  // namespace

Channel::Interval* Channel::interval(Cycle number) {
  Interval& i = ring_[static_cast<std::size_t>(number) & (kept - 1)];
  if (i.number > number) return nullptr;
  if (i.number != number) i = {number, 0};
  return &i;
}

Cycle Channel::place(Cycle at, double cost) {
  Cycle number = at >> 6;
  const Cycle last = number + static_cast<Cycle>(kept) - 16;
  Interval* i = interval(number);
  if (!i) return at;
  while (i->load >= full && number < last) {
    Interval* next = interval(++number);
    if (!next) return at;
    i = next;
  }
  const Cycle start = number == at >> 6 ? at : (number << 6) + static_cast<Cycle>(i->load);
  i->load += static_cast<float>(cost);
  while (i->load > full && number < last) {  // the rest is taken from the next
    const float over = i->load - full;
    Interval* next = interval(++number);
    if (!next) break;
    i->load = full;
    i = next;
    i->load += over;
  }
  return start;
}

Memory::Memory(const CoreParameters& p)
    : p_(p),
      row_lines_(static_cast<std::size_t>(p.memory_row_lines())),
      banks_(static_cast<std::size_t>(p.memory_banks())),
      bank_(banks_),
      written_(banks_, no_line) {}

// All banks are closed and refreshed again and again, and nothing is taken meanwhile (gem5's
// DRAMInterface::Rank::processRefreshEvent).
Memory::Refreshed Memory::refreshed(double t) const {
  const double turn = std::floor((t + p_.memory_precharge_) / p_.memory_refresh_every_);
  if (turn < 1) return {t, 0};
  return {std::max(t, turn * p_.memory_refresh_every_ + p_.memory_refresh_), turn};
}

Cycle Memory::read(Cycle at, std::uint64_t line) {
  const std::uint64_t row = line / row_lines_;
  Bank& b = bank_[row % banks_];
  const auto [t, turn] = refreshed(static_cast<double>(at));
  reads_ = true;
  double column;
  if (at + out_of_order <
      b.asked) {  // before the last one was there: the bank's state then is not known
    column = t + p_.memory_activate_;
  } else {
    // What is to be done is decided as soon as the bus may be free in time (gem5's
    // MemCtrl::doBurstAccess, nextReqTime), and there too whether the row is closed behind it: when
    // no other one waits for it (close_adaptive in DRAMInterface::doBurstAccess).
    // A store that waits for its turn may have asked long after this read does.
    const bool ahead = at + out_of_order < decided_for_;
    const double decided = ahead ? t : std::max(t, next_decision_);
    const bool again = b.turn != turn;
    const bool open = b.row == row && !again && b.accesses < p_.memory_row_accesses() &&
                      !(p_.memory_closes() && t > b.decided);
    if (open) {
      column = std::max(decided, b.column);
    } else {
      double precharged = decided;
      if (!again) {  // another row is closed now, if it was not closed before
        const bool closed =
            p_.memory_closes() || b.accesses >= p_.memory_row_accesses() || b.row == no_line;
        precharged = closed ? std::max(decided, b.idle + p_.memory_precharge_)
                            : std::max(decided, b.idle) + p_.memory_precharge_;
      }
      const double activate = placed(activations_, precharged, p_.memory_activation_);
      column = activate + p_.memory_activate_;
      b.row = row;
      b.accesses = 0;
      b.idle = activate + p_.memory_ras_;
    }
    if (!ahead) {
      next_decision_ = column + p_.memory_burst_ - p_.memory_precharge_ - p_.memory_activate_;
      decided_for_ = at;
    }
    ++b.accesses;
    b.turn = turn;
    b.decided = decided;
    b.asked = at;
    b.column = column + p_.memory_burst_;
    b.idle = std::max(b.idle, column + p_.memory_read_precharge_);
  }
  // What the controller answers goes on with the next cycle of the wires.
  return static_cast<Cycle>(std::ceil(placed(bus_, column, crowded * p_.memory_column_) +
                                      p_.memory_cas_ + p_.memory_burst_ + p_.memory_controller_));
}

Cycle Memory::write(Cycle at, std::uint64_t line) {
  const std::uint64_t row = line / row_lines_;
  const std::size_t bank = row % banks_;
  double cost = p_.memory_write_;
  if (reads_) cost += p_.memory_turnaround_ / writes_of_batch;
  reads_ = false;
  if (written_[bank] != row) {
    written_[bank] = row;
    cost = std::max(cost, p_.memory_activation_) + p_.memory_precharge_ * row_change;
    if (!p_.memory_closes() && bank_[bank].row != row)
      bank_[bank].row = row, bank_[bank].accesses = 0;
  }
  waiting_ += cost;
  // They wait until half of the queue is taken; then some go together, and no read between them
  // (gem5's MemCtrl::processNextReqEvent).
  if (++writes_ <= p_.memory_writes()) return at;
  const double together = waiting_ * writes_of_batch / writes_;
  waiting_ -= together;
  writes_ -= static_cast<int>(writes_of_batch);
  return bus_.place(at, together);
}

}  // namespace tracekit
