// A thread of the program that the recorder holds for a moment.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <signal.h>
#include <sys/ptrace.h>

#include <optional>
#include <utility>

#include "record/snapshot.hpp"

namespace tracekit::record {

// One thread that we hold attached: detached again, as it is, on every way out.
class Attached {
 public:
  explicit Attached(pid_t tid) : tid_(tid) { seize(tid, 0); }
  // One that is attached and stopped already.
  static Attached adopt(pid_t tid) { return Attached(tid, true); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached() {
    if (tid_ == 0) return;
    const pid_t tid = tid_;
    try {
      if (stopped_) {
        let_go();
        return;
      }
    } catch (...) {  // not stopped after all: whoever stepped it was interrupted
      tid_ = tid;
    }
    try {
      interrupt(tid_);
      while (!stop(1'000'000'000)) {
      }
      let_go();
    } catch (...) {  // it has ended meanwhile
    }
  }
  pid_t tid() const { return tid_; }

  // Waits for a stop; `signal` is then what must be delivered when it goes on.
  std::optional<int> stop(std::uint64_t timeout_ns) {
    const std::optional<int> status = wait_stop(tid_, timeout_ns);
    if (status) {
      stopped_ = true;
      signal_ = stop_event(*status) == 0 && stop_signal(*status) != (SIGTRAP | 0x80)
                    ? stop_signal(*status)
                    : 0;
    }
    return status;
  }
  int signal() const { return signal_; }
  void go(int request) {
    resume(request, tid_, signal_);
    stopped_ = false;
    signal_ = 0;
  }
  void let_go(int signal = 0) {
    const pid_t tid = std::exchange(tid_, 0);
    detach(tid, signal != 0 ? signal : signal_);
  }
  void forget() { tid_ = 0; }  // it has ended

  // Interrupts and waits until it stands still for that reason or is stopped by job control;
  // signals that come first are delivered.
  int interrupt_and_wait(const Poll& poll) {
    interrupt(tid_);
    for (;;) {
      const std::optional<int> status = stop(100'000'000);
      if (!status) {
        poll();
        continue;
      }
      if (stop_event(*status) == PTRACE_EVENT_STOP) return *status;
      go(PTRACE_CONT);
      interrupt(tid_);  // any other stop takes a pending interrupt with it (kernel/signal.c)
    }
  }

 private:
  Attached(pid_t tid, bool stopped) : tid_(tid), stopped_(stopped) {}

  pid_t tid_;
  bool stopped_{};
  int signal_{};
};

// A thread inside a system call: lets it run until the call has returned.  False when `wait_ns`
// have passed, or job control stopped it: then it is back where it was, stopped.
bool wait_for_return(Attached& thread, std::uint64_t wait_ns, const Poll& poll);

}  // namespace tracekit::record
#endif
