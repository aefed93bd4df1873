/* What the plug-in sends to tracekit: frames over a Unix socket, one connection a process.
 * Little-endian.  csrc/record/qemu_stream.cpp reads them, and the buffers of a process that ended
 * without sending its last events. */
#pragma once

#include <stdint.h>

#define TK_MAGIC 0x51544b54u
#define TK_WIRE_VERSION 2

enum tk_kind {
  TK_HELLO = 1,  /* NUL-terminated key=value texts: the first frame of a connection */
  TK_BLOCKS = 2, /* translated blocks, numbered from 0 in the order in which they come: u32 n, and
                  * of n instructions u64 pc, u8 bytes, the machine code */
  TK_EVENTS = 3, /* words, below */
  TK_MAP = 4,    /* u64 begin, u64 end, u64 offset in the file, its path ("" = no file's) */
  TK_NOTE = 5,   /* a text for people */
  TK_LINES = 6,  /* a sample begins: u64 words, lines of 64 bytes that the thread touched since the
                  * one before, in the order of their last use; bit 0: written, bit 1: of code.  Of a
                  * page that is new also the line that was touched first, by that touch */
  TK_COUNTS = 7, /* of blocks: u64 number, u64 executions since it was last told, u64 how many of
                  * these were another round of a repeated string instruction, its first one */
};

struct tk_frame {
  uint32_t magic, kind, sequence, tid; /* sequence: of a buffer, from 1 */
  uint64_t ns;                         /* CLOCK_MONOTONIC of the first event */
  uint64_t bytes;
};

/* An event is a word; its kind is in the three upper bits. */
#define TK_EVENT(kind) ((uint64_t)(kind) << 61)
enum tk_event {
  TK_LOAD = 0, /* address, TK_INDEX_SHIFT: instruction of the block, TK_SIZE_SHIFT: log2 of bytes */
  TK_STORE = 1,   /* the same */
  TK_BLOCK = 2,   /* a block begins: its number, TK_N_SHIFT: instructions, TK_REACHED_BIT */
  TK_REACHED = 3, /* the running block came to its last instruction: where its word had been sent */
  TK_SYSCALL = 4, /* number */
  TK_WIDE = 5,    /* bits 48 to 63 of the next address */
  TK_FROM = 6,    /* recording begins at this instruction of the running block */
  TK_UNTO = 7,    /* recording ends before this instruction of the running block */
};
#define TK_ADDRESS_BITS 48
#define TK_INDEX_SHIFT 48
#define TK_INDEX_MASK 0x1ff
#define TK_SIZE_SHIFT 57
#define TK_SIZE_MASK 7
#define TK_N_SHIFT 32
#define TK_N_MASK 0x3ff
#define TK_REACHED_BIT ((uint64_t)1 << 60)

/* The file of a vCPU's buffer, "ID.VCPU.TID.events" (ID in hexadecimal) in the session's folder:
 * this head, then words. The words were not sent yet. */
struct tk_buffer {
  uint64_t magic, tid, ns;
  uint64_t used; /* words */
  uint64_t sequence;
  uint64_t reserved[3];
  uint64_t words[];
};
