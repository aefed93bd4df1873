// Filters and transforms of sound.
#include <math.h>

#include "kernels.h"

static float* sound(long n) {
  float* a = room((size_t)n * 4);
  for (long i = 0; i < n; ++i)
    a[i] = (float)((double)(i % 441) / 441 - 0.5 + (double)(random64() & 1023) / 8192);
  return a;
}
static uint64_t bits(double x) { return (uint64_t)(int64_t)(x * 1024); }

static uint64_t fir(long rounds, long n) {
  float *a = sound(n), *b = room((size_t)n * 4), taps[32];
  for (int k = 0; k < 32; ++k) taps[k] = 1.0f / (float)(k + 3);
  double s = 0;
  for (long r = 0; r < rounds; ++r) {
    for (long i = 32; i < n; ++i) {
      float y = 0;
      for (int k = 0; k < 32; ++k) y += taps[k] * a[i - k];
      b[i] = y;
    }
    s += b[n / 2 + r % 7];
  }
  return bits(s);
}

static uint64_t biquads(long rounds, long n) {
  float* a = sound(n);
  double s = 0;
  for (long r = 0; r < rounds; ++r) {
    double z[4][2] = {{0}};
    for (long i = 0; i < n; ++i) {
      double x = a[i];
      for (int k = 0; k < 4; ++k) {
        const double y = 0.2 * x + z[k][0];
        z[k][0] = 0.3 * x - 0.4 * y + z[k][1];
        z[k][1] = 0.1 * x - 0.2 * y;
        x = y;
      }
      s += x;
    }
  }
  return bits(s);
}

static uint64_t fft(long rounds, long n) {  // radix 2, n a power of two
  double *re = room((size_t)n * 8), *im = room((size_t)n * 8), *w = room((size_t)n * 8);
  for (long i = 0; i < n / 2; ++i) {
    w[2 * i] = cos(-6.283185307179586 * (double)i / (double)n);
    w[2 * i + 1] = sin(-6.283185307179586 * (double)i / (double)n);
  }
  double s = 0;
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < n; ++i) re[i] = (double)((i * 7 + r) & 255) - 128, im[i] = 0;
    for (long i = 1, j = 0; i < n; ++i) {
      long bit = n >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) {
        const double t = re[i], u = im[i];
        re[i] = re[j], re[j] = t, im[i] = im[j], im[j] = u;
      }
    }
    for (long len = 2; len <= n; len <<= 1)
      for (long i = 0; i < n; i += len)
        for (long k = 0; k < len / 2; ++k) {
          const double wr = w[2 * (k * (n / len))], wi = w[2 * (k * (n / len)) + 1];
          const long p = i + k, q = p + len / 2;
          const double xr = re[q] * wr - im[q] * wi, xi = re[q] * wi + im[q] * wr;
          re[q] = re[p] - xr, im[q] = im[p] - xi;
          re[p] += xr, im[p] += xi;
        }
    s += re[r % n] + im[3];
  }
  return bits(s);
}

static uint64_t adpcm(long rounds, long n) {
  float* a = sound(n);
  static const int moves[8] = {-1, -1, -1, -1, 2, 4, 6, 8};
  uint64_t s = 0;
  for (long r = 0; r < rounds; ++r) {
    int predicted = 0, index = 0;
    for (long i = 0; i < n; ++i) {
      const int step = 7 + index * index * 4;
      int d = (int)(a[i] * 16384) - predicted, code = 0;
      if (d < 0) code = 8, d = -d;
      int v = step >> 3;
      if (d >= step) code |= 4, d -= step, v += step;
      if (d >= step >> 1) code |= 2, d -= step >> 1, v += step >> 1;
      if (d >= step >> 2) code |= 1, v += step >> 2;
      predicted += code & 8 ? -v : v;
      if (predicted > 32767) predicted = 32767;
      if (predicted < -32768) predicted = -32768;
      index += moves[code & 7];
      if (index < 0) index = 0;
      if (index > 88) index = 88;
      s = s * 3 + (uint64_t)code;
    }
  }
  return s;
}
static const struct kernel kernels[] = {
    {"fir", fir}, {"biquads", biquads}, {"fft", fft}, {"adpcm", adpcm}};
MAIN(kernels)
