#include <algorithm>
#include <bit>
#include <numeric>

#include "encode/chunk_codec.hpp"
#include "encode/foretold.hpp"

namespace tracekit {
namespace {

// A distance is at least 1, so 0 can stand for the far one, the most frequent of the large ones.
std::uint64_t distance_code(std::uint32_t d) { return d == far_distance ? 0 : d; }

// Ids are given in order of first appearance, so a straight run of code is a run of ids + 1: pairs
// of (jump from the id that would have followed, rows in the run behind its first).
void put_static_id(ByteWriter& w, const std::uint32_t* sid, std::size_t n) {
  w.reserve_varints(2 * n);
  std::int64_t expected = 0;
  for (std::size_t i = 0; i < n;) {
    w.varint(zigzag(std::int64_t{sid[i]} - expected));
    std::size_t run = 1;
    while (i + run < n && sid[i + run] == sid[i] + run) ++run;
    w.varint(run - 1);
    expected = std::int64_t{sid[i]} + static_cast<std::int64_t>(run);
    i += run;
  }
}

// Pairs of (rows since the last surprise, difference), behind the bits that most rows share.
void put_bits(ByteWriter& w, const FeatureBatch& rows, std::size_t n,
              const std::vector<HotStatic>& statics) {
  const auto untimed = std::count_if(rows.bits.data(), rows.bits.data() + n,
                                     [](std::uint8_t b) { return b & row_bit::untimed; });
  const std::uint8_t base = 2 * static_cast<std::size_t>(untimed) > n ? row_bit::untimed : 0;
  w.reserve_varints(2 * n + 1);
  w.varint(base);
  std::size_t last = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const HotStatic* next = i + 1 < n ? &statics[rows.sid[i + 1]] : nullptr;
    const std::uint8_t surprise = rows.bits[i] ^ base ^ foretold_bits(statics[rows.sid[i]], next);
    if (!surprise) continue;
    w.varint(i - last);
    w.varint(surprise);
    last = i;
  }
}

// Only rows whose line is not that of the row before in the chunk; for the others it is 1.
void put_fetch_distance(ByteWriter& w, const FeatureBatch& rows, std::size_t n,
                        const std::vector<HotStatic>& statics, unsigned line_bits) {
  w.reserve_varints(n);
  std::uint64_t line = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t l = statics[rows.sid[i]].pc >> line_bits;
    if (i && l == line) continue;
    line = l;
    w.varint(distance_code(rows.fetch_distance[i]));
  }
}

void put_floats(ByteWriter& w, const float* values, const std::vector<std::uint32_t>& at) {
  std::vector<std::uint8_t> planes(4 * at.size());
  for (std::size_t k = 0; k < at.size(); ++k) {
    const auto u = std::bit_cast<std::uint32_t>(values[at[k]]);
    for (unsigned b = 0; b < 4; ++b)
      planes[b * at.size() + k] = static_cast<std::uint8_t>(u >> (8 * b));
  }
  w.raw(planes.data(), planes.size());
}

// Exact division by a constant, or the knowledge that it is not exact: one multiplication a value.
class ExactDivisor {
 public:
  explicit ExactDivisor(std::uint64_t d) : shift_(static_cast<unsigned>(std::countr_zero(d))) {
    const std::uint64_t odd = d >> shift_;
    inverse_ = odd;
    for (int i = 0; i < 5; ++i) inverse_ *= 2 - odd * inverse_;
    limit_ = (~std::uint64_t{0} >> shift_) / odd;
    low_ = (std::uint64_t{1} << shift_) - 1;
  }
  bool divide(std::uint64_t v, std::uint64_t& q) const {
    q = (v >> shift_) * inverse_;
    return q <= limit_ && (v & low_) == 0;
  }

 private:
  unsigned shift_;
  std::uint64_t inverse_, limit_, low_;
};

// The greatest common divisor of all ticks but those of stores, at least 1.  Nearly all values are
// multiples of what the first few have in common: those cost a multiplication.
std::uint64_t common_divisor(const FeatureBatch& rows, std::size_t n) {
  std::uint64_t g = 0;
  for (unsigned s = 0; s < stage::store; ++s) {
    const std::uint64_t* tick = rows.ticks[s].data();
    for (std::size_t i = 0; i < n && g != 1;) {
      if (g) {
        const ExactDivisor divisor(g);
        std::uint64_t q = 0;
        while (i < n && divisor.divide(tick[i], q)) ++i;
      }
      if (i < n) g = std::gcd(g, tick[i++]);
    }
  }
  return std::max<std::uint64_t>(g, 1);
}

}  // namespace

void ChunkEncoder::encode(const FeatureBatch& rows, std::size_t n,
                          const std::vector<HotStatic>& statics) {
  for (auto& s : streams_) s.clear();
  put_static_id(streams_[column::static_id], rows.sid.data(), n);
  put_bits(streams_[column::bits], rows, n, statics);
  put_fetch_distance(streams_[column::fetch_distance], rows, n, statics, line_bits_);

  memory_.clear();
  branch_.clear();
  for (std::size_t i = 0; i < n; ++i) {
    if (rows.bits[i] & row_bit::has_addr) memory_.push_back(static_cast<std::uint32_t>(i));
    if (statics[rows.sid[i]].is(HotStatic::conditional))
      branch_.push_back(static_cast<std::uint32_t>(i));
  }
  encode_memory(rows, statics.size());
  for (unsigned id : {column::window_before, column::window_now}) {
    const auto& from = id == column::window_before ? rows.window_before : rows.window_now;
    std::vector<std::uint8_t> values(branch_.size());
    for (std::size_t k = 0; k < branch_.size(); ++k) values[k] = from[branch_[k]];
    streams_[id].raw(values.data(), values.size());
  }
  put_floats(streams_[column::p_local], rows.p_local.data(), branch_);
  put_floats(streams_[column::p_global], rows.p_global.data(), branch_);
  if (rows.timed) encode_ticks(rows, n);
}

void ChunkEncoder::encode_memory(const FeatureBatch& rows, std::size_t statics) {
  last_addr_.resize(statics);
  last_chunk_.resize(statics);
  ++chunk_;
  ByteWriter& addr = streams_[column::addr];
  addr.reserve_varints(memory_.size());
  std::uint64_t before = 0;
  for (const std::uint32_t i : memory_) {
    // Against the same instruction's last address; its first one in a chunk against the row before.
    const std::uint32_t sid = rows.sid[i];
    if (last_chunk_[sid] != chunk_) {
      last_chunk_[sid] = chunk_;
      last_addr_[sid] = before;
    }
    addr.varint(zigzag(static_cast<std::int64_t>(rows.addr[i] - last_addr_[sid])));
    before = last_addr_[sid] = rows.addr[i];
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
  const auto put_ref = [&](unsigned id, const auto& ref, const auto& plain) {
    if (std::all_of(memory_.begin(), memory_.end(), [&](auto i) { return ref[i] == plain[i]; }))
      return;
    put(id, [&](std::uint32_t i) { return ref[i] == plain[i] ? 0 : 1 + distance_code(ref[i]); });
  };
  put_ref(column::load_distance_ref, rows.load_distance_ref, rows.load_distance);
  put_ref(column::store_distance_ref, rows.store_distance_ref, rows.store_distance);
}

void ChunkEncoder::encode_ticks(const FeatureBatch& rows, std::size_t n) {
  for (unsigned s = 0; s < stage::count; ++s) streams_[column::fetch + s].reserve_varints(n);
  // In units of the greatest common divisor, the clock's period: mostly that of the chunk before.
  // The cache answers a store in its own time, off the CPU's clock: that one stays in ticks.
  if (unit_ != 1 && try_ticks(rows, n)) return;
  unit_ = common_divisor(rows, n);
  try_ticks(rows, n);
}

// False where a tick is no multiple of the unit.
bool ChunkEncoder::try_ticks(const FeatureBatch& rows, std::size_t n) {
  const ExactDivisor divisor(unit_);
  const std::uint64_t* tick[stage::count];
  std::uint8_t* out[stage::count];
  for (unsigned s = 0; s < stage::count; ++s) {
    tick[s] = rows.ticks[s].data();
    out[s] = streams_[column::fetch + s].begin_varints();
  }
  // Each stage against the last one before it that the row reached; 0 = not reached.
  const auto put = [&](unsigned s, std::uint64_t v, std::uint64_t reference) {
    const std::uint64_t code = v == 0 ? 0 : 1 + zigzag(static_cast<std::int64_t>(v - reference));
    out[s] = write_varint(out[s], code);
  };
  std::uint64_t fetched = 0, retired = 0;
  bool exact = true;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t q = 0;
    exact &= divisor.divide(tick[stage::fetch][i], q);
    put(stage::fetch, q, fetched);
    if (q) fetched = q;
    std::uint64_t reference = q;
    for (unsigned s = stage::decode; s < stage::retire; ++s) {
      exact &= divisor.divide(tick[s][i], q);
      put(s, q, reference);
      if (q) reference = q;
    }
    exact &= divisor.divide(tick[stage::retire][i], q);
    put(stage::retire, q, retired);  // against the largest so far: the incremental latency
    retired = std::max(retired, q);
    if (q) reference = q;
    put(stage::store, tick[stage::store][i], reference * unit_);
  }
  if (!exact) return false;
  for (unsigned s = 0; s < stage::count; ++s) streams_[column::fetch + s].end_varints(out[s]);
  return true;
}

}  // namespace tracekit
