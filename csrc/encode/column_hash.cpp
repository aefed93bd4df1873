#include "encode/column_hash.hpp"

#include <bit>
#include <type_traits>
#include <utility>

#include "core/split_mix.hpp"

namespace tracekit {
namespace {

// An odd number for each row of a chunk, without a pattern between them.
std::uint64_t row_key(std::uint64_t row) {
  const std::uint64_t x = split_mix(row);
  return (x ^ x >> 31) | 1;
}

template <class T>
std::uint64_t word(T v) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<std::uint32_t>(v);
  else
    return v;
}

__extension__ using Wide = unsigned __int128;

// Both halves of value times key, so that a value's high bits count as its low ones do.
template <class T>
std::uint64_t hash(const T* values, const std::uint64_t* keys, std::size_t n) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Wide product = Wide{word(values[i])} * keys[i];
    sum += static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  return sum;
}

}  // namespace

void ColumnHasher::add(const FeatureBatch& rows, std::size_t begin, std::size_t end) {
  const std::size_t n = end - begin;
  keys_.resize(n);
  for (std::size_t i = 0; i < n; ++i) keys_[i] = row_key(at_ + i);
  at_ += n;
  const auto add = [&](unsigned id, const auto& values) {
    sum_[id] += hash(values.data() + begin, keys_.data(), n);
  };
  add(column::static_id, rows.sid);
  add(column::bits, rows.bits);
  add(column::addr, rows.addr);
  add(column::fetch_distance, rows.fetch_distance);
  add(column::load_distance, rows.load_distance);
  add(column::store_distance, rows.store_distance);
  add(column::load_distance_ref, rows.load_distance_ref);
  add(column::store_distance_ref, rows.store_distance_ref);
  add(column::data_distance, rows.data_distance);
  add(column::data_reuse, rows.data_reuse);
  add(column::window_before, rows.window_before);
  add(column::window_now, rows.window_now);
  add(column::p_local, rows.p_local);
  add(column::p_global, rows.p_global);
  if (!rows.timed) return;  // all zeros
  for (unsigned s = 0; s < stage::count; ++s) add(column::fetch + s, rows.ticks[s]);
}

ColumnHashes ColumnHasher::take() {
  at_ = 0;
  return std::exchange(sum_, {});
}

ColumnHashes decoded_hashes(const ChunkDecoder& decoder, const ColumnStreams& streams,
                            const ChunkMeta& meta) {
  const std::size_t n = decoder.size();
  std::vector<std::uint64_t> keys(n);
  for (std::size_t i = 0; i < n; ++i) keys[i] = row_key(i);
  ColumnHashes out{};
  const auto put = [&](unsigned id, const auto& values) {
    out[id] = hash(values.data(), keys.data(), n);
  };
  put(column::static_id, decoder.sid());
  put(column::bits, decoder.bits());
  std::vector<std::uint64_t> wide(n);
  decoder.addr(streams[column::addr], wide.data());
  put(column::addr, wide);
  std::vector<std::uint32_t> plain(n), other(n);
  decoder.fetch_distance(streams[column::fetch_distance], meta.line_bits, plain.data());
  put(column::fetch_distance, plain);
  decoder.distance(streams[column::data_distance], plain.data());
  put(column::data_distance, plain);
  for (const auto& [id, ref] : {std::pair{column::load_distance, column::load_distance_ref},
                                std::pair{column::store_distance, column::store_distance_ref}}) {
    decoder.distance(streams[id], plain.data());
    put(id, plain);
    if (streams[ref].empty()) {
      out[ref] = out[id];
      continue;
    }
    decoder.distance_ref(streams[ref], plain.data(), other.data());
    put(ref, other);
  }
  std::vector<std::uint16_t> half(n);
  decoder.reuse(streams[column::data_reuse], half.data());
  put(column::data_reuse, half);
  std::vector<std::uint8_t> byte(n);
  for (const unsigned id : {column::window_before, column::window_now}) {
    decoder.window(streams[id], byte.data());
    put(id, byte);
  }
  std::vector<float> real(n);
  for (const unsigned id : {column::p_local, column::p_global}) {
    decoder.probability(streams[id], real.data());
    put(id, real);
  }
  if (!meta.timed) return out;
  std::array<std::span<const std::uint8_t>, stage::count> in;
  std::array<std::vector<std::uint64_t>, stage::count> ticks;
  std::array<std::uint64_t*, stage::count> to{};
  for (unsigned s = 0; s < stage::count; ++s) {
    in[s] = streams[column::fetch + s];
    ticks[s].resize(n);
    to[s] = ticks[s].data();
  }
  decoder.ticks(in, meta.tick_unit, to);
  for (unsigned s = 0; s < stage::count; ++s) put(column::fetch + s, ticks[s]);
  return out;
}

}  // namespace tracekit
