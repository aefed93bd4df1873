// The parts of the plug-in: plugin.c (callbacks), registers.c (accesses that are known from
// registers alone), sampling.c (samples at even distances), channel.c (the way to tracekit),
// follow.c (programs that the program executes).
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define TK_MAX_VCPUS 65536
#define TK_BUFFER_WORDS 32768u
#define TK_BUFFER_SLACK 1024u  // words beyond, which a block's start leaves for what follows it

struct tk_vcpu {
  struct tk_buffer* buffer;  // NULL: none yet, or of the process before a fork
  uint64_t* block;           // the running block's word, or `sent_block`
  uint64_t sent_block;
  uint64_t block_id;
  bool started;  // the running block was recorded from its start
  // Of samples (sampling.c): instructions that ran, where the next one begins, whether it has
  // begun, the repeated string instruction that the last block ended with, lines by their last use.
  uint64_t run, sample, repeated;
  bool sampled;
  struct tk_touched* touched;
};

// How often a block ran; `first` and `last` are the pcs of repeated string instructions there, or
// 0.
struct tk_counted {
  uint64_t word, runs, joined, first, last;
  uint64_t begin, end;  // of its machine code
  uint64_t stamp;       // when it ran last, outside of samples
};

extern struct tk_vcpu* tk_vcpus[TK_MAX_VCPUS];

struct tk_settings {
  char folder[512];  // of the session: the socket, the buffers, how QEMU is started
  bool discard;      // make events, and drop them
  bool follow;
  uint64_t every, sample;  // instructions from the start of a sample to the next (0: none), of one
  bool lines;              // tell which lines were touched between samples
  uint16_t machine;        // of ELF
  int api;
  char target[32];
};
extern struct tk_settings tk_settings;

struct qemu_plugin_insn;
struct qemu_plugin_tb;

// --- plugin.c
// An event; `index`: the instruction's, where an event has it.
void tk_access(unsigned number, uint64_t address, uint64_t index, uint64_t shift, bool store);
size_t tk_code_of(const struct qemu_plugin_insn* insn, void* to, size_t room);

// --- registers.c
void tk_find_registers(void);                                // for the vCPU that begins
void tk_watch_zeroing(struct qemu_plugin_tb* tb, size_t n);  // `dc zva` among these instructions

// --- channel.c
// `parent`: the number of the process whose blocks this one inherits (its own: it was cut off); 0.
bool tk_connect(uint64_t inherited_blocks, uint64_t parent);
void tk_no_buffer(struct tk_vcpu* v, unsigned number);  // gives it one
void tk_flush(struct tk_vcpu* v);
void tk_end_buffer(struct tk_vcpu* v, unsigned number);
void tk_flush_all(void);
void tk_note(const char* text);
void tk_send(uint32_t kind, uint64_t tid, const void* data, size_t bytes);
// Called with the lock held, by a translation.
void tk_lock(void);
void tk_unlock(void);
void tk_define(const void* definition, size_t bytes);
void tk_map_of(uint64_t pc, uint64_t host);
uint64_t tk_blocks_defined(void);
uint64_t tk_guest_base(void);

static inline void tk_put(struct tk_vcpu* v, uint64_t word) {
  struct tk_buffer* b = v->buffer;
  b->words[b->used] = word;
  __atomic_signal_fence(__ATOMIC_RELEASE);  // who reads a killed process's buffer finds it whole
  ++b->used;
}

// --- sampling.c
struct tk_counted* tk_counted_block(uint64_t id);  // NULL: no room
void tk_forget_counts(void);
void tk_send_counts(void);
bool tk_repeats(const uint8_t* code, size_t length);
void tk_touch(struct tk_vcpu* v, uint64_t address, bool store);
void tk_fetch(struct tk_vcpu* v, struct tk_counted* c);
bool tk_in_sample(struct tk_vcpu* v, uint64_t n, uint64_t* from, uint64_t* unto);

// --- follow.c
// A system call that executes a program is about to be made: does it in its place, under QEMU.
// Returns where that cannot be done.
void tk_executes(const uint64_t* arguments, bool at);
