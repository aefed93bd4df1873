// Numbers with a point: bodies, fractals, the mathematical library.
#include <math.h>

#include "kernels.h"

static uint64_t bits(double x) { return (uint64_t)(int64_t)(x * 1e6); }

static uint64_t bodies(long rounds, long n) {
  double* p = room((size_t)n * 7 * 8);
  for (long i = 0; i < n * 7; ++i) p[i] = (double)(random64() >> 40) / (1 << 20) + 0.1;
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < n; ++i)
      for (long j = i + 1; j < n; ++j) {
        double *a = p + 7 * i, *b = p + 7 * j, d[3], q = 0.01;
        for (int k = 0; k < 3; ++k) d[k] = a[k] - b[k], q += d[k] * d[k];
        const double m = 1e-6 / (q * sqrt(q));
        for (int k = 0; k < 3; ++k) a[3 + k] -= d[k] * b[6] * m, b[3 + k] += d[k] * a[6] * m;
      }
    for (long i = 0; i < n; ++i)
      for (int k = 0; k < 3; ++k) p[7 * i + k] += 1e-3 * p[7 * i + 3 + k];
  }
  return bits(p[0]);
}

static uint64_t fractal(long rounds, long n) {
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r)
    for (long y = 0; y < n; ++y)
      for (long x = 0; x < n; ++x) {
        const double cr = 3.0 * (double)x / (double)n - 2.2, ci = 2.4 * (double)y / (double)n - 1.2;
        double zr = 0, zi = 0;
        int k = 0;
        for (; k < 200 && zr * zr + zi * zi < 4; ++k) {
          const double t = zr * zr - zi * zi + cr;
          zi = 2 * zr * zi + ci;
          zr = t;
        }
        sum += (uint64_t)k;
      }
  return sum;
}

static uint64_t library(long rounds, long n) {
  double s = 0;
  for (long r = 0; r < rounds; ++r)
    for (long i = 1; i <= n; ++i) {
      const double x = (double)i / (double)n * 20;
      s += sin(x) * exp(-x) + log(x) + pow(x, 0.3) + atan(x);
    }
  return bits(s);
}

static uint64_t shooting(long rounds, long n) {  // pi, by random points
  uint64_t hits = 0;
  for (long i = 0; i < rounds * n; ++i) {
    const double x = (double)(random64() >> 11) * 0x1p-53, y = (double)(random64() >> 11) * 0x1p-53;
    if (x * x + y * y < 1) ++hits;
  }
  return hits;
}

static uint64_t lorenz(long rounds, long n) {  // Runge and Kutta's method: one long chain
  double v[3] = {1, 1, 1};
  for (long i = 0; i < rounds * n; ++i) {
    double k[4][3], u[3];
    memcpy(u, v, sizeof u);
    for (int s = 0; s < 4; ++s) {
      k[s][0] = 10 * (u[1] - u[0]);
      k[s][1] = u[0] * (28 - u[2]) - u[1];
      k[s][2] = u[0] * u[1] - 8.0 / 3 * u[2];
      for (int d = 0; d < 3; ++d) u[d] = v[d] + (s == 2 ? 0.001 : 0.0005) * k[s][d];
    }
    for (int d = 0; d < 3; ++d)
      v[d] += 0.001 / 6 * (k[0][d] + 2 * k[1][d] + 2 * k[2][d] + k[3][d]);
  }
  return bits(v[0]);
}
static const struct kernel kernels[] = {{"bodies", bodies},
                                        {"fractal", fractal},
                                        {"library", library},
                                        {"shooting", shooting},
                                        {"lorenz", lorenz}};
MAIN(kernels)
