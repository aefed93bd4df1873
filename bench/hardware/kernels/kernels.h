// What the kernels share: a generator of numbers, and the choice of a kernel by name.
//   PROGRAM KERNEL ROUNDS [SIZE]
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 0x9e3779b97f4a7c15u;
static inline uint64_t random64(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

struct kernel {
  const char* name;
  uint64_t (*run)(long rounds, long size);  // returns a checksum
};

static inline void* room(size_t bytes) {  // touched, so that page faults come before the work
  void* p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (p == NULL) exit(1);
  memset(p, 0, bytes);
  return p;
}

#define MAIN(kernels)                                                                          \
  int main(int argc, char** argv) {                                                            \
    if (argc >= 3)                                                                             \
      for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i)                            \
        if (!strcmp(argv[1], kernels[i].name)) {                                               \
          printf("%016llx\n", (unsigned long long)kernels[i].run(                              \
                                  atol(argv[2]), argc > 3 ? atol(argv[3]) : 0));               \
          return 0;                                                                            \
        }                                                                                      \
    fprintf(stderr, "%s KERNEL ROUNDS [SIZE]\n", argv[0]);                                     \
    return 2;                                                                                  \
  }
