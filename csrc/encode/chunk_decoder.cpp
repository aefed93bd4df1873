#include <algorithm>
#include <bit>

#include "encode/chunk_codec.hpp"
#include "encode/implied_bits.hpp"

namespace tracekit {
namespace {

std::uint32_t distance_value(std::uint64_t code) {
  if (code >= far_distance) throw DecodeError("distance over its cap");
  return code ? static_cast<std::uint32_t>(code) : far_distance;
}

}  // namespace

ChunkDecoder::ChunkDecoder(std::span<const HotStatic> statics, std::size_t n,
                           std::span<const std::uint8_t> static_id,
                           std::span<const std::uint8_t> bits)
    : statics_(statics), sid_(n), bits_(n) {
  ByteReader r(static_id.data(), static_id.size());
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < n;) {
    const std::uint64_t first = expected + static_cast<std::uint64_t>(unzigzag(r.varint()));
    const std::uint64_t more = r.varint();
    if (more >= n - i) throw DecodeError("run of instructions is longer than the chunk");
    if (first >= statics.size() || more >= statics.size() - first)
      throw DecodeError("static instruction out of range");
    for (std::uint64_t k = 0; k <= more; ++k) sid_[i + k] = static_cast<std::uint32_t>(first + k);
    i += more + 1;
    expected = first + more + 1;
  }
  r.expect_end();

  ByteReader b(bits.data(), bits.size());
  const std::uint64_t base = b.varint();
  if (base > 0xff) throw DecodeError("bits out of range");
  for (std::size_t i = 0; i < n; ++i) {
    const HotStatic* next = i + 1 < n ? &statics[sid_[i + 1]] : nullptr;
    bits_[i] = static_cast<std::uint8_t>(base) ^ implied_bits(statics[sid_[i]], next);
  }
  for (std::uint64_t at = 0; b.left();) {
    const std::uint64_t step = b.varint(), surprise = b.varint();
    if (step >= n - at || surprise > 0xff) throw DecodeError("bits out of range");
    at += step;
    bits_[at] ^= static_cast<std::uint8_t>(surprise);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (bits_[i] & row_bit::has_addr) memory_.push_back(static_cast<std::uint32_t>(i));
    if (statics[sid_[i]].is(HotStatic::conditional))
      branch_.push_back(static_cast<std::uint32_t>(i));
  }
}

void ChunkDecoder::addr(std::span<const std::uint8_t> in, std::uint64_t* out) const {
  std::fill_n(out, size(), 0);
  ByteReader r(in.data(), in.size());
  struct Last {
    std::uint64_t addr;
    bool seen;
  };
  std::vector<Last> last(statics_.size());
  std::uint64_t before = 0;
  for (const std::uint32_t i : memory_) {
    Last& l = last[sid_[i]];
    const std::uint64_t from = l.seen ? l.addr : before;
    before = from + static_cast<std::uint64_t>(unzigzag(r.varint()));
    l = {before, true};
    out[i] = before;
  }
  r.expect_end();
}

void ChunkDecoder::fetch_distance(std::span<const std::uint8_t> in, unsigned line_bits,
                                  std::uint32_t* out) const {
  ByteReader r(in.data(), in.size());
  std::uint64_t line = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::uint64_t l = statics_[sid_[i]].pc >> line_bits;
    out[i] = i && l == line ? 1 : distance_value(r.varint());
    line = l;
  }
  r.expect_end();
}

void ChunkDecoder::distance(std::span<const std::uint8_t> in, std::uint32_t* out) const {
  std::fill_n(out, size(), 0);
  ByteReader r(in.data(), in.size());
  for (const std::uint32_t i : memory_) out[i] = distance_value(r.varint());
  r.expect_end();
}

void ChunkDecoder::distance_ref(std::span<const std::uint8_t> in, const std::uint32_t* plain,
                                std::uint32_t* out) const {
  std::copy_n(plain, size(), out);
  if (in.empty()) return;
  ByteReader r(in.data(), in.size());
  for (const std::uint32_t i : memory_)
    if (const std::uint64_t code = r.varint()) out[i] = distance_value(code - 1);
  r.expect_end();
}

void ChunkDecoder::reuse(std::span<const std::uint8_t> in, std::uint16_t* out) const {
  std::fill_n(out, size(), 0);
  ByteReader r(in.data(), in.size());
  for (const std::uint32_t i : memory_) {
    const std::uint64_t v = r.varint();
    if (v > DataReuse::cap) throw DecodeError("data_reuse over its cap");
    out[i] = static_cast<std::uint16_t>(v);
  }
  r.expect_end();
}

void ChunkDecoder::window(std::span<const std::uint8_t> in, std::uint8_t* out) const {
  std::fill_n(out, size(), 0);
  ByteReader r(in.data(), in.size());
  const std::uint8_t* v = r.raw(branch_.size());
  r.expect_end();
  for (std::size_t k = 0; k < branch_.size(); ++k) {
    if (v[k] > 16) throw DecodeError("outcome window over 16/16");
    out[branch_[k]] = v[k];
  }
}

void ChunkDecoder::probability(std::span<const std::uint8_t> in, float* out) const {
  std::fill_n(out, size(), 0.0F);
  const std::size_t n = branch_.size();
  ByteReader r(in.data(), in.size());
  const std::uint8_t* planes = r.raw(4 * n);
  r.expect_end();
  for (std::size_t k = 0; k < n; ++k) {
    std::uint32_t u = 0;
    for (unsigned b = 0; b < 4; ++b) u |= std::uint32_t{planes[b * n + k]} << (8 * b);
    const auto p = std::bit_cast<float>(u);
    if (!(p >= 0.0F && p <= 1.0F)) throw DecodeError("probability outside 0..1");
    out[branch_[k]] = p;
  }
}

void ChunkDecoder::ticks(const std::array<std::span<const std::uint8_t>, stage::count>& in,
                         std::uint64_t unit,
                         const std::array<std::uint64_t*, stage::count>& out) const {
  decode_ticks(in, unit, size(), out);
}

void decode_ticks(const std::array<std::span<const std::uint8_t>, stage::count>& in,
                  std::uint64_t unit, std::size_t n,
                  const std::array<std::uint64_t*, stage::count>& out) {
  std::vector<std::uint64_t> reference(n);
  std::uint64_t fetched = 0, retired = 0;
  for (unsigned s = 0; s < stage::count; ++s) {
    ByteReader r(in[s].data(), in[s].size());
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t code = r.varint();
      const std::uint64_t from = s == stage::fetch    ? fetched
                                 : s == stage::retire ? retired
                                 : s == stage::store  ? reference[i] * unit
                                                      : reference[i];
      std::uint64_t v = 0;
      if (code) {
        v = from + static_cast<std::uint64_t>(unzigzag(code - 1));
        reference[i] = v;
        if (s == stage::fetch) fetched = v;
        if (s == stage::retire) retired = std::max(retired, v);
      }
      out[s][i] = s == stage::store ? v : v * unit;
    }
    r.expect_end();
  }
}

}  // namespace tracekit
