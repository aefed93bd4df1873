// A chain of additions, each of which needs the one before: one cycle each on every processor that
// matters, so that the time of the chain is the clock.  And additions that need nothing: as many a
// cycle as the core has room for, which is less while another thread shares it.
#pragma once

#include <cstdint>
#include <ctime>

namespace tracekit {

inline double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds of processor time of 64 * `rounds` additions; negative where this processor has no chain.
inline double add_chain_seconds(std::uint64_t rounds) {
#if defined(__x86_64__) || defined(__aarch64__)
  std::uint64_t x = rounds;
  const double begin = thread_seconds();
  for (std::uint64_t i = 0; i < rounds; ++i) {
#if defined(__x86_64__)
    // A register, not a constant: processors of 2023 and later fold chains of constants.
    asm volatile(".rept 64\n add %1, %0\n .endr" : "+r"(x) : "r"(i) : "cc");
#else
    asm volatile(".rept 64\n add %0, %0, %1\n .endr" : "+r"(x) : "r"(i));
#endif
  }
  return thread_seconds() - begin;
#else
  (void)rounds;
  return -1;
#endif
}

// The same of additions that do not wait for each other.
inline double free_adds_seconds(std::uint64_t rounds) {
#if defined(__x86_64__) || defined(__aarch64__)
  std::uint64_t a, b, c, d;
  const double begin = thread_seconds();
  for (std::uint64_t i = 0; i < rounds; ++i) {
#if defined(__x86_64__)
    asm volatile(".rept 16\n lea 1(%4), %0\n lea 1(%4), %1\n lea 1(%4), %2\n lea 1(%4), %3\n .endr"
                 : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                 : "r"(i));
#else
    asm volatile(
        ".rept 16\n add %0, %4, #1\n add %1, %4, #1\n add %2, %4, #1\n add %3, %4, #1\n .endr"
        : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
        : "r"(i));
#endif
  }
  return thread_seconds() - begin;
#else
  (void)rounds;
  return -1;
#endif
}

}  // namespace tracekit
