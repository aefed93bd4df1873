// Ciphers and digests without the processor's own instructions for them.
#include "kernels.h"

#define ROL(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define ROR(x, n) ((x) >> (n) | (x) << (32 - (n)))

static uint32_t k256[64];
static void constants(void) {  // any do
  for (int i = 0; i < 64; ++i) k256[i] = (uint32_t)random64();
}

static uint64_t sha256(long rounds, long n) {
  constants();
  uint8_t* data = room((size_t)n * 64);
  for (long i = 0; i < n * 64; ++i) data[i] = (uint8_t)random64();
  uint32_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (long r = 0; r < rounds; ++r)
    for (long b = 0; b < n; ++b) {
      uint32_t w[64], s[8];
      for (int i = 0; i < 16; ++i) {
        uint32_t x;
        memcpy(&x, data + b * 64 + i * 4, 4);
        w[i] = __builtin_bswap32(x);
      }
      for (int i = 16; i < 64; ++i)
        w[i] = w[i - 16] + w[i - 7] + (ROR(w[i - 15], 7) ^ ROR(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (ROR(w[i - 2], 17) ^ ROR(w[i - 2], 19) ^ w[i - 2] >> 10);
      memcpy(s, h, sizeof s);
      for (int i = 0; i < 64; ++i) {
        const uint32_t t = s[7] + (ROR(s[4], 6) ^ ROR(s[4], 11) ^ ROR(s[4], 25)) +
                           ((s[4] & s[5]) ^ (~s[4] & s[6])) + k256[i] + w[i];
        const uint32_t u = (ROR(s[0], 2) ^ ROR(s[0], 13) ^ ROR(s[0], 22)) +
                           ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 28);
        s[4] += t;
        s[0] = t + u;
      }
      for (int i = 0; i < 8; ++i) h[i] += s[i];
    }
  return h[0] | (uint64_t)h[5] << 32;
}

static uint64_t chacha(long rounds, long n) {
  uint32_t in[16], x[16];
  uint64_t sum = 0;
  for (int i = 0; i < 16; ++i) in[i] = (uint32_t)random64();
  for (long r = 0; r < rounds * n; ++r) {
    memcpy(x, in, sizeof x);
    for (int i = 0; i < 10; ++i) {
#define QUARTER(a, b, c, d)                            \
  x[a] += x[b], x[d] = ROL(x[d] ^ x[a], 16);           \
  x[c] += x[d], x[b] = ROL(x[b] ^ x[c], 12);           \
  x[a] += x[b], x[d] = ROL(x[d] ^ x[a], 8);            \
  x[c] += x[d], x[b] = ROL(x[b] ^ x[c], 7)
      QUARTER(0, 4, 8, 12);
      QUARTER(1, 5, 9, 13);
      QUARTER(2, 6, 10, 14);
      QUARTER(3, 7, 11, 15);
      QUARTER(0, 5, 10, 15);
      QUARTER(1, 6, 11, 12);
      QUARTER(2, 7, 8, 13);
      QUARTER(3, 4, 9, 14);
    }
    for (int i = 0; i < 16; ++i) sum += x[i] + in[i];
    ++in[12];
  }
  return sum;
}

static uint64_t tables(long rounds, long n) {  // AES's way: four tables of 256 words, ten rounds
  uint32_t* t = room(4096);
  uint8_t* data = room((size_t)n * 16);
  for (int i = 0; i < 1024; ++i) t[i] = (uint32_t)random64();
  for (long i = 0; i < n * 16; ++i) data[i] = (uint8_t)random64();
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r)
    for (long b = 0; b < n; ++b) {
      uint32_t s[4], u[4];
      memcpy(s, data + b * 16, 16);
      for (int k = 0; k < 10; ++k) {
        for (int i = 0; i < 4; ++i)
          u[i] = t[s[i] & 255] ^ t[256 + (s[(i + 1) & 3] >> 8 & 255)] ^
                 t[512 + (s[(i + 2) & 3] >> 16 & 255)] ^ t[768 + (s[(i + 3) & 3] >> 24)] ^ k256[k];
        memcpy(s, u, 16);
      }
      sum += s[0] ^ s[3];
    }
  return sum;
}
static const struct kernel kernels[] = {{"sha256", sha256}, {"chacha", chacha}, {"tables", tables}};
MAIN(kernels)
