// Delays between the stages of gem5's out-of-order core that no parameter sets.
#pragma once
#include "sim/cycle.hpp"

namespace tracekit {

inline constexpr Cycle squash_blocks = 4;  // until rename learns that dispatch waits for the squash
inline constexpr Cycle redirect_delay = 3;  // from a misprediction's execution to the fetch behind
inline constexpr Cycle squash_heard = redirect_delay - 1;  // the same to the squash of fetch
inline constexpr Cycle decode_redirect = 2;  // of a direct branch that the BTB does not know
inline constexpr Cycle decode_tells = 1;     // until fetch learns of it
inline constexpr Cycle send_delay = 3;  // of a store that retires to the cache (gem5's IEW::tick)
inline constexpr Cycle serialize_delay = 1;  // until rename learns that nothing is in flight
inline constexpr Cycle in_order_delay = 3;
inline constexpr Cycle trap_delay = 13;  // from the head of the reorder buffer to the squash
// A full issue queue has new rows so long after others have left it: rename learns of it, and
// blocked stages begin again.
inline constexpr Cycle queue_refills = 8;
// A row commits a cycle behind its retirement here, counted from its fetch: what follows from
// retirements has that cycle in its own delay, but for what branch predictors learn.
inline constexpr Cycle commit_delay = 1;
inline constexpr Cycle settles = 3;        // until a row issues whose operands are there
inline constexpr Cycle freed_delay = 2;    // until rename knows that an entry is free
inline constexpr Cycle drained_delay = 1;  // the same of a store's, from the cache's answer on
// The same of what is freed only once another stage learns of the retirement: the load queue by the
// LSQ, registers by rename behind what it renames in that cycle (gem5's Rename::tick).
inline constexpr Cycle committed_delay = 3;

inline constexpr Cycle long_after = 1 << 12;  // what is not seen to end on a wrong path

}  // namespace tracekit
