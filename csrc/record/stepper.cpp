#if defined(__linux__) && defined(__x86_64__)
#include "record/stepper.hpp"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>

#include "record/same_core.hpp"

namespace tracekit::record {

namespace {

constexpr std::uint64_t trap_flag = 0x100, direction_flag = 0x400;
constexpr std::uint64_t worth_a_breakpoint = 16;  // iterations of a string instruction
constexpr unsigned look_around = 64;  // steps between looks at the clock and the program
constexpr unsigned ask_user = 4096;

// Blocks until `tid` stops or ends.
int wait_blocking(pid_t tid, const Poll& poll) {
  int status = 0;
  while (waitpid(tid, &status, __WALL) != tid) {
    if (errno != EINTR) throw Gone{};
    poll();
  }
  if (!WIFSTOPPED(status)) throw Gone{status, true};
  return status;
}

bool plain_trap(int status) { return status >> 8 == SIGTRAP; }

siginfo_t signal_info(pid_t tid) {
  siginfo_t info{};
  ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info);
  return info;
}

// The fault is the instruction's own doing, not somebody's message.
bool is_fault(const siginfo_t& info) {
  switch (info.si_signo) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGTRAP:
    case SIGSYS:
      return info.si_code > 0;
    default:
      return false;
  }
}

bool catches(pid_t pid, int signal) { return (thread_status(pid).caught >> (signal - 1) & 1) != 0; }

// What a process may do at an address, as bits; 0 where nothing is mapped, or it has ended.
int rights_at(pid_t pid, std::uint64_t address) {
  try {
    for (const Mapping& m : read_maps(pid))
      if (m.begin <= address && address < m.end)
        return (m.readable ? 1 : 0) | (m.writable ? 2 : 0) | (m.executable ? 4 : 0);
  } catch (const Gone&) {
  }
  return 0;
}

// The fault is none of the original's: it may reach the address, in a way that its copy may not.
bool lacks(pid_t original, pid_t copy, const siginfo_t& fault) {
  if (original == 0 || (fault.si_signo != SIGSEGV && fault.si_signo != SIGBUS)) return false;
  const auto address = reinterpret_cast<std::uint64_t>(fault.si_addr);
  return (rights_at(original, address) & ~rights_at(copy, address)) != 0;
}

bool ends_program(std::uint64_t call) {
  return call == SYS_exit_group || call == SYS_exit || call == SYS_execve || call == SYS_execveat;
}

bool set_debug_register(pid_t tid, unsigned i, std::uint64_t value) {
  return ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg) + i * sizeof(long),
                value) == 0;
}

}  // namespace

void Stepper::look_at_maps(pid_t pid) {
  shared_maps_.clear();
  shared_begin_ = ~0ULL;
  shared_end_ = 0;
  for (Mapping& m : read_maps(pid))
    if (m.shared && m.writable) {
      shared_begin_ = std::min(shared_begin_, m.begin);
      shared_end_ = std::max(shared_end_, m.end);
      shared_maps_.push_back(std::move(m));
    }
}

bool Stepper::in_shared(std::uint64_t address, std::uint64_t size) const {
  return std::any_of(shared_maps_.begin(), shared_maps_.end(),
                     [&](const Mapping& m) { return address < m.end && address + size > m.begin; });
}

// A string instruction that repeats rcx times: run to the instruction after it in one go, by a
// hardware breakpoint.  False when there is none to be had: then it is stepped like any other.
bool Stepper::run_repeat(pid_t tid, const Regs& before, const Recipe& recipe, NativeBatch& out,
                         const StepLimits& limits, StepResult& result, int& status) {
  if (!set_debug_register(tid, 0, before.rip + recipe.length)) return false;
  if (!set_debug_register(tid, 7, 1)) return false;
  resume(PTRACE_CONT, tid);
  status = wait_blocking(tid, [] {});
  set_debug_register(tid, 7, 0);
  const Regs after = get_regs(tid);
  const std::uint64_t done = before.rcx - after.rcx;
  const std::uint64_t room = limits.accesses - std::min(limits.accesses, out.accesses());
  const std::uint64_t kept = std::min(done, room / std::max<std::size_t>(accesses_.size(), 1));
  const bool down = (before.eflags & direction_flag) != 0;
  for (std::uint64_t i = 0; i < kept; ++i)
    for (const Access& a : accesses_)
      out.add_access(down ? a.address - i * a.size : a.address + i * a.size, a.size, a.store);
  result.unrecorded += (done - kept) * accesses_.size();
  return true;
}

StepResult Stepper::copy(pid_t pid, const StepLimits& limits, const Identity& who, NativeBatch& out,
                         const Poll& poll) {
  int signal = 0;
  return run(Mode::copy, pid, limits, who, out, signal, poll);
}

StepResult Stepper::in_place(pid_t tid, const StepLimits& limits, NativeBatch& out, int& signal,
                             const Poll& poll) {
  return run(Mode::in_place, tid, limits, Identity{}, out, signal, poll);
}

// One epoch's stepping: what is known between two instructions.
class Stepper::Run {
 public:
  Run(Stepper& stepper, Mode mode, pid_t tid, const StepLimits& limits, const Identity& who,
      NativeBatch& out, int& signal, const Poll& poll)
      : s_(stepper),
        tid_(tid),
        limits_(limits),
        who_(who),
        out_(out),
        signal_(signal),
        poll_(poll),
        in_copy_(mode == Mode::copy),
        restart_(!limits.continues) {}

  StepResult run() {
    s_.code_.forget();
    try {
      if (in_copy_) {
        s_.look_at_maps(tid_);
        together_.stay(tid_);
      } else {
        result_.maps = maps_text(tid_);
      }
      regs_ = get_regs(tid_);
      std::optional<End> end;
      for (std::uint64_t round = 0; !end; ++round) {
        end = limit_reached(round);
        if (!end) end = one();
      }
      return ended(*end);
    } catch (const Gone& g) {
      if (g.known) result_.status = g.status;
      if (g.known && at_ != nullptr &&
          at_->recipe->special == Special::system_call)  // exit, mostly
        out_.add_instruction(at_->encoding,
                             static_cast<std::uint8_t>(native_bit::no_end | begins_with()));
      return ended({EndReason::exited, static_cast<std::uint64_t>(g.status)});
    }
  }

 private:
  struct End {
    EndReason why;
    std::uint64_t detail{};
  };

  StepResult ended(const End& end) {
    result_.reason = end.why;
    result_.detail = static_cast<std::uint32_t>(end.detail);
    if (in_copy_) result_.crowded_ns = together_.crowded_ns();
    std::string now = end.why == EndReason::exec ? std::string() : maps_text(tid_);
    if (!now.empty()) result_.maps = std::move(now);
    return std::move(result_);
  }

  std::uint8_t begins_with() const { return restart_ ? native_bit::restart : 0; }

  std::optional<End> limit_reached(std::uint64_t round) {
    if (!repeating_ && out_.size() >= limits_.instructions) return End{EndReason::length};
    if (out_.accesses() >= limits_.accesses) return End{EndReason::accesses};
    if (round % look_around == 0) {
      if (now_ns() - begin_ > limits_.time_ns) return End{EndReason::time};
      pollfd program{limits_.program, POLLIN, 0};
      if (limits_.program >= 0 && ::poll(&program, 1, 0) == 1) return End{EndReason::program_ended};
      if (round % ask_user == 0) poll_();
    }
    return std::nullopt;
  }

  // The next instruction, or a round or more of a repeated one.
  std::optional<End> one() {
    at_ = s_.code_.find(tid_, regs_.rip);
    if (at_ == nullptr && in_copy_) return End{EndReason::unreadable_code};
    static const Recipe unknown{};  // in place the program's own fault follows, if it is one
    const Recipe& recipe = at_ ? *at_->recipe : unknown;
    Policy rule = Policy::run;
    if (recipe.special == Special::system_call) {
      rule = policy(regs_, [&](std::uint64_t a) { return a != 0 && s_.shared(a, 256); });
      if (in_copy_ && rule == Policy::end) return End{EndReason::system_call, regs_.rax};
      if (ends_program(regs_.rax)) result_.maps = maps_text(tid_);
    }
    if (recipe.special == Special::interrupt && in_copy_) return End{EndReason::interrupt};

    s_.accesses_.clear();
    if (!(recipe.rep && regs_.rcx == 0)) evaluate(recipe, regs_, tid_, s_.vectors_, s_.accesses_);
    const bool in_one_go = recipe.rep_counted && regs_.rcx >= worth_a_breakpoint && signal_ == 0;
    if (touches_shared_memory(in_one_go)) return End{EndReason::shared_memory};
    encoding_ = at_ ? at_->encoding : 0;

    Regs next;
    if (rule == Policy::pretend && in_copy_) {
      next = pretend(recipe);
    } else {
      const bool delivering = signal_ != 0;
      int status = 0;
      const bool counted = step(recipe, in_one_go, status);
      next = get_regs(tid_);
      if (!plain_trap(status) || (delivering && signal_info(tid_).si_code != TRAP_TRACE &&
                                  signal_info(tid_).si_code != TRAP_BRKPT)) {
        const std::optional<End> end = interrupted(status);
        if (!end) regs_ = next;
        return end;
      }
      if (counted) {
        repeating_ = next.rip == regs_.rip;
        regs_ = next;
        return std::nullopt;
      }
      hide_trap_flag(recipe, rule, next);
    }
    return done(recipe, next);
  }

  // Whether the stores of the instruction at hand go where other processes see them; all of them
  // are told to the code cache.
  bool touches_shared_memory(bool in_one_go) {
    bool outside = false;
    for (const Access& a : s_.accesses_) {
      if (!a.store) continue;
      const std::uint64_t span = in_one_go ? regs_.rcx * a.size : a.size;
      const bool down = in_one_go && (regs_.eflags & direction_flag) != 0;
      const std::uint64_t from = down ? a.address + a.size - span : a.address;
      if (in_copy_ && s_.shared(from, span)) outside = true;
      s_.code_.wrote(from, span);
    }
    return outside;
  }

  // A system call that a copy does not make: what it would have returned.
  Regs pretend(const Recipe& recipe) {
    Regs next = regs_;
    next.rax = pretended(regs_.rax, who_).value_or(0);
    next.rip += recipe.length;
    next.rcx = next.rip;
    next.r11 = regs_.eflags;
    set_regs(tid_, next);
    return next;
  }

  // True where run_repeat has written the accesses of many rounds.
  bool step(const Recipe& recipe, bool in_one_go, int& status) {
    bool counted = false;
    if (in_one_go) {
      if (!repeating_) out_.add_instruction(encoding_, begins_with());
      counted = s_.run_repeat(tid_, regs_, recipe, out_, limits_, result_, status);
      repeating_ = true;
      restart_ = false;
    }
    if (!counted) {
      resume(PTRACE_SINGLESTEP, tid_, signal_);
      signal_ = 0;
      status = wait_blocking(tid_, poll_);
      together_.step();
    }
    ++result_.steps;
    return counted;
  }

  // Not one instruction further: a signal, or the entry of the handler of one.
  std::optional<End> interrupted(int status) {
    if (repeating_) out_.bits.back() |= native_bit::no_end;
    if (plain_trap(status)) {
      restart_ = true;
      repeating_ = false;
    } else if (stop_event(status) == 0) {
      const siginfo_t info = signal_info(tid_);
      const int which = stop_signal(status);
      if (!in_copy_) {
        signal_ = which;
      } else if (is_fault(info)) {
        result_.lacks_memory = lacks(limits_.original, tid_, info);
        if (result_.lacks_memory || !catches(tid_, which))
          return End{EndReason::signal, static_cast<std::uint64_t>(which)};
        signal_ = which;  // its own handler sees to it, in the copy
        ++result_.handled;
      }  // anything else was meant for the program, which has its own
    } else if (is_group_stop(status) && !in_copy_) {
      resume(PTRACE_LISTEN, tid_);
      wait_blocking(tid_, poll_);
    }
    return std::nullopt;
  }

  // Single steps set the trap flag, which the program must not see: pushed flags, and those that a
  // system call keeps.
  void hide_trap_flag(const Recipe& recipe, Policy rule, Regs& next) {
    if (recipe.special == Special::push_flags) {
      std::uint64_t pushed = 0;
      if (read_memory(tid_, next.rsp, &pushed, 2) == 2 && (pushed & trap_flag) != 0) {
        pushed &= ~trap_flag;
        const std::uint8_t two[2] = {static_cast<std::uint8_t>(pushed),
                                     static_cast<std::uint8_t>(pushed >> 8)};
        poke(tid_, next.rsp, two);
      }
    }
    if (recipe.special == Special::system_call) {
      if ((next.r11 & trap_flag) != 0 && regs_.rax != SYS_rt_sigreturn) {
        next.r11 &= ~trap_flag;
        set_regs(tid_, next);
      }
      if (rule != Policy::run || regs_.rax == SYS_execve || regs_.rax == SYS_execveat)
        s_.code_.forget();
      if (in_copy_ && rule == Policy::remap) s_.look_at_maps(tid_);
    }
  }

  // One instruction, or one round of a repeated one, is done.
  std::optional<End> done(const Recipe& recipe, const Regs& next) {
    if (at_ != nullptr) {
      if (!repeating_) out_.add_instruction(encoding_, begins_with());
      for (const Access& a : s_.accesses_) out_.add_access(a.address, a.size, a.store);
      if (recipe.branch != BranchKind::none) {
        const bool taken =
            recipe.branch != BranchKind::conditional || next.rip != regs_.rip + recipe.length;
        out_.bits.back() |=
            static_cast<std::uint8_t>(native_bit::taken_known | (taken ? native_bit::taken : 0));
      }
      repeating_ = recipe.rep && next.rip == regs_.rip;
    }
    restart_ = at_ == nullptr ||
               (recipe.special == Special::system_call && next.rip != regs_.rip + recipe.length);
    if (restart_ && (regs_.rax == SYS_execve || regs_.rax == SYS_execveat) && at_ != nullptr &&
        !limits_.follow_exec)
      return End{EndReason::exec};
    regs_ = next;
    return std::nullopt;
  }

  Stepper& s_;
  const pid_t tid_;
  const StepLimits& limits_;
  const Identity& who_;
  NativeBatch& out_;
  int& signal_;
  const Poll& poll_;
  const bool in_copy_;
  const std::uint64_t begin_ = now_ns();
  SameCore together_;
  StepResult result_;
  Regs regs_{};
  const CodeCache::Entry* at_ = nullptr;
  std::uint32_t encoding_{};  // of it, as it was before the step, which may make it forgotten
  bool restart_;              // the next instruction does not follow from the one before
  bool repeating_ = false;    // inside a string instruction: what comes belongs to the last one
};

StepResult Stepper::run(Mode mode, pid_t tid, const StepLimits& limits, const Identity& who,
                        NativeBatch& out, int& signal, const Poll& poll) {
  return Run(*this, mode, tid, limits, who, out, signal, poll).run();
}

}  // namespace tracekit::record
#endif
