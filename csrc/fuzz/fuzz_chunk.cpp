// Any bytes as a chunk's streams: decoded values lie within their ranges, or DecodeError.
// Input: u16 rows, u16 statics, then u32 pc step, u8 bits of each, then u16 length and bytes of
// each stream.
#include <cstring>
#include <memory>

#include "encode/chunk_codec.hpp"
#include "fuzz/round_trip.hpp"

namespace {

using namespace tracekit;
using fuzz::require;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : p_(data), end_(data + size) {}
  template <class T>
  T number() {
    T v{};
    std::memcpy(&v, p_, std::min(left(), sizeof(T)));
    p_ += std::min(left(), sizeof(T));
    return v;
  }
  // A copy of just its size: what is read beyond it is seen.
  std::span<const std::uint8_t> stream() {
    const std::size_t claimed = number<std::uint16_t>(), n = std::min(claimed, left());
    kept_.emplace_back(new std::uint8_t[n]);
    if (n) std::memcpy(kept_.back().get(), p_, n);
    p_ += n;
    return {kept_.back().get(), n};
  }

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - p_); }
  const std::uint8_t* p_;
  const std::uint8_t* end_;
  std::vector<std::unique_ptr<std::uint8_t[]>> kept_;
};

template <class F>
void attempt(F&& f) {
  try {
    f();
  } catch (const DecodeError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::size_t n = input.number<std::uint16_t>();
  std::vector<HotStatic> statics(input.number<std::uint16_t>() % 4096);
  std::uint64_t pc = 0;
  for (HotStatic& h : statics) {
    pc += input.number<std::uint32_t>();
    h.pc = pc;
    h.bits = input.number<std::uint8_t>();
    h.fall[0] = pc + 4;
  }
  std::array<std::span<const std::uint8_t>, column::count> streams;
  for (auto& s : streams) s = input.stream();
  attempt([&] {
    const ChunkDecoder d(statics, n, streams[column::static_id], streams[column::bits]);
    for (const std::uint32_t id : d.sid()) require(id < statics.size());
    std::vector<std::uint64_t> wide(n);
    std::vector<std::uint32_t> word(n), plain(n);
    std::vector<std::uint16_t> half(n);
    std::vector<std::uint8_t> byte(n);
    std::vector<float> real(n);
    const auto in_range = [&] {
      for (const std::uint32_t v : word) require(v <= far_distance);
    };
    attempt([&] { d.addr(streams[column::addr], wide.data()); });
    attempt([&] { d.fetch_distance(streams[column::fetch_distance], 6, word.data()), in_range(); });
    attempt([&] { d.distance(streams[column::data_distance], word.data()), in_range(); });
    attempt([&] {
      d.distance(streams[column::load_distance], plain.data());
      d.distance_ref(streams[column::load_distance_ref], plain.data(), word.data()), in_range();
    });
    attempt([&] {
      d.reuse(streams[column::data_reuse], half.data());
      for (const std::uint16_t v : half) require(v <= DataReuse::cap);
    });
    attempt([&] {
      d.window(streams[column::window_before], byte.data());
      for (const std::uint8_t v : byte) require(v <= 16);
    });
    attempt([&] {
      d.probability(streams[column::p_local], real.data());
      for (const float v : real) require(v >= 0 && v <= 1);
    });
    attempt([&] {
      std::array<std::vector<std::uint64_t>, stage::count> ticks;
      std::array<std::span<const std::uint8_t>, stage::count> in;
      std::array<std::uint64_t*, stage::count> out{};
      for (unsigned s = 0; s < stage::count; ++s) {
        in[s] = streams[column::fetch + s];
        ticks[s].resize(n);
        out[s] = ticks[s].data();
      }
      d.ticks(in, 1 + pc, out);
    });
  });
  return 0;
}
