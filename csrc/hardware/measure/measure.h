// What `tracekit calibrate` runs: pieces of machine code by name, pages to put them together in,
// and a timer that runs pieces in turn.  Everything that searches, compares and decides is in
// tracekit/hardware/measure.
//
// A piece of machine code ("kernel") is called as a function of five words:
//     (a, b, scratch, count, spare)
// and runs its loop `count` times.
#ifndef TRACEKIT_MEASURE_H
#define TRACEKIT_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#define TRACEKIT_EXPORT __attribute__((visibility("default")))

// A piece of code as the assembler made it.
struct tk_snippet {
  const char *name;
  const unsigned char *begin, *end;
};

// A kernel of an instruction form: a chain of `count` instances or independent copies of it, and
// cycles of a chain's other instructions (less than 0: half of a step is a plain move).
struct tk_form {
  const char *form;
  int chain, count;
  double others;
  const unsigned char *setup, *setup_end, *body, *body_end;
};

// One kernel to be timed, with its arguments; before that its loop runs `lead` times untimed, which
// brings its code into the caches.
struct tk_call {
  const void *code;
  uint64_t a, b, scratch, count, lead;
};

TRACEKIT_EXPORT const struct tk_snippet *tk_snippets(size_t *count);
TRACEKIT_EXPORT const struct tk_form *tk_forms(size_t *count);

// Pages for code (0: the system has none): written, then sealed, then run.
TRACEKIT_EXPORT void *tk_code_pages(size_t bytes);
TRACEKIT_EXPORT int tk_code_seal(void *pages, size_t bytes);
// Pages for data, at a multiple of 2 MiB; large: 1 asks for large pages, 0 for small ones.  All
// are touched.
TRACEKIT_EXPORT void *tk_data_pages(size_t bytes, int large);
TRACEKIT_EXPORT void tk_free_pages(void *pages, size_t bytes);

// Times each of `calls` in turn, `rounds` times: seconds[round * calls + i], in nanoseconds.
// 0, or the number of the signal that a kernel ended with (SIGILL: this processor has no such
// instruction).
TRACEKIT_EXPORT int tk_time(const struct tk_call *call, size_t calls, size_t rounds,
                            double *nanoseconds);

// Nanoseconds between two readings of the clock, at the least.
TRACEKIT_EXPORT double tk_clock_step(void);

#endif
