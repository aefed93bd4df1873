#include "order/commit_order.hpp"

#include <algorithm>

namespace tracekit {
namespace {

void push_row(RowBatch& out, std::uint32_t sid, std::uint64_t addr, std::uint8_t bits,
              const std::uint64_t* tick) {
  const std::size_t n = out.extend();
  out.sid[n] = sid;
  out.addr[n] = addr;
  out.bits[n] = bits;
  for (unsigned s = 0; s < stage::count; ++s) out.ticks[s][n] = tick[s];
  out.timed |= !(bits & row_bit::untimed);
}

}  // namespace

bool ExecOrder::add(std::uint64_t seq, std::uint64_t when, std::uint64_t pc, std::uint16_t upc,
                    std::uint32_t sid, std::uint64_t addr, std::uint8_t bits) {
  bool gave_up = false;
  if (tail_ - head_ == waiting_.size()) {
    if (waiting_.size() < max_window) {
      grow();
    } else {  // the oldest is not done: the head never rests on one that is
      gave_up = true;
      ++forced_;
      give_up(head_++);
      drain();
    }
  }
  const std::size_t i = rows_.extend();
  rows_.sid[i] = sid;
  rows_.addr[i] = addr;
  rows_.bits[i] = bits | row_bit::untimed;
  rows_.ticks[stage::fetch][i] = when;
  at(tail_) = {seq, pc, upc, seq == 0};
  // Two waiting rows must not share a place: the seqs in flight span more than the table.
  const auto taken = [&] {
    const std::uint64_t n = by_seq_[seq & by_seq_mask_];
    // An entry that was never written says row 0, which may be another's.
    return n >= head_ && n < tail_ && !at(n).done && at(n).seq != seq &&
           ((at(n).seq ^ seq) & by_seq_mask_) == 0;
  };
  while (taken() && by_seq_.size() < max_by_seq) index(by_seq_.size() * 2);
  by_seq_[seq & by_seq_mask_] = tail_++;
  if (seq == 0) {
    give_up(tail_ - 1);
    drain();
  }
  return gave_up;
}

// The row leaves without a block.
void ExecOrder::give_up(std::uint64_t n) {
  for (unsigned s = stage::fetch + 1; s < stage::count; ++s) rows_.ticks[s][n - origin_] = 0;
  ++stats_.untimed;
}

void ExecOrder::finish() {
  for (; head_ != tail_; ++head_)
    if (!at(head_).done) give_up(head_);
}

RowBatch ExecOrder::take(RowBatch spare) {
  const std::size_t whole = head_ - base_, waiting = tail_ - head_;
  RowBatch out = std::move(spare);
  if (waiting <= whole) {  // copy whichever is shorter
    std::swap(out, rows_);
    rows_.reserve(whole);  // the next block brings about as many
    rows_.append(out, head_ - origin_, waiting);
    rows_.timed = out.timed;
    out.truncate(head_ - origin_);
    if (base_ != origin_) out.drop_front(base_ - origin_);
    origin_ = head_;
  } else {
    out.append(rows_, base_ - origin_, whole);
    out.timed = rows_.timed;
    if (head_ - origin_ > waiting) {
      rows_.drop_front(head_ - origin_);
      origin_ = head_;
    }
  }
  base_ = head_;
  return out;
}

void ExecOrder::grow() {
  std::vector<Waiting> more(waiting_.size() * 2);
  for (std::uint64_t n = head_; n != tail_; ++n) more[n & (more.size() - 1)] = at(n);
  waiting_ = std::move(more);
  mask_ = waiting_.size() - 1;
  if (by_seq_.size() < waiting_.size() * 4) index(waiting_.size() * 4);
}

void ExecOrder::index(std::size_t size) {
  by_seq_.assign(size, 0);
  by_seq_mask_ = size - 1;
  for (std::uint64_t n = head_; n != tail_; ++n)
    if (!at(n).done) by_seq_[at(n).seq & by_seq_mask_] = n;
}

bool SeqOrder::add(const Block& b, std::uint32_t sid, RowBatch& out) {
  if (!started_) {
    // The first block seen is seldom the oldest; leave room for those before it.
    started_ = true;
    head_ = b.seq > max_window / 2 ? b.seq - max_window / 2 : std::min<std::uint64_t>(b.seq, 1);
    top_ = head_;
  }
  if (b.seq < head_ && !emitted_ && top_ - b.seq <= slots_.size()) head_ = b.seq;
  if (b.seq < head_) return false;
  while (b.seq - head_ >= slots_.size()) {
    if (slots_.size() < max_window)
      grow();
    else
      advance_to(b.seq - max_window + 1, out);
  }
  Slot& slot = at(b.seq);
  const bool free = slot.state == State::empty;  // seen twice: the later one wins
  std::copy(std::begin(b.tick), std::end(b.tick), std::begin(slot.tick));
  slot.sid = sid;
  slot.state = b.tick[stage::retire] ? State::committed : State::squashed;
  top_ = std::max(top_, b.seq + 1);
  drain(out);
  return free;
}

void SeqOrder::finish(RowBatch& out) { advance_to(top_, out); }

void SeqOrder::drain(RowBatch& out) {
  for (; head_ != top_ && at(head_).state != State::empty; ++head_) emit(at(head_), out);
}

void SeqOrder::advance_to(std::uint64_t seq, RowBatch& out) {
  // Behind the largest seq seen every slot is empty: a jump of 2^60 in a broken trace costs
  // nothing.
  for (; head_ < seq && head_ < top_; ++head_) emit(at(head_), out);
  if (head_ < seq) head_ = top_ = seq;
  drain(out);
}

void SeqOrder::emit(Slot& slot, RowBatch& out) {
  emitted_ |= slot.state != State::empty;
  if (slot.state == State::committed) push_row(out, slot.sid, 0, 0, slot.tick);
  if (slot.state == State::squashed) ++stats_.squashed;
  slot.state = State::empty;
}

void SeqOrder::grow() {
  std::vector<Slot> slots(slots_.size() * 2);
  for (std::uint64_t seq = head_; seq < top_; ++seq) slots[seq & (slots.size() - 1)] = at(seq);
  slots_ = std::move(slots);
}

}  // namespace tracekit
