// Why a row retires when it does: the constraints of a core by name, and points of time that know
// which of them put them there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/static_inst.hpp"
#include "sim/cache.hpp"
#include "sim/cycle.hpp"

namespace tracekit {

// CAUSE(name, group): of two constraints that end in the same cycle the one that stands further
// down is the cause.
// clang-format off
#define TRACEKIT_CAUSES(CAUSE)                                                                     \
  CAUSE(base, retiring)                                                                            \
  CAUSE(front_end_width, front_end) CAUSE(icache_l1, front_end) CAUSE(icache_l2, front_end)        \
  CAUSE(icache_l3, front_end) CAUSE(icache_memory, front_end)                                      \
  CAUSE(resteer_decode, bad_speculation) CAUSE(mispredict_direction, bad_speculation)              \
  CAUSE(mispredict_target, bad_speculation) CAUSE(mispredict_return, bad_speculation)              \
  CAUSE(rob_full, back_end_core) CAUSE(scheduler_full, back_end_core)                              \
  CAUSE(load_queue_full, back_end_memory) CAUSE(store_queue_full, back_end_memory)                 \
  CAUSE(registers_full, back_end_core) CAUSE(unit_busy, back_end_core)                             \
  CAUSE(integer, back_end_core) CAUSE(multiply, back_end_core) CAUSE(divide, back_end_core)        \
  CAUSE(floating_point, back_end_core)                                                             \
  CAUSE(load_l1, back_end_memory) CAUSE(load_forward, back_end_memory)                             \
  CAUSE(load_l2, back_end_memory) CAUSE(load_l3, back_end_memory)                                  \
  CAUSE(load_memory_latency, back_end_memory) CAUSE(load_memory_queue, back_end_memory)            \
  CAUSE(mshr_full, back_end_memory) CAUSE(store_drain, back_end_memory)                            \
  CAUSE(store_miss, back_end_memory)                                                              \
  CAUSE(memory_dependence, back_end_memory) CAUSE(memory_order_squash, bad_speculation)            \
  CAUSE(serialization, back_end_core) CAUSE(barrier, back_end_core) CAUSE(fault, back_end_core)
// clang-format on

enum class Cause : std::uint8_t {
#define CAUSE(name, group) name,
  TRACEKIT_CAUSES(CAUSE)
#undef CAUSE
};

struct CauseName {
  std::string_view name, group;
};
inline constexpr auto cause_names = std::to_array<CauseName>({
#define CAUSE(name, group) {#name, #group},
    TRACEKIT_CAUSES(CAUSE)
#undef CAUSE
});
inline constexpr std::size_t cause_count = cause_names.size();

// What a load, or a fetch, waits for that this level serves.
[[gnu::const]] Cause load_cause(CacheLevel served);
[[gnu::const]] Cause fetch_cause(CacheLevel served);
// What the fetch behind a branch waits for that was not predicted.
[[gnu::const]] Cause misprediction_cause(BranchKind branch);

// A point of time.  Where `Why`, it carries the constraint that put it there: in its lowest bits,
// so that the later of two is one comparison either way, and what is timed does not depend on it.
template <bool Why>
class Stamp {
  static constexpr int bits = Why ? 6 : 0;
  static_assert(cause_count <= 64);

 public:
  constexpr Stamp() = default;
  constexpr Stamp(Cycle at, Cause why)
      : value_(Why ? (at << bits) | static_cast<Cycle>(why) : at) {}

  constexpr Cycle at() const { return value_ >> bits; }
  constexpr Cause cause() const {
    return Why ? static_cast<Cause>(value_ & ((Cycle{1} << bits) - 1)) : Cause::base;
  }
  // The same time for another reason.
  constexpr Stamp because(Cause why) const { return {at(), why}; }
  constexpr Stamp operator+(Cycle n) const {
    Stamp s;
    s.value_ = value_ + (n << bits);
    return s;
  }
  constexpr Stamp operator-(Cycle n) const { return *this + -n; }
  friend constexpr bool operator==(Stamp, Stamp) = default;
  // By time alone.
  constexpr bool after(Stamp other) const { return at() > other.at(); }
  friend constexpr Stamp later(Stamp a, Stamp b) { return a.value_ < b.value_ ? b : a; }
  // Not before `other`, which is rarely the later one: a branch that the processor foresees, so
  // that it goes on without `other`.
  constexpr void wait_for(Stamp other) {
    if (value_ < other.value_) [[unlikely]]
      value_ = other.value_;
  }

 private:
  Cycle value_{};
};

}  // namespace tracekit
