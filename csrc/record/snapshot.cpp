#if defined(__linux__) && defined(__x86_64__)
#include "record/snapshot.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "record/attached.hpp"

namespace tracekit::record {

namespace {

constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint16_t user_code_64 = 0x33;  // the code segment of 64-bit programs
constexpr long restart_no_intr = -513;

// False within exec, before the kernel has mapped all of the new program, and once it has ended.
bool has_begun(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/auxv", std::ios::binary);
  char entry[16] = {};
  return in.read(entry, sizeof entry) && (entry[0] | entry[1]) != 0;
}

}  // namespace

bool wait_for_return(Attached& thread, std::uint64_t wait_ns, const Poll& poll) {
  const std::uint64_t deadline = now_ns() + wait_ns;
  set_options(thread.tid(), PTRACE_O_TRACESYSGOOD);
  bool inside = false;  // the restarted call stops at its entry first
  thread.go(PTRACE_SYSCALL);
  for (;;) {
    const std::uint64_t at = now_ns();
    const std::optional<int> status =
        at < deadline ? thread.stop(std::min(deadline - at, 100 * ms)) : std::nullopt;
    if (!status) {
      poll();
      if (at < deadline) continue;
      thread.interrupt_and_wait(poll);
      return false;
    }
    if (stop_signal(*status) == (SIGTRAP | 0x80)) {
      inside = !inside;
      if (!inside && !in_system_call(get_regs(thread.tid()))) return true;
    } else if (stop_event(*status) == PTRACE_EVENT_STOP) {
      return false;
    }
    thread.go(PTRACE_SYSCALL);
  }
}

const char* outcome_name(Outcome o) {
  switch (o) {
    case Outcome::taken:
      return "taken";
    case Outcome::in_system_call:
      return "in_system_call";
    case Outcome::stopped:
      return "stopped";
    case Outcome::gone:
      return "gone";
    case Outcome::busy:
      return "busy";
    case Outcome::clone_failed:
      return "clone_failed";
    case Outcome::lacks_memory:
      return "lacks_memory";
  }
  return "?";
}

Copy::~Copy() { kill(); }

void Copy::kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);  // ours until we have waited for it: the number cannot be another's
  while (true) {
    int status = 0;
    const pid_t r = waitpid(pid_, &status, __WALL);
    if (r < 0 && errno == EINTR) continue;
    if (r < 0 || !WIFSTOPPED(status)) break;
  }
  pid_ = 0;
}

void Copy::has_died() { pid_ = 0; }

void check_recordable(pid_t tid) {
  const ThreadStatus s = thread_status(tid);
  if (s.tracer != 0)
    throw Error("traced", "thread " + std::to_string(tid) + " is traced already, by process " +
                              std::to_string(s.tracer) + ": end that debugger or tracer first");
  if (s.seccomp != 0)
    throw Error("seccomp",
                "thread " + std::to_string(tid) +
                    " runs under a seccomp filter, which could kill it for the copy that "
                    "recording needs: start it without the filter (its sandbox option)");
}

void check_64_bit(const Regs& regs) {
  if (regs.cs != user_code_64)
    throw Error("not_64_bit",
                "the program runs 32-bit code; only 64-bit x86 programs are recorded");
}

Snapshotter::~Snapshotter() { forget_place(); }

void Snapshotter::forget_place() {
  place_of_ = 0;
  if (memory_ >= 0) close(memory_);
  memory_ = -1;
}

const StubPlace& Snapshotter::place(pid_t tgid) {
  if (place_of_ != tgid || !stub_place_is_ours(tgid, place_)) {
    forget_place();
    std::optional<StubPlace> found = find_stub_place(tgid);
    if (!found && !has_begun(tgid)) throw Gone{};
    if (!found) found = find_stub_place(tgid);  // between two looks it became another program
    if (!found)
      throw Error("system", "process " + std::to_string(tgid) +
                                " has no unused bytes in an executable page to copy itself from");
    memory_ = open(("/proc/" + std::to_string(tgid) + "/mem").c_str(), O_RDWR | O_CLOEXEC);
    place_ = *found;
    place_of_ = tgid;
  }
  return place_;
}

bool Snapshotter::write_stub(pid_t tid, std::uint64_t at, const Regs& regs, bool copies) {
  const auto stub = make_stub(regs, copies);
  // One call where the kernel lets us, else a word at a time.
  if (memory_ < 0 || pwrite(memory_, stub.data(), stub.size(), static_cast<off_t>(at)) !=
                         static_cast<ssize_t>(stub.size()))
    poke(tid, at, stub);
  std::array<std::uint8_t, stub_size> there;
  if (read_memory(tid, at, there.data(), there.size()) == there.size() && there == stub)
    return true;
  forget_place();
  return false;
}

// Attaches; while another tracer holds it for a moment (a killed recorder that is not quite gone
// yet, or what tidies up after it), tries again.
static void attach(std::optional<Attached>& thread, pid_t tid, const Poll& poll) {
  for (int attempt = 0;; ++attempt) {
    try {
      check_recordable(tid);
      thread.emplace(tid);
      return;
    } catch (const Error& e) {
      if (attempt == 25 || (e.kind() != "traced" && e.kind() != "permission")) throw;
      if (e.kind() == "permission" && attempt == 3 && thread_status(tid).tracer == 0) throw;
    }
    poll();
    usleep(20'000);
  }
}

namespace {

// The stop behind a call of the stub.
int stop_of_clone(Attached& thread, pid_t tid, const Poll& poll) {
  std::optional<int> stop = thread.stop(2000 * ms);
  if (!stop) {
    // Either a very long clone, whose event still comes first, or one that failed: then the stub
    // has put everything back and the program runs.
    interrupt(tid);
    while (!(stop = thread.stop(1000 * ms))) poll();
  }
  return *stop;
}

// The program, behind the event of its clone, as it was.
void go_on(Attached& thread, pid_t tid, const Regs& regs, const Poll& poll) {
  interrupt(tid);  // the next stop is the one from which a system call can be restarted
  thread.go(PTRACE_CONT);
  while (!thread.stop(1000 * ms)) poll();
  set_regs(tid, regs);
  thread.let_go();
}

// The copy's first stop; from here it dies with us.
void settle(Snapshot& out, const Poll& poll) {
  try {
    while (!wait_stop(out.copy.pid(), 1000 * ms)) poll();
    set_options(out.copy.pid(), PTRACE_O_EXITKILL);
    set_regs(out.copy.pid(), out.regs);
    out.inner_pid = thread_status(out.copy.pid()).inner_pid;
  } catch (const Gone& g) {
    if (g.known) out.copy.has_died();
    throw;
  }
}

}  // namespace

Snapshot Snapshotter::take(pid_t tid, pid_t tgid, std::uint64_t wait_ns, const Poll& poll) {
  Snapshot out;
  try {
    const StubPlace at = place(tgid);
    // A child of the program's parent where that is us, so that we reap it; else the program's own,
    // with no exit signal, so that nobody is told.  The table of open files is shared, not copied:
    // a pipe that the program closes is then closed, whatever the copy's life.
    const bool ours = thread_status(tgid).ppid == getpid();
    const std::uint64_t flags = CLONE_FILES | (ours ? CLONE_PARENT : 0);

    std::optional<Attached> held;
    attach(held, tid, poll);
    Attached& thread = *held;
    std::uint64_t begin = now_ns();
    const std::uint64_t first = begin;
    try {
      for (int attempt = 0;; ++attempt) {
        const int status = thread.interrupt_and_wait(poll);
        if (is_group_stop(status)) {
          out.outcome = Outcome::stopped;
          return out;
        }
        out.regs = get_regs(tid);
        check_64_bit(out.regs);
        if (in_system_call(out.regs)) {
          if (wait_ns == 0 || !wait_for_return(thread, wait_ns, poll)) {
            out.outcome = Outcome::in_system_call;
            out.waited_ns = now_ns() - first;
            return out;
          }
          begin = now_ns();
          out.regs = get_regs(tid);
        }
        out.regs.orig_rax = ~0ULL;  // a call is over: nothing to restart
        // A stub that an exec has replaced, or that a signal handler interrupted: not this time.
        if (at.covers(out.regs.rip) || !stub_place_is_ours(tid, at) || attempt == 8 ||
            !write_stub(tid, at.clone, out.regs, true)) {
          out.outcome = Outcome::busy;
          return out;
        }
        set_options(tid, PTRACE_O_TRACECLONE);
        set_regs(tid, stub_call(out.regs, at.clone, SYS_clone, {flags, 0, 0, 0, 0}));
        thread.go(PTRACE_CONT);
        if (stop_event(stop_of_clone(thread, tid, poll)) == PTRACE_EVENT_CLONE) {
          out.copy = Copy(static_cast<pid_t>(event_message(tid)), ours ? 0 : tid);
          go_on(thread, tid, out.regs, poll);
          out.pause_ns = now_ns() - begin;
          break;
        }
        // A signal came before the copy was made: all back, let the program have it, and try again.
        const Regs now = get_regs(tid);
        if (!at.covers(now.rip)) {
          out.outcome = Outcome::clone_failed;
          return out;
        }
        const bool failed = now.rip != at.clone && static_cast<long>(now.rax) < 0 &&
                            static_cast<long>(now.rax) != restart_no_intr;
        if (failed) out.clone_errno = static_cast<int>(-static_cast<long>(now.rax));
        set_regs(tid, out.regs);
        set_options(tid, 0);
        if (failed) {
          out.outcome = Outcome::clone_failed;
          return out;
        }
        thread.go(PTRACE_CONT);
        begin = now_ns();
      }
    } catch (const Gone& g) {
      thread.forget();
      if (g.known && tid == tgid) out.exit_status = g.status;
      if (out.copy.pid() == 0) return out;
    }
    out.waited_ns = begin - first;
    settle(out, poll);  // now at leisure
    out.outcome = Outcome::taken;
  } catch (const Gone&) {
    out.outcome = Outcome::gone;
  }
  return out;
}

std::uint64_t Snapshotter::reap(pid_t tid, pid_t tgid, pid_t copy, const Poll& poll) {
  try {
    const StubPlace at = place(tgid);
    std::optional<Attached> held;
    attach(held, tid, poll);
    Attached& thread = *held;
    const std::uint64_t begin = now_ns();
    try {
      for (int attempt = 0; attempt < 8; ++attempt) {
        if (is_group_stop(thread.interrupt_and_wait(poll)))
          return 0;  // tried again after the next copy
        const Regs regs = get_regs(tid);
        if (at.covers(regs.rip) || !stub_place_is_ours(tid, at) ||
            !write_stub(tid, at.call, regs, false))
          return 0;
        set_options(tid, PTRACE_O_TRACESYSGOOD);
        set_regs(tid, stub_call(regs, at.call, SYS_wait4,
                                {static_cast<std::uint64_t>(copy), 0, WNOHANG | __WALL, 0, 0}));
        thread.go(PTRACE_SYSCALL);
        std::optional<int> stop;
        while (!(stop = thread.stop(1000 * ms))) poll();
        const bool entered = stop_signal(*stop) == (SIGTRAP | 0x80);
        if (entered) {
          interrupt(tid);
          thread.go(PTRACE_CONT);
          while (!thread.stop(1000 * ms)) poll();
        }
        set_regs(tid, regs);
        if (entered) {
          thread.let_go();
          return now_ns() - begin;
        }
        thread.go(PTRACE_CONT);  // a signal came first
      }
    } catch (const Gone&) {
      thread.forget();
    }
  } catch (const Gone&) {
  }
  return 0;
}

}  // namespace tracekit::record
#endif
