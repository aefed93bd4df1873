// Commit order of one CPU: joins Exec lines with O3PipeView blocks, or sorts blocks that stand
// alone.
//
// Exec lines come in commit order, and each before the block of its instruction, which is printed
// when the instruction dies.  So with Exec lines a row's place is its line's place, and the block
// only fills in the ticks; without them it is the order of seq.  Both wait in a ring that is as
// long as the reordering in the trace asks for, up to `max_window`, and so memory is bounded
// whatever the trace holds.
#pragma once

#include <cstdint>
#include <vector>

#include "core/counters.hpp"
#include "core/row_batch.hpp"

namespace tracekit {

struct Block {
  std::uint64_t seq{}, pc{};
  std::uint16_t upc{};
  std::uint64_t tick[stage::count]{};
};

struct OrderStats {
  std::uint64_t squashed{};  // blocks of instructions that never committed
  std::uint64_t trapped{};   // Exec line, block with retire 0
  std::uint64_t untimed{};   // Exec line, no block
};

// Rows known by Exec lines, waiting for their blocks.  They wait in the columns they will leave in.
class ExecOrder {
 public:
  static constexpr std::size_t max_window = std::size_t{1} << 18;
  static constexpr std::size_t max_by_seq = std::size_t{1} << 22;
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  // A line without FetchSeq (seq 0) waits for no block.  Whether the oldest row was given up for
  // it, because the window was full.
  bool add(std::uint64_t seq, std::uint64_t when, std::uint64_t pc, std::uint16_t upc,
           std::uint32_t sid, std::uint64_t addr, std::uint8_t bits);
  // The number of this CPU's row that waits for such a block, or none.
  std::uint64_t find(std::uint64_t seq, std::uint64_t pc, std::uint16_t upc,
                     std::uint64_t fetch) const {
    const std::uint64_t n = by_seq_[seq & by_seq_mask_];
    if (n - head_ >= tail_ - head_) return none;
    const Waiting& w = at(n);
    return w.seq == seq && w.pc == pc && w.upc == upc && !w.done &&
                   rows_.ticks[stage::fetch][n - origin_] == fetch
               ? n
               : none;
  }
  // Precondition: n = find(...) of this block.
  void complete(std::uint64_t n, const std::uint64_t (&tick)[stage::count]) {
    const std::size_t i = n - origin_;
    for (unsigned s = 0; s < stage::count; ++s) rows_.ticks[s][i] = tick[s];
    std::uint8_t bits = rows_.bits[i] & static_cast<std::uint8_t>(~row_bit::untimed);
    bits |= row_bit::fault_known;
    if (tick[stage::retire] == 0) {
      bits |= row_bit::fault;
      ++stats_.trapped;
    }
    rows_.bits[i] = bits;
    rows_.timed = blocks_seen_ = at(n).done = true;
    drain();
  }
  // A block that no CPU has a row for.  Whether it retired: its Exec line is missing.
  bool unmatched(std::uint64_t retire) {
    blocks_seen_ = true;
    stats_.squashed += retire == 0;
    return retire != 0;
  }
  void finish();
  // The rows that wait for nothing any more, in commit order.  `spare`: an empty batch, for its
  // memory.
  RowBatch take(RowBatch spare);

  const OrderStats& stats() const { return stats_; }
  bool blocks_seen() const { return blocks_seen_; }
  std::uint64_t forced() const { return forced_; }

 private:
  struct Waiting {
    std::uint64_t seq, pc;
    std::uint16_t upc;
    bool done;
  };
  void grow();
  void index(std::size_t size);
  void drain() {
    while (head_ != tail_ && at(head_).done) ++head_;
  }
  void give_up(std::uint64_t n);
  Waiting& at(std::uint64_t n) { return waiting_[n & mask_]; }
  const Waiting& at(std::uint64_t n) const { return waiting_[n & mask_]; }

  // Rows have numbers: those below base_ were taken, those in [base_, head_) are whole, those in
  // [head_, tail_) wait, with what tells their blocks in a ring.
  std::uint64_t base_{}, head_{}, tail_{};
  RowBatch rows_;  // from number origin_ on; of one that waits the ticks behind `fetch` are not set
  std::uint64_t origin_{};
  // Small, to stay in the first cache; both grow to what the trace's reordering asks for.
  std::vector<Waiting> waiting_ = std::vector<Waiting>(256);
  std::uint64_t mask_{255};
  std::vector<std::uint64_t> by_seq_ = std::vector<std::uint64_t>(1024);  // seq -> row number
  std::uint64_t by_seq_mask_{1023};
  bool blocks_seen_{};
  std::uint64_t forced_{};  // rows given up because the window was full
  OrderStats stats_;
};

// Blocks without Exec lines: commit order is the order of seq.
class SeqOrder {
 public:
  static constexpr std::size_t max_window = std::size_t{1} << 17;

  // A block that is whole.  sid is meaningless where the tick of retire is 0.  False where its
  // place was given away before, or another block has it.
  bool add(const Block& b, std::uint32_t sid, RowBatch& out);
  void finish(RowBatch& out);

  bool started() const { return started_; }
  const OrderStats& stats() const { return stats_; }

 private:
  enum class State : std::uint8_t { empty, committed, squashed };
  struct Slot {
    std::uint64_t tick[stage::count];
    std::uint32_t sid;
    State state{State::empty};
  };
  void advance_to(std::uint64_t seq, RowBatch& out);
  void drain(RowBatch& out);
  void emit(Slot& slot, RowBatch& out);
  void grow();
  Slot& at(std::uint64_t seq) { return slots_[seq & (slots_.size() - 1)]; }

  std::vector<Slot> slots_ = std::vector<Slot>(1024);
  std::uint64_t head_{}, top_{};  // next seq to give out; one past the largest seen
  bool started_{}, emitted_{};
  OrderStats stats_;
};

}  // namespace tracekit
