// One epoch after another of one program, from the request to the encoded block.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/janitor.hpp"
#include "record/stepper.hpp"

namespace tracekit::record {

struct EpochRequest {
  pid_t tid{}, tgid{};
  std::uint64_t number{};
  StepLimits limits{};
  std::uint64_t wait_ns{};     // for a thread in a system call to come out of it
  bool lowest_priority{true};  // of the copy
};

struct EpochResult {
  Outcome outcome{Outcome::gone};
  tks::EpochInfo info{};  // where the outcome is `taken`
  std::uint64_t waited_ns{};
  std::uint64_t reap_ns{};     // a second, shorter pause, where the program had to reap its copy
  std::uint64_t crowded_ns{};  // processor time of ours while others wanted that core, of a copy
  std::uint64_t size{}, accesses{};
  std::uint64_t handled{};  // faults that the copy's own handlers saw to
  std::string maps;  // what was stepped: its /proc/PID/maps, empty where the outcome is not `taken`
  int clone_errno{};
  std::optional<int> exit_status;  // the program has ended and we were told: its wait status
};

class Recorder {
 public:
  explicit Recorder(Decode decode) : stepper_(std::move(decode)), begin_ns_(now_ns()) {}

  // By snapshot.
  EpochResult epoch(const EpochRequest& request, const Poll& poll);
  // The program itself, attached for the epoch.
  EpochResult in_place(const EpochRequest& request, const Poll& poll);
  // The program itself from where `start` or the call before left it, up to its end or the limits.
  // It stays stopped for the next call, unless `let_go`: then it runs on alone.
  EpochResult full(const EpochRequest& request, bool let_go, const Poll& poll);

  // What the last epoch recorded, as payloads of blocks: machine code that no block held yet (may
  // be empty), and the epoch.
  std::pair<std::string, std::string> encode();

 private:
  EpochResult step_program(pid_t tid, const EpochRequest& request, std::uint64_t pause_from,
                           int& signal, const Poll& poll);
  void fill(EpochResult& out, const EpochRequest& request, const StepResult& steps, bool in_place);

  Snapshotter snapshotter_;
  Stepper stepper_;
  Janitor janitor_;
  NativeBatch batch_;
  tks::EpochInfo info_;
  std::uint64_t begin_ns_;
  int full_signal_{};      // to be delivered when `full` goes on
  std::size_t encoded_{};  // machine codes already in a block
};

// Starts a program that stops, traced, before its first instruction; `environment` is NAME=VALUE
// each; `output` is the descriptor that its standard output becomes (-1: as it is here), `folder`
// where it runs ("": here).  Throws Error.
pid_t start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
            int output = -1, const std::string& folder = "");

// Minor page faults of a process so far; 0 when it is gone.
std::uint64_t minor_faults(pid_t pid);

// What it costs to write to a page that is shared with a copy: nanoseconds a page.
double page_copy_ns();

// Steps a child that does nothing else, and reads its registers each time: nanoseconds a step, by
// the wall clock and of processor time (both processes).
std::pair<double, double> bare_step_ns(std::uint64_t steps);

}  // namespace tracekit::record
#endif
