// Filters of grey pictures.
#include "kernels.h"

static uint8_t* picture(long n) {
  uint8_t* p = room((size_t)(n * n));
  for (long i = 0; i < n * n; ++i) p[i] = (uint8_t)((i % n) * (i / n) / 64 + (long)(random64() & 31));
  return p;
}
static uint64_t sum_of(const uint8_t* p, long n) {
  uint64_t s = 0;
  for (long i = 0; i < n; ++i) s = s * 31 + p[i];
  return s;
}

static uint64_t blur(long rounds, long n) {
  uint8_t *a = picture(n), *b = room((size_t)(n * n));
  for (long r = 0; r < rounds; ++r) {
    for (long y = 1; y + 1 < n; ++y)
      for (long x = 1; x + 1 < n; ++x) {
        const uint8_t* p = a + y * n + x;
        b[y * n + x] = (uint8_t)((p[-n - 1] + 2 * p[-n] + p[-n + 1] + 2 * p[-1] + 4 * p[0] +
                                  2 * p[1] + p[n - 1] + 2 * p[n] + p[n + 1]) >> 4);
      }
    uint8_t* t = a;
    a = b, b = t;
  }
  return sum_of(a, n * n);
}

static uint64_t median(long rounds, long n) {
  uint8_t *a = picture(n), *b = room((size_t)(n * n));
  for (long r = 0; r < rounds; ++r)
    for (long y = 1; y + 1 < n; ++y)
      for (long x = 1; x + 1 < n; ++x) {
        uint8_t w[9];
        for (int i = 0; i < 9; ++i) w[i] = a[(y + i / 3 - 1) * n + x + i % 3 - 1];
        for (int i = 0; i < 5; ++i) {
          int least = i;
          for (int j = i + 1; j < 9; ++j)
            if (w[j] < w[least]) least = j;
          const uint8_t t = w[i];
          w[i] = w[least], w[least] = t;
        }
        b[y * n + x] = w[4];
      }
  return sum_of(b, n * n);
}

static uint64_t rows(long rounds, long n) {
  uint8_t* a = picture(n);
  uint64_t s = 0;
  for (long r = 0; r < rounds; ++r)
    for (long y = 0; y < n; ++y)
      for (long x = 0; x < n; ++x) s += a[y * n + x] ^ (uint64_t)r;
  return s;
}
static uint64_t columns(long rounds, long n) {
  uint8_t* a = picture(n);
  uint64_t s = 0;
  for (long r = 0; r < rounds; ++r)
    for (long x = 0; x < n; ++x)
      for (long y = 0; y < n; ++y) s += a[y * n + x] ^ (uint64_t)r;
  return s;
}

static uint64_t histogram(long rounds, long n) {
  uint8_t* a = picture(n);
  uint32_t counts[256] = {0};
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < n * n; ++i) ++counts[a[i]];
    uint8_t map[256];
    uint64_t below = 0;
    for (int i = 0; i < 256; ++i) {
      below += counts[i];
      map[i] = (uint8_t)(below * 255 / (uint64_t)((r + 1) * n * n));
    }
    for (long i = 0; i < n * n; ++i) a[i] = map[a[i]];
  }
  return sum_of(a, n * n);
}

static uint64_t cosine(long rounds, long n) {  // 8 x 8 transforms in integers, quantized
  uint8_t* a = picture(n);
  int c[8][8];
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < 8; ++i) c[k][i] = (int)((k * (2 * i + 1) * 37 % 128) - 64);
  uint64_t s = 0;
  for (long r = 0; r < rounds; ++r)
    for (long y = 0; y + 8 <= n; y += 8)
      for (long x = 0; x + 8 <= n; x += 8) {
        int t[8][8], u;
        for (int k = 0; k < 8; ++k)
          for (int i = 0; i < 8; ++i) {
            u = 0;
            for (int j = 0; j < 8; ++j) u += c[k][j] * a[(y + i) * n + x + j];
            t[k][i] = u >> 6;
          }
        for (int k = 0; k < 8; ++k)
          for (int i = 0; i < 8; ++i) {
            u = 0;
            for (int j = 0; j < 8; ++j) u += c[k][j] * t[i][j];
            s += (uint64_t)(u / (16 + k + i));
          }
      }
  return s;
}
static const struct kernel kernels[] = {{"blur", blur},       {"median", median},
                                        {"rows", rows},       {"columns", columns},
                                        {"histogram", histogram}, {"cosine", cosine}};
MAIN(kernels)
