// Runs a stopped thread one instruction at a time and writes down what it does.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/common/native_batch.hpp"
#include "formats/tks/tks.hpp"
#include "record/code_cache.hpp"
#include "record/snapshot.hpp"
#include "record/system_calls.hpp"

namespace tracekit::record {

struct StepLimits {
  std::uint64_t instructions{100'000};
  std::uint64_t time_ns{~0ULL};
  std::uint64_t accesses{1ULL << 24};
  bool follow_exec{};  // in place: goes on in the program that an exec starts
  bool continues{};    // its first instruction follows from the last one that was recorded
  int program{-1};     // a pidfd of the original: its end ends the epoch (-1: none)
  pid_t original{};    // whose copy is stepped
};

struct StepResult {
  EndReason reason{EndReason::length};
  std::uint32_t detail{};      // the system call's or the signal's number
  std::optional<int> status;   // the thread has ended: its wait status
  std::uint64_t steps{};       // single steps made; more than instructions where strings repeat
  std::uint64_t unrecorded{};  // accesses left out: a repeat that ran on over the limit
  std::uint64_t crowded_ns{};  // processor time of a copy and us while others wanted their core
  std::uint64_t handled{};     // faults that a handler of the copy's saw to
  bool lacks_memory{};         // a fault, at memory that the original may reach: all is void
  std::string maps;            // /proc/PID/maps, as late as it could be read
};

class Stepper {
 public:
  explicit Stepper(Decode decode) : code_(std::move(decode)) {}

  // A copy: system calls by policy, ends where it would touch the world.  `who` is the original.
  StepResult copy(pid_t pid, const StepLimits& limits, const Identity& who, NativeBatch& out,
                  const Poll& poll);
  // The program itself: through its system calls and signals.  It is left stopped (unless it has
  // ended), with what `resume` must deliver in `signal`.
  StepResult in_place(pid_t tid, const StepLimits& limits, NativeBatch& out, int& signal,
                      const Poll& poll);

  const EncodingTable& encodings() const { return code_.encodings(); }

 private:
  enum class Mode : std::uint8_t { copy, in_place };
  class Run;
  StepResult run(Mode mode, pid_t tid, const StepLimits& limits, const Identity& who,
                 NativeBatch& out, int& signal, const Poll& poll);
  bool shared(std::uint64_t address, std::uint64_t size) const {
    if (address >= shared_end_ || address + size <= shared_begin_) return false;
    return in_shared(address, size);
  }
  bool in_shared(std::uint64_t address, std::uint64_t size) const;
  void look_at_maps(pid_t pid);
  bool run_repeat(pid_t tid, const Regs& before, const Recipe& recipe, NativeBatch& out,
                  const StepLimits& limits, StepResult& result, int& status);

  CodeCache code_;
  VectorState vectors_;
  std::vector<Access> accesses_;
  std::vector<Mapping> shared_maps_;  // writable memory that other processes see, by address
  std::uint64_t shared_begin_{~0ULL}, shared_end_{};
};

}  // namespace tracekit::record
#endif
