/* Plug-ins for the cores that tracekit simulates: branch predictors, data prefetchers and
 * replacement policies of your own, in C or C++, as a shared library:
 *
 *     cc -O2 -shared -fPIC -I"$(python -c 'import tracekit.sim.plugins as p; print(p.include())')" \
 *        mine.c -o mine.so
 *
 * The library has one function, tracekit_plugins_v1.  Each core (each cache, each set) has a state
 * of its own: zeroed, of the size that is asked for, aligned to 64 bytes.  Functions are called
 * from several threads, never twice at once with the same state; they keep nothing elsewhere.
 */
#ifndef TRACEKIT_PLUGIN_H
#define TRACEKIT_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRACEKIT_PLUGIN_ABI 1
#define TRACEKIT_MOST_PREFETCHES 32

/* Kinds of branches. */
enum {
  TRACEKIT_CONDITIONAL = 1,
  TRACEKIT_JUMP = 2,
  TRACEKIT_CALL = 3,
  TRACEKIT_INDIRECT = 4,
  TRACEKIT_INDIRECT_CALL = 5,
  TRACEKIT_RETURN = 6,
  TRACEKIT_INDIRECT_CONDITIONAL = 7
};

/* Directions of conditional branches.  Behind a branch that is mispredicted, predict and resolve hear
 * of the branches of the wrong path, too, with a copy of the state that is given up when the branch
 * is resolved.  The outcome of one of those is the direction that is fetched. */
typedef struct tracekit_predictor {
  const char* name;
  uint64_t state_bytes;
  /* Not 0: taken.  Asked when a branch is fetched, of any kind. */
  int64_t (*predict)(uint8_t* state, uint64_t pc, int64_t kind);
  /* The outcome, before the next call with that state, for histories that move on speculatively (a
   * wrong guess is mended before the next branch of the path).  May be null. */
  void (*resolve)(uint8_t* state, uint64_t pc, int64_t kind, int64_t taken);
  /* The outcome, when the branch commits, in order. */
  void (*update)(uint8_t* state, uint64_t pc, int64_t kind, int64_t taken);
} tracekit_predictor;

/* Prefetchers of the first data cache and of the second cache. */
typedef struct tracekit_prefetcher {
  const char* name;
  uint64_t state_bytes;
  /* A miss, or a hit on a line that is on its way or was prefetched.  `line`: its address over 64;
   * `pc`: of the access, 0 of fetches.  Writes the lines wanted to out[0..31], first first, and
   * gives their number.  Lines beyond the page of 4096 bytes are not brought. */
  int64_t (*access)(uint8_t* state, uint64_t line, uint64_t pc, int64_t hit, uint64_t* out);
} tracekit_prefetcher;

/* Which line of a set goes. */
typedef struct tracekit_replacement {
  const char* name;
  uint64_t set_bytes; /* state of one set */
  /* A way was hit, or (filled) got a new line. */
  void (*touch)(uint8_t* set, int64_t way, int64_t ways, int64_t filled);
  /* The way that goes, 0 to ways - 1.  All ways hold lines. */
  int64_t (*victim)(uint8_t* set, int64_t ways);
} tracekit_replacement;

typedef struct tracekit_plugins {
  uint32_t abi; /* TRACEKIT_PLUGIN_ABI */
  uint32_t predictors, prefetchers, replacements;
  const tracekit_predictor* predictor;
  const tracekit_prefetcher* prefetcher;
  const tracekit_replacement* replacement;
} tracekit_plugins;

const tracekit_plugins* tracekit_plugins_v1(void);

#ifdef __cplusplus
}
#endif

#endif
