/* A stand-in for QEMU that has one version of its interface for plug-ins, and nothing of an
 * emulator: it loads a plug-in as QEMU's loader does and runs one block of three instructions, a
 * load, a store in two parts and a branch, through its callbacks.
 *
 *   qemu_host VERSION PLUGIN NAME=VALUE...
 *
 * Compiled with -DVERSION=n it exports what that version of the interface exports.  With -DARM its
 * block is of AArch64: what `dc zva` clears is asked for and then cleared, by a register that the
 * interface tells from version 2 on. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 1
#endif
#if VERSION >= 7
#define MIN 7
#elif VERSION >= 2
#define MIN 2
#else
#define MIN 0
#endif

struct insn {
  uint64_t pc;
  uint8_t code[4];
  void (*exec[4])(unsigned, void*);
  void* exec_data[4];
  int exec_flags[4], n_exec;
  void (*load)(unsigned, uint32_t, uint64_t, void*);
  void (*store)(unsigned, uint32_t, uint64_t, void*);
  void* mem_data;
};
#ifdef ARM
#define TARGET "aarch64"
static struct insn block[3] = {{0x1000, {0xe3, 0x00, 0x3b, 0xd5}},  /* mrs x3 */
                               {0x1004, {0x24, 0x74, 0x0b, 0xd5}},  /* dc zva, x4 */
                               {0x1008, {0xfe, 0xff, 0xff, 0x17}}}; /* b 0x1000 */
static const size_t sizes[3] = {4, 4, 4};
#else
#define TARGET "x86_64"
static struct insn block[3] = {
    {0x1000, {0x48, 0x8b, 0x07}}, {0x1003, {0x0f, 0x11, 0x06}}, {0x1006, {0xeb, 0xf8}}};
static const size_t sizes[3] = {3, 3, 2};
#endif
static void (*tb_exec)(unsigned, void*);
static void* tb_data;
static void *trans, *init, *syscalls, *at_exit;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void* cb, void* d) { trans = cb; }
void qemu_plugin_register_vcpu_init_cb(uint64_t id, void* cb, void* d) { init = cb; }
void qemu_plugin_register_vcpu_exit_cb(uint64_t id, void* cb, void* d) {}
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id, void* cb, void* d) { syscalls = cb; }
void qemu_plugin_register_atexit_cb(uint64_t id, void* cb, void* d) { at_exit = cb; }
void qemu_plugin_reset(uint64_t id, void* cb, void* d) {}
void qemu_plugin_register_vcpu_tb_exec_cb(void* tb, void* cb, int flags, void* data) {
  tb_exec = cb, tb_data = data;
}
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn* i, void* cb, int flags, void* data) {
  i->exec[i->n_exec] = cb, i->exec_data[i->n_exec] = data, i->exec_flags[i->n_exec++] = flags;
}
void qemu_plugin_register_vcpu_mem_cb(struct insn* i, void* cb, int flags, int rw, void* data) {
  i->load = i->store = cb;
  i->mem_data = data;
}
size_t qemu_plugin_tb_n_insns(void* tb) { return 3; }
struct insn* qemu_plugin_tb_get_insn(void* tb, size_t i) { return &block[i]; }
uint64_t qemu_plugin_insn_vaddr(struct insn* i) { return i->pc; }
size_t qemu_plugin_insn_size(struct insn* i) { return sizes[i - block]; }
void* qemu_plugin_insn_haddr(struct insn* i) { return NULL; }
unsigned qemu_plugin_mem_size_shift(uint32_t info) { return info & 7; }
bool qemu_plugin_mem_is_store(uint32_t info) { return info & 8; }
#if VERSION >= 3
size_t qemu_plugin_insn_data(struct insn* i, void* to, size_t n) {
  if (n > sizes[i - block]) n = sizes[i - block];
  memcpy(to, i->code, n);
  return n;
}
#else
const void* qemu_plugin_insn_data(struct insn* i) { return i->code; }
void qemu_plugin_register_vcpu_tb_exec_inline(void) {}
#endif
#if VERSION >= 2
void* qemu_plugin_scoreboard_new(size_t n) { return NULL; }
/* As glib has them. */
struct array {
  char* data;
  unsigned len;
};
struct array* g_byte_array_new(void) { return calloc(1, sizeof(struct array)); }
struct array* g_byte_array_set_size(struct array* a, unsigned n) {
  a->data = realloc(a->data, (a->len = n) + 1);
  return a;
}
void* g_byte_array_free(struct array* a, int all) { return free(a->data), free(a), NULL; }
void* g_array_free(struct array* a, int all) { return free(a->data), free(a), NULL; }
static uint64_t registers[] = {0, 0, 0, 5 /* 128 bytes */, 0x5010};
static bool may_read;
struct array* qemu_plugin_get_registers(void) {
  static const char* names[] = {"x0", "x1", "x2", "x3", "x4", "xpsr", "sp", "pc"};
  struct descriptor {
    void* handle;
    const char *name, *feature;
  }* all = calloc(8, sizeof *all);
  for (int i = 0; i < 8; ++i) all[i] = (struct descriptor){(void*)(uintptr_t)(i + 1), names[i]};
  struct array* a = calloc(1, sizeof *a);
  return *a = (struct array){(char*)all, 8}, a;
}
int qemu_plugin_read_register(void* handle, struct array* to) {
  const uintptr_t i = (uintptr_t)handle - 1;
  if (!may_read || i > 4) return -1;
  g_byte_array_set_size(to, 8);
  memcpy(to->data, &registers[i], 8);
  return 8;
}
#endif
#if VERSION >= 4
void qemu_plugin_read_memory_vaddr(void) {}
#endif
#if VERSION >= 5
void qemu_plugin_write_memory_vaddr(void) {}
#endif
#if VERSION >= 6
void qemu_plugin_register_vcpu_syscall_filter_cb(void) {}
#endif

struct info {
  const char* target_name;
  struct {
    int min, cur;
  } version;
  bool system_emulation;
};

static void runs(struct insn* i) {
  for (int k = 0; k < i->n_exec; ++k) {
#if VERSION >= 2
    may_read = i->exec_flags[k] > 0;
#endif
    i->exec[k](0, i->exec_data[k]);
  }
}

int main(int argc, char** argv) {
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  const int* version = dlsym(plugin, "qemu_plugin_version");
  if (*version < MIN || *version > VERSION) {
    fprintf(stderr,
            "plugin requires API version %d, but this QEMU supports only %s version of %d\n",
            *version, *version < MIN ? "a minimum" : "up to", *version < MIN ? MIN : VERSION);
    return 1;
  }
  int (*install)(uint64_t, const struct info*, int, char**) = dlsym(plugin, "qemu_plugin_install");
  const struct info info = {TARGET, {MIN, VERSION}, false};
  if (install(7, &info, argc - 2, argv + 2) != 0) return 1;
#if VERSION >= 7
  ((void (*)(unsigned, void*))init)(0, NULL);
  ((void (*)(void*, void*))trans)(block, NULL);
#else
  ((void (*)(uint64_t, unsigned))init)(7, 0);
  ((void (*)(uint64_t, void*))trans)(7, block);
#endif
  for (int run = 0; run < 1000; ++run) {
    tb_exec(0, tb_data);
    runs(&block[0]);
#ifndef ARM
    block[0].load(0, 3, 0x5000 + 8 * (uint64_t)run, block[0].mem_data);
#endif
    runs(&block[1]);
#ifndef ARM
    block[1].store(0, 11, 0x9000, block[1].mem_data);
    block[1].store(0, 11, 0x9008, block[1].mem_data);
#elif VERSION >= 2
    registers[4] += 128;
#endif
    runs(&block[2]);
  }
#if VERSION >= 7
  ((void (*)(unsigned, int64_t, uint64_t, uint64_t))syscalls)(0, 231, 0, 0);
  ((void (*)(void*))at_exit)(NULL);
#else
  ((void (*)(uint64_t, unsigned, int64_t, uint64_t))syscalls)(7, 0, 231, 0);
  ((void (*)(uint64_t, void*))at_exit)(7, NULL);
#endif
  return 0;
}
