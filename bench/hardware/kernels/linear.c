// Linear algebra; the flags of the build say whether it is vectorized.
#include "kernels.h"

static double *a, *b, *c;
static void matrices(long n) {
  a = room((size_t)(n * n) * 8), b = room((size_t)(n * n) * 8), c = room((size_t)(n * n) * 8);
  for (long i = 0; i < n * n; ++i) a[i] = (double)(i % 17) - 8, b[i] = (double)(i % 13) - 6;
}
static uint64_t sum_of(const double* x, long n) {
  double s = 0;
  for (long i = 0; i < n; ++i) s += x[i] * (double)(i % 5);
  return (uint64_t)(int64_t)s;
}

static uint64_t ijk(long rounds, long n) {
  matrices(n);
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i)
      for (long j = 0; j < n; ++j) {
        double s = 0;
        for (long k = 0; k < n; ++k) s += a[i * n + k] * b[k * n + j];
        c[i * n + j] = s;
      }
  return sum_of(c, n * n);
}
static uint64_t ikj(long rounds, long n) {
  matrices(n);
  for (long r = 0; r < rounds; ++r) {
    memset(c, 0, (size_t)(n * n) * 8);
    for (long i = 0; i < n; ++i)
      for (long k = 0; k < n; ++k) {
        const double x = a[i * n + k];
        double* restrict to = c + i * n;
        const double* restrict from = b + k * n;
        for (long j = 0; j < n; ++j) to[j] += x * from[j];
      }
  }
  return sum_of(c, n * n);
}
static uint64_t jki(long rounds, long n) {
  matrices(n);
  for (long r = 0; r < rounds; ++r) {
    memset(c, 0, (size_t)(n * n) * 8);
    for (long j = 0; j < n; ++j)
      for (long k = 0; k < n; ++k)
        for (long i = 0; i < n; ++i) c[i * n + j] += a[i * n + k] * b[k * n + j];
  }
  return sum_of(c, n * n);
}
static uint64_t tiled(long rounds, long n, long tile) {
  matrices(n);
  for (long r = 0; r < rounds; ++r) {
    memset(c, 0, (size_t)(n * n) * 8);
    for (long ii = 0; ii < n; ii += tile)
      for (long kk = 0; kk < n; kk += tile)
        for (long jj = 0; jj < n; jj += tile)
          for (long i = ii; i < ii + tile && i < n; ++i)
            for (long k = kk; k < kk + tile && k < n; ++k) {
              const double x = a[i * n + k];
              const long end = jj + tile < n ? jj + tile : n;
              double* restrict to = c + i * n;
              const double* restrict from = b + k * n;
              for (long j = jj; j < end; ++j) to[j] += x * from[j];
            }
  }
  return sum_of(c, n * n);
}
static uint64_t tiled4(long r, long n) { return tiled(r, n, 4); }
static uint64_t tiled16(long r, long n) { return tiled(r, n, 16); }
static uint64_t tiled64(long r, long n) { return tiled(r, n, 64); }

static uint64_t lu(long rounds, long n) {
  matrices(n);
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < n * n; ++i) c[i] = a[i] + (i % (n + 1) == 0 ? 100 : 0);
    for (long k = 0; k < n; ++k)
      for (long i = k + 1; i < n; ++i) {
        const double f = c[i * n + k] /= c[k * n + k];
        for (long j = k + 1; j < n; ++j) c[i * n + j] -= f * c[k * n + j];
      }
  }
  return sum_of(c, n * n);
}
static uint64_t stencil(long rounds, long n) {
  matrices(n);
  for (long r = 0; r < rounds; ++r) {
    for (long y = 1; y + 1 < n; ++y) {
      double* restrict to = c + y * n;
      const double* restrict p = a + y * n;
      for (long x = 1; x + 1 < n; ++x)
        to[x] = 0.25 * (p[x - 1] + p[x + 1] + p[x - n] + p[x + n]);
    }
    double* t = a;
    a = c, c = t;
  }
  return sum_of(a, n * n);
}
static uint64_t axpy(long rounds, long n) {
  double *x = room((size_t)n * 8), *y = room((size_t)n * 8);
  for (long i = 0; i < n; ++i) x[i] = (double)(i % 7);
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i) y[i] += 0.5 * x[i];
  return sum_of(y, n);
}
static uint64_t dots(long rounds, long n) {
  double *x = room((size_t)n * 8), *y = room((size_t)n * 8), s = 0;
  for (long i = 0; i < n; ++i) x[i] = (double)(i % 7), y[i] = (double)(i % 3);
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i) s += x[i] * y[i];
  return (uint64_t)s;
}
static uint64_t rows(long rounds, long n) {
  matrices(n);
  double s = 0;
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i)
      for (long j = 0; j < n; ++j) s += a[i * n + j];
  return (uint64_t)(int64_t)s;
}
static uint64_t columns(long rounds, long n) {
  matrices(n);
  double s = 0;
  for (long r = 0; r < rounds; ++r)
    for (long j = 0; j < n; ++j)
      for (long i = 0; i < n; ++i) s += a[i * n + j];
  return (uint64_t)(int64_t)s;
}
static const struct kernel kernels[] = {
    {"ijk", ijk},         {"ikj", ikj},         {"jki", jki},       {"tiled4", tiled4},
    {"tiled16", tiled16}, {"tiled64", tiled64}, {"lu", lu},         {"stencil", stencil},
    {"axpy", axpy},       {"dots", dots},       {"rows", rows},     {"columns", columns}};
MAIN(kernels)
