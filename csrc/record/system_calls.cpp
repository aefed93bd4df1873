#if defined(__linux__) && defined(__x86_64__)
#include "record/system_calls.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace tracekit::record {

namespace detail {

std::uint64_t argument(const Regs& r, unsigned i) {
  switch (i) {
    case 0:
      return r.rdi;
    case 1:
      return r.rsi;
    case 2:
      return r.rdx;
    case 3:
      return r.r10;
    case 4:
      return r.r8;
    default:
      return r.r9;
  }
}

// Of madvise; not REMOVE, HWPOISON and the like.
static Rule advice(int advised) {
  switch (advised) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
      return {Policy::remap, 0};
    default:
      return {};
  }
}

Rule rule(const Regs& r) {
  switch (r.rax) {
    // Memory of its own.
    case SYS_brk:
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_mremap:
      return {Policy::remap, 0};
    case SYS_mmap:
      return {(r.r10 & (MAP_PRIVATE | MAP_SHARED | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS)
                  ? Policy::remap
                  : Policy::end,
              0};
    case SYS_madvise:
      return advice(static_cast<int>(r.rdx));
    // Clocks and limits.
    case SYS_clock_gettime:
    case SYS_clock_getres:
      return {Policy::run, 1 << 1};
    case SYS_gettimeofday:
      return {Policy::run, 1 << 0 | 1 << 1};
    case SYS_time:
    case SYS_times:
    case SYS_uname:
    case SYS_sysinfo:
    case SYS_getrandom:
    case SYS_getcwd:
      return {Policy::run, 1 << 0};
    case SYS_getrusage:
    case SYS_getrlimit:
      return {Policy::run, 1 << 1};
    case SYS_getcpu:
      return {Policy::run, 1 << 0 | 1 << 1};
    case SYS_prlimit64:  // asking only
      return {r.rdi == 0 && r.rdx == 0 ? Policy::run : Policy::end, 1 << 3};
    case SYS_sched_getaffinity:
      return {r.rdi == 0 ? Policy::run : Policy::end, 1 << 2};
    case SYS_sched_yield:
    // Who am I: the same in the copy.
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
    case SYS_getpgrp:
      return {Policy::run, 0};
    case SYS_getresuid:
    case SYS_getresgid:
      return {Policy::run, 1 << 0 | 1 << 1 | 1 << 2};
    // Who am I: not the same.
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getppid:
      return {Policy::pretend, 0};
    // Signals and thread state of its own.
    case SYS_rt_sigprocmask:
    case SYS_rt_sigaction:
      return {Policy::run, 1 << 2};
    case SYS_sigaltstack:
      return {Policy::run, 1 << 1};
    case SYS_rt_sigreturn:
    case SYS_set_robust_list:
    case SYS_arch_prctl:
      return {Policy::run, 0};
    case SYS_futex:
      // A private futex is the copy's own, and nobody waits there; waiting itself would never end.
      return {(r.rsi & FUTEX_CMD_MASK) == FUTEX_WAKE && (r.rsi & FUTEX_PRIVATE_FLAG) != 0
                  ? Policy::run
                  : Policy::end,
              0};
    default:
      return {};
  }
}

}  // namespace detail

std::optional<std::uint64_t> pretended(std::uint64_t number, const Identity& who) {
  switch (number) {
    case SYS_getpid:
      return who.pid;
    case SYS_gettid:
      return who.tid;
    case SYS_getppid:
      return who.ppid;
    default:
      return std::nullopt;
  }
}

}  // namespace tracekit::record
#endif
