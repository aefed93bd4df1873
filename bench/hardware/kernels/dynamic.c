// Dynamic programming.
#include "kernels.h"

static uint8_t *s, *t;
static void words(long n) {
  s = room((size_t)n), t = room((size_t)n);
  for (long i = 0; i < n; ++i) s[i] = random64() & 3, t[i] = random64() & 3;
}

static uint64_t subsequence(long rounds, long n) {
  words(n);
  int* row = room((size_t)(n + 1) * 4);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    memset(row, 0, (size_t)(n + 1) * 4);
    for (long i = 0; i < n; ++i) {
      int diagonal = 0;
      for (long j = 1; j <= n; ++j) {
        const int above = row[j];
        row[j] = s[i] == t[j - 1] ? diagonal + 1 : above > row[j - 1] ? above : row[j - 1];
        diagonal = above;
      }
    }
    sum += (uint64_t)row[n];
  }
  return sum;
}

static uint64_t alignment(long rounds, long n) {
  words(n);
  int *h = room((size_t)(n + 1) * 4), *e = room((size_t)(n + 1) * 4), best = 0;
  for (long r = 0; r < rounds; ++r) {
    memset(h, 0, (size_t)(n + 1) * 4), memset(e, 0, (size_t)(n + 1) * 4);
    for (long i = 0; i < n; ++i) {
      int f = 0, diagonal = 0, left = 0;
      for (long j = 1; j <= n; ++j) {
        int x = diagonal + (s[i] == t[j - 1] ? 5 : -3);
        e[j] = e[j] - 1 > h[j] - 4 ? e[j] - 1 : h[j] - 4;
        f = f - 1 > left - 4 ? f - 1 : left - 4;
        if (x < e[j]) x = e[j];
        if (x < f) x = f;
        if (x < 0) x = 0;
        if (x > best) best = x;
        diagonal = h[j];
        h[j] = left = x;
      }
    }
  }
  return (uint64_t)best;
}

static uint64_t knapsack(long rounds, long n) {
  int* best = room((size_t)(n + 1) * 4);
  for (long r = 0; r < rounds; ++r) {
    const long weight = 3 + (long)(random64() % 200);
    const int worth = (int)(random64() % 500);
    for (long w = n; w >= weight; --w)
      if (best[w - weight] + worth > best[w]) best[w] = best[w - weight] + worth;
  }
  return (uint64_t)best[n];
}

static uint64_t distances(long rounds, long n) {  // all pairs, Floyd and Warshall
  int* d = room((size_t)(n * n) * 4);
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < n * n; ++i) d[i] = (int)(random64() % 1000);
    for (long k = 0; k < n; ++k)
      for (long i = 0; i < n; ++i)
        for (long j = 0; j < n; ++j)
          if (d[i * n + k] + d[k * n + j] < d[i * n + j]) d[i * n + j] = d[i * n + k] + d[k * n + j];
  }
  return (uint64_t)d[n + 1];
}
static const struct kernel kernels[] = {{"subsequence", subsequence},
                                        {"alignment", alignment},
                                        {"knapsack", knapsack},
                                        {"distances", distances}};
MAIN(kernels)
