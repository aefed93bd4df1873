// A hash of each column of a chunk: of rows before they are encoded, and of what a decoder makes of
// the streams.  Where both agree, nothing was lost on the way.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "encode/chunk_codec.hpp"

namespace tracekit {

using ColumnHashes = std::array<std::uint64_t, column::count>;
using ColumnStreams = std::array<std::span<const std::uint8_t>, column::count>;

// The sum of what each value and its row make together: rows may come in any pieces, and zeros,
// which most columns mostly hold, add nothing.
class ColumnHasher {
 public:
  // Rows [begin, end) of a batch, behind those that this chunk has.
  void add(const FeatureBatch& rows, std::size_t begin, std::size_t end);
  // The hashes of the chunk; the next row begins another one.
  ColumnHashes take();

 private:
  std::size_t at_{};
  std::vector<std::uint64_t> keys_;
  ColumnHashes sum_{};
};

// What decoding asks for beside the streams.
struct ChunkMeta {
  std::uint64_t tick_unit{};
  unsigned line_bits{};
  bool timed{};
};

// The same of a chunk's streams.  Throws DecodeError.
ColumnHashes decoded_hashes(const ChunkDecoder& decoder, const ColumnStreams& streams,
                            const ChunkMeta& meta);

}  // namespace tracekit
