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

/* One kernel: its signal (0: none), and nanoseconds of the second round. */
static int run(const char *name, const unsigned char *setup, size_t head, const unsigned char *body,
               size_t length, int times, struct tk_call call) {
  unsigned char *code = tk_code_pages(1 << 16);
  size_t at = append(code, find("enter"));
  if (head) memcpy(code + at, setup, head);
  at += head;
  size_t loop = at;
  for (int k = 0; k < times; ++k, at += length) memcpy(code + at, body, length);
  at += append(code + at, find("again"));
  link_back(code, at, loop);
  append(code + at, find("leave"));
  if (tk_code_seal(code, 1 << 16)) return 1;
  double ns[2] = {0, 0};
  call.code = code;
  int signal = tk_time(&call, 1, 2, ns);
  printf("%s;%d;%.1f\n", name, signal, ns[1]);
  tk_free_pages(code, 1 << 16);
  return 0;
}

int main(void) {
  size_t n;
  const struct tk_snippet *s = tk_snippets(&n);
  char *data = tk_data_pages(4 << 20, 0);
  uint64_t a = (uint64_t)(uintptr_t)data, b = a + (1 << 20);
  for (size_t i = 0; i < n; ++i) {
    if (apart(s[i].name)) continue;
    memset(data, 0, 4 << 20);
    if (!strncmp(s[i].name, "chase", 5)) { /* rings of one */
      *(uint64_t *)data = a;
      *(uint64_t *)(data + (1 << 20)) = b;
    }
    struct tk_call call = {NULL, a, b, a + (2 << 20), 20};
    if (strstr(s[i].name, "stream") || strstr(s[i].name, "bits")) call.b = (1 << 16) - 1;
    if (!strncmp(s[i].name, "rep", 3) || strstr(s[i].name, "stride")) call.b = 64;
    size_t length = (size_t)(s[i].end - s[i].begin);
    if (run(s[i].name, NULL, 0, s[i].begin, length, 8, call)) return 2;
  }
  const struct tk_form *f = tk_forms(&n);
  memset(data, 0, 4 << 20);
  for (size_t i = 0; i < n; ++i) {
    struct tk_call call = {NULL, a, b, a + (2 << 20), 20};
    size_t head = (size_t)(f[i].setup_end - f[i].setup);
    size_t length = (size_t)(f[i].body_end - f[i].body);
    if (run(f[i].form, f[i].setup, head, f[i].body, length, 2, call)) return 2;
  }
  return 0;
}
