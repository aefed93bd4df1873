// Rows through the feature stage and the chunk codec and back: what is decoded must be what was
// encoded.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "core/static_table.hpp"
#include "encode/chunk_codec.hpp"
#include "features/engine.hpp"
#include "macro/macro_join.hpp"

namespace tracekit::fuzz {

// The caller's line by a builtin of gcc and clang: clang 14 has no std::source_location.
inline void require(bool ok, unsigned line = __builtin_LINE()) {
  if (ok) return;
  std::fprintf(stderr, "line %u: does not hold\n", line);
  std::abort();
}

// Cuts and choices that depend on nothing but the input.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) {
    for (std::size_t i = 0; i < size; i += 1 + i / 16)
      state_ = (state_ ^ data[i]) * 0x100000001b3ULL;
  }
  std::size_t below(std::size_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return n ? static_cast<std::size_t>((state_ >> 33) % n) : 0;
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

template <class T>
void same(const std::vector<T>& decoded, const Column<T>& encoded,
          unsigned line = __builtin_LINE()) {
  require(decoded.empty() ||
              std::memcmp(decoded.data(), encoded.data(), decoded.size() * sizeof(T)) == 0,
          line);
}

// Encodes the first n rows and compares every column after decoding.
inline void check_chunk(ChunkEncoder& encoder, const FeatureBatch& rows, std::size_t n,
                        const std::vector<HotStatic>& statics, unsigned line_bits) {
  encoder.append(rows, 0, n / 3, statics);
  encoder.append(rows, n / 3, n, statics);
  encoder.finish(statics);
  const auto in = [&](unsigned id) { return encoder.stream(id); };
  const ChunkDecoder decoder(statics, n, in(column::static_id), in(column::bits));
  same(decoder.sid(), rows.sid);
  same(decoder.bits(), rows.bits);
  std::vector<std::uint64_t> wide(n);
  std::vector<std::uint32_t> word(n), plain(n);
  std::vector<std::uint16_t> half(n);
  std::vector<std::uint8_t> byte(n);
  std::vector<float> real(n);
  decoder.addr(in(column::addr), wide.data());
  same(wide, rows.addr);
  decoder.fetch_distance(in(column::fetch_distance), line_bits, word.data());
  same(word, rows.fetch_distance);
  decoder.distance(in(column::data_distance), word.data());
  same(word, rows.data_distance);
  decoder.distance(in(column::load_distance), plain.data());
  same(plain, rows.load_distance);
  decoder.distance_ref(in(column::load_distance_ref), plain.data(), word.data());
  same(word, rows.load_distance_ref);
  decoder.distance(in(column::store_distance), plain.data());
  same(plain, rows.store_distance);
  decoder.distance_ref(in(column::store_distance_ref), plain.data(), word.data());
  same(word, rows.store_distance_ref);
  decoder.reuse(in(column::data_reuse), half.data());
  same(half, rows.data_reuse);
  decoder.window(in(column::window_before), byte.data());
  same(byte, rows.window_before);
  decoder.window(in(column::window_now), byte.data());
  same(byte, rows.window_now);
  decoder.probability(in(column::p_local), real.data());
  same(real, rows.p_local);
  decoder.probability(in(column::p_global), real.data());
  same(real, rows.p_global);
  if (!rows.timed) return;
  std::array<std::span<const std::uint8_t>, stage::count> streams;
  std::array<std::vector<std::uint64_t>, stage::count> ticks;
  std::array<std::uint64_t*, stage::count> out{};
  for (unsigned s = 0; s < stage::count; ++s) {
    streams[s] = in(column::fetch + s);
    ticks[s].resize(n);
    out[s] = ticks[s].data();
  }
  decoder.ticks(streams, encoder.tick_unit(), out);
  for (unsigned s = 0; s < stage::count; ++s) same(ticks[s], rows.ticks[s]);
}

// The feature stage of one stream, checked as it goes.
class RoundTrip {
 public:
  void add(const RowBatch& rows, Arch arch, const StaticTable& table, Choices& choices) {
    for (; taken_ < table.size(); ++taken_)
      engine_.add_static(make_hot(arch, table, static_cast<std::uint32_t>(taken_)));
    for (std::size_t i = 0; i < rows.size(); ++i) require(rows.sid[i] < table.size());
    engine_.add(rows, 0, rows.size());
    if (choices.below(2)) drain(choices);
  }
  void finish(const StaticTable& table, Choices& choices) {
    engine_.finish();
    drain(choices);
    macro_.finish(engine_.statics());
    FeatureBatch& m = macro_.rows();
    while (m.size()) {
      const std::size_t n = 1 + choices.below(m.size());
      check_chunk(macro_encoder_, m, n, macro_.statics(), line_bits);
      m.drop_front(n);
    }
    require(join_statics(table, macro_.members()).size() == macro_.statics().size());
  }

 private:
  static constexpr unsigned line_bits = 6;
  void drain(Choices& choices) {
    while (engine_.ready()) {
      const std::size_t n = 1 + choices.below(engine_.ready());
      check_chunk(encoder_, engine_.rows(), n, engine_.statics(), line_bits);
      macro_.add(engine_.rows(), n, engine_.statics());
      engine_.drop_front(n);
    }
  }
  std::size_t taken_{};
  FeatureEngine engine_;
  MacroJoin macro_;
  ChunkEncoder encoder_{line_bits}, macro_encoder_{line_bits};
};

}  // namespace tracekit::fuzz
