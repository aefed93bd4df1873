#if defined(__linux__) && defined(__x86_64__)
#include "record/same_core.hpp"

#include "record/ptrace.hpp"

namespace tracekit::record {

namespace {
std::uint64_t used(pid_t copy) { return thread_cpu_ns() + process_cpu_ns(copy); }
}  // namespace

void SameCore::stay(pid_t copy) {
  cpu_set_t its;
  copy_ = copy;
  used_ = used(copy);
  if (sched_getaffinity(0, sizeof own_, &own_) != 0) return;
  if (sched_getaffinity(copy, sizeof its, &its) != 0) return;
  CPU_AND(&both_, &own_, &its);
  join();
}

void SameCore::join() {
  last_ = now_ns();
  const int here = sched_getcpu();
  if (here < 0 || !CPU_ISSET(here, &both_)) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(here, &one);
  if (sched_setaffinity(copy_, sizeof one, &one) != 0) return;
  crowded_ += used_since();
  joined_ = true;
  if (sched_setaffinity(0, sizeof one, &one) != 0) part();
}

void SameCore::part() {
  if (!joined_) return;
  sched_setaffinity(0, sizeof own_, &own_);
  sched_setaffinity(copy_, sizeof both_, &both_);
  joined_ = false;
  used_ = used(copy_);
}

std::uint64_t SameCore::used_since() const {
  const std::uint64_t now = used(copy_);
  return now > used_ ? now - used_ : 0;  // a copy that has ended has no clock
}

std::uint64_t SameCore::crowded_ns() const {
  return crowded_ + (joined_ || copy_ == 0 ? 0 : used_since());
}

void SameCore::step() {
  if (copy_ == 0) return;
  const std::uint64_t now = now_ns();
  if (!joined_) {
    if (now - last_ > apart_ns) join();
    return;
  }
  if (now - last_ > slow_ns) part();
  last_ = now;
}

}  // namespace tracekit::record
#endif
