// A program that the traced one executes runs under QEMU and this plug-in too.  User-mode QEMU
// hands execve to the kernel; so before it does, we execute QEMU with that program in the same
// place. Where that cannot be done the kernel gets the call as it is.

#include "plugin.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "api.h"

#define MAX_STRINGS 65536u

static bool read_guest(uint64_t address, void* to, size_t bytes) {
  struct iovec local = {to, bytes}, remote = {(void*)(uintptr_t)(address + tk_guest_base()), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

// A string of the program, on the heap; NULL where it cannot be read.
static char* text_at(uint64_t address) {
  size_t room = 256, n = 0;
  char* text = malloc(room);
  while (text != NULL) {
    // Never over a page's end: the next one may be absent.
    size_t step = 4096 - (size_t)((address + n) & 4095);
    if (step > room - n) step = room - n;
    if (!read_guest(address + n, text + n, step)) break;
    if (memchr(text + n, 0, step)) return text;
    n += step;
    if (n == room) {
      if (room >= 1u << 20) break;
      char* more = realloc(text, room *= 2);
      if (more == NULL) break;
      text = more;
    }
  }
  free(text);
  return NULL;
}

struct strings {
  char** items;
  size_t n, room;
};

static bool push(struct strings* s, char* item) {
  if (item == NULL && s->n > 0 && s->items[s->n - 1] == NULL) return true;
  if (s->n == s->room) {
    char** more = realloc(s->items, (s->room = 2 * s->room + 64) * sizeof *more);
    if (more == NULL) return false;
    s->items = more;
  }
  s->items[s->n++] = item;
  return true;
}

static bool push_list(struct strings* s, uint64_t address) {
  for (size_t i = 0; address != 0 && i < MAX_STRINGS; ++i) {
    uint64_t pointer;
    if (!read_guest(address + 8 * i, &pointer, 8)) return false;
    if (pointer == 0) return true;
    char* text = text_at(pointer);
    if (text == NULL || !push(s, text)) return false;
  }
  return address == 0;
}

// How QEMU is started for programs of this machine, as tracekit left it in the folder.
static bool push_prefix(struct strings* s, unsigned machine) {
  char path[600];
  snprintf(path, sizeof path, "%s/launch.%u", tk_settings.folder, machine);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat file;
  if (fstat(fd, &file) != 0) return close(fd), false;
  char* text = malloc((size_t)file.st_size + 1);
  const bool whole = text != NULL && read(fd, text, (size_t)file.st_size) == file.st_size;
  close(fd);
  if (!whole) return false;
  text[file.st_size] = 0;
  for (char* at = text; at < text + file.st_size; at += strlen(at) + 1)
    if (!push(s, at)) return false;
  return true;
}

// The ELF machine of a 64-bit little-endian program, 1 for a script, 0 for anything else.
static unsigned machine_of(const char* path, char* head, size_t bytes) {
  struct stat file;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, head, bytes - 1);
  const bool plain = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                     !(file.st_mode & (S_ISUID | S_ISGID)) && access(path, X_OK) == 0;
  close(fd);
  if (!plain || n < 20) return n > 3 && plain && head[0] == '#' && head[1] == '!' ? 1 : 0;
  head[n] = 0;
  if (head[0] == '#' && head[1] == '!') return 1;
  if (memcmp(head, "\177ELF\2\1", 6) != 0) return 0;
  return (unsigned)(unsigned char)head[18] | (unsigned)(unsigned char)head[19] << 8;
}

// "#!interpreter argument": the interpreter, with the argument in *argument or NULL.
static char* interpreter_of(char* head, char** argument) {
  char* line = head + 2;
  line[strcspn(line, "\n")] = 0;
  line += strspn(line, " \t");
  for (size_t n = strlen(line); n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t');)
    line[--n] = 0;
  const size_t n = strcspn(line, " \t");
  *argument = NULL;
  if (line[n] != 0) {
    line[n] = 0;
    *argument = strdup(line + n + 1 + strspn(line + n + 1, " \t"));
  }
  return *line ? strdup(line) : NULL;
}

static char* path_of(const uint64_t* arguments, bool at) {
  char* path = text_at(arguments[at ? 1 : 0]);
  if (path == NULL) return NULL;
  if (!strcmp(path, "/proc/self/exe")) {  // to the kernel that is QEMU
    free(path);
    const char* own = qemu_plugin_path_to_binary ? qemu_plugin_path_to_binary() : NULL;
    return own ? strdup(own) : NULL;
  }
  if (!at || *path == '/') return path;
  const int folder = (int)arguments[0];
  const bool empty = arguments[4] & 0x1000;  // AT_EMPTY_PATH
  if (folder == AT_FDCWD && *path) return path;
  if (*path == 0 && !empty) return free(path), NULL;
  char* joined = malloc(strlen(path) + 64);
  if (joined != NULL)
    sprintf(joined, *path ? "/proc/self/fd/%d/%s" : "/proc/self/fd/%d%s", folder, path);
  free(path);
  return joined;
}

void tk_executes(const uint64_t* arguments, bool at) {
  const uint64_t* lists = arguments + (at ? 2 : 1);
  struct strings own = {0}, environment = {0}, all = {0};
  char* path = path_of(arguments, at);
  if (path == NULL || !push_list(&own, lists[0]) || !push_list(&environment, lists[1])) return;
  char head[300] = {0};
  unsigned machine = machine_of(path, head, sizeof head);
  char* program = path;
  for (int depth = 0; machine == 1 && depth < 5; ++depth) {
    char* argument;
    char* interpreter = interpreter_of(head, &argument);
    if (interpreter == NULL) return;
    // Its arguments: [argument] script, and then those of the script.
    struct strings now = {0};
    if (!push(&now, interpreter) || (argument && !push(&now, argument)) || !push(&now, program))
      return;
    for (size_t i = 1; i < own.n; ++i)
      if (!push(&now, own.items[i])) return;
    own = now;
    program = interpreter;
    memset(head, 0, sizeof head);
    machine = machine_of(program, head, sizeof head);
  }
  char note[PATH_MAX + 96];
  if (machine < 2 || !push_prefix(&all, machine)) {
    if (access(path, X_OK) == 0) {
      snprintf(note, sizeof note, "untraced %u %s", machine, path);
      tk_note(note);
    }
    return;
  }
  char name[] = "-0";
  if (own.n > 0 && (!push(&all, name) || !push(&all, own.items[0]))) return;
  if (!push(&all, program)) return;
  for (size_t i = 1; i < own.n; ++i)
    if (!push(&all, own.items[i])) return;
  char told[64];
  const char* api = getenv("TRACEKIT_QEMU_API");
  if (api != NULL) {
    snprintf(told, sizeof told, "TRACEKIT_QEMU_API=%s", api);
    if (!push(&environment, told)) return;
  }
  if (!push(&all, NULL) || !push(&environment, NULL)) return;
  snprintf(note, sizeof note, "executes %s", program);
  tk_note(note);
  tk_flush_all();
  execve(all.items[0], all.items, environment.items);
}
