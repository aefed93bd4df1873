// Commit order of one CPU: joins Exec lines with O3PipeView blocks, or sorts blocks that stand alone.
//
// Exec lines come in commit order, and each before the block of its instruction, which is printed when the
// instruction dies.  So with Exec lines a row's place is its line's place, and the block only fills in the
// ticks; without them it is the order of seq.  Both wait in a ring that is as long as the reordering in the
// trace asks for, up to `max_window`, and so memory is bounded whatever the trace holds.
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
  std::uint64_t squashed{};           // blocks of instructions that never committed
  std::uint64_t trapped{};            // Exec line, block with retire 0
  std::uint64_t untimed{};            // Exec line, no block
  std::uint64_t block_without_exec{}; // retired, but no Exec line
};

// Rows known by Exec lines, waiting for their blocks.
class ExecOrder {
 public:
  static constexpr std::size_t max_window = std::size_t{1} << 18;
  static constexpr std::size_t max_by_seq = std::size_t{1} << 22;

  // A line without FetchSeq (seq 0) waits for no block.
  void add(std::uint64_t seq, std::uint64_t when, std::uint64_t pc, std::uint16_t upc,
           std::uint32_t sid, std::uint64_t addr, std::uint8_t bits, RowBatch& out);
  // True where the block belongs to a waiting row of this CPU.
  bool matches(const Block& b) const;
  // Precondition: matches(b).
  void complete(const Block& b, RowBatch& out);
  // A block that no CPU has a row for.
  void unmatched(const Block& b);
  void finish(RowBatch& out);

  const OrderStats& stats() const { return stats_; }
  bool blocks_seen() const { return blocks_seen_; }
  std::uint64_t forced() const { return forced_; }

 private:
  struct Row {
    std::uint64_t seq, when, pc, addr;
    std::uint64_t tick[stage::count];
    std::uint32_t sid;
    std::uint16_t upc;
    std::uint8_t bits;
    bool done;
  };
  void grow();
  void index(std::size_t size);
  void drain(RowBatch& out);
  void emit(Row& row, RowBatch& out);
  Row& at(std::uint64_t n) { return rows_[n & (rows_.size() - 1)]; }
  const Row& at(std::uint64_t n) const { return rows_[n & (rows_.size() - 1)]; }

  std::vector<Row> rows_ = std::vector<Row>(1024);
  std::vector<std::uint64_t> by_seq_ = std::vector<std::uint64_t>(4096);  // seq -> row number
  std::uint64_t head_{}, tail_{};
  bool blocks_seen_{};
  std::uint64_t forced_{};  // rows given up because the window was full
  OrderStats stats_;
};

// Blocks without Exec lines: commit order is the order of seq.
class SeqOrder {
 public:
  static constexpr std::size_t max_window = std::size_t{1} << 17;

  // A block that is whole.  sid is meaningless where the tick of retire is 0.
  void add(const Block& b, std::uint32_t sid, RowBatch& out);
  void finish(RowBatch& out);

  bool started() const { return started_; }
  const OrderStats& stats() const { return stats_; }
  std::uint64_t late() const { return late_; }  // came after their place was given away

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
  std::uint64_t late_{};
  OrderStats stats_;
};

}  // namespace tracekit
