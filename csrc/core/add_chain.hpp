// A chain of additions, each of which needs the one before: one cycle each on every processor that
// matters, so that the time of the chain is the clock.
#pragma once

#include <cstdint>
#include <ctime>

namespace tracekit {

// Seconds of processor time of 64 * `rounds` additions; negative where this processor has no chain.
inline double add_chain_seconds(std::uint64_t rounds) {
#if defined(__x86_64__) || defined(__aarch64__)
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  std::uint64_t x = rounds;
  const double begin = now();
  for (std::uint64_t i = 0; i < rounds; ++i) {
#if defined(__x86_64__)
    // A register, not a constant: processors of 2023 and later fold chains of constants.
    asm volatile(".rept 64\n add %1, %0\n .endr" : "+r"(x) : "r"(i) : "cc");
#else
    asm volatile(".rept 64\n add %0, %0, %1\n .endr" : "+r"(x) : "r"(i));
#endif
  }
  return now() - begin;
#else
  (void)rounds;
  return -1;
#endif
}

}  // namespace tracekit
