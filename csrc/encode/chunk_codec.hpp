// The columns of one chunk as byte streams, before zstd: few bytes first, then the compressor
// (features.md). docs/feats-format.md says what each stream holds.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "encode/bytes.hpp"
#include "features/engine.hpp"
#include "isa/hot_static.hpp"

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

// Turns rows into one stream a column, chunk by chunk.  An empty stream is a column without a value
// (or, for the _ref distances, without a difference).
//
// Rows come a few thousand at a time, while what the features left of them is still in the cache;
// only what needs the whole chunk is kept for its end.
class ChunkEncoder {
 public:
  explicit ChunkEncoder(unsigned line_bits = 6) : line_bits_(line_bits) {}
  // Rows [begin, end) of a batch, behind those that this chunk has.
  void append(const FeatureBatch& rows, std::size_t begin, std::size_t end,
              const std::vector<HotStatic>& statics);
  // Ends the chunk: its streams are whole until the next row comes.
  void finish(const std::vector<HotStatic>& statics);

  std::size_t size() const {
    return open_ ? surprise_.size() + pending_ : 0;
  }  // rows of this chunk
  std::span<const std::uint8_t> stream(unsigned id) const {
    return {streams_[id].data(), streams_[id].size()};
  }
  std::uint64_t tick_unit() const { return unit_; }

 private:
  using Ticks = std::array<const std::uint64_t*, stage::count>;
  void begin_chunk();
  void append_static_id(const std::uint32_t* sid, std::size_t n);
  void append_rows(const FeatureBatch& rows, std::size_t begin, std::size_t end,
                   const HotStatic* statics);
  void append_memory(const FeatureBatch& rows, std::size_t statics);
  void append_ticks(const Ticks& tick, std::size_t n);
  bool try_ticks(const Ticks& tick, std::size_t n);
  void keep_ticks();
  void finish_bits();

  // What the next row of the chunk goes on from.
  struct Clock {
    std::uint64_t fetched{}, retired{};
  };
  struct Ref {  // of a _ref distance: rows before the first that differs
    std::size_t same{};
    bool differs{};
  };

  unsigned line_bits_;
  std::array<ByteWriter, column::count> streams_;
  std::vector<std::uint32_t> memory_, branch_;  // the rows of these domains
  std::vector<std::uint64_t> last_addr_;        // of each static instruction,
  std::vector<std::uint32_t> last_chunk_;       // in this chunk
  std::uint32_t chunk_{};
  bool open_{};

  std::int64_t expected_{};             // the id behind the last run of them
  std::uint32_t next_id_{};             // which would lengthen the one that is being counted
  std::size_t run_{};                   // its rows; 0 = none
  std::vector<std::uint8_t> surprise_;  // bits that were not foretold, of all rows but the last
  std::size_t untimed_{};
  std::size_t pending_{};  // 1: the last row waits for the next one
  std::uint32_t last_sid_{};
  std::uint8_t last_bits_{};
  std::uint64_t line_{}, before_{};
  Ref ref_load_, ref_store_;
  std::array<std::vector<float>, 2> floats_;

  std::uint64_t unit_{1};
  bool unit_known_{};
  Clock clock_;
  std::size_t timed_rows_{};  // in the tick streams
  // All ticks of a chunk whose unit turned out to be another one: encoded at its end.
  std::array<std::vector<std::uint64_t>, stage::count> kept_;
  bool keeping_{};
};

// The ticks in n rows of tick streams in `unit`, stage by stage.  Throws DecodeError.
void decode_ticks(const std::array<std::span<const std::uint8_t>, stage::count>& in,
                  std::uint64_t unit, std::size_t n,
                  const std::array<std::uint64_t*, stage::count>& out);

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
