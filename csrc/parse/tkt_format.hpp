// The .tkt record format (docs/tkt-format.md), shared by the gem5 plug-in that writes it and the
// reader. C++17 and the standard library only: this header is compiled into gem5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tracekit::tkt {

inline constexpr std::string_view magic{"\x89TKT\r\n\x1a\n", 8};
inline constexpr std::uint16_t version = 1;
inline constexpr std::size_t preamble_size = 16;  // magic, version, knows, length of the header

// What a header may claim; a reader refuses more before it allocates anything.
inline constexpr std::size_t max_header = std::size_t{1} << 20;
inline constexpr std::size_t max_names = 1024;
inline constexpr std::size_t max_statics = std::size_t{1} << 28;

// The low four bits of a record's first byte.
namespace kind {
enum : std::uint8_t {
  statics = 1,  // one static instruction; the n-th one in the stream has number n
  row = 2,      // one dynamic instruction, high four bits = hardware thread
  mark = 3,     // a region of interest begins or ends
  end = 15,     // the last record of a complete stream
};
}  // namespace kind

namespace row_flag {
enum : std::uint8_t {
  has_addr = 1,
  taken = 2,
  fault = 4,
  predicated_off = 8,
  mispredicted = 16,
  wide = 32,       // ticks are absolute 64-bit numbers
  has_store = 64,  // the store's completion follows the other ticks
  untimed = 128,   // no ticks follow
};
}  // namespace row_flag

// What the writer can tell at all: a bit that is clear here means "not told", not "false".
namespace knows {
enum : std::uint16_t { taken = 1, fault = 2, mispredicted = 4, predicated_off = 8 };
}  // namespace knows

namespace stage {
enum : unsigned { fetch, decode, rename, dispatch, issue, complete, retire, store, count };
}  // namespace stage

inline constexpr std::uint16_t not_reached = 0xffff;  // of a narrow stage delta
inline constexpr std::size_t row_head = 8;            // kind, flags, access size, static number
inline constexpr std::size_t record_head = 4;         // kind, 0, payload length: all but rows
inline constexpr std::size_t max_record = record_head + 0xffff;
inline constexpr std::size_t end_payload = 24;   // rows, statics, last tick
inline constexpr std::size_t mark_payload = 20;  // what, tick, instructions so far

struct Header {
  std::uint16_t knows{};
  std::uint64_t tick_frequency{};  // ticks a second
  std::uint64_t tick_unit{1};      // ticks in one unit of a narrow delta: the CPU's clock period
  std::uint16_t stages{};          // bit i: stage i has ticks
  std::uint16_t cpu{};             // gem5's cpu id
  std::uint16_t threads{1};        // hardware threads of that CPU
  std::string isa;                 // "arm", "x86", "riscv", ...
  std::string cpu_name;            // "system.cpu0"
  std::string model;               // "o3", "minor", "timing", "atomic"
  std::string producer;            // the simulator and its version
  std::vector<std::string> op_classes, flags, reg_classes;
};

struct RegRef {
  std::uint8_t cls{};  // index into Header::reg_classes
  std::uint16_t index{};
  friend bool operator==(const RegRef& a, const RegRef& b) {
    return a.cls == b.cls && a.index == b.index;
  }
};

struct Static {
  std::uint64_t pc{};
  std::uint64_t flags{};  // bit i: Header::flags[i]
  std::uint16_t upc{};
  std::uint16_t op{};     // index into Header::op_classes
  std::uint8_t length{};  // bytes of the (macro) instruction; 0 = unknown
  std::string bytes;      // machine code, empty where unknown
  std::vector<RegRef> src, dst;
  std::string disassembly;
};

struct Row {
  std::uint32_t sid{};
  std::uint16_t access_size{};
  std::uint8_t flags{};   // row_flag, without wide and has_store, which the writer sets
  std::uint8_t thread{};  // below 16
  std::uint64_t addr{};
  std::uint64_t ticks[stage::count]{};  // 0 = not reached
};

// Little-endian whatever the machine; compilers turn these into one load or store.
template <class T>
inline void put(char* out, T v) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<char>(v >> (8 * i));
}
template <class T>
inline T get(const char* in) {
  T v = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    v |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(in[i])) << (8 * i));
  return v;
}

// Bytes of a row with these flags in a stream with these stages.
constexpr std::size_t row_size(std::uint8_t flags, std::uint16_t stages) {
  std::size_t n = row_head;
  if (flags & row_flag::has_addr) n += 8;
  if (stages == 0 || (flags & row_flag::untimed)) return n;
  const bool wide = (flags & row_flag::wide) != 0;
  if (stages & (1u << stage::fetch)) n += wide ? 8 : 4;
  for (unsigned s = stage::decode; s <= stage::retire; ++s)
    if (stages & (1u << s)) n += wide ? 8 : 2;
  if (flags & row_flag::has_store) n += wide ? 8 : 4;
  return n;
}
inline constexpr std::size_t max_row = row_head + 8 + 8 * stage::count;

}  // namespace tracekit::tkt
