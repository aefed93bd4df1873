/* A stand-in for QEMU that has one version of its interface for plug-ins, and nothing of an
 * emulator: it loads a plug-in as QEMU's loader does and runs one block of three instructions, a
 * load, a store in two parts and a branch, through its callbacks.
 *
 *   qemu_host VERSION PLUGIN NAME=VALUE...
 *
 * Compiled with -DVERSION=n it exports what that version of the interface exports. */
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
  void (*exec)(unsigned, void*);
  void* exec_data;
  void (*load)(unsigned, uint32_t, uint64_t, void*);
  void (*store)(unsigned, uint32_t, uint64_t, void*);
  void* mem_data;
};
static struct insn block[3] = {{0x1000, {0x48, 0x8b, 0x07}, 0, 0, 0, 0, 0},
                               {0x1003, {0x0f, 0x11, 0x06}, 0, 0, 0, 0, 0},
                               {0x1006, {0xeb, 0xf8}, 0, 0, 0, 0, 0}};
static const size_t sizes[3] = {3, 3, 2};
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
  i->exec = cb, i->exec_data = data;
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
  const struct info info = {"x86_64", {MIN, VERSION}, false};
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
    block[0].load(0, 3, 0x5000 + 8 * (uint64_t)run, block[0].mem_data);
    block[1].store(0, 11, 0x9000, block[1].mem_data);
    block[1].store(0, 11, 0x9008, block[1].mem_data);
    if (block[2].exec) block[2].exec(0, block[2].exec_data);
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
