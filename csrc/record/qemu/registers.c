// General registers of an AArch64 program, for `dc zva`, whose store is no event in QEMU: its
// address is read before it runs, from version 2 of the interface on.  How much it clears is what
// `mrs xN, dczid_el0` said last: a program that uses the one has executed the other.

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "plugin.h"

#define GENERAL 31  // x0 to x30

static void* handles[GENERAL];        // of QEMU; the same for every vCPU
static volatile uint64_t zero_bytes;  // a `dc zva` clears; 0 = nobody has asked yet

static bool readable(void) {
  return qemu_plugin_get_registers && qemu_plugin_read_register && g_byte_array_new &&
         g_byte_array_set_size && g_byte_array_free && g_array_free;
}

void tk_find_registers(void) {
  if (tk_settings.machine != 183 || !readable()) return;
  struct tk_array* all = qemu_plugin_get_registers();
  if (all == NULL) return;
  const qemu_plugin_reg_descriptor* r = (const void*)all->data;
  for (unsigned i = 0; i < all->len; ++i) {
    if (r[i].name == NULL || r[i].name[0] != 'x') continue;
    char* end = NULL;
    const unsigned long n = strtoul(r[i].name + 1, &end, 10);
    if (end != r[i].name + 1 && *end == 0 && n < GENERAL) handles[n] = r[i].handle;
  }
  g_array_free(all, 1);
}

static bool value_of(unsigned n, uint64_t* value) {
  *value = 0;
  if (n == GENERAL) return true;  // xzr
  if (handles[n] == NULL) return false;
  struct tk_bytes* bytes = g_byte_array_new();
  g_byte_array_set_size(bytes, 0);
  qemu_plugin_read_register(handles[n], bytes);
  const bool whole = bytes->len == sizeof *value;
  if (whole) memcpy(value, bytes->data, sizeof *value);
  g_byte_array_free(bytes, 1);
  return whole;
}

static void on_size(unsigned number, void* data) {
  (void)number;
  uint64_t dczid;
  if (value_of((unsigned)(uintptr_t)data, &dczid) && !(dczid & 16))
    zero_bytes = 4ull << (dczid & 15);
}

// `data`: the instruction's index where an event has it, and the register below.
static void on_zero(unsigned number, void* data) {
  const uint64_t index = (uintptr_t)data & (uint64_t)TK_INDEX_MASK << TK_INDEX_SHIFT;
  uint64_t address, left = zero_bytes;
  if (left == 0 || !value_of((unsigned)(uintptr_t)data & 31, &address)) return;
  address &= ~(left - 1);
  while (left > 0) {
    const unsigned shift = left < 64 ? (unsigned)__builtin_ctzll(left) : 6;  // a line at a time
    tk_access(number, address, index, shift, true);
    address += 1ull << shift;
    left -= 1ull << shift;
  }
}

void tk_watch_zeroing(struct qemu_plugin_tb* tb, size_t n) {
  if (handles[0] == NULL) return;
  for (size_t i = 0; i < n; ++i) {
    struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    uint32_t word;
    if (tk_code_of(insn, &word, sizeof word) != sizeof word) continue;
    const uint64_t index = (uint64_t)i << TK_INDEX_SHIFT;
    const uintptr_t named = word & 31;
    if ((word & ~31u) == 0xd50b7420)  // dc zva, xN
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_zero, QEMU_PLUGIN_CB_R_REGS,
                                             (void*)((uintptr_t)index | named));
    if ((word & ~31u) == 0xd53b00e0 && i + 1 < n)  // mrs xN, dczid_el0: known to what follows it
      qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, i + 1), on_size,
                                             QEMU_PLUGIN_CB_R_REGS, (void*)named);
  }
}
