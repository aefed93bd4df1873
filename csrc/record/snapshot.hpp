// A copy-on-write copy of a running program, made by itself in a few milliseconds.
//
// One thread is stopped, runs an injected clone, and goes on at once, untraced; the copy holds that
// thread alone, stopped and ours, and dies with us.  No thread of the program is ever left in a
// state that is not its own or the stub's (stub.hpp), which restores it: the recorder may be killed
// at any moment.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <cstdint>
#include <functional>
#include <optional>

#include "record/stub.hpp"

namespace tracekit::record {

// Called now and then while something long goes on; throws to give up (the user's Ctrl-C).
using Poll = std::function<void()>;

enum class Outcome : std::uint8_t {
  taken,
  in_system_call,  // the thread waits in the kernel: there is nothing to step
  stopped,         // job control has stopped the program
  gone,            // the thread has ended
  busy,            // signals kept coming; the program ran, nothing was copied
  clone_failed,    // no memory or no process number left for a copy
  lacks_memory,    // the copy came to memory that the program has and it was not given
};
const char* outcome_name(Outcome o);

// A copy: killed and reaped when this goes out of scope.
class Copy {
 public:
  Copy() = default;
  Copy(pid_t pid, pid_t parent_thread) : pid_(pid), parent_thread_(parent_thread) {}
  Copy(Copy&& o) noexcept : pid_(o.pid_), parent_thread_(o.parent_thread_) { o.pid_ = 0; }
  Copy& operator=(Copy&& o) noexcept {
    std::swap(pid_, o.pid_);
    std::swap(parent_thread_, o.parent_thread_);
    return *this;
  }
  ~Copy();
  pid_t pid() const { return pid_; }
  // The thread that has to reap the copy, 0 where the copy is our own child.
  pid_t parent_thread() const { return parent_thread_; }
  void kill();      // returns when it is dead
  void has_died();  // somebody else killed it, and we have been told

 private:
  pid_t pid_{}, parent_thread_{};
};

struct Snapshot {
  Outcome outcome{Outcome::gone};
  Copy copy;
  pid_t inner_pid{};          // the copy's number as the program sees it
  Regs regs{};                // the thread's, where it stood
  std::uint64_t pause_ns{};   // from the request to stop until the program was let go
  std::uint64_t waited_ns{};  // before that, for a system call to return; the program was not held
  int clone_errno{};
  std::optional<int> exit_status;  // the program ended, and we were the ones told (wait status)
};

class Snapshotter {
 public:
  // Copies the thread `tid` of process `tgid`.  A thread found in a system call is waited for until
  // the call returns, `wait_ns` at most.  Throws Error where the program cannot be recorded at all.
  Snapshot take(pid_t tid, pid_t tgid, std::uint64_t wait_ns, const Poll& poll);
  // Has the program reap its dead copy (its number as the program sees it); nothing happens if
  // `tid` is no more.  Returns the pause in ns.
  std::uint64_t reap(pid_t tid, pid_t tgid, pid_t copy, const Poll& poll);

  Snapshotter() = default;
  ~Snapshotter();
  Snapshotter(const Snapshotter&) = delete;
  Snapshotter& operator=(const Snapshotter&) = delete;

 private:
  const StubPlace& place(pid_t tgid);
  // Writes a stub and reads it back: false where the process is not the one that `place` looked at
  // any more (it has called exec).
  bool write_stub(pid_t tid, std::uint64_t at, const Regs& regs, bool copies);
  void forget_place();

  StubPlace place_{};
  pid_t place_of_{};
  int memory_{-1};  // of that process, for writing
};

void check_recordable(pid_t tid);  // throws Error: seccomp, traced already
void check_64_bit(const Regs& regs);

}  // namespace tracekit::record
#endif
