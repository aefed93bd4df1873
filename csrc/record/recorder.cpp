#if defined(__linux__) && defined(__x86_64__)
#include "record/recorder.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "record/attached.hpp"

namespace tracekit::record {

std::uint64_t minor_faults(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return 0;
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::string word;
  std::uint64_t faults = 0;
  for (int field = 3; field < 10; ++field) words >> word;
  words >> faults;
  return faults;
}

void Recorder::fill(EpochResult& out, const EpochRequest& request, const StepResult& steps,
                    bool in_place) {
  tks::EpochInfo& i = out.info;
  i.number = request.number;
  i.pid = static_cast<std::uint64_t>(request.tgid);
  i.tid = static_cast<std::uint64_t>(request.tid);
  i.in_place = in_place ? 1 : 0;
  i.requested = request.limits.instructions;
  i.steps = steps.steps;
  i.unrecorded = steps.unrecorded;
  i.reason = static_cast<std::uint64_t>(steps.reason);
  i.detail = steps.detail;
  out.size = batch_.size();
  out.accesses = batch_.accesses();
  out.maps = steps.maps;
  info_ = i;
}

EpochResult Recorder::epoch(const EpochRequest& request, const Poll& poll) {
  EpochResult out;
  batch_.clear();
  const std::uint64_t faults = minor_faults(request.tgid);
  const std::uint64_t cpu = thread_cpu_ns(), start = now_ns();
  bool parent_is_us = false;
  Identity who;
  try {
    const ThreadStatus status = thread_status(request.tgid);
    parent_is_us = status.ppid == getpid();
    who = {static_cast<std::uint64_t>(status.inner_pid),
           static_cast<std::uint64_t>(thread_status(request.tid).inner_pid),
           static_cast<std::uint64_t>(status.ppid)};
  } catch (const Gone&) {
    return out;
  }
  if (!parent_is_us) janitor_.begins(request.tid, request.tgid);
  Snapshot snapshot = snapshotter_.take(request.tid, request.tgid, request.wait_ns, poll);
  out.outcome = snapshot.outcome;
  out.waited_ns = snapshot.waited_ns;
  out.clone_errno = snapshot.clone_errno;
  out.exit_status = snapshot.exit_status;
  const pid_t parent = snapshot.copy.parent_thread(), copy = snapshot.copy.pid();
  if (parent != 0 && copy != 0) janitor_.knows(copy);
  // On every way out, the user's Ctrl-C included: the copy is killed, and the program rid of it.
  const auto finish = [&](const Poll& ask) {
    snapshot.copy.kill();
    if (parent != 0 && copy != 0) {
      const pid_t inner = snapshot.inner_pid != 0 ? snapshot.inner_pid : copy;
      out.reap_ns = snapshotter_.reap(parent, request.tgid, inner, ask);
      if (out.reap_ns == 0 && parent != request.tgid)
        out.reap_ns = snapshotter_.reap(request.tgid, request.tgid, inner, ask);
    }
    if (!parent_is_us) janitor_.ends();
  };
  try {
    if (snapshot.outcome == Outcome::taken) {
      if (request.lowest_priority) {
        const sched_param none{};
        sched_setscheduler(copy, SCHED_IDLE, &none);
      }
      const StepResult steps = stepper_.copy(copy, request.limits, who, batch_, poll);
      if (steps.reason == EndReason::exited && steps.status) snapshot.copy.has_died();
      out.crowded_ns = steps.crowded_ns;
      out.info.cpu_ns = process_cpu_ns(copy);
      snapshot.copy.kill();
      out.info.step_ns = now_ns() - start - snapshot.pause_ns - snapshot.waited_ns;
      out.info.cpu_ns += thread_cpu_ns() - cpu;
      out.info.start_ns = start - begin_ns_;
      out.info.pause_ns = snapshot.pause_ns;
      const std::uint64_t now = minor_faults(request.tgid);
      out.info.faults = now > faults ? now - faults : 0;
      fill(out, request, steps, false);
      out.handled = steps.handled;
      if (steps.lacks_memory) out.outcome = Outcome::lacks_memory;
    }
  } catch (...) {
    finish([] {});
    throw;
  }
  finish(poll);
  return out;
}

EpochResult Recorder::step_program(pid_t tid, const EpochRequest& request, std::uint64_t pause_from,
                                   int& signal, const Poll& poll) {
  EpochResult out;
  const std::uint64_t cpu = thread_cpu_ns(), faults = minor_faults(request.tgid);
  const StepResult steps = stepper_.in_place(tid, request.limits, batch_, signal, poll);
  out.outcome = Outcome::taken;
  out.exit_status = steps.status;
  out.info.start_ns = pause_from - begin_ns_;
  out.info.step_ns = now_ns() - pause_from;
  out.info.pause_ns = out.info.step_ns;  // all of it was the program's own time
  out.info.cpu_ns = thread_cpu_ns() - cpu;
  const std::uint64_t now = minor_faults(request.tgid);
  out.info.faults = now > faults ? now - faults : 0;
  fill(out, request, steps, true);
  return out;
}

EpochResult Recorder::in_place(const EpochRequest& request, const Poll& poll) {
  EpochResult out;
  batch_.clear();
  try {
    check_recordable(request.tid);
    Attached thread(request.tid);
    std::uint64_t begin = now_ns();
    try {
      const int status = thread.interrupt_and_wait(poll);
      if (is_group_stop(status)) {
        out.outcome = Outcome::stopped;
        return out;
      }
      const Regs regs = get_regs(request.tid);
      check_64_bit(regs);
      if (in_system_call(regs)) {
        const std::uint64_t from = now_ns();
        if (!wait_for_return(thread, request.wait_ns, poll)) {
          out.outcome = Outcome::in_system_call;
          out.waited_ns = now_ns() - from;
          return out;
        }
        begin = now_ns();
      }
      int signal = 0;
      out = step_program(request.tid, request, begin, signal, poll);
      if (out.exit_status)
        thread.forget();
      else
        thread.let_go(signal);
      if (request.tid != request.tgid)
        out.exit_status.reset();  // a thread's end, not the program's
    } catch (const Gone& g) {
      thread.forget();
      if (g.known && request.tid == request.tgid) out.exit_status = g.status;
    }
  } catch (const Gone&) {
  }
  return out;
}

EpochResult Recorder::full(const EpochRequest& request, bool let_go, const Poll& poll) {
  batch_.clear();
  Attached thread = Attached::adopt(request.tid);
  EpochResult out = step_program(request.tid, request, now_ns(), full_signal_, poll);
  const auto reason = static_cast<EndReason>(out.info.reason);
  const bool more = reason == EndReason::length || reason == EndReason::accesses;
  try {
    if (out.exit_status || (more && !let_go))
      thread.forget();
    else
      thread.let_go(std::exchange(full_signal_, 0));
  } catch (const Gone&) {  // it has just been killed; whoever waits for it is told
  }
  return out;
}

std::pair<std::string, std::string> Recorder::encode() {
  const EncodingTable& table = stepper_.encodings();
  std::pair<std::string, std::string> out;
  if (table.size() > encoded_) out.first = tks::encode_code(table, encoded_, table.size());
  encoded_ = table.size();
  out.second = tks::encode_epoch(info_, batch_);
  return out;
}

pid_t start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
            int output, const std::string& folder) {
  if (arguments.empty()) throw Error("system", "no program to start");
  std::vector<char*> argv, envp;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  for (const std::string& e : environment) envp.push_back(const_cast<char*>(e.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  int go[2], failed[2];
  if (pipe2(go, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  if (pipe2(failed, O_CLOEXEC) != 0) {
    close(go[0]), close(go[1]);
    throw_errno("cannot make a pipe");
  }
  const pid_t pid = fork();
  if (pid < 0) throw_errno("cannot start a process");
  if (pid == 0) {
    char byte;
    close(go[1]);
    if (read(go[0], &byte, 1) == 1 && (output < 0 || dup2(output, 1) == 1) &&
        (folder.empty() || chdir(folder.c_str()) == 0)) {
      for (const int s : {SIGPIPE, SIGXFSZ}) ::signal(s, SIG_DFL);  // Python ignores them
      execvpe(argv[0], argv.data(), envp.data());
      const int e = errno;
      if (write(failed[1], &e, sizeof e) < 0) _exit(126);
    }
    _exit(127);
  }
  close(go[0]);
  close(failed[1]);
  const auto give_up = [&] {
    ::kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, __WALL) < 0 && errno == EINTR) {
    }
  };
  try {
    seize(pid, PTRACE_O_TRACEEXEC);
    if (write(go[1], "g", 1) != 1) throw_errno("cannot start the program");
    close(go[1]);
    int e = 0;
    const bool could_not =
        read(failed[0], &e, sizeof e) == sizeof e;  // ends when exec has closed it
    close(failed[0]);
    if (could_not) {
      errno = e;
      throw_errno("cannot start " + arguments[0]);
    }
    std::optional<int> status;
    while (!(status = wait_stop(pid, 1'000'000'000)) || stop_event(*status) != PTRACE_EVENT_EXEC)
      if (status) resume(PTRACE_CONT, pid, stop_event(*status) == 0 ? stop_signal(*status) : 0);
    set_options(pid, 0);
    interrupt(pid);  // out of exec itself: the next step is then the first instruction
    resume(PTRACE_CONT, pid);
    while (!wait_stop(pid, 1'000'000'000)) {
    }
    check_64_bit(get_regs(pid));
  } catch (const Gone&) {
    throw Error("gone", "the program ended before its first instruction");
  } catch (...) {
    give_up();
    throw;
  }
  return pid;
}

double page_copy_ns() {
  constexpr std::size_t pages = 1024, size = pages * 4096;
  auto* p = static_cast<volatile char*>(
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (p == MAP_FAILED) throw_errno("cannot map memory");
  madvise(const_cast<char*>(p), size, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < size; i += 4096) p[i] = 1;
  const pid_t pid = fork();
  if (pid == 0)
    for (;;) pause();
  const std::uint64_t begin = now_ns();
  for (std::size_t i = 0; i < size; i += 4096) p[i] = 2;
  const double each = static_cast<double>(now_ns() - begin) / pages;
  if (pid > 0) {
    ::kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  munmap(const_cast<char*>(p), size);
  return each;
}

std::pair<double, double> bare_step_ns(std::uint64_t steps) {
  const pid_t pid = fork();
  if (pid < 0) throw_errno("cannot start a process");
  if (pid == 0)
    for (;;) asm volatile("");
  seize(pid, PTRACE_O_EXITKILL);
  interrupt(pid);
  const auto wait = [&] {
    int status = 0;
    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR) {
    }
  };
  wait();
  const std::uint64_t begin = now_ns(), cpu = thread_cpu_ns() + process_cpu_ns(pid);
  for (std::uint64_t i = 0; i < steps; ++i) {
    resume(PTRACE_SINGLESTEP, pid);
    wait();
    get_regs(pid);
  }
  const auto n = static_cast<double>(std::max<std::uint64_t>(steps, 1));
  const std::pair<double, double> each = {
      static_cast<double>(now_ns() - begin) / n,
      static_cast<double>(thread_cpu_ns() + process_cpu_ns(pid) - cpu) / n};
  ::kill(pid, SIGKILL);
  wait();
  return each;
}

}  // namespace tracekit::record
#endif
