#if defined(__linux__) && defined(__x86_64__)
#include "record/ptrace.hpp"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tracekit::record {

namespace {

// ptrace for requests that need a stopped tracee; `data` by value.
long call(int request, pid_t tid, void* address, void* data, const char* what) {
  errno = 0;
  const long r = ptrace(static_cast<__ptrace_request>(request), tid, address, data);
  if (r == -1 && errno != 0) {
    if (errno == ESRCH) throw Gone{};
    throw_errno(what);
  }
  return r;
}

void* word(unsigned long v) { return reinterpret_cast<void*>(v); }

}  // namespace

void throw_errno(const std::string& what) {
  const int e = errno;
  throw Error(e == EPERM || e == EACCES ? "permission" : "system", what + ": " + std::strerror(e));
}

std::uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t thread_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t process_cpu_ns(pid_t pid) {
  clockid_t clock;
  timespec t;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

namespace {

// Interrupts this thread's system calls after a while, again and again until it is disarmed.
class Timer {
 public:
  ~Timer() {
    if (owner_ == getpid()) timer_delete(timer_);
  }
  void arm(std::uint64_t after_ns) {
    create();
    after_ns = std::max<std::uint64_t>(after_ns, 1);
    const itimerspec when{{0, again_ns},
                          {static_cast<time_t>(after_ns / 1'000'000'000),
                           static_cast<long>(after_ns % 1'000'000'000)}};
    timer_settime(timer_, 0, &when, nullptr);
  }
  void disarm() {
    const itimerspec never{};
    timer_settime(timer_, 0, &never, nullptr);
  }

 private:
  static constexpr long again_ns = 2'000'000;  // the first signal may come before the wait begins

  void create() {
    if (owner_ == getpid()) return;  // a forked child has none of its parent's timers
    const int signal = SIGRTMAX - 2;
    struct sigaction nothing{};
    nothing.sa_handler = [](int) {};
    sigaction(signal, &nothing, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event._sigev_un._tid = gettid();
    if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) throw_errno("cannot create a timer");
    owner_ = getpid();
  }

  timer_t timer_{};
  pid_t owner_{};
};

thread_local Timer timer;

}  // namespace

std::optional<int> wait_stop(pid_t tid, std::uint64_t timeout_ns) {
  const std::uint64_t deadline = now_ns() + timeout_ns;
  struct Armed {
    explicit Armed(std::uint64_t ns) { timer.arm(ns); }
    ~Armed() { timer.disarm(); }
  } const armed(timeout_ns);
  for (;;) {
    int status = 0;
    const pid_t r = waitpid(tid, &status, __WALL);
    if (r == tid) {
      if (!WIFSTOPPED(status)) throw Gone{status, true};
      return status;
    }
    if (r < 0 && errno != EINTR) throw Gone{};
    if (now_ns() >= deadline) return std::nullopt;
  }
}

int stop_signal(int status) { return (status >> 8) & 0xff; }
int stop_event(int status) { return status >> 16; }
bool is_interrupt_stop(int status) {
  return stop_event(status) == PTRACE_EVENT_STOP && stop_signal(status) == SIGTRAP;
}
bool is_group_stop(int status) {
  return stop_event(status) == PTRACE_EVENT_STOP && stop_signal(status) != SIGTRAP;
}

namespace {

// A process that has ended but was not waited for cannot be attached to: EPERM, as a foreign one.
bool has_ended(pid_t tid) {
  std::ifstream file("/proc/" + std::to_string(tid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  const std::size_t name = line.rfind(')');
  return name != std::string::npos && name + 2 < line.size() &&
         (line[name + 2] == 'Z' || line[name + 2] == 'X');
}

}  // namespace

void seize(pid_t tid, unsigned long options) {
  if (ptrace(PTRACE_SEIZE, tid, nullptr, word(options)) == 0) return;
  const int why = errno;
  if (why == ESRCH || has_ended(tid)) throw Gone{};
  errno = why;
  throw_errno("cannot attach");
}
void interrupt(pid_t tid) { call(PTRACE_INTERRUPT, tid, nullptr, nullptr, "cannot interrupt"); }
void set_options(pid_t tid, unsigned long options) {
  call(PTRACE_SETOPTIONS, tid, nullptr, word(options), "cannot set ptrace options");
}
void resume(int request, pid_t tid, int signal) {
  call(request, tid, nullptr, word(static_cast<unsigned long>(signal)), "cannot resume");
}
void detach(pid_t tid, int signal) {
  call(PTRACE_DETACH, tid, nullptr, word(static_cast<unsigned long>(signal)), "cannot detach");
}
Regs get_regs(pid_t tid) {
  Regs regs;
  call(PTRACE_GETREGS, tid, nullptr, &regs, "cannot read registers");
  return regs;
}
void set_regs(pid_t tid, const Regs& regs) {
  call(PTRACE_SETREGS, tid, nullptr, const_cast<Regs*>(&regs), "cannot write registers");
}
unsigned long event_message(pid_t tid) {
  unsigned long message = 0;
  call(PTRACE_GETEVENTMSG, tid, nullptr, &message, "cannot read the event's message");
  return message;
}

void poke(pid_t tid, std::uint64_t address, std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    unsigned long v = 0;
    const std::size_t n = std::min<std::size_t>(8, bytes.size() - i);
    if (n < 8)
      v = static_cast<unsigned long>(
          call(PTRACE_PEEKDATA, tid, word(address + i), nullptr, "cannot read memory"));
    std::memcpy(&v, bytes.data() + i, n);
    call(PTRACE_POKEDATA, tid, word(address + i), word(v), "cannot write memory");
  }
}

std::size_t read_memory(pid_t pid, std::uint64_t address, void* to, std::size_t n) {
  // One page at a time: a read that meets an unmapped page fails as a whole otherwise.
  std::size_t done = 0;
  while (done < n) {
    const std::size_t part = std::min<std::size_t>(n - done, 4096 - ((address + done) & 4095));
    const iovec local{static_cast<char*>(to) + done, part};
    const iovec remote{reinterpret_cast<void*>(address + done), part};
    const ssize_t r = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (r <= 0) break;
    done += static_cast<std::size_t>(r);
  }
  return done;
}

std::vector<Mapping> read_maps(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/maps");
  std::vector<Mapping> out;
  std::string line;
  while (std::getline(in, line)) {
    unsigned long begin = 0, end = 0;
    char mode[5] = {};
    int name_at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %*s %n", &begin, &end, mode, &name_at) < 3)
      continue;
    out.push_back({begin, end, mode[0] == 'r', mode[1] == 'w', mode[2] == 'x', mode[3] == 's',
                   name_at > 0 && static_cast<std::size_t>(name_at) < line.size()
                       ? line.substr(static_cast<std::size_t>(name_at))
                       : std::string()});
  }
  if (out.empty()) throw Gone{};
  return out;
}

std::string maps_text(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/maps");
  return {std::istreambuf_iterator<char>(in), {}};
}

ThreadStatus thread_status(pid_t tid) {
  std::ifstream in("/proc/" + std::to_string(tid) + "/status");
  if (!in) throw Gone{};
  ThreadStatus s;
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "State:")
      words >> s.state;
    else if (key == "Tgid:")
      words >> s.tgid;
    else if (key == "PPid:")
      words >> s.ppid;
    else if (key == "TracerPid:")
      words >> s.tracer;
    else if (key == "Seccomp:")
      words >> s.seccomp;
    else if (key == "SigCgt:")
      words >> std::hex >> s.caught >> std::dec;
    else if (key == "NSpid:")
      while (words >> s.inner_pid) {
      }
  }
  if (s.state == 0) throw Gone{};
  return s;
}

}  // namespace tracekit::record
#endif
