#if defined(__linux__) && defined(__x86_64__)
#include "record/janitor.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "record/snapshot.hpp"

namespace tracekit::record {

namespace {

constexpr int patience = 3000, enough = 300;  // rounds of 10 ms

// A dead child of `tgid` with no exit signal: nobody but a recorder makes such.
bool is_dead_copy(pid_t pid, pid_t tgid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return false;
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::vector<std::string> fields;  // from the third on
  for (std::string w; words >> w;) fields.push_back(w);
  return fields.size() > 35 && fields[0] == "Z" && fields[1] == std::to_string(tgid) &&
         fields[35] == "0";
}

std::vector<pid_t> children(pid_t tid, pid_t tgid) {
  std::ifstream in("/proc/" + std::to_string(tgid) + "/task/" + std::to_string(tid) + "/children");
  std::vector<pid_t> out;
  for (pid_t p; in >> p;) out.push_back(p);
  return out;
}

}  // namespace

void Janitor::hire() {
  if (pid_ != 0) return;
  if (note_ == nullptr) {
    void* page =
        mmap(nullptr, sizeof(Note), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw_errno("cannot share memory with a helper process");
    note_ = new (page) Note{};
  }
  int line[2];
  if (pipe2(line, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  const pid_t pid = fork();
  if (pid < 0) throw_errno("cannot start a helper process");
  if (pid == 0) {
    setsid();
    prctl(PR_SET_NAME, "tracekit-reaper");
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(s, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);
    if (line[0] != 0) dup2(line[0], 0);
    syscall(SYS_close_range, 1, ~0U, 0);
    work(0, note_);
  }
  close(line[0]);
  line_ = line[1];
  pid_ = pid;
}

void Janitor::work(int recorder, Note* note) {
  char byte;
  ssize_t n;
  while ((n = read(recorder, &byte, 1)) != 0) {
    if (n < 0 && errno != EINTR) break;
  }
  // The copy dies a little after the recorder, which may also hold the program for a moment yet.
  Snapshotter snapshotter;
  for (int round = 0; note->tid != 0 && round < patience; ++round) {
    usleep(10'000);
    try {
      const pid_t known = note->copy;
      const pid_t tid = note->tid, tgid = note->tgid;
      if (known != 0 && access(("/proc/" + std::to_string(known)).c_str(), F_OK) != 0) break;
      bool found = false;
      for (const pid_t p : known != 0 ? std::vector<pid_t>{known} : children(tid, tgid)) {
        if (!is_dead_copy(p, tgid)) continue;
        found = true;
        snapshotter.reap(tid, tgid, thread_status(p).inner_pid, [] {});
      }
      if (!found && known == 0 && round > enough) break;  // it had not been made
    } catch (const Gone&) {  // the program has ended, and its copy with it
      break;
    } catch (const std::exception&) {  // held by somebody: again
    }
  }
  _exit(0);
}

Janitor::~Janitor() {
  if (line_ >= 0) close(line_);
  if (pid_ != 0)
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  if (note_ != nullptr) munmap(note_, sizeof(Note));
}

void Janitor::begins(pid_t tid, pid_t tgid) {
  hire();
  note_->copy = 0;
  note_->tgid = tgid;
  note_->tid = tid;
}

void Janitor::knows(pid_t copy) {
  if (note_ != nullptr) note_->copy = copy;
}

void Janitor::ends() {
  if (note_ != nullptr) note_->tid = 0;
}

}  // namespace tracekit::record
#endif
