// Checksums, codes, bits.
#include "kernels.h"

static uint8_t* bytes(long n) {
  uint8_t* p = room((size_t)n + 16);
  for (long i = 0; i < n; ++i) p[i] = (uint8_t)random64();
  return p;
}
static uint32_t table[8][256];
static void fill(void) {
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    table[0][i] = c;
  }
  for (int t = 1; t < 8; ++t)
    for (int i = 0; i < 256; ++i) table[t][i] = table[0][table[t - 1][i] & 255] ^ table[t - 1][i] >> 8;
}

static uint64_t crc_bits(long rounds, long n) {
  const uint8_t* p = bytes(n);
  uint32_t c = ~0u;
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i) {
      c ^= p[i];
      for (int k = 0; k < 8; ++k) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    }
  return c;
}
static uint64_t crc_table(long rounds, long n) {
  const uint8_t* p = bytes(n);
  fill();
  uint32_t c = ~0u;
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i) c = table[0][(c ^ p[i]) & 255] ^ c >> 8;
  return c;
}
static uint64_t crc_slices(long rounds, long n) {
  const uint8_t* p = bytes(n);
  fill();
  uint32_t c = ~0u;
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i + 8 <= n; i += 8) {
      uint64_t x;
      memcpy(&x, p + i, 8);
      x ^= c;
      c = 0;
      for (int t = 0; t < 8; ++t) c ^= table[7 - t][x >> (8 * t) & 255];
    }
  return c;
}

static uint64_t count_loop(long rounds, long n) {
  const uint8_t* p = bytes(n);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i + 8 <= n; i += 8) {
      uint64_t x;
      memcpy(&x, p + i, 8);
      for (; x; x &= x - 1) ++sum;
    }
  return sum;
}
static uint64_t count_sums(long rounds, long n) {
  const uint8_t* p = bytes(n);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i + 8 <= n; i += 8) {
      uint64_t x;
      memcpy(&x, p + i, 8);
      x -= x >> 1 & 0x5555555555555555u;
      x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
      sum += ((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56;
    }
  return sum;
}

static uint64_t huffman(long rounds, long n) {  // decodes a code of lengths 1 to 8, bit by bit
  const uint8_t* p = bytes(n);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    int ones = 0;
    for (long i = 0; i < n; ++i)
      for (int k = 0; k < 8; ++k)
        if (p[i] >> k & 1 && ones < 7) {
          ++ones;
        } else {
          sum = sum * 5 + (uint64_t)ones;
          ones = 0;
        }
  }
  return sum;
}

static uint64_t base64(long rounds, long n) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const uint8_t* p = bytes(n);
  char* out = room((size_t)n * 2);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    char* to = out;
    for (long i = 0; i + 3 <= n; i += 3) {
      const uint32_t x = (uint32_t)p[i] << 16 | (uint32_t)p[i + 1] << 8 | p[i + 2];
      *to++ = letters[x >> 18], *to++ = letters[x >> 12 & 63];
      *to++ = letters[x >> 6 & 63], *to++ = letters[x & 63];
    }
    sum += (uint64_t)out[r % n];
  }
  return sum;
}
static const struct kernel kernels[] = {
    {"crc_bits", crc_bits},     {"crc_table", crc_table},   {"crc_slices", crc_slices},
    {"count_loop", count_loop}, {"count_sums", count_sums}, {"huffman", huffman},
    {"base64", base64}};
MAIN(kernels)
