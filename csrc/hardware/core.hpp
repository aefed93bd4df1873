// A real processor's core: walks a trace in order, once, and says when each instruction retires. No
// event queue: an instruction's times follow from those before it (as in csrc/sim).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "hardware/data_memory.hpp"
#include "hardware/front_end.hpp"
#include "hardware/machine_parameters.hpp"
#include "hardware/op.hpp"
#include "hardware/port_calendar.hpp"
#include "hardware/store_buffer.hpp"
#include "sim/cycle.hpp"

namespace tracekit::hardware {

inline constexpr Cycle no_cycle = std::numeric_limits<Cycle>::max();
inline Cycle rounded(double c) { return static_cast<Cycle>(std::lround(c)); }

// What a machine knows of a trace's static instructions.
struct OpTable {
  std::vector<Op> ops;
  std::vector<PortUse> uses;
};

struct SchedulerSize {
  int entries{};
  std::uint32_t ports{};
};

class Core {
 public:
  Core(const MachineParameters& p, OpTable table, std::span<const SchedulerSize> schedulers);

  // The rows of a block: ids into the table, addresses, row_bit; `next` is the id of the row behind
  // the block, or the last row's own if there is none.
  struct Block {
    std::span<const std::uint32_t> sid;
    std::span<const std::uint64_t> addr;
    std::span<const std::uint8_t> bits;
    std::uint32_t next;
  };
  // The cycles by which each row moves the time of the last retirement.
  void run(const Block& block, float* out);
  std::size_t statics() const { return table_.ops.size(); }

  struct Counts {
    std::uint64_t branches{}, mispredicted{}, loads{}, forwarded{}, forward_failed{},
        order_clears{};
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Row {
    const Op* op;
    std::uint32_t sid;
    std::uint64_t address, next;  // next: the pc of the instruction behind
    bool taken, accesses;
    bool fused_first, fused_branch;  // with the row behind, with the row before
    bool fused_move;                 // a move that is one slot with the row behind
  };
  // Times of a row on its way.
  struct Times {
    Cycle dispatched{}, address{}, data{}, done{}, store_known{}, store_data{};
  };
  // When the entry of so many entries ago is free again.
  class Window {
   public:
    explicit Window(double entries) : size_(static_cast<std::size_t>(entries)), free_(size_, 0) {}
    Cycle free_at() const { return free_[at_]; }
    void take(Cycle until) {
      free_[at_] = until;
      at_ = at_ + 1 == size_ ? 0 : at_ + 1;
    }

   private:
    std::size_t size_, at_{};
    std::vector<Cycle> free_;
  };

  void step(const Row& row);
  void choose_ports(const Op& op);
  // The scheduler that feeds the first of some ports.
  std::size_t scheduler_of(std::uint32_t ports) const {
    return scheduler_of_[static_cast<std::size_t>(std::countr_zero(ports))];
  }
  std::uint32_t ports_of(std::size_t use) const { return chosen_[use & (most_chosen - 1)]; }
  void repeat(const Row& row);
  Cycle dispatch(const Row& row);
  void read_registers(const Row& row, Times& t) const;
  std::uint64_t expression(const Op& op) const;
  bool renamed(const Row& row, const StoreBuffer::Found& found);
  float waits_in_scheduler(const Row& row, const Times& t);
  void lose_port(const Op& op, Cycle ready);
  Cycle execute(const Op& op, Cycle ready, Cycle dispatched, bool operates);
  Cycle book(const PortUse& use, std::size_t k, Cycle ready, Cycle dispatched, bool divider,
             Cycle& last);
  Cycle load(const Row& row, Times& t);
  Cycle loaded(const Row& row, Cycle at);
  void store(const Row& row, Times& t);
  void write_results(const Row& row, const Times& t);
  void retire(const Row& row, Times& t);
  void drain(const Row& row, const Times& t);
  void branch(const Row& row, const Times& t);
  int whole(double cycles, float& carry);

  const MachineParameters p_;
  OpTable table_;
  std::vector<float> use_carry_, latency_carry_;
  std::vector<std::uint8_t> waits_;  // a load that ran before an older store once
  DataMemory memory_;
  FrontEnd front_;
  PortCalendar ports_;
  std::vector<Scheduler> scheduler_;
  std::vector<std::uint32_t> scheduler_ports_;
  std::array<std::uint8_t, 32> scheduler_of_{};
  // Of a row's uses: those of its ports that the scheduler has in which it waits.
  static constexpr std::size_t most_chosen = 64;
  std::array<std::uint32_t, most_chosen> chosen_{};
  StoreBuffer stores_;
  Window rob_, queue_, load_queue_, store_queue_, int_registers_, vector_registers_;
  std::array<Cycle, most_registers> register_{};
  std::array<std::uint32_t, most_registers> version_{};
  std::array<Cycle, most_registers> to_addition_{};  // when a floating-point addition may have it
  // What made a register: nothing of the ALUs, one that waited for none of them, another one; and
  // how many instructions ago that was.
  enum class Made : std::uint8_t { otherwise, first, later };
  std::array<Made, most_registers> made_{};
  std::array<std::uint64_t, most_registers> made_at_{};
  // Loads whose store is known by how many stores ago it was.
  struct Rename {
    std::uint32_t sid{};
    int sure{};
    std::uint64_t distance{}, used{};
  };
  std::vector<Rename> rename_;
  std::vector<std::int16_t> rename_of_;       // of a static instruction: its place there, or -1
  std::vector<std::uint64_t> written_lines_;  // blocks that stores went to last, the latest first
  std::uint64_t rows_{};
  Made makes_{};
  const std::uint64_t store_block_;
  const int width_, retire_width_;
  const Cycle load_latency_, vector_load_latency_, indexed_latency_, scaled_latency_, add_forward_,
      forward_latency_, vector_forward_latency_, forward_fail_, mispredict_, order_clear_, alias_;
  Cycle dispatch_{}, retire_{}, drained_{}, serial_{}, load_barrier_{}, store_barrier_{};
  int dispatched_now_{}, retired_now_{}, drained_now_{};
  std::uint32_t wanted_{};  // schedulers that the row waits in, a bit each
  const Op* repeated_{};
  std::uint64_t repeat_line_{no_line};
  float wakeup_carry_{};
  double repeat_bytes_{};
  Cycle repeat_start_{};
  Counts counts_;
};

}  // namespace tracekit::hardware
