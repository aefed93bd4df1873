#include "core/cpu.hpp"

#include <cstdlib>
#include <string>

#include "core/no_such_isa.hpp"

namespace tracekit {
namespace {

Isa widest() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
      return Isa::avx512;
    return Isa::avx2;
  }
#endif
  return Isa::portable;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    default:
      return "portable";
  }
}

Isa active_isa() {
  const Isa best = widest();
  const char* forced = std::getenv("TRACEKIT_ISA");
  if (!forced || !*forced) return best;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    if (std::string(isa_name(isa)) == forced) {
      if (isa > best)
        throw NoSuchIsa("TRACEKIT_ISA=" + std::string(forced) + ": this CPU has no " + forced);
      return isa;
    }
  throw NoSuchIsa("TRACEKIT_ISA=" + std::string(forced) + ": not one of portable, avx2, avx512");
}

}  // namespace tracekit
