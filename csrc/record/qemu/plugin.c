// tracekit's plug-in for QEMU's user mode: every instruction and memory access of a program, as
// words in a buffer for each vCPU (wire.h).
//
// A block's start is one word and the address of each access another; what a block consists of is
// sent once.  Its last instruction marks the block's word, so that one that a fault left in the
// middle is told from one that was run to its end.
//
// Further consumers of the same events (counters over the whole program) hook into on_block and
// on_access, the only two places that see them.

#include "plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

struct tk_settings tk_settings;
struct tk_vcpu* tk_vcpus[TK_MAX_VCPUS];

static qemu_plugin_id_t plugin_id;

// Which part of the run is recorded.
static struct {
  bool bounded;           // any of the following
  uint64_t skip, limit;   // instructions before it, and of it
  uint64_t start, stop;   // pcs; ~0 = none
  uint64_t code_in_file;  // start and stop are relative to the file where this is not ~0
  bool marks;             // instructions of the program say where it begins and ends
  volatile bool on, over;
  uint64_t run;  // instructions of blocks that were begun, atomically
} region = {.limit = ~0ull, .start = ~0ull, .stop = ~0ull, .code_in_file = ~0ull};

// The version to claim must lie in what this QEMU accepts, and is looked at before it calls us.
__attribute__((constructor)) static void choose_version(void) {
  const char* told = getenv("TRACEKIT_QEMU_API");
  if (told)
    qemu_plugin_version = atoi(told);
  else if (qemu_plugin_register_vcpu_syscall_filter_cb)
    qemu_plugin_version = 6;
  else if (qemu_plugin_write_memory_vaddr)
    qemu_plugin_version = 5;
  else if (qemu_plugin_read_memory_vaddr)
    qemu_plugin_version = 4;
  else if (qemu_plugin_scoreboard_new)
    qemu_plugin_version = qemu_plugin_register_vcpu_tb_exec_inline ? 2 : 3;
}

// --- what runs with the program

static inline struct tk_vcpu* ready(unsigned number) {
  struct tk_vcpu* v = tk_vcpus[number];
  if (__builtin_expect(v->buffer == NULL, 0)) tk_no_buffer(v, number);
  return v;
}

static inline struct tk_vcpu* begin(unsigned number, uint64_t word) {
  struct tk_vcpu* v = ready(number);
  if (__builtin_expect(v->buffer->used >= TK_BUFFER_WORDS, 0)) tk_flush(v);
  v->block = &v->buffer->words[v->buffer->used];
  tk_put(v, word);
  return v;
}

static void on_block(unsigned number, void* data) { begin(number, (uintptr_t)data); }

static void end_region(void) {
  if (__atomic_exchange_n(&region.over, true, __ATOMIC_RELAXED)) return;
  region.on = false;
  // The rest of the program runs as fast as it can.  Older QEMU may look at callbacks that a reset
  // has freed (plugins/core.c of 7.2: a helper's access after a block that an exception left), so
  // ours stay there, and return at once.
  if (tk_settings.api > 1) qemu_plugin_reset(plugin_id, NULL, NULL);
}

static void on_bounded_block(unsigned number, void* data) {
  struct tk_vcpu* v = tk_vcpus[number];
  v->started = false;
  v->block_id = (uintptr_t)data;
  if (region.over) return;
  if (!region.on && region.start != ~0ull) return;  // a marker begins it
  const uint64_t n = (v->block_id >> TK_N_SHIFT) & TK_N_MASK;
  const uint64_t before = __atomic_fetch_add(&region.run, n, __ATOMIC_RELAXED);
  if (before + n <= region.skip) return;
  if (!region.on) region.on = true;
  const uint64_t end = region.limit > ~0ull - region.skip ? ~0ull : region.skip + region.limit;
  if (before >= end) return end_region();
  v = begin(number, v->block_id);
  v->started = true;
  if (before < region.skip) tk_put(v, TK_EVENT(TK_FROM) | (region.skip - before));
  if (before + n > end) tk_put(v, TK_EVENT(TK_UNTO) | (end - before));
}

static void on_sampled_block(unsigned number, void* data) {
  struct tk_counted* c = data;
  struct tk_vcpu* v = tk_vcpus[number];
  const bool joined = c->first != 0 && c->first == v->repeated;
  v->repeated = c->last;
  ++c->runs;
  c->joined += joined;
  uint64_t from, unto;
  const uint64_t n = ((c->word >> TK_N_SHIFT) & TK_N_MASK);
  v->started = false;
  if (__builtin_expect(v->buffer == NULL, 0)) tk_no_buffer(v, number);
  if (__builtin_expect(!tk_in_sample(v, n - joined, &from, &unto), 1)) {
    if (tk_settings.lines) tk_fetch(v, c);
    return;
  }
  v = begin(number, c->word);
  v->started = true;
  if (from != 0) tk_put(v, TK_EVENT(TK_FROM) | from);
  if (unto < n - joined) tk_put(v, TK_EVENT(TK_UNTO) | unto);
}

// The start marker stands at this instruction of the block.
static void on_start(unsigned number, void* data) {
  struct tk_vcpu* v = tk_vcpus[number];
  if (region.on || region.over) return;
  region.on = true;
  const uint64_t n = (v->block_id >> TK_N_SHIFT) & TK_N_MASK, index = (uintptr_t)data;
  // What is skipped counts from here on.
  __atomic_store_n(&region.run, n - index, __ATOMIC_RELAXED);
  if (n - index <= region.skip) return;
  v = begin(number, v->block_id);
  v->started = true;
  tk_put(v, TK_EVENT(TK_FROM) | (index + region.skip));
  if (region.limit < n - index - region.skip)
    tk_put(v, TK_EVENT(TK_UNTO) | (index + region.skip + region.limit));
}

static void on_stop(unsigned number, void* data) {
  struct tk_vcpu* v = ready(number);
  if (!region.on || region.over) return;
  if (v->started) tk_put(v, TK_EVENT(TK_UNTO) | (uintptr_t)data);
  end_region();
  v->started = false;
}

static void on_last(unsigned number, void* data) {
  (void)data;
  struct tk_vcpu* v = tk_vcpus[number];
  if (region.bounded && !v->started) return;
  if (__builtin_expect(v->block == &v->sent_block, 0))
    tk_put(v, TK_EVENT(TK_REACHED));
  else
    *v->block |= TK_REACHED_BIT;
}

void tk_access(unsigned number, uint64_t address, uint64_t index, uint64_t shift, bool store) {
  struct tk_vcpu* v = tk_vcpus[number];
  if (region.bounded && !v->started) {
    if (tk_settings.lines) tk_touch(v, address, store);
    return;
  }
  if (__builtin_expect(v->buffer == NULL, 0)) tk_no_buffer(v, number);
  if (__builtin_expect(v->buffer->used >= TK_BUFFER_WORDS + TK_BUFFER_SLACK - 2, 0)) tk_flush(v);
  if (__builtin_expect(address >> TK_ADDRESS_BITS != 0, 0))
    tk_put(v, TK_EVENT(TK_WIDE) | address >> TK_ADDRESS_BITS);
  const uint64_t kind = store ? TK_EVENT(TK_STORE) : TK_EVENT(TK_LOAD);
  tk_put(v, kind | index | shift << TK_SIZE_SHIFT | (address & ((1ull << TK_ADDRESS_BITS) - 1)));
}

// `data`: the instruction's index where the event has it.
static void on_access(unsigned number, qemu_plugin_meminfo_t info, uint64_t address, void* data) {
  tk_access(number, address, (uintptr_t)data, qemu_plugin_mem_size_shift(info) & TK_SIZE_MASK,
            qemu_plugin_mem_is_store(info));
}

// --- what runs with the translator

size_t tk_code_of(const struct qemu_plugin_insn* insn, void* to, size_t room) {
  size_t n = qemu_plugin_insn_size(insn);
  if (n > room) n = room;
  if (tk_settings.api >= 3) return qemu_plugin_insn_data(insn, to, n);
  memcpy(to, (const void*)qemu_plugin_insn_data(insn, NULL, 0), n);
  return n;
}

// What the program marks, 0x111 a beginning and 0x222 an end, with instructions that do nothing:
// x86-64's `mov $mark, %ebx` and `fs addr32 nop` (the SSC marks of Intel's and other tools),
// AArch64's `hint 0x70` and `hint 0x71`, RISC-V's `slti x0, x0, mark`.  `before`: the code in
// front.
static unsigned mark_of(const uint8_t* code, size_t length, const uint8_t* before) {
  if (tk_settings.machine == 62) {
    uint32_t mark;
    if (length != 3 || memcmp(code, "\x64\x67\x90", 3) || before[0] != 0xbb) return 0;
    memcpy(&mark, before + 1, 4);
    return mark;
  }
  if (length != 4) return 0;
  uint32_t word;
  memcpy(&word, code, 4);
  if (tk_settings.machine == 183)
    return word == 0xd5032e1f ? 0x111 : word == 0xd5032e3f ? 0x222 : 0;
  return (word & 0xfffff) == 0x2013 ? word >> 20 : 0;
}

static void marks(struct qemu_plugin_tb* tb, size_t n) {
  uint8_t code[16] = {0}, before[16] = {0};
  for (size_t i = 0; i < n; ++i) {
    struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    const size_t length = tk_code_of(insn, code, 15);
    const unsigned mark = mark_of(code, length, before);
    if (mark == 0x111 || mark == 0x222)
      qemu_plugin_register_vcpu_insn_exec_cb(insn, mark == 0x111 ? on_start : on_stop,
                                             QEMU_PLUGIN_CB_NO_REGS, (void*)(uintptr_t)i);
    memcpy(before, code, sizeof before);
  }
}

static void markers(struct qemu_plugin_tb* tb, size_t n) {
  if (region.marks) return marks(tb, n);
  if (region.start == ~0ull && region.stop == ~0ull) return;
  uint64_t moved = 0;
  if (region.code_in_file != ~0ull && qemu_plugin_start_code)
    moved = qemu_plugin_start_code() - region.code_in_file;
  for (size_t i = 0; i < n; ++i) {
    struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    const uint64_t pc = qemu_plugin_insn_vaddr(insn);
    if (region.start != ~0ull && pc == region.start + moved)
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_start, QEMU_PLUGIN_CB_NO_REGS,
                                             (void*)(uintptr_t)i);
    if (region.stop != ~0ull && pc == region.stop + moved)
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_stop, QEMU_PLUGIN_CB_NO_REGS,
                                             (void*)(uintptr_t)i);
  }
}

static void translated(struct qemu_plugin_tb* tb) {
  static uint8_t definition[4 + 1024 * 24];  // under the lock
  size_t n = qemu_plugin_tb_n_insns(tb), bytes = 4;
  if (n == 0 || region.over) return;
  if (n > TK_INDEX_MASK + 1u) n = TK_INDEX_MASK + 1u;  // QEMU's own limit
  uint64_t repeats[2] = {0, 0}, begins = 0, ends = 0;
  tk_lock();
  const uint32_t count = (uint32_t)n;
  memcpy(definition, &count, 4);
  for (size_t i = 0; i < n; ++i) {
    const struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    const uint64_t pc = qemu_plugin_insn_vaddr(insn);
    memcpy(definition + bytes, &pc, 8);
    const size_t length = tk_code_of(insn, definition + bytes + 9, 15);
    definition[bytes + 8] = (uint8_t)length;
    if (i == 0) begins = pc;
    ends = pc + length;
    if (i == 0 && tk_repeats(definition + bytes + 9, length)) repeats[0] = pc;
    if (i + 1 == n && tk_repeats(definition + bytes + 9, length)) repeats[1] = pc;
    bytes += 9 + length;
    if (i == 0 || i + 1 == n) tk_map_of(pc, (uintptr_t)qemu_plugin_insn_haddr(insn));
  }
  const uint64_t id = tk_blocks_defined();
  tk_define(definition, bytes);
  struct tk_counted* counted = tk_settings.every != 0 ? tk_counted_block(id) : NULL;
  tk_unlock();
  uint64_t word = TK_EVENT(TK_BLOCK) | (uint64_t)n << TK_N_SHIFT | (id & 0xffffffff);
  if (n == 1 && !region.bounded) word |= TK_REACHED_BIT;
  if (counted != NULL) {
    *counted = (struct tk_counted){
        .word = word, .first = repeats[0], .last = repeats[1], .begin = begins, .end = ends};
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_sampled_block, QEMU_PLUGIN_CB_NO_REGS, counted);
  } else {
    qemu_plugin_register_vcpu_tb_exec_cb(tb, region.bounded ? on_bounded_block : on_block,
                                         QEMU_PLUGIN_CB_NO_REGS, (void*)(uintptr_t)word);
  }
  markers(tb, n);
  tk_watch_zeroing(tb, n);
  for (size_t i = 0; i < n; ++i) {
    struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    // Reads and writes together: QEMU before 8 takes reads for writes where it is asked for one.
    qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                     (void*)(uintptr_t)((uint64_t)i << TK_INDEX_SHIFT));
    if (i + 1 == n && (n > 1 || region.bounded))
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_last, QEMU_PLUGIN_CB_NO_REGS, NULL);
  }
}

static void translated_1(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  translated(tb);
}
static void translated_7(struct qemu_plugin_tb* tb, void* data) {
  (void)data;
  translated(tb);
}

// --- the rest

static void begin_vcpu(unsigned number) {
  if (number >= TK_MAX_VCPUS) {
    fprintf(stderr, "tracekit: over %d threads at a time are not recorded\n", TK_MAX_VCPUS);
    _exit(70);
  }
  if (tk_vcpus[number] == NULL) tk_vcpus[number] = calloc(1, sizeof(struct tk_vcpu));
  if (tk_vcpus[number] == NULL) _exit(70);
  tk_vcpus[number]->run = 0;
  tk_vcpus[number]->sample = region.skip;
  tk_find_registers();
}
static void begin_vcpu_1(qemu_plugin_id_t id, unsigned number) {
  (void)id;
  begin_vcpu(number);
}
static void begin_vcpu_7(unsigned number, void* data) {
  (void)data;
  begin_vcpu(number);
}

// Its number may be another thread's next.
static void end_vcpu(unsigned number) {
  struct tk_vcpu* v = tk_vcpus[number];
  if (v == NULL || v->buffer == NULL) return;
  tk_flush(v);
  tk_end_buffer(v, number);
}
static void end_vcpu_1(qemu_plugin_id_t id, unsigned number) {
  (void)id;
  end_vcpu(number);
}
static void end_vcpu_7(unsigned number, void* data) {
  (void)data;
  end_vcpu(number);
}

// Calls that may wait for another thread: what came before is sent first, in the order of time.
static bool may_wait(int64_t call) {
  if (tk_settings.machine == 62)
    return call == 202 || call == 24 || call == 35 || call == 61 || call == 230 || call == 56;
  return call == 98 || call == 124 || call == 101 || call == 260 || call == 115 || call == 220;
}

static void calls(unsigned number, int64_t call, const uint64_t* arguments) {
  struct tk_vcpu* v = ready(number);
  if (!region.bounded || v->started) {
    tk_put(v, TK_EVENT(TK_SYSCALL) | (uint32_t)call);
    if (may_wait(call)) tk_flush(v);
  }
  const bool x86 = tk_settings.machine == 62;
  const bool executes = call == (x86 ? 59 : 221), executes_at = call == (x86 ? 322 : 281);
  if (tk_settings.follow && (executes || executes_at)) tk_executes(arguments, executes_at);
}
static void calls_1(qemu_plugin_id_t id, unsigned number, int64_t call, uint64_t a, uint64_t b,
                    uint64_t c, uint64_t d, uint64_t e) {
  (void)id;
  calls(number, call, (uint64_t[]){a, b, c, d, e});
}
static void calls_7(unsigned number, int64_t call, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                    uint64_t e) {
  calls(number, call, (uint64_t[]){a, b, c, d, e});
}

static void at_exit(void) { tk_flush_all(); }

static bool set(const char* name, const char* value) {
  char* end = NULL;
  const uint64_t number = strtoull(value, &end, 0);
  const bool is_number = end != value && *end == 0;
  if (!strcmp(name, "dir")) {
    snprintf(tk_settings.folder, sizeof tk_settings.folder, "%s", value);
    return strlen(value) < sizeof tk_settings.folder;
  }
  if (!strcmp(name, "discard")) return tk_settings.discard = true;
  if (!strcmp(name, "follow")) return tk_settings.follow = true;
  if (!strcmp(name, "marks")) {
    region.start = ~0ull - 1;  // no pc: a mark begins it
    return region.marks = region.bounded = true;
  }
  if (!is_number) return false;
  if (!strcmp(name, "code"))
    region.code_in_file = number;
  else if (!strcmp(name, "skip"))
    region.skip = number, region.bounded = true;
  else if (!strcmp(name, "every"))
    tk_settings.every = number, region.bounded = true;
  else if (!strcmp(name, "lines"))
    tk_settings.lines = number != 0;
  else if (!strcmp(name, "insts"))
    region.limit = number, region.bounded = true;
  else if (!strcmp(name, "start"))
    region.start = number, region.bounded = true;
  else if (!strcmp(name, "stop"))
    region.stop = number, region.bounded = true;
  else
    return false;
  return true;
}

static bool options(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) {
    const char* equals = strchr(argv[i], '=');
    char name[32];
    const size_t n = equals ? (size_t)(equals - argv[i]) : 0;
    if (n == 0 || n >= sizeof name) return false;
    memcpy(name, argv[i], n);
    name[n] = 0;
    if (!strcmp(name, "probe")) {  // tracekit asks whether this QEMU takes us
      printf("tracekit %s\n", tk_settings.target);
      fflush(stdout);
      _exit(0);
    }
    if (!set(name, equals + 1)) {
      fprintf(stderr, "tracekit: the plug-in does not know %s\n", argv[i]);
      return false;
    }
  }
  return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                               char** argv) {
  plugin_id = id;
  tk_settings.api = info->version.cur;
  snprintf(tk_settings.target, sizeof tk_settings.target, "%s", info->target_name);
  tk_settings.machine = !strcmp(info->target_name, "x86_64")    ? 62
                        : !strcmp(info->target_name, "aarch64") ? 183
                        : !strcmp(info->target_name, "riscv64") ? 243
                                                                : 0;
  if (!options(argc, argv)) return 1;
  tk_settings.sample = region.limit;
  if (info->system_emulation || tk_settings.machine == 0) {
    fprintf(stderr, "tracekit: records user-mode x86_64, aarch64 and riscv64, not %s\n",
            info->target_name);
    return 1;
  }
  if (!tk_settings.discard && !tk_connect(0, 0)) return 1;
  const bool seven = tk_settings.api >= 7;
#define FOR(name) (tk_callback)(seven ? (void*)name##_7 : (void*)name##_1)
  qemu_plugin_register_vcpu_init_cb(id, FOR(begin_vcpu), NULL);
  qemu_plugin_register_vcpu_exit_cb(id, FOR(end_vcpu), NULL);
  qemu_plugin_register_vcpu_tb_trans_cb(id, FOR(translated), NULL);
  qemu_plugin_register_vcpu_syscall_cb(id, FOR(calls), NULL);
  qemu_plugin_register_atexit_cb(id, (tk_callback)(void*)at_exit, NULL);
  return 0;
}
