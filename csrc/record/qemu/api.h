// What the plug-in uses of QEMU's interface for TCG plug-ins, declared here so that neither QEMU's
// nor glib's headers are needed.  Versions of the interface differ:
//
//   1 (QEMU 4.2 to 8.2)  qemu_plugin_insn_data(insn) returns the bytes
//   2 (9.0)              scoreboards
//   3 (9.1) and later    qemu_plugin_insn_data(insn, to, size) copies the bytes
//   7 (11.1)             callbacks have no plug-in id; what registers them takes their user data
//
// What not every version has is weak, and looked at before it is called.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;

typedef struct {
  const char* target_name;
  struct {
    int min;
    int cur;
  } version;
  bool system_emulation;
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };

typedef uint32_t qemu_plugin_meminfo_t;
typedef void (*tk_callback)(void);  // of a signature that differs by version
typedef void (*tk_exec_callback)(unsigned vcpu, void* data);
typedef void (*tk_mem_callback)(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address,
                                void* data);

// The last argument, user data of the callback, is passed over by versions before 7.
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, tk_callback, void*);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, tk_callback, void*);
void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t, tk_callback, void*);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, tk_callback, void*);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, tk_callback, void*);
void qemu_plugin_reset(qemu_plugin_id_t, tk_callback, void*);

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb*, tk_exec_callback,
                                          enum qemu_plugin_cb_flags, void*);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn*, tk_exec_callback,
                                            enum qemu_plugin_cb_flags, void*);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn*, tk_mem_callback,
                                      enum qemu_plugin_cb_flags, enum qemu_plugin_mem_rw, void*);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn*);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn*);
void* qemu_plugin_insn_haddr(const struct qemu_plugin_insn*);
// Versions 1 and 2 return the bytes, later ones their number.
uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn*, void* to, size_t size);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);

// Not in every version.
uint64_t qemu_plugin_start_code(void) __attribute__((weak));
const char* qemu_plugin_path_to_binary(void) __attribute__((weak));
// Present in versions 1 and 2 alone.
void qemu_plugin_register_vcpu_tb_exec_inline(void) __attribute__((weak));
// From version 2, 4 and 5 on.
struct qemu_plugin_scoreboard* qemu_plugin_scoreboard_new(size_t) __attribute__((weak));
void qemu_plugin_read_memory_vaddr(void) __attribute__((weak));
void qemu_plugin_write_memory_vaddr(void) __attribute__((weak));
// From version 2 on: registers, by handles.  Arrays are glib's, which QEMU brings along.
struct tk_array {
  char* data;
  unsigned len;
};
struct tk_bytes {
  uint8_t* data;
  unsigned len;
};
typedef struct {
  void* handle;
  const char *name, *feature;
} qemu_plugin_reg_descriptor;
struct tk_array* qemu_plugin_get_registers(void) __attribute__((weak));
int qemu_plugin_read_register(void* handle, struct tk_bytes*) __attribute__((weak));
struct tk_bytes* g_byte_array_new(void) __attribute__((weak));
struct tk_bytes* g_byte_array_set_size(struct tk_bytes*, unsigned) __attribute__((weak));
uint8_t* g_byte_array_free(struct tk_bytes*, int) __attribute__((weak));
char* g_array_free(struct tk_array*, int) __attribute__((weak));
// From version 6 on.
void qemu_plugin_register_vcpu_syscall_filter_cb(void) __attribute__((weak));
