// Rows through the feature stage and the chunk codec and back, by the static table as a reader of
// the file has it: what is decoded must be what was encoded.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/static_table.hpp"
#include "encode/column_hash.hpp"
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

// A chunk as it goes into a file, and what its rows were.
struct EncodedChunk {
  std::size_t n{};
  ChunkMeta meta;
  std::array<std::vector<std::uint8_t>, column::count> streams;
  ColumnHashes hashes{};
};

// Decodes a chunk with the statics as a reader has them and compares every column.
inline void check_chunk(const EncodedChunk& c, std::span<const HotStatic> statics) {
  ColumnStreams in;
  for (unsigned id = 0; id < column::count; ++id) in[id] = c.streams[id];
  const ChunkDecoder decoder(statics, c.n, in[column::static_id], in[column::bits]);
  const ColumnHashes decoded = decoded_hashes(decoder, in, c.meta);
  for (unsigned id = 0; id < column::count; ++id) {
    if (decoded[id] == c.hashes[id]) continue;
    std::fprintf(stderr, "column %s:\n", column::names[id].data());
    require(false);
  }
}

// The chunks of one level, kept until the static table is whole: a reader has no other one.
class Written {
 public:
  void add(FeatureBatch& rows, std::size_t n, const std::vector<HotStatic>& statics) {
    encoder_.append(rows, 0, n / 3, statics);
    encoder_.append(rows, n / 3, n, statics);
    encoder_.finish(statics);
    EncodedChunk& c = chunks_.emplace_back();
    c.n = n;
    c.meta = {encoder_.tick_unit(), line_bits, rows.timed};
    for (unsigned id = 0; id < column::count; ++id) {
      const auto s = encoder_.stream(id);
      c.streams[id].assign(s.begin(), s.end());
    }
    hasher_.add(rows, 0, n / 2);
    hasher_.add(rows, n / 2, n);
    c.hashes = hasher_.take();
  }
  // `table` is what the file describes the instructions with, `hot` what the rows were encoded by.
  void check(const StaticTable& table, const std::vector<HotStatic>& hot) const {
    require(table.size() >= hot.size());
    std::vector<HotStatic> read;
    for (std::size_t i = 0; i < hot.size(); ++i) {
      const StaticInst& inst = table[static_cast<std::uint32_t>(i)];
      const StoredHot s = stored(hot[i]);
      require(inst.pc == s.pc && inst.upc == s.upc);
      read.push_back(restored(s));
    }
    for (const EncodedChunk& c : chunks_) check_chunk(c, read);
  }

 private:
  static constexpr unsigned line_bits = 6;
  ChunkEncoder encoder_{line_bits};
  ColumnHasher hasher_;
  std::vector<EncodedChunk> chunks_;
};

// The feature stage of one stream at both levels; at the end everything is read back.
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
      macro_written_.add(m, n, macro_.statics());
      m.drop_front(n);
    }
    written_.check(table, engine_.statics());
    const StaticTable macro_table = join_statics(table, macro_.members());
    require(macro_table.size() == macro_.statics().size());
    macro_written_.check(macro_table, macro_.statics());
  }

 private:
  void drain(Choices& choices) {
    while (engine_.ready()) {
      const std::size_t n = 1 + choices.below(engine_.ready());
      written_.add(engine_.rows(), n, engine_.statics());
      macro_.add(engine_.rows(), n, engine_.statics());
      engine_.drop_front(n);
    }
  }
  std::size_t taken_{};
  FeatureEngine engine_;
  MacroJoin macro_;
  Written written_, macro_written_;
};

}  // namespace tracekit::fuzz
