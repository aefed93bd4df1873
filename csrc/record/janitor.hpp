// What must still be done when the recorder is killed: the dead copy is then nobody's but the
// program's, which does not know of it.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <sys/types.h>

#include <atomic>

namespace tracekit::record {

// A small process that sleeps as long as we live.  Should we die while a copy is noted, it has the
// program reap that copy, and ends; it ends with us otherwise.
class Janitor {
 public:
  Janitor() = default;
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  // Around the life of a copy that is the program's child; its number is known only after a while.
  void begins(pid_t tid, pid_t tgid);
  void knows(pid_t copy);
  void ends();

 private:
  struct Note {
    std::atomic<pid_t> tid, tgid, copy;  // tid 0: nothing to do; copy 0: not known yet
  };
  void hire();
  [[noreturn]] static void work(int recorder, Note* note);

  Note* note_{};
  pid_t pid_{};
  int line_{-1};  // its other end closes when we die
};

}  // namespace tracekit::record
#endif
