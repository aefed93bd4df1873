// Main memory, and the wires to it, as latencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

// Wires or a bus: how much of each 64 cycles is taken, so that requests may come in any order of
// time.
class Channel {
 public:
  // When something that takes `cost` cycles may start, from `at` on.
  Cycle place(Cycle at, double cost);

 private:
  static constexpr std::size_t kept = 1024;
  static constexpr float full = 64;  // cycles of an interval
  struct Interval {
    Cycle number{-1};
    float load{};
  };
  Interval* interval(Cycle number);  // null: longer ago than is kept
  std::vector<Interval> ring_ = std::vector<Interval>(kept);
};

// Main memory as gem5's controllers time it (src/mem/dram_interface.cc): banks with an open row,
// activations, one data bus; reads as they come, writes some at a time.
class Memory {
 public:
  // Writes that wait on their way to a full queue before a core notices.
  static constexpr double queued_writes = 16;

  explicit Memory(const CoreParameters& p);
  // What a read takes that nobody else asks beside.
  static Cycle unloaded(const CoreParameters& p) {
    return static_cast<Cycle>(p.memory_controller_ + p.memory_activate_ + p.memory_cas_ +
                              p.memory_burst_);
  }
  Cycle read(Cycle at, std::uint64_t line);   // when its data is there
  Cycle write(Cycle at, std::uint64_t line);  // when its turn comes

 private:
  struct Bank {
    std::uint64_t row{no_line};
    Cycle asked{};             // when the last access to it came
    double decided{}, turn{};  // when its turn came, and after which refresh
    double column{}, idle{};   // when the next column access, and the next precharge, may begin
    int accesses{};            // of the open row
  };
  Bank& bank(std::uint64_t row) { return bank_[row % banks_]; }
  // Opens a row, for which the commands are chosen at `decided`; `again`: all banks were closed
  // since its last access.  When the column access may begin.
  double open(Bank& b, std::uint64_t row, double decided, bool again);
  double bus_cost(std::uint64_t row, double other_group) const;
  bool is_open(std::uint64_t row, double turn) const;
  std::uint64_t next_write(double begin, double decided, double turn);
  void begin_writing();
  void send_write(double at, Cycle asked);
  void send_writes(Cycle at);
  void stop_writing(Cycle at);
  struct Refreshed {
    double at;    // when something that comes at a time can be served
    double turn;  // which refresh was the last one
  };
  Refreshed refreshed(double t) const;

  const CoreParameters p_;
  std::size_t row_lines_, banks_, rank_banks_, groups_;
  std::vector<Bank> bank_;
  std::vector<std::uint64_t> writes_;  // that wait: their rows
  Cycle many_since_{};                 // more than half a queue of them
  bool writing_{};
  int written_{};             // since writing began
  double reads_from_{};       // no read goes before
  double last_{}, idle_{};    // when the last access went, and the next one may
  std::uint64_t last_row_{};  // its row
  Channel bus_, activations_;
  double next_decision_{};  // no read's commands are chosen before, of those that come behind
  Cycle decided_for_{};     // the one that was there then
};

}  // namespace tracekit
