// Keeps a stepped copy and whoever steps it on one processor.
//
// They take turns at each instruction.  On two processors each turn wakes the other one up, which
// in a virtual machine costs more than the step.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <sched.h>

#include <cstdint>

namespace tracekit::record {

// From `stay` until it goes out of scope; the calling thread then has its own processors again.
class SameCore {
 public:
  // Nothing where the two have no processor in common; it saves time, and is needed for nothing.
  void stay(pid_t copy);
  ~SameCore() { part(); }
  SameCore() = default;
  SameCore(const SameCore&) = delete;
  SameCore& operator=(const SameCore&) = delete;

  // Called at each step: the scheduler places them anew where another program has the processor.
  void step();

  // Processor time of both so far while they were apart, so that others may have waited for it.
  // While they are together and each step is short nobody does: a program of normal priority takes
  // the processor from a copy of the lowest at once.
  std::uint64_t crowded_ns() const;

 private:
  static constexpr std::uint64_t slow_ns = 1'000'000;    // that a step takes: 0.02 ms, otherwise
  static constexpr std::uint64_t apart_ns = 50'000'000;  // time to be placed

  void join();
  void part();
  std::uint64_t used_since() const;

  cpu_set_t own_{}, both_{};
  pid_t copy_{};
  bool joined_{};
  std::uint64_t last_{};              // step, or when they were parted
  std::uint64_t crowded_{}, used_{};  // processor time: while apart, and all until they were parted
};

}  // namespace tracekit::record
#endif
