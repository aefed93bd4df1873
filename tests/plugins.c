/* One plug-in of each kind, for tests/test_plugins.py. */
#include <string.h>

#include "tracekit_plugin.h"

/* Two-bit counters, 4096 of them, by pc and the last 12 outcomes; the history moves on at fetch. */
typedef struct {
  uint64_t history;
  uint8_t counter[4096];
  uint32_t waiting[4096], from, to;
} gshare;

static uint32_t at(const gshare* g, uint64_t pc) {
  return (uint32_t)((pc >> 2 ^ g->history) & 4095);
}

static int64_t gshare_predict(uint8_t* state, uint64_t pc, int64_t kind) {
  gshare* g = (gshare*)state;
  g->waiting[g->to++ & 4095] = at(g, pc);
  (void)kind;
  return g->counter[at(g, pc)] >= 2;
}
static void gshare_resolve(uint8_t* state, uint64_t pc, int64_t kind, int64_t taken) {
  gshare* g = (gshare*)state;
  (void)pc;
  (void)kind;
  g->history = (g->history << 1 | (taken != 0)) & 4095;
}
static void gshare_update(uint8_t* state, uint64_t pc, int64_t kind, int64_t taken) {
  gshare* g = (gshare*)state;
  uint8_t* c = &g->counter[g->waiting[g->from++ & 4095]];
  (void)pc;
  (void)kind;
  if (taken && *c < 3) ++*c;
  if (!taken && *c > 0) --*c;
}

/* As gem5's TaggedPrefetcher of degree 2. */
static int64_t next_two(uint8_t* state, uint64_t line, uint64_t pc, int64_t hit, uint64_t* out) {
  (void)state;
  (void)pc;
  (void)hit;
  out[0] = line + 1;
  out[1] = line + 2;
  return 2;
}

/* The same, at misses alone. */
static int64_t next_two_of_misses(uint8_t* state, uint64_t line, uint64_t pc, int64_t hit,
                                  uint64_t* out) {
  return hit ? 0 : next_two(state, line, pc, hit, out);
}

/* Least recently used, by the time of the last touch. */
static void lru_touch(uint8_t* set, int64_t way, int64_t ways, int64_t filled) {
  uint64_t* t = (uint64_t*)set;
  (void)ways;
  (void)filled;
  t[1 + way] = ++t[0];
}
static int64_t lru_victim(uint8_t* set, int64_t ways) {
  const uint64_t* t = (const uint64_t*)set;
  int64_t way = 0;
  for (int64_t k = 1; k < ways; ++k)
    if (t[1 + k] < t[1 + way]) way = k;
  return way;
}
static int64_t beyond(uint8_t* set, int64_t ways) {
  (void)set;
  return ways;
}
/* Taken where its state is at a multiple of 64, as the header promises. */
static int64_t aligned(uint8_t* state, uint64_t pc, int64_t kind) {
  (void)pc;
  (void)kind;
  return (uintptr_t)state % 64 == 0;
}
static void ignore(uint8_t* set, int64_t way, int64_t ways, int64_t filled) {
  (void)set;
  (void)way;
  (void)ways;
  (void)filled;
}
static int64_t aligned_set(uint8_t* set, int64_t ways) {
  return (uintptr_t)set % 64 == 0 ? 0 : ways - 1;
}
static int64_t too_far(uint8_t* state, uint64_t pc, int64_t kind) {
  (void)pc;
  (void)kind;
  memset(state, 1, 17);
  return 0;
}

static const tracekit_predictor predictors[] = {
    {"gshare-c", sizeof(gshare), gshare_predict, gshare_resolve, gshare_update},
    {"writes-beyond", 16, too_far, 0, gshare_resolve},
    {"aligned", 12, aligned, 0, gshare_resolve},
};
static const tracekit_prefetcher prefetchers[] = {
    {"next-two-c", 0, next_two},
    {"next-two-of-misses", 0, next_two_of_misses},
};
static const tracekit_replacement replacements[] = {
    {"lru-c", 8 * 65, lru_touch, lru_victim},
    {"names-no-way", 8 * 65, lru_touch, beyond},
    {"aligned-sets", 12, ignore, aligned_set},
};
static const tracekit_plugins all = {TRACEKIT_PLUGIN_ABI, 3,           2,           3,
                                     predictors,          prefetchers, replacements};

const tracekit_plugins* tracekit_plugins_v1(void) { return &all; }
