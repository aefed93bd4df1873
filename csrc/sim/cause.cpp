// Causes of waits for caches and branches.
#include "sim/cause.hpp"

namespace tracekit {

Cause load_cause(CacheLevel served) {
  switch (served) {
    case CacheLevel::l1:
      return Cause::load_l1;
    case CacheLevel::l2:
      return Cause::load_l2;
    case CacheLevel::l3:
      return Cause::load_l3;
    case CacheLevel::memory:
      return Cause::load_memory_latency;
    case CacheLevel::memory_queue:
      return Cause::load_memory_queue;
    case CacheLevel::mshrs:
      break;
  }
  return Cause::mshr_full;
}

Cause fetch_cause(CacheLevel served) {
  switch (served) {
    case CacheLevel::l1:
      return Cause::icache_l1;
    case CacheLevel::l2:
      return Cause::icache_l2;
    case CacheLevel::l3:
      return Cause::icache_l3;
    case CacheLevel::memory:
    case CacheLevel::memory_queue:
      return Cause::icache_memory;
    case CacheLevel::mshrs:
      break;
  }
  return Cause::mshr_full;
}

Cause misprediction_cause(BranchKind branch) {
  switch (branch) {
    case BranchKind::conditional:
    case BranchKind::indirect_conditional:
      return Cause::mispredict_direction;
    case BranchKind::ret:
      return Cause::mispredict_return;
    default:
      return Cause::mispredict_target;
  }
}

}  // namespace tracekit
