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

void ExecOrder::add(std::uint64_t seq, std::uint64_t when, std::uint64_t pc, std::uint16_t upc,
                    std::uint32_t sid, std::uint64_t addr, std::uint8_t bits, RowBatch& out) {
  if (tail_ - head_ == rows_.size()) {
    if (rows_.size() < max_window) {
      grow();
    } else {
      Row& oldest = at(head_);
      forced_ += oldest.done ? 0 : 1;
      emit(oldest, out);
      ++head_;
      drain(out);
    }
  }
  Row& row = at(tail_);
  row.seq = seq;
  row.when = when;
  row.pc = pc;
  row.upc = upc;
  row.sid = sid;
  row.addr = addr;
  row.bits = bits | row_bit::untimed;
  row.done = seq == 0;
  std::fill(std::begin(row.tick), std::end(row.tick), 0);
  row.tick[stage::fetch] = when;
  // Two waiting rows must not share a place: the seqs in flight span more than the table.
  const auto taken = [&] {
    const std::uint64_t mask = by_seq_.size() - 1, n = by_seq_[seq & mask];
    // An entry that was never written says row 0, which may be another's.
    return n >= head_ && n < tail_ && !at(n).done && at(n).seq != seq && ((at(n).seq ^ seq) & mask) == 0;
  };
  while (taken() && by_seq_.size() < max_by_seq) index(by_seq_.size() * 2);
  by_seq_[seq & (by_seq_.size() - 1)] = tail_;
  ++tail_;
  if (row.done && head_ + 1 == tail_) drain(out);
}

bool ExecOrder::matches(const Block& b) const {
  const std::uint64_t n = by_seq_[b.seq & (by_seq_.size() - 1)];
  if (n < head_ || n >= tail_) return false;
  const Row& row = at(n);
  return row.seq == b.seq && row.pc == b.pc && row.upc == b.upc &&
         row.when == b.tick[stage::fetch] && !row.done;
}

void ExecOrder::complete(const Block& b, RowBatch& out) {
  blocks_seen_ = true;
  Row& row = at(by_seq_[b.seq & (by_seq_.size() - 1)]);
  std::copy(std::begin(b.tick), std::end(b.tick), std::begin(row.tick));
  row.bits &= static_cast<std::uint8_t>(~row_bit::untimed);
  row.bits |= row_bit::fault_known;
  if (b.tick[stage::retire] == 0) {
    row.bits |= row_bit::fault;
    ++stats_.trapped;
  }
  row.done = true;
  drain(out);
}

void ExecOrder::unmatched(const Block& b) {
  blocks_seen_ = true;
  if (b.tick[stage::retire] == 0)
    ++stats_.squashed;
  else
    ++stats_.block_without_exec;
}

void ExecOrder::finish(RowBatch& out) {
  for (; head_ != tail_; ++head_) emit(at(head_), out);
}

void ExecOrder::drain(RowBatch& out) {
  for (; head_ != tail_ && at(head_).done; ++head_) emit(at(head_), out);
}

void ExecOrder::emit(Row& row, RowBatch& out) {
  if (row.bits & row_bit::untimed) ++stats_.untimed;
  push_row(out, row.sid, row.addr, row.bits, row.tick);
}

void ExecOrder::grow() {
  std::vector<Row> rows(rows_.size() * 2);
  for (std::uint64_t n = head_; n != tail_; ++n) rows[n & (rows.size() - 1)] = at(n);
  rows_ = std::move(rows);
  if (by_seq_.size() < rows_.size() * 4) index(rows_.size() * 4);
}

void ExecOrder::index(std::size_t size) {
  by_seq_.assign(size, 0);
  for (std::uint64_t n = head_; n != tail_; ++n)
    if (!at(n).done) by_seq_[at(n).seq & (size - 1)] = n;
}

void SeqOrder::add(const Block& b, std::uint32_t sid, RowBatch& out) {
  if (!started_) {
    // The first block seen is seldom the oldest; leave room for those before it.
    started_ = true;
    head_ = b.seq > max_window / 2 ? b.seq - max_window / 2 : std::min<std::uint64_t>(b.seq, 1);
    top_ = head_;
  }
  if (b.seq < head_ && !emitted_ && top_ - b.seq <= slots_.size()) head_ = b.seq;
  if (b.seq < head_) {
    ++late_;
    return;
  }
  while (b.seq - head_ >= slots_.size()) {
    if (slots_.size() < max_window)
      grow();
    else
      advance_to(b.seq - max_window + 1, out);
  }
  Slot& slot = at(b.seq);
  if (slot.state != State::empty) ++late_;  // seen twice: the later one wins
  std::copy(std::begin(b.tick), std::end(b.tick), std::begin(slot.tick));
  slot.sid = sid;
  slot.state = b.tick[stage::retire] ? State::committed : State::squashed;
  top_ = std::max(top_, b.seq + 1);
  drain(out);
}

void SeqOrder::finish(RowBatch& out) { advance_to(top_, out); }

void SeqOrder::drain(RowBatch& out) {
  for (; head_ != top_ && at(head_).state != State::empty; ++head_) emit(at(head_), out);
}

void SeqOrder::advance_to(std::uint64_t seq, RowBatch& out) {
  // Behind the largest seq seen every slot is empty: a jump of 2^60 in a broken trace costs nothing.
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
