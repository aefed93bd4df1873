#include "sim/memory_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tracekit {
namespace {

// Reads wait when so many times the writes that go without are there (write_high_thresh_perc).
constexpr double forced = 1.7;
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
      rank_banks_(std::max<std::size_t>(1, banks_ / static_cast<std::size_t>(p.memory_ranks()))),
      groups_(static_cast<std::size_t>(p.memory_bank_groups())),
      bank_(banks_) {}

// All banks are closed and refreshed again and again, and nothing is taken meanwhile (gem5's
// DRAMInterface::Rank::processRefreshEvent).
Memory::Refreshed Memory::refreshed(double t) const {
  const double turn = std::floor((t + p_.memory_precharge_) / p_.memory_refresh_every_);
  if (turn < 1) return {t, 0};
  return {std::max(t, turn * p_.memory_refresh_every_ + p_.memory_refresh_), turn};
}

double Memory::open(Bank& b, std::uint64_t row, double decided, bool again) {
  double precharged = decided;
  if (!again) {  // another row is closed now, if it was not closed before
    const bool closed =
        p_.memory_closes() || b.accesses >= p_.memory_row_accesses() || b.row == no_line;
    precharged = closed ? std::max(decided, b.idle + p_.memory_precharge_)
                        : std::max(decided, b.idle) + p_.memory_precharge_;
  }
  const double activate = placed(activations_, precharged, p_.memory_activation_);
  b.row = row;
  b.accesses = 0;
  b.idle = activate + p_.memory_ras_;
  return activate + p_.memory_activate_;
}

// What an access takes of the bus behind the last one: `other_group` if that one was of the same
// rank and another group of banks, else more (gem5's DRAMInterface::doBurstAccess).
double Memory::bus_cost(std::uint64_t row, double other_group) const {
  const std::size_t bank = row % banks_, last = last_row_ % banks_;
  const bool same_rank = bank / rank_banks_ == last / rank_banks_;
  const bool same_group = bank % rank_banks_ % groups_ == last % rank_banks_ % groups_;
  return same_rank && !same_group ? other_group : p_.memory_column_;
}

Cycle Memory::read(Cycle at, std::uint64_t line) {
  const std::uint64_t row = line / row_lines_;
  send_writes(at);
  stop_writing(at);
  Bank& b = bank(row);
  const auto [t, turn] = refreshed(static_cast<double>(at));
  // One that came so much before the last one is apart: the bank's state then is not known.
  const bool late = at + out_of_order < b.asked;
  // What is to be done is decided as soon as the bus may be free in time (gem5's
  // MemCtrl::doBurstAccess, nextReqTime), and there too whether the row is closed behind it: when
  // no other one waits for it (close_adaptive in DRAMInterface::doBurstAccess).
  // A store that waits for its turn may have asked long after this read does.
  const bool ahead = at + out_of_order < decided_for_;
  const double decided = ahead ? t : std::max(t, next_decision_);
  double column = t + p_.memory_activate_;
  if (!late) {
    const bool opened = is_open(row, turn) && !(p_.memory_closes() && t > b.decided);
    column = opened ? std::max(decided, b.column) : open(b, row, decided, b.turn != turn);
  }
  const double sent =
      placed(bus_, ahead ? column : std::max(column, reads_from_), bus_cost(row, p_.memory_burst_));
  if (!late) {
    ++b.accesses;
    b.turn = turn;
    b.decided = decided;
    b.asked = at;
    b.column = sent + p_.memory_column_;
    b.idle = std::max(b.idle, sent + p_.memory_read_precharge_);
  }
  if (!ahead) {
    next_decision_ = column + p_.memory_burst_ - p_.memory_precharge_ - p_.memory_activate_;
    decided_for_ = at;
  }
  last_row_ = row;
  last_ = std::max(last_, sent);
  idle_ = std::max(idle_, sent + p_.memory_burst_);
  if (static_cast<int>(writes_.size()) > forced * p_.memory_writes()) begin_writing();
  // What the controller answers goes on with the next cycle of the wires.
  return static_cast<Cycle>(
      std::ceil(sent + p_.memory_cas_ + p_.memory_burst_ + p_.memory_controller_));
}

// A read waits until some of the writes that have begun are through, and for the bus behind them.
void Memory::stop_writing(Cycle at) {
  if (!writing_) return;
  while (writing_ && written_ < p_.memory_write_batch()) send_write(idle_, at);
  writing_ = false;
  next_decision_ =
      std::max(next_decision_, reads_from_ - p_.memory_precharge_ - p_.memory_activate_);
  decided_for_ = at;
}

bool Memory::is_open(std::uint64_t row, double turn) const {
  const Bank& b = bank_[row % banks_];
  return b.row == row && b.turn == turn && b.accesses < p_.memory_row_accesses();
}

// Of the writes that wait: the oldest one of an open row that may go at `begin`, or else the one
// that may go first; commands are chosen at `decided` (gem5's DRAMInterface::chooseNextFRFCFS).
std::uint64_t Memory::next_write(double begin, double decided, double turn) {
  auto next = writes_.begin();
  double first = std::numeric_limits<double>::max();
  for (auto w = next; w != writes_.end(); ++w) {
    const Bank& b = bank_[*w % banks_];
    const double behind = last_ + bus_cost(*w, p_.memory_write_);
    const bool hit = is_open(*w, turn);
    const double idle = b.turn == turn ? std::max(decided, b.idle) + p_.memory_precharge_ : decided;
    const double could = std::max(behind, hit ? b.column : idle + p_.memory_activate_);
    if (hit && could <= begin) {
      next = w;
      break;
    }
    if (could < first) {
      first = could;
      next = w;
    }
  }
  const std::uint64_t row = *next;
  writes_.erase(next);
  return row;
}

void Memory::begin_writing() {
  if (std::exchange(writing_, true)) return;
  written_ = 0;
}

// The next write goes from `at` on.
void Memory::send_write(double at, Cycle asked) {
  const auto [begin, turn] = refreshed(at);
  // Commands go before the data, but not before it was to go.
  const double decided = std::max(begin - p_.memory_precharge_ - p_.memory_activate_,
                                  static_cast<double>(many_since_));
  const std::uint64_t row = next_write(begin, decided, turn);
  Bank& b = bank(row);
  const double column = is_open(row, turn) ? b.column : open(b, row, decided, b.turn != turn);
  const double cost = bus_cost(row, p_.memory_write_);
  last_ = placed(bus_, std::max({begin, column, last_ + cost}), cost);
  last_row_ = row;
  idle_ = last_ + p_.memory_write_;
  reads_from_ = idle_ + p_.memory_turnaround_;
  b.turn = turn;
  ++b.accesses;
  b.asked = std::max(b.asked, asked);
  b.column = last_ + p_.memory_column_;
  b.idle = std::max(b.idle, last_ + p_.memory_write_precharge_);
  ++written_;
  const auto left = static_cast<int>(writes_.size());
  if (left == 0 || left + p_.memory_write_batch() < p_.memory_writes()) writing_ = false;
}

// Writes go before `at` once more than half a queue of them waits and no read does; some of them
// together, and no read between (gem5's MemCtrl::processNextReqEvent).
void Memory::send_writes(Cycle at) {
  for (;;) {
    const double from = std::max(idle_, static_cast<double>(many_since_));
    if (from >= static_cast<double>(at)) return;
    if (static_cast<int>(writes_.size()) > p_.memory_writes()) begin_writing();
    if (!writing_) return;
    send_write(from, at);
  }
}

Cycle Memory::write(Cycle at, std::uint64_t line) {
  send_writes(at);
  Cycle taken = at;
  if (static_cast<int>(writes_.size()) >= 2 * p_.memory_writes()) {  // it waits for an entry
    begin_writing();
    send_write(std::max(idle_, static_cast<double>(at)), at);
    taken = std::max(at, static_cast<Cycle>(last_));
  }
  writes_.push_back(line / row_lines_);
  if (static_cast<int>(writes_.size()) == p_.memory_writes() + 1) many_since_ = at;
  return taken;
}

}  // namespace tracekit
