#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/exact_divisor.hpp"
#include "encode/chunk_codec.hpp"
#include "encode/implied_bits.hpp"

namespace tracekit {
namespace {

// A distance is at least 1, so 0 can stand for the far one, the most frequent of the large ones.
std::uint64_t distance_code(std::uint32_t d) { return d == far_distance ? 0 : d; }

// A column of floats, byte by byte: the high bytes are much alike.
void put_planes(ByteWriter& w, const std::vector<float>& values) {
  const std::size_t n = values.size();
  std::vector<std::uint8_t> planes(4 * n);
  for (std::size_t k = 0; k < n; ++k) {
    const auto u = std::bit_cast<std::uint32_t>(values[k]);
    for (unsigned b = 0; b < 4; ++b) planes[b * n + k] = static_cast<std::uint8_t>(u >> (8 * b));
  }
  w.raw(planes.data(), planes.size());
}

// The greatest common divisor of all ticks but those of stores; 0 where there is none.  Nearly all
// values are multiples of what the first few have in common: those cost a multiplication.
std::uint64_t common_divisor(const std::array<const std::uint64_t*, stage::count>& ticks,
                             std::size_t n) {
  std::uint64_t g = 0;
  for (unsigned s = 0; s < stage::store; ++s) {
    const std::uint64_t* tick = ticks[s];
    for (std::size_t i = 0; i < n && g != 1;) {
      if (g) {
        const ExactDivisor divisor(g);
        std::uint64_t q = 0;
        while (i < n && divisor.divide(tick[i], q)) ++i;
      }
      if (i < n) g = std::gcd(g, tick[i++]);
    }
  }
  return g;
}

}  // namespace

void ChunkEncoder::begin_chunk() {
  for (auto& s : streams_) s.clear();
  ++chunk_;
  expected_ = 0, run_ = 0;
  surprise_.clear();
  untimed_ = pending_ = 0;
  before_ = 0;
  ref_load_ = ref_store_ = {};
  for (auto& f : floats_) f.clear();
  clock_ = {};
  timed_rows_ = 0;
  unit_known_ = unit_ != 1;
  keeping_ = false;
  for (auto& k : kept_) k.clear();
  open_ = true;
}

void ChunkEncoder::append(const FeatureBatch& rows, std::size_t begin, std::size_t end,
                          const std::vector<HotStatic>& statics) {
  if (begin == end) return;
  if (!open_) begin_chunk();
  append_static_id(rows.sid.data() + begin, end - begin);
  append_rows(rows, begin, end, statics.data());
  append_memory(rows, statics.size());
  ByteWriter& before = streams_[column::window_before];
  ByteWriter& now = streams_[column::window_now];
  before.reserve_varints(branch_.size());
  now.reserve_varints(branch_.size());
  for (const std::uint32_t i : branch_) {
    before.byte(rows.window_before[i]);
    now.byte(rows.window_now[i]);
    floats_[0].push_back(rows.p_local[i]);
    floats_[1].push_back(rows.p_global[i]);
  }
  if (!rows.timed) return;
  if (timed_rows_ == 0 && !keeping_) {  // the rows before had none: not reached
    const std::size_t before = size() - (end - begin);
    for (unsigned s = 0; s < stage::count; ++s) {
      streams_[column::fetch + s].reserve_varints(before);
      for (std::size_t i = 0; i < before; ++i) streams_[column::fetch + s].byte(0);
    }
    timed_rows_ = before;
  }
  Ticks tick;
  for (unsigned s = 0; s < stage::count; ++s) tick[s] = rows.ticks[s].data() + begin;
  append_ticks(tick, end - begin);
}

void ChunkEncoder::finish(const std::vector<HotStatic>& statics) {
  if (!open_) begin_chunk();
  if (run_) streams_[column::static_id].varint(run_ - 1);
  if (pending_) {
    surprise_.push_back(last_bits_ ^ implied_bits(statics[last_sid_], nullptr));
    pending_ = 0;
  }
  finish_bits();
  put_planes(streams_[column::p_local], floats_[0]);
  put_planes(streams_[column::p_global], floats_[1]);
  if (keeping_) {
    Ticks tick;
    for (unsigned s = 0; s < stage::count; ++s) tick[s] = kept_[s].data();
    const std::size_t n = kept_[0].size();
    unit_ = std::max<std::uint64_t>(common_divisor(tick, n), 1);
    try_ticks(tick, n);
  }
  open_ = false;
}

// Ids are given in order of first appearance, so a straight run of code is a run of ids + 1: pairs
// of (jump from the id that would have followed, rows in the run behind its first).
void ChunkEncoder::append_static_id(const std::uint32_t* sid, std::size_t n) {
  ByteWriter& w = streams_[column::static_id];
  w.reserve_varints(2 * n + 1);
  for (std::size_t i = 0; i < n;) {
    if (run_ == 0 || sid[i] != next_id_) {
      if (run_) w.varint(run_ - 1);
      w.varint(zigzag(std::int64_t{sid[i]} - expected_));
      run_ = 0;
      next_id_ = sid[i];
    }
    const std::size_t first = i;
    while (i < n && sid[i] == next_id_) ++i, ++next_id_;
    run_ += i - first;
    expected_ = next_id_;
  }
}

// One pass for what looks at each row's static instruction: bits that were not foretold, fetch
// distances, and which rows access memory or are branches.
void ChunkEncoder::append_rows(const FeatureBatch& rows, std::size_t begin, std::size_t end,
                               const HotStatic* statics) {
  const std::size_t had = surprise_.size(), n = end - begin;
  surprise_.resize(had + pending_ + n - 1);
  std::uint8_t* surprise = surprise_.data() + had;
  memory_.resize(n), branch_.resize(n);
  std::uint32_t *memory = memory_.data(), *branch = branch_.data();
  ByteWriter& distances = streams_[column::fetch_distance];
  distances.reserve_varints(n);
  const std::uint32_t* sid = rows.sid.data();
  const HotStatic* at = &statics[sid[begin]];
  if (pending_)
    *surprise++ = last_bits_ ^ implied_bits(statics[last_sid_], at);
  else
    line_ = ~(at->pc >> line_bits_);  // a chunk's first row has its distance written
  std::uint64_t line = line_;
  std::size_t untimed = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint8_t bits = rows.bits[i];
    untimed += bits / row_bit::untimed & 1;
    *memory = *branch = static_cast<std::uint32_t>(i);
    memory += (bits & row_bit::has_addr) != 0;
    branch += at->is(HotStatic::conditional);
    // Only rows whose line is not that of the row before; for the others it is 1.
    if (const std::uint64_t l = at->pc >> line_bits_; l != line) {
      line = l;
      distances.varint(distance_code(rows.fetch_distance[i]));
    }
    if (i + 1 == end) break;
    const HotStatic* next = &statics[sid[i + 1]];
    *surprise++ = bits ^ implied_bits(*at, next);
    at = next;
  }
  memory_.resize(static_cast<std::size_t>(memory - memory_.data()));
  branch_.resize(static_cast<std::size_t>(branch - branch_.data()));
  line_ = line;
  last_sid_ = sid[end - 1], last_bits_ = rows.bits[end - 1];
  untimed_ += untimed;
  pending_ = 1;
}

// Pairs of (rows since the last surprise, difference), behind the bits that most rows share.
void ChunkEncoder::finish_bits() {
  const std::size_t n = surprise_.size();
  const std::uint8_t base = 2 * untimed_ > n ? row_bit::untimed : 0;
  ByteWriter& w = streams_[column::bits];
  w.reserve_varints(2 * n + 1);
  w.varint(base);
  const std::uint64_t usual = 0x0101010101010101 * std::uint64_t{base};
  std::size_t last = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t eight;
    while (i + 8 <= n && (std::memcpy(&eight, &surprise_[i], 8), eight == usual)) i += 8;
    if (i == n) break;
    const std::uint8_t surprise = surprise_[i] ^ base;
    if (!surprise) continue;
    w.varint(i - last);
    w.varint(surprise);
    last = i;
  }
}

void ChunkEncoder::append_memory(const FeatureBatch& rows, std::size_t statics) {
  last_addr_.resize(statics);
  last_chunk_.resize(statics);
  ByteWriter& addr = streams_[column::addr];
  addr.reserve_varints(memory_.size());
  for (const std::uint32_t i : memory_) {
    // Against the same instruction's last address; its first one in a chunk against the row before.
    const std::uint32_t sid = rows.sid[i];
    if (last_chunk_[sid] != chunk_) {
      last_chunk_[sid] = chunk_;
      last_addr_[sid] = before_;
    }
    addr.varint(zigzag(static_cast<std::int64_t>(rows.addr[i] - last_addr_[sid])));
    before_ = last_addr_[sid] = rows.addr[i];
  }
  const auto put = [&](unsigned id, auto code) {
    ByteWriter& w = streams_[id];
    w.reserve_varints(memory_.size());
    std::uint8_t* p = w.begin_varints();
    for (const std::uint32_t i : memory_) p = write_varint(p, code(i));
    w.end_varints(p);
  };
  put(column::load_distance, [&](std::uint32_t i) { return distance_code(rows.load_distance[i]); });
  put(column::store_distance,
      [&](std::uint32_t i) { return distance_code(rows.store_distance[i]); });
  put(column::data_distance, [&](std::uint32_t i) { return distance_code(rows.data_distance[i]); });
  put(column::data_reuse, [&](std::uint32_t i) { return rows.data_reuse[i]; });
  const auto put_ref = [&](unsigned id, Ref& state, const auto& ref, const auto& plain) {
    if (!state.differs) {
      if (std::all_of(memory_.begin(), memory_.end(), [&](auto i) { return ref[i] == plain[i]; })) {
        state.same += memory_.size();
        return;
      }
      state.differs = true;
      streams_[id].reserve_varints(state.same);
      for (std::size_t k = 0; k < state.same; ++k) streams_[id].byte(0);
    }
    put(id, [&](std::uint32_t i) { return ref[i] == plain[i] ? 0 : 1 + distance_code(ref[i]); });
  };
  put_ref(column::load_distance_ref, ref_load_, rows.load_distance_ref, rows.load_distance);
  put_ref(column::store_distance_ref, ref_store_, rows.store_distance_ref, rows.store_distance);
}

// In units of the greatest common divisor, the clock's period: mostly that of the chunk before.
// The cache answers a store in its own time, off the CPU's clock: that one stays in ticks.
void ChunkEncoder::append_ticks(const Ticks& tick, std::size_t n) {
  if (!keeping_) {
    if (!unit_known_) {
      const std::uint64_t g = common_divisor(tick, n);
      unit_known_ = g != 0;
      unit_ = std::max<std::uint64_t>(g, 1);
    }
    if (try_ticks(tick, n)) return;
    keep_ticks();
  }
  for (unsigned s = 0; s < stage::count; ++s) kept_[s].insert(kept_[s].end(), tick[s], tick[s] + n);
}

// The ticks of this chunk so far, back from their streams.
void ChunkEncoder::keep_ticks() {
  std::array<std::span<const std::uint8_t>, stage::count> in;
  std::array<std::uint64_t*, stage::count> out{};
  for (unsigned s = 0; s < stage::count; ++s) {
    in[s] = stream(column::fetch + s);
    kept_[s].resize(timed_rows_);
    out[s] = kept_[s].data();
  }
  decode_ticks(in, unit_, timed_rows_, out);
  for (unsigned s = 0; s < stage::count; ++s) streams_[column::fetch + s].clear();
  timed_rows_ = 0;
  clock_ = {};
  keeping_ = true;
}

// False, and nothing written, where a tick is no multiple of the unit.
bool ChunkEncoder::try_ticks(const Ticks& tick, std::size_t n) {
  const ExactDivisor divisor(unit_);
  std::uint8_t* out[stage::count];
  for (unsigned s = 0; s < stage::count; ++s) {
    streams_[column::fetch + s].reserve_varints(n);
    out[s] = streams_[column::fetch + s].begin_varints();
  }
  // Each stage against the last one before it that the row reached; 0 = not reached.
  const auto put = [&](unsigned s, std::uint64_t v, std::uint64_t reference) {
    const std::uint64_t code = v == 0 ? 0 : 1 + zigzag(static_cast<std::int64_t>(v - reference));
    out[s] = write_varint(out[s], code);
  };
  // A difference of no more units than this is one byte.  Rows of such bytes are collected, for all
  // stages to be copied to their streams together.
  constexpr std::uint64_t short_units = 63;
  const bool shorts = divisor.limit() > short_units;
  std::uint8_t codes[stage::store][256];
  std::size_t collected = 0;
  const auto flush = [&] {
    for (unsigned s = stage::fetch; s < stage::store; ++s) {
      std::memcpy(out[s], codes[s], collected);
      out[s] += collected;
    }
    collected = 0;
  };
  Clock clock = clock_;
  bool exact = true;
  for (std::size_t i = 0; i < n; ++i) {
    // Nearly every row: all but the store's tick are short differences forward, and so exact where
    // those before were.
    const std::uint64_t fetch = tick[stage::fetch][i], retire = tick[stage::retire][i];
    const std::uint64_t step = divisor(fetch - clock.fetched * unit_);
    const std::uint64_t latency = divisor(retire - clock.retired * unit_);
    std::uint64_t reference = fetch, larger = step | latency;
    codes[stage::fetch][collected] = static_cast<std::uint8_t>(2 * step + 1);
    for (unsigned s = stage::decode; s < stage::retire; ++s) {
      const std::uint64_t v = tick[s][i];
      const std::uint64_t d = divisor(v - reference);
      larger |= v ? d : 0;
      codes[s][collected] = static_cast<std::uint8_t>(v ? 2 * d + 1 : 0);
      reference = v ? v : reference;
    }
    codes[stage::retire][collected] = static_cast<std::uint8_t>(2 * latency + 1);
    if (shorts && larger <= short_units && fetch && retire) [[likely]] {
      clock.fetched += step;
      clock.retired += latency;
      put(stage::store, tick[stage::store][i], retire);
      if (++collected == sizeof codes[0]) flush();
      continue;
    }
    flush();
    std::uint64_t q = 0;
    exact &= divisor.divide(tick[stage::fetch][i], q);
    put(stage::fetch, q, clock.fetched);
    if (q) clock.fetched = q;
    reference = q;
    for (unsigned s = stage::decode; s < stage::retire; ++s) {
      exact &= divisor.divide(tick[s][i], q);
      put(s, q, reference);
      if (q) reference = q;
    }
    exact &= divisor.divide(tick[stage::retire][i], q);
    put(stage::retire, q, clock.retired);  // against the largest so far: the incremental latency
    clock.retired = std::max(clock.retired, q);
    if (q) reference = q;
    put(stage::store, tick[stage::store][i], reference * unit_);
  }
  flush();
  if (!exact) return false;
  for (unsigned s = 0; s < stage::count; ++s) streams_[column::fetch + s].end_varints(out[s]);
  clock_ = clock;
  timed_rows_ += n;
  return true;
}

}  // namespace tracekit
