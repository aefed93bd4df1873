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

StepResult Stepper::run(Mode mode, pid_t tid, const StepLimits& limits, const Identity& who,
                        NativeBatch& out, int& signal, const Poll& poll) {
  StepResult result;
  const auto end = [&](EndReason why, std::uint64_t detail = 0) {
    result.reason = why;
    result.detail = static_cast<std::uint32_t>(detail);
    if (std::string now = why == EndReason::exec ? std::string() : maps_text(tid); !now.empty())
      result.maps = std::move(now);
    return result;
  };
  const bool in_copy = mode == Mode::copy;
  const std::uint64_t begin = now_ns();
  code_.forget();
  const CodeCache::Entry* at = nullptr;
  bool restart = !limits.continues;  // the next instruction does not follow from the one before
  bool repeating =
      false;  // inside a string instruction: what comes belongs to the last instruction
  try {
    if (in_copy)
      look_at_maps(tid);
    else
      result.maps = maps_text(tid);
    Regs regs = get_regs(tid);
    for (std::uint64_t round = 0;; ++round) {
      if (!repeating && out.size() >= limits.instructions) return end(EndReason::length);
      if (out.accesses() >= limits.accesses) return end(EndReason::accesses);
      if (round % look_around == 0) {
        if (now_ns() - begin > limits.time_ns) return end(EndReason::time);
        pollfd program{limits.program, POLLIN, 0};
        if (limits.program >= 0 && ::poll(&program, 1, 0) == 1)
          return end(EndReason::program_ended);
        if (round % ask_user == 0) poll();
      }

      at = code_.find(tid, regs.rip);
      if (at == nullptr && in_copy) return end(EndReason::unreadable_code);
      static const Recipe unknown{};  // in place the program's own fault follows, if it is one
      const Recipe& recipe = at ? *at->recipe : unknown;
      Policy rule = Policy::run;
      if (recipe.special == Special::system_call) {
        rule = policy(regs, [&](std::uint64_t a) { return a != 0 && shared(a, 256); });
        if (in_copy && rule == Policy::end) return end(EndReason::system_call, regs.rax);
        if (ends_program(regs.rax)) result.maps = maps_text(tid);
      }
      if (recipe.special == Special::interrupt && in_copy) return end(EndReason::interrupt);

      accesses_.clear();
      if (!(recipe.rep && regs.rcx == 0)) evaluate(recipe, regs, tid, vectors_, accesses_);
      const bool in_one_go = recipe.rep_counted && regs.rcx >= worth_a_breakpoint && signal == 0;
      bool outside = false;
      for (const Access& a : accesses_) {
        if (!a.store) continue;
        const std::uint64_t span = in_one_go ? regs.rcx * a.size : a.size;
        const bool down = in_one_go && (regs.eflags & direction_flag) != 0;
        const std::uint64_t from = down ? a.address + a.size - span : a.address;
        if (in_copy && shared(from, span)) outside = true;
        code_.wrote(from, span);
      }
      if (outside) return end(EndReason::shared_memory);
      const std::uint32_t encoding = at ? at->encoding : 0;

      Regs next;
      if (rule == Policy::pretend && in_copy) {
        next = regs;
        next.rax = pretended(regs.rax, who).value_or(0);
        next.rip += recipe.length;
        next.rcx = next.rip;
        next.r11 = regs.eflags;
        set_regs(tid, next);
      } else {
        const bool delivering = signal != 0;
        int status = 0;
        bool counted = false;  // run_repeat has written the accesses
        if (in_one_go) {
          if (!repeating) out.add_instruction(encoding, restart ? native_bit::restart : 0);
          counted = run_repeat(tid, regs, recipe, out, limits, result, status);
          repeating = true;
          restart = false;
        }
        if (!counted) {
          resume(PTRACE_SINGLESTEP, tid, signal);
          signal = 0;
          status = wait_blocking(tid, poll);
        }
        ++result.steps;
        next = get_regs(tid);
        if (!plain_trap(status) || (delivering && signal_info(tid).si_code != TRAP_TRACE &&
                                    signal_info(tid).si_code != TRAP_BRKPT)) {
          // Not one instruction further: a signal, or the entry of the handler of one.
          if (repeating) out.bits.back() |= native_bit::no_end;
          if (plain_trap(status)) {
            restart = true;
            repeating = false;
          } else if (stop_event(status) == 0) {
            const siginfo_t info = signal_info(tid);
            const int which = stop_signal(status);
            if (!in_copy)
              signal = which;
            else if (is_fault(info)) {
              if (!catches(tid, which))
                return end(EndReason::signal, static_cast<std::uint64_t>(which));
              signal = which;  // its own handler sees to it, in the copy
            }                  // anything else was meant for the program, which has its own
          } else if (is_group_stop(status) && !in_copy) {
            resume(PTRACE_LISTEN, tid);
            wait_blocking(tid, poll);
          }
          regs = next;
          continue;
        }
        if (counted) {
          repeating = next.rip == regs.rip;
          regs = next;
          continue;
        }
        if (recipe.special == Special::push_flags) {
          std::uint64_t pushed = 0;
          if (read_memory(tid, next.rsp, &pushed, 2) == 2 && (pushed & trap_flag) != 0) {
            pushed &= ~trap_flag;
            const std::uint8_t two[2] = {static_cast<std::uint8_t>(pushed),
                                         static_cast<std::uint8_t>(pushed >> 8)};
            poke(tid, next.rsp, two);
          }
        }
        if (recipe.special == Special::system_call) {
          if ((next.r11 & trap_flag) != 0 && regs.rax != SYS_rt_sigreturn) {
            next.r11 &= ~trap_flag;
            set_regs(tid, next);
          }
          if (rule != Policy::run || regs.rax == SYS_execve || regs.rax == SYS_execveat)
            code_.forget();
          if (in_copy && rule == Policy::remap) look_at_maps(tid);
        }
      }

      // One instruction, or one round of a repeated one, is done.
      if (at != nullptr) {
        if (!repeating) out.add_instruction(encoding, restart ? native_bit::restart : 0);
        for (const Access& a : accesses_) out.add_access(a.address, a.size, a.store);
        if (recipe.branch != BranchKind::none) {
          const bool taken =
              recipe.branch != BranchKind::conditional || next.rip != regs.rip + recipe.length;
          out.bits.back() |=
              static_cast<std::uint8_t>(native_bit::taken_known | (taken ? native_bit::taken : 0));
        }
        repeating = recipe.rep && next.rip == regs.rip;
      }
      restart = at == nullptr ||
                (recipe.special == Special::system_call && next.rip != regs.rip + recipe.length);
      if (restart && (regs.rax == SYS_execve || regs.rax == SYS_execveat) && at != nullptr &&
          !limits.follow_exec)
        return end(EndReason::exec);
      regs = next;
    }
  } catch (const Gone& g) {
    if (g.known) result.status = g.status;
    if (g.known && at != nullptr && at->recipe->special == Special::system_call)  // exit, mostly
      out.add_instruction(
          at->encoding,
          static_cast<std::uint8_t>(native_bit::no_end | (restart ? native_bit::restart : 0)));
    return end(EndReason::exited, static_cast<std::uint64_t>(g.status));
  }
}

}  // namespace tracekit::record
#endif
