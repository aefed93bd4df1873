// Integers of many words, primes, digits.
#include "kernels.h"

static uint64_t multiply(long rounds, long n) {
  uint64_t *a = room((size_t)n * 8), *b = room((size_t)n * 8), *c = room(2 * (size_t)n * 8);
  for (long i = 0; i < n; ++i) a[i] = random64(), b[i] = random64();
  for (long r = 0; r < rounds; ++r) {
    memset(c, 0, 2 * (size_t)n * 8);
    for (long i = 0; i < n; ++i) {
      unsigned __int128 carry = 0;
      for (long j = 0; j < n; ++j) {
        carry += (unsigned __int128)a[i] * b[j] + c[i + j];
        c[i + j] = (uint64_t)carry;
        carry >>= 64;
      }
      c[i + n] = (uint64_t)carry;
    }
    a[r % n] ^= c[n];
  }
  return c[n + 1];
}

static uint64_t digits(long rounds, long n) {  // of e, by a spigot: divisions
  uint32_t* a = room((size_t)(n + 1) * 4);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i <= n; ++i) a[i] = 1;
    for (long d = 0; d < n / 4; ++d) {
      uint32_t carry = 0;
      for (long i = n; i > 0; --i) {
        const uint32_t x = a[i] * 10 + carry;
        carry = x / (uint32_t)(i + 1);
        a[i] = x % (uint32_t)(i + 1);
      }
      sum = sum * 7 + carry;
    }
  }
  return sum;
}

static uint64_t power(uint64_t base, uint64_t exponent, uint64_t modulus) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = (uint64_t)((unsigned __int128)result * base % modulus);
    base = (uint64_t)((unsigned __int128)base * base % modulus);
  }
  return result;
}
static uint64_t primes(long rounds, long n) {  // Fermat's test: 128-bit divisions by the library
  uint64_t sum = 0;
  for (long r = 0; r < rounds * n; ++r) {
    const uint64_t p = (random64() >> 2) | 1;
    sum += power(2, p - 1, p) == 1;
  }
  return sum;
}

static uint64_t sieve(long rounds, long n) {
  uint8_t* composite = room((size_t)n);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    memset(composite, 0, (size_t)n);
    for (long i = 2; i * i < n; ++i)
      if (!composite[i])
        for (long j = i * i; j < n; j += i) composite[j] = 1;
    for (long i = 2; i < n; ++i) sum += !composite[i];
  }
  return sum;
}

static uint64_t divisors(long rounds, long n) {  // Euclid's algorithm on 64-bit numbers
  uint64_t sum = 0;
  for (long r = 0; r < rounds * n; ++r) {
    uint64_t x = random64(), y = random64() | 1;
    while (y) {
      const uint64_t t = x % y;
      x = y, y = t;
    }
    sum += x;
  }
  return sum;
}
static const struct kernel kernels[] = {{"multiply", multiply},
                                        {"digits", digits},
                                        {"primes", primes},
                                        {"sieve", sieve},
                                        {"divisors", divisors}};
MAIN(kernels)
