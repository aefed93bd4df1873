// Samples of a run at even distances (--every).  In between, each block's executions are counted,
// and for each line of memory when it was last touched: a sample begins with the lines that were
// touched since the one before, the latest last, so that whoever walks it can fill its caches with
// them.  Of a page that is new the line that was touched first comes by that touch, too.  Counts
// tell how many instructions the whole run had, and at which pcs.

#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define PAGE_LINES 64u      // lines of 64 bytes
#define MOST_LINES 524288u  // told before a sample: 32 MiB
#define CACHED_PAGES 1024u
#define CHUNK 4096u
#define CHUNKS 65536u

struct page {
  uint64_t number, written;  // a bit a line
  uint64_t gap;              // the stamps are of this one
  uint64_t first, at_first;  // the stamp and the line of the first touch of all
  uint64_t stamp[PAGE_LINES];
};

struct tk_touched {
  struct page** slots;  // open addressing
  size_t room, n;
  struct page* cached[CACHED_PAGES];
  uint64_t gap, clock, begin;  // begin: the clock when the gap began
};

// --- counts

static struct tk_counted* chunks[CHUNKS];

// Of block `id`; with the lock held.
struct tk_counted* tk_counted_block(uint64_t id) {
  if (id / CHUNK >= CHUNKS) return NULL;
  struct tk_counted** chunk = &chunks[id / CHUNK];
  if (*chunk == NULL) *chunk = calloc(CHUNK, sizeof **chunk);
  return *chunk == NULL ? NULL : *chunk + id % CHUNK;
}

// Of one that may have no room; NULL then.
static struct tk_counted* counted(uint64_t id) {
  return chunks[id / CHUNK] == NULL ? NULL : chunks[id / CHUNK] + id % CHUNK;
}

void tk_forget_counts(void) {
  for (size_t c = 0; c < CHUNKS && chunks[c] != NULL; ++c)
    for (size_t i = 0; i < CHUNK; ++i) chunks[c][i].runs = chunks[c][i].joined = 0;
}

// Sends what was counted since the last time.
void tk_send_counts(void) {
  uint64_t words[3 * 1024];
  size_t n = 0;
  const uint64_t blocks = tk_blocks_defined();
  for (uint64_t id = 0; id < blocks; ++id) {
    struct tk_counted* c = counted(id);
    if (c == NULL || c->runs == 0) continue;
    words[n++] = id, words[n++] = c->runs, words[n++] = c->joined;
    c->runs = c->joined = 0;
    if (n == sizeof words / sizeof *words) tk_send(TK_COUNTS, 0, words, 8 * n), n = 0;
  }
  if (n > 0) tk_send(TK_COUNTS, 0, words, 8 * n);
}

// x86's repeated string instructions: each round is a block of QEMU's.
bool tk_repeats(const uint8_t* code, size_t length) {
  bool repeated = false;
  size_t i = 0;
  for (; i < length; ++i) {
    if (code[i] == 0xf2 || code[i] == 0xf3)
      repeated = true;
    else if (code[i] != 0x66 && code[i] != 0x67 && (code[i] & 0xf0) != 0x40)
      break;
  }
  return repeated && i < length &&
         ((code[i] >= 0xa4 && code[i] <= 0xa7) || (code[i] >= 0xaa && code[i] <= 0xaf));
}

// --- lines

static size_t slot_of(const struct tk_touched* t, uint64_t number) {
  size_t at = (size_t)(number * 0x9e3779b97f4a7c15ull >> 20) & (t->room - 1);
  while (t->slots[at] != NULL && t->slots[at]->number != number) at = (at + 1) & (t->room - 1);
  return at;
}

static bool grow(struct tk_touched* t) {
  struct page** old = t->slots;
  const size_t before = t->room;
  t->room = before ? 2 * before : 4096;
  t->slots = calloc(t->room, sizeof *t->slots);
  if (t->slots == NULL) return false;
  for (size_t i = 0; i < before; ++i)
    if (old[i] != NULL) t->slots[slot_of(t, old[i]->number)] = old[i];
  free(old);
  return true;
}

// Of the line that is touched now.
static struct page* page_of(struct tk_touched* t, uint64_t address) {
  const uint64_t number = address >> 12;
  if (2 * (t->n + 1) > t->room && !grow(t)) return NULL;
  const size_t at = slot_of(t, number);
  if (t->slots[at] == NULL) {
    t->slots[at] = malloc(sizeof(struct page));
    if (t->slots[at] == NULL) return NULL;
    *t->slots[at] = (struct page){
        .number = number, .first = t->clock + 1, .at_first = address >> 6 & (PAGE_LINES - 1)};
    ++t->n;
  }
  return t->cached[number % CACHED_PAGES] = t->slots[at];
}

void tk_touch(struct tk_vcpu* v, uint64_t address, bool store) {
  struct tk_touched* t = v->touched;
  if (__builtin_expect(t == NULL, 0)) {
    t = v->touched = calloc(1, sizeof *t);
    if (t == NULL) return;
    t->gap = 1;
  }
  const uint64_t number = address >> 12;
  struct page* p = t->cached[number % CACHED_PAGES];
  if (__builtin_expect(p == NULL || p->number != number, 0)) {
    p = page_of(t, address);
    if (p == NULL) return;
  }
  if (__builtin_expect(p->gap != t->gap, 0)) {
    memset(p->stamp, 0, sizeof p->stamp);
    p->written = 0;
    p->gap = t->gap;
  }
  const unsigned line = address >> 6 & (PAGE_LINES - 1);
  p->stamp[line] = ++t->clock;
  p->written |= (uint64_t)store << line;
}

void tk_fetch(struct tk_vcpu* v, struct tk_counted* c) {
  if (v->touched != NULL) c->stamp = ++v->touched->clock;
}

struct touched_line {
  uint64_t stamp, word;
};

struct touched {
  struct touched_line* line;
  size_t n, room;
};

static bool more_lines(struct touched* t, size_t n) {
  if (t->n + n <= t->room) return true;
  const size_t room = 2 * t->room + 4096 + n;
  struct touched_line* line = realloc(t->line, room * sizeof *line);
  if (line == NULL) return false;
  t->line = line;
  t->room = room;
  return true;
}

static int by_stamp(const void* a, const void* b) {
  const uint64_t x = ((const struct touched_line*)a)->stamp;
  const uint64_t y = ((const struct touched_line*)b)->stamp;
  return x < y ? -1 : x > y;
}

static void data_lines(const struct tk_touched* t, struct touched* out) {
  for (size_t i = 0; i < t->room; ++i) {
    const struct page* p = t->slots[i];
    if (p == NULL || p->gap != t->gap) continue;
    if (!more_lines(out, PAGE_LINES + 1)) return;
    // Whoever gives pages frames does it in the order in which they were touched first.
    if (p->first > t->begin && p->stamp[p->at_first] != p->first)
      out->line[out->n++] =
          (struct touched_line){p->first, p->number << 12 | p->at_first << 6};
    for (unsigned k = 0; k < PAGE_LINES; ++k)
      if (p->stamp[k] != 0)
        out->line[out->n++] = (struct touched_line){
            p->stamp[k], p->number << 12 | (uint64_t)k << 6 | (p->written >> k & 1)};
  }
}

// Those of the blocks that ran; some several times, which does no harm.
static void code_lines(const struct tk_touched* t, struct touched* out) {
  const uint64_t blocks = tk_blocks_defined();
  for (uint64_t id = 0; id < blocks; ++id) {
    const struct tk_counted* c = counted(id);
    if (c == NULL || c->stamp <= t->begin) continue;
    const uint64_t first = c->begin >> 6, last = (c->end - 1) >> 6;
    if (!more_lines(out, last - first + 1)) return;
    for (uint64_t line = first; line <= last; ++line)
      out->line[out->n++] = (struct touched_line){c->stamp, line << 6 | 2};
  }
}

static void send_lines(struct tk_vcpu* v) {
  struct tk_touched* t = v->touched;
  struct touched found = {NULL, 0, 0};
  if (t != NULL) {
    data_lines(t, &found);
    code_lines(t, &found);
  }
  const size_t n = found.n;
  if (n > 1) qsort(found.line, n, sizeof *found.line, by_stamp);
  const size_t first = n > MOST_LINES ? n - MOST_LINES : 0;
  uint64_t* words = (uint64_t*)found.line;  // packed in place: word i lies at or before line i
  for (size_t i = first; i < n; ++i) words[i - first] = found.line[i].word;
  tk_send(TK_LINES, v->buffer->tid, words, 8 * (n - first));
  free(found.line);
  if (t != NULL) {
    ++t->gap;
    t->begin = t->clock;
  }
}

// --- samples

// `v` runs a block of `n` instructions from now on.  Returns whether it is in a sample, and of
// which of its instructions on, and up to which one.
bool tk_in_sample(struct tk_vcpu* v, uint64_t n, uint64_t* from, uint64_t* unto) {
  const uint64_t before = v->run, begin = v->sample, end = begin + tk_settings.sample;
  v->run = before + n;
  if (v->run <= begin) return false;
  const bool in = before < end;
  if (in && !v->sampled) {
    tk_flush(v);
    send_lines(v);
    v->sampled = true;
  }
  *from = before < begin ? begin - before : 0;
  *unto = end - before < n ? end - before : n;
  if (v->run >= end) {
    v->sampled = false;
    while (v->sample + tk_settings.sample <= v->run) v->sample += tk_settings.every;
  }
  return in;
}
