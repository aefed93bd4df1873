// Hash tables of several layouts: insertions, and lookups of which half succeed.
#include "kernels.h"

static inline uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return x;
}

struct node {
  struct node* next;
  uint64_t key, value;
};

static uint64_t chained(long rounds, long n) {
  struct node** heads = room((size_t)n * sizeof *heads);
  struct node* nodes = room((size_t)n * sizeof *nodes);
  const uint64_t mask = (uint64_t)n - 1;
  uint64_t sum = 0;
  for (long i = 0; i < n; ++i) {
    struct node* one = &nodes[i];
    one->key = mix((uint64_t)i), one->value = (uint64_t)i;
    struct node** head = &heads[mix(one->key) & mask];
    one->next = *head, *head = one;
  }
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i) {
      const uint64_t key = mix(random64() % (2 * (uint64_t)n));
      for (struct node* p = heads[mix(key) & mask]; p != NULL; p = p->next)
        if (p->key == key) {
          sum += p->value;
          break;
        }
    }
  return sum;
}

static uint64_t linear(long rounds, long n) {  // keys and values apart, half full
  const uint64_t mask = 2 * (uint64_t)n - 1;
  uint64_t* keys = room(2 * (size_t)n * 8);
  uint64_t* values = room(2 * (size_t)n * 8);
  uint64_t sum = 0;
  for (long i = 0; i < n; ++i) {
    const uint64_t key = mix((uint64_t)i) | 1;
    uint64_t at = mix(key) & mask;
    while (keys[at] != 0) at = (at + 1) & mask;
    keys[at] = key, values[at] = (uint64_t)i;
  }
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i) {
      const uint64_t key = mix(random64() % (2 * (uint64_t)n)) | 1;
      for (uint64_t at = mix(key) & mask; keys[at] != 0; at = (at + 1) & mask)
        if (keys[at] == key) {
          sum += values[at];
          break;
        }
    }
  return sum;
}

struct pair {
  uint64_t key, value;
};

static uint64_t paired(long rounds, long n) {  // key beside value
  const uint64_t mask = 2 * (uint64_t)n - 1;
  struct pair* slots = room(2 * (size_t)n * sizeof *slots);
  uint64_t sum = 0;
  for (long i = 0; i < n; ++i) {
    const uint64_t key = mix((uint64_t)i) | 1;
    uint64_t at = mix(key) & mask;
    while (slots[at].key != 0) at = (at + 1) & mask;
    slots[at] = (struct pair){key, (uint64_t)i};
  }
  for (long r = 0; r < rounds; ++r)
    for (long i = 0; i < n; ++i) {
      const uint64_t key = mix(random64() % (2 * (uint64_t)n)) | 1;
      for (uint64_t at = mix(key) & mask; slots[at].key != 0; at = (at + 1) & mask)
        if (slots[at].key == key) {
          sum += slots[at].value;
          break;
        }
    }
  return sum;
}

static uint64_t words(long rounds, long n) {  // counts words of a text, FNV-1a
  char* text = room((size_t)n * 8);
  size_t length = 0;
  for (long i = 0; i < n; ++i) {
    const uint64_t word = random64() & random64() & 4095;
    for (uint64_t w = word + 1; w; w >>= 3) text[length++] = (char)('a' + w % 8);
    text[length++] = ' ';
  }
  uint32_t* counts = room(65536 * 4);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; ++i)
      if (text[i] == ' ') {
        sum += ++counts[h & 65535];
        h = 0xcbf29ce484222325u;
      } else {
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
      }
  }
  return sum;
}
static const struct kernel kernels[] = {
    {"chained", chained}, {"linear", linear}, {"paired", paired}, {"words", words}};
MAIN(kernels)
