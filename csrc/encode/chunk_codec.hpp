// The columns of one chunk as byte streams, before zstd: few bytes first, then the compressor
// (features.md). docs/feats-format.md says what each stream holds.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/hot_static.hpp"
#include "encode/bytes.hpp"
#include "features/engine.hpp"

namespace tracekit {

namespace column {
enum Id : unsigned {
#define COLUMN(name, type, domain, unit, doc) name,
#include "core/column.def"
#undef COLUMN
  count
};
inline constexpr std::string_view names[] = {
#define COLUMN(name, type, domain, unit, doc) #name,
#include "core/column.def"
#undef COLUMN
};
}  // namespace column

// Turns rows [0, n) of a batch into one stream a column.  An empty stream is a column without a
// value (or, for the _ref distances, without a difference).
class ChunkEncoder {
 public:
  explicit ChunkEncoder(unsigned line_bits = 6) : line_bits_(line_bits) {}
  void encode(const FeatureBatch& rows, std::size_t n, const std::vector<HotStatic>& statics);
  std::span<const std::uint8_t> stream(unsigned id) const {
    return {streams_[id].data(), streams_[id].size()};
  }
  std::uint64_t tick_unit() const { return unit_; }

 private:
  void encode_memory(const FeatureBatch& rows, std::size_t statics);
  void encode_ticks(const FeatureBatch& rows, std::size_t n);
  bool try_ticks(const FeatureBatch& rows, std::size_t n);

  unsigned line_bits_;
  std::array<ByteWriter, column::count> streams_;
  std::vector<std::uint32_t> memory_, branch_;  // the rows of these domains
  std::vector<std::uint64_t> last_addr_;        // of each static instruction,
  std::vector<std::uint32_t> last_chunk_;       // in this chunk
  std::uint32_t chunk_{};
  std::uint64_t unit_{1};
};

// The inverse, column by column, over untrusted bytes: anything that cannot be throws DecodeError.
class ChunkDecoder {
 public:
  // Decodes the two columns that all others need.
  ChunkDecoder(std::span<const HotStatic> statics, std::size_t n,
               std::span<const std::uint8_t> static_id, std::span<const std::uint8_t> bits);

  std::size_t size() const { return sid_.size(); }
  const std::vector<std::uint32_t>& sid() const { return sid_; }
  const std::vector<std::uint8_t>& bits() const { return bits_; }

  void addr(std::span<const std::uint8_t> in, std::uint64_t* out) const;
  void fetch_distance(std::span<const std::uint8_t> in, unsigned line_bits,
                      std::uint32_t* out) const;
  void distance(std::span<const std::uint8_t> in, std::uint32_t* out) const;
  void distance_ref(std::span<const std::uint8_t> in, const std::uint32_t* plain,
                    std::uint32_t* out) const;
  void reuse(std::span<const std::uint8_t> in, std::uint16_t* out) const;
  void window(std::span<const std::uint8_t> in, std::uint8_t* out) const;
  void probability(std::span<const std::uint8_t> in, float* out) const;
  // All stages at once, for each depends on those before it.
  void ticks(const std::array<std::span<const std::uint8_t>, stage::count>& in, std::uint64_t unit,
             const std::array<std::uint64_t*, stage::count>& out) const;

 private:
  std::span<const HotStatic> statics_;
  std::vector<std::uint32_t> sid_;
  std::vector<std::uint8_t> bits_;
  std::vector<std::uint32_t> memory_, branch_;  // the rows of these domains
};

}  // namespace tracekit
