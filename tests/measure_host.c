/* Runs every piece of calibrate's machine code that needs no other place to branch to, in a loop,
 * and prints its name and nanoseconds: what tests/test_calibrate.py builds for another processor. */
#include <stdio.h>
#include <string.h>

#include "measure.h"

static const struct tk_snippet *find(const char *name) {
  size_t n;
  const struct tk_snippet *s = tk_snippets(&n);
  for (size_t i = 0; i < n; ++i) {
    if (!strcmp(s[i].name, name)) return &s[i];
  }
  return NULL;
}

static size_t append(unsigned char *to, const struct tk_snippet *s) {
  size_t n = (size_t)(s->end - s->begin);
  memcpy(to, s->begin, n);
  return n;
}

/* The loop's branch, which ends at `at`, goes back by `distance` bytes more than its own. */
static void link_back(unsigned char *code, size_t at, size_t loop) {
#if defined(__aarch64__)
  unsigned word;
  memcpy(&word, code + at - 4, 4);
  word |= (unsigned)(((long)loop - (long)(at - 4)) / 4) & 0x3ffffff;
  memcpy(code + at - 4, &word, 4);
#else
  int distance = (int)((long)loop - (long)at);
  memcpy(code + at - 4, &distance, 4);
#endif
}

static int apart(const char *name) {
  static const char *const branches[] = {"enter", "leave",      "leave_wide", "again",     "jump",
                                         "call",  "ret",        "nest_enter", "nest_leave", "jump_table"};
  for (size_t i = 0; i < sizeof branches / sizeof *branches; ++i) {
    if (!strcmp(name, branches[i])) return 1;
  }
  return 0;
}

int main(void) {
  size_t n;
  const struct tk_snippet *s = tk_snippets(&n);
  char *data = tk_data_pages(4 << 20, 0);
  for (size_t i = 0; i < n; ++i) {
    if (apart(s[i].name)) continue;
    unsigned char *code = tk_code_pages(1 << 16);
    size_t at = append(code, find("enter"));
    size_t loop = at;
    for (int k = 0; k < 8; ++k) at += append(code + at, &s[i]);
    at += append(code + at, find("again"));
    link_back(code, at, loop);
    append(code + at, find("leave"));
    if (tk_code_seal(code, 1 << 16)) return 2;
    memset(data, 0, 4 << 20);
    if (!strncmp(s[i].name, "chase", 5)) { /* rings of one */
      *(void **)data = data;
      *(void **)(data + (1 << 20)) = data + (1 << 20);
    }
    unsigned long a = (unsigned long)data;
    struct tk_call call = {code, a, a + (1 << 20), a + (2 << 20), 20};
    if (strstr(s[i].name, "stream") || strstr(s[i].name, "bits")) call.b = (1 << 16) - 1;
    if (!strncmp(s[i].name, "rep", 3) || strstr(s[i].name, "stride")) call.b = 64;
    double ns[2];
    int signal = tk_time(&call, 1, 2, ns);
    printf("%s %d %.1f\n", s[i].name, signal, ns[1]);
    tk_free_pages(code, 1 << 16);
  }
  return 0;
}
