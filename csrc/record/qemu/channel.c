// The way to tracekit: a connection for each process to the socket in the session's folder, and for
// each vCPU a buffer in a file there, so that what a killed process had not sent is not lost.

#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct {
  pthread_mutex_t lock;
  int fd;
  ino_t inode;             // of the socket: a program that closes all files closes ours too
  uint64_t id;             // of the process between a fork or execution and the next
  uint64_t defined;        // blocks
  uint64_t mapped[64][2];  // ranges of code that were told, the newest over the oldest
  unsigned n_mapped;
  uint64_t guest_base;
  int recorder;  // its process
} out = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

void tk_lock(void) { pthread_mutex_lock(&out.lock); }
void tk_unlock(void) { pthread_mutex_unlock(&out.lock); }
uint64_t tk_blocks_defined(void) { return out.defined; }
uint64_t tk_guest_base(void) { return out.guest_base; }

static void give_up(const char* why) {
  dprintf(2, "tracekit: %s: %s; the program ends\n", why, strerror(errno));
  _exit(70);
}

// Whether the recorder still runs.  One that was killed and not waited for yet does not.
static bool recorder_runs(void) {
  char path[64], state = 'X';
  snprintf(path, sizeof path, "/proc/%d/stat", out.recorder);
  FILE* f = out.recorder > 0 ? fopen(path, "re") : NULL;
  if (f == NULL) return false;
  const bool known = fscanf(f, "%*d (%*[^)]) %c", &state) == 1;
  fclose(f);
  return known && state != 'Z' && state != 'X';
}

// A recorder that still runs has closed the connection since it cannot go on, and says why itself.
static void give_up_sending(void) {
  if (!recorder_runs()) give_up("the recorder is gone");
  _exit(70);
}

static void give_up_buffer(int error) {
  errno = error;
  give_up(error == EFBIG ? "no buffer for events, by the limit of a file's size (ulimit -f)"
                         : "no buffer for events");
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool send_all(struct iovec* parts, int n) {
  while (n > 0) {
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
    ssize_t sent = sendmsg(out.fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    while (n > 0 && (size_t)sent >= parts->iov_len) sent -= (ssize_t)parts++->iov_len, --n;
    if (n > 0) {
      parts->iov_base = (char*)parts->iov_base + sent;
      parts->iov_len -= (size_t)sent;
    }
  }
  return true;
}

static bool intact(void) {
  struct stat s;
  return fstat(out.fd, &s) == 0 && S_ISSOCK(s.st_mode) && s.st_ino == out.inode;
}

// With the lock held.
static void send_frame(struct tk_frame frame, const void* head, size_t head_bytes, const void* data,
                       size_t bytes) {
  if (tk_settings.discard) return;
  if (!intact() && !tk_connect(out.defined, out.id)) give_up("the recorder cannot be reached");
  frame.magic = TK_MAGIC;
  frame.bytes = head_bytes + bytes;
  struct iovec parts[3] = {{&frame, sizeof frame},
                           {(void*)(uintptr_t)head, head_bytes},
                           {(void*)(uintptr_t)data, bytes}};
  if (!send_all(parts, 3)) give_up_sending();
}

// At once, not with the events: a process that is killed leaves those in its buffers.
void tk_define(const void* definition, size_t bytes) {
  ++out.defined;
  send_frame((struct tk_frame){.kind = TK_BLOCKS}, NULL, 0, definition, bytes);
}

void tk_note(const char* text) {
  tk_lock();
  send_frame((struct tk_frame){.kind = TK_NOTE, .ns = now()}, NULL, 0, text, strlen(text));
  tk_unlock();
}

void tk_send(uint32_t kind, uint64_t tid, const void* data, size_t bytes) {
  tk_lock();
  send_frame((struct tk_frame){.kind = kind, .tid = (uint32_t)tid, .ns = now()}, NULL, 0, data,
             bytes);
  tk_unlock();
}

// --- where code lies

// Tells which file the code at `pc`, which lies at `host` in this process, is of.
void tk_map_of(uint64_t pc, uint64_t host) {
  if (host == 0) return;
  out.guest_base = host - pc;
  for (unsigned i = 0; i < 64; ++i)
    if (pc >= out.mapped[i][0] && pc < out.mapped[i][1]) return;
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return;
  char line[4400];
  while (fgets(line, sizeof line, maps)) {
    unsigned long long begin, end, offset;
    int at = 0;
    if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %n", &begin, &end, &offset, &at) != 3) continue;
    if (host < begin || host >= end) continue;
    line[strcspn(line, "\n")] = 0;
    const char* path = line + at;
    const uint64_t range[3] = {begin - out.guest_base, end - out.guest_base, offset};
    uint64_t* kept = out.mapped[out.n_mapped++ % 64];
    kept[0] = range[0], kept[1] = range[1];
    send_frame((struct tk_frame){.kind = TK_MAP, .ns = now()}, range, sizeof range, path,
               *path == '/' ? strlen(path) : 0);
    break;
  }
  fclose(maps);
}

// --- buffers

#define BUFFER_BYTES (sizeof(struct tk_buffer) + 8 * (size_t)(TK_BUFFER_WORDS + TK_BUFFER_SLACK))

static void path_of(char* path, size_t room, unsigned number, int tid) {
  snprintf(path, room, "%s/%llx.%u.%d.events", tk_settings.folder, (unsigned long long)out.id,
           number, tid);
}

void tk_no_buffer(struct tk_vcpu* v, unsigned number) {
  const size_t bytes = BUFFER_BYTES;
  void* memory = MAP_FAILED;
  if (!tk_settings.discard) {
    char path[600];
    path_of(path, sizeof path, number, (int)syscall(SYS_gettid));
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) give_up_buffer(errno);
    const int error = posix_fallocate(fd, 0, (off_t)bytes);  // which leaves errno alone
    if (error != 0) give_up_buffer(error);
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
  } else {
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) give_up_buffer(errno);
  struct tk_buffer* b = memory;
  *b = (struct tk_buffer){
      .magic = TK_MAGIC, .tid = (uint64_t)syscall(SYS_gettid), .ns = now(), .sequence = 1};
  v->buffer = b;
  v->block = &v->sent_block;
}

void tk_flush(struct tk_vcpu* v) {
  struct tk_buffer* b = v->buffer;
  if (b == NULL || b->used == 0) return;
  if (tk_settings.discard) {
    b->used = 0;
    v->block = &v->sent_block;
    return;
  }
  tk_lock();
  send_frame((struct tk_frame){.kind = TK_EVENTS,
                               .sequence = (uint32_t)b->sequence,
                               .tid = (uint32_t)b->tid,
                               .ns = b->ns},
             NULL, 0, b->words, 8 * b->used);
  b->used = 0;
  ++b->sequence;
  b->ns = now();
  v->block = &v->sent_block;
  tk_unlock();
}

void tk_end_buffer(struct tk_vcpu* v, unsigned number) {
  char path[600];
  path_of(path, sizeof path, number, (int)v->buffer->tid);
  munmap(v->buffer, BUFFER_BYTES);
  v->buffer = NULL;
  if (!tk_settings.discard) unlink(path);
}

// The process ends: other threads may still run, and what they do meanwhile is read from their
// buffers.
void tk_flush_all(void) {
  const uint64_t own = (uint64_t)syscall(SYS_gettid);
  for (unsigned i = 0; i < TK_MAX_VCPUS; ++i)
    if (tk_vcpus[i] != NULL && tk_vcpus[i]->buffer != NULL && tk_vcpus[i]->buffer->tid == own)
      tk_flush(tk_vcpus[i]);
  if (tk_settings.every != 0) tk_send_counts();
}

// --- connections

static size_t add(char* to, size_t at, size_t room, const char* key, const char* value) {
  const int n = snprintf(to + at, room - at, "%s=%s", key, value);
  return n < 0 || at + (size_t)n + 1 > room ? at : at + (size_t)n + 1;
}

static void hello(uint64_t inherited, uint64_t parent) {
  char text[1024], number[32];
  size_t at = 0;
#define NUMBER(key, value)                                      \
  (snprintf(number, sizeof number, "%lld", (long long)(value)), \
   at = add(text, at, sizeof text, key, number))
  NUMBER("wire", TK_WIRE_VERSION);
  NUMBER("pid", getpid());
  NUMBER("parent", parent);
  NUMBER("api", tk_settings.api);
  NUMBER("inherits", inherited);
  NUMBER("id", out.id);
  at = add(text, at, sizeof text, "target", tk_settings.target);
#undef NUMBER
  send_frame((struct tk_frame){.kind = TK_HELLO, .ns = now()}, NULL, 0, text, at);
}

static void before_fork(void) { tk_lock(); }
static void after_fork(void) { tk_unlock(); }
static void in_child(void) {
  pthread_mutex_init(&out.lock, NULL);
  const uint64_t parent = out.id;
  tk_forget_counts();
  for (unsigned i = 0; i < TK_MAX_VCPUS; ++i)
    if (tk_vcpus[i] != NULL && tk_vcpus[i]->buffer != NULL) {  // it is the parent's
      munmap(tk_vcpus[i]->buffer, BUFFER_BYTES);
      tk_vcpus[i]->buffer = NULL;
    }
  if (tk_settings.discard) return;
  if (intact()) close(out.fd);
  out.fd = -1;
  out.id = now() << 16 ^ (uint64_t)getpid();
  if (!tk_connect(out.defined, parent)) give_up("the recorder cannot be reached");
}

bool tk_connect(uint64_t inherited_blocks, uint64_t parent) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int n =
      snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", tk_settings.folder);
  if (n < 0 || (size_t)n >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  const int low = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (low < 0) return false;
  // Where programs expect no files of theirs.
  const int fd = fcntl(low, F_DUPFD_CLOEXEC, 700);
  out.fd = fd < 0 ? low : fd;
  if (fd >= 0) close(low);
  struct stat s;
  if (connect(out.fd, (const struct sockaddr*)&address, sizeof address) != 0 ||
      fstat(out.fd, &s) != 0) {
    fprintf(stderr, "tracekit: the recorder cannot be reached at %s: %s\n", address.sun_path,
            strerror(errno));
    return false;
  }
  out.inode = s.st_ino;
  if (parent == 0) {
    out.id = now() << 16 ^ (uint64_t)getpid();
    pthread_atfork(before_fork, after_fork, in_child);
    char path[600];
    snprintf(path, sizeof path, "%s/recorder", tk_settings.folder);
    FILE* f = fopen(path, "re");
    if (f != NULL) {
      const bool known = fscanf(f, "%d", &out.recorder) == 1;
      if (known && out.recorder == getppid()) prctl(PR_SET_PDEATHSIG, 9);
      fclose(f);
    }
  }
  hello(inherited_blocks, parent);
  return true;
}
