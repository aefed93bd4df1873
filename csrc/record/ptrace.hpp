// Thin, throwing wrappers of ptrace(2), wait and /proc for the recorder.
//
// csrc/record/ is the one exception to the rule that csrc/ is pure computation on buffers: the
// stepping loop makes three system calls an instruction and must not cross into Python between
// them.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tracekit::record {

using Regs = user_regs_struct;

// What the user is told; `kind` is stable (permission, seccomp, traced, not_64_bit, gone, system).
class Error : public std::runtime_error {
 public:
  Error(std::string kind, const std::string& message)
      : std::runtime_error(message), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

[[noreturn]] void throw_errno(const std::string& what);
std::uint64_t now_ns();  // CLOCK_MONOTONIC
std::uint64_t thread_cpu_ns();

// The process has ended (or its thread has): nothing is wrong, there is just nothing left to trace.
struct Gone {
  int status{};  // as waitpid gives it, where `known`
  bool known{};
};

// The next stop of `tid` (its wait status), or nothing when `timeout_ns` have passed.  Throws Gone
// when it has ended.  A timer of this thread's interrupts the wait, by a real-time signal with an
// empty handler: the stops of the program are too short for anything slower than a plain waitpid.
std::optional<int> wait_stop(pid_t tid, std::uint64_t timeout_ns);

// Why a wait status is a stop.
int stop_signal(int status);         // the signal
int stop_event(int status);          // PTRACE_EVENT_*, 0 for none
bool is_interrupt_stop(int status);  // what PTRACE_INTERRUPT asked for
bool is_group_stop(int status);      // job control stopped the whole process

// All throw Gone on ESRCH and Error otherwise.
void seize(pid_t tid, unsigned long options);
void interrupt(pid_t tid);
void set_options(pid_t tid, unsigned long options);
void resume(int request, pid_t tid, int signal = 0);  // PTRACE_CONT, SYSCALL, SINGLESTEP
void detach(pid_t tid, int signal = 0);
Regs get_regs(pid_t tid);
void set_regs(pid_t tid, const Regs& regs);
unsigned long event_message(pid_t tid);
void poke(pid_t tid, std::uint64_t address,
          std::span<const std::uint8_t> bytes);  // read-only pages too

// Bytes read, less than asked for at the end of what is mapped; 0 where nothing is.
// Processor time of another process, to the nanosecond where its clock may be read.
std::uint64_t process_cpu_ns(pid_t pid);
std::size_t read_memory(pid_t pid, std::uint64_t address, void* to, std::size_t n);

struct Mapping {
  std::uint64_t begin{}, end{};
  bool readable{}, writable{}, executable{}, shared{};
  std::string name;
};
std::vector<Mapping> read_maps(pid_t pid);  // throws Gone
std::string maps_text(pid_t pid);           // /proc/PID/maps; empty when it has ended

// What /proc/PID/status and /proc/PID/stat say of one thread.
struct ThreadStatus {
  char state{};
  pid_t tgid{}, ppid{}, tracer{};
  int seccomp{};           // 0 none, 1 strict, 2 filter
  std::uint64_t caught{};  // signals with a handler
  pid_t inner_pid{};       // its number in its own PID namespace
};
ThreadStatus thread_status(pid_t tid);  // throws Gone

}  // namespace tracekit::record
#endif
