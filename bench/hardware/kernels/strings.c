// The C library's string functions, and loops that do the same.
#include "kernels.h"

static char* text(long n) {
  char* t = room((size_t)n + 1);
  for (long i = 0; i < n; ++i) t[i] = random64() % 7 ? (char)('a' + random64() % 20) : ' ';
  return t;
}

static uint64_t library(long rounds, long n) {
  char *t = text(n), *copy = room((size_t)n + 1);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    for (char* p = t; (p = strchr(p, ' ')) != NULL; ++p) ++sum;
    for (long at = 0; at + 300 < n; at += 300) {
      const size_t k = 16 + (size_t)(at * 7 + r) % 240;
      memcpy(copy + at, t + at, k);
      sum += (uint64_t)(memcmp(copy + at, t + at, k) == 0);
      copy[at + (long)k] = 0;
      sum += strlen(copy + at);
      memset(copy + at, 'x', k / 2);
    }
    sum += strstr(t, "zzzz") != NULL;
  }
  return sum;
}

static uint64_t naive(long rounds, long n) {
  const char *t = text(n), word[] = "abcab";
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i + 5 < n; ++i) {
      int k = 0;
      while (k < 5 && t[i + k] == word[k]) ++k;
      sum += (uint64_t)k;
    }
  return sum;
}

static uint64_t horspool(long rounds, long n) {
  const char *t = text(n), word[] = "abcabdab";
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    long shift[256];
    for (int i = 0; i < 256; ++i) shift[i] = 8;
    for (int i = 0; i < 7; ++i) shift[(unsigned char)word[i]] = 7 - i;
    for (long i = 0; i + 8 <= n; i += shift[(unsigned char)t[i + 7]]) {
      int k = 7;
      while (k >= 0 && t[i + k] == word[k]) --k;
      sum += (uint64_t)(7 - k);
    }
  }
  return sum;
}

static uint64_t upper(long rounds, long n) {
  char* t = text(n);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    int start = 1;
    for (long i = 0; i < n; ++i) {
      if (start && t[i] >= 'a' && t[i] <= 'z')
        t[i] = (char)(t[i] - 32), ++sum;
      else if (!start && t[i] >= 'A' && t[i] <= 'Z')
        t[i] = (char)(t[i] + 32);
      start = t[i] == ' ';
    }
  }
  return sum;
}
static const struct kernel kernels[] = {
    {"library", library}, {"naive", naive}, {"horspool", horspool}, {"upper", upper}};
MAIN(kernels)
