// The .tkt record format (docs/tkt-format.md), shared by the gem5 plug-in that writes it and the
// reader. C++17 and the standard library only: this header is compiled into gem5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tracekit::tkt {

inline constexpr std::string_view magic{"\x89TKT\r\n\x1a\n", 8};
inline constexpr std::uint16_t version = 2;
inline constexpr std::size_t preamble_size = 16;  // magic, version, knows, length of the header

// What a header may claim; a reader refuses more before it allocates anything.
inline constexpr std::size_t max_header = std::size_t{1} << 20;
inline constexpr std::size_t max_names = 1024;
inline constexpr std::size_t max_configuration = std::size_t{1} << 19;
inline constexpr std::size_t max_statics = std::size_t{1} << 28;

// The first byte of a record: a row's has bit 7 set (row_head::row), every other one is its kind.
namespace kind {
enum : std::uint8_t {
  statics = 1,  // one static instruction; the n-th one in the stream has number n
  mark = 3,     // a region of interest begins or ends
  end = 15,     // the last record of a complete stream
};
}  // namespace kind

// What is true of a row; the first four are also bits of its record.
namespace row_flag {
enum : std::uint8_t {
  taken = 1,
  fault = 2,
  predicated_off = 4,
  mispredicted = 8,
  has_addr = 16,
  untimed = 32,
};
}  // namespace row_flag

// The first two bytes of a row: which fields follow, and how wide they are.
namespace row_head {
enum : unsigned {
  facts = 15,        // row_flag::taken to mispredicted
  has_store = 16,    // the store's completion follows the other ticks
  has_thread = 32,   // a hardware thread that is not 0
  has_size = 64,     // an access size other than the static instruction's last one
  row = 128,         // always set
  form_shift = 8,    // two bits: tick_form
  sid_shift = 10,    // two bits: an index of sid_bytes
  addr_shift = 12,   // three bits: 0 = no address, else an index of addr_bytes
  reserved = 32768,  // never set
};
}  // namespace row_head

namespace tick_form {
enum : unsigned { none, bytes, shorts, wide };
}  // namespace tick_form

inline constexpr std::uint8_t sid_bytes[4] = {0, 1, 2, 4};
inline constexpr std::uint8_t addr_bytes[8] = {0, 0, 1, 2, 4, 8, 0, 0};  // 6 and 7: never written

// What the writer can tell at all: a bit that is clear here means "not told", not "false".
namespace knows {
enum : std::uint16_t { taken = 1, fault = 2, mispredicted = 4, predicated_off = 8 };
}  // namespace knows

namespace stage {
enum : unsigned { fetch, decode, rename, dispatch, issue, complete, retire, store, count };
}  // namespace stage

inline constexpr unsigned not_reached_byte = 0xff, not_reached_short = 0xffff;
inline constexpr std::size_t row_head_size = 2;
inline constexpr std::size_t record_head = 4;  // kind, 0, payload length: all but rows
inline constexpr std::size_t max_record = record_head + 0xffff;

struct Header {
  std::uint16_t knows{};
  std::uint64_t tick_frequency{};  // ticks a second
  std::uint64_t tick_unit{1};      // ticks in one unit of most differences: the CPU's clock period
  std::uint16_t stages{};          // bit i: stage i has ticks
  std::uint16_t cpu{};             // gem5's cpu id
  std::uint16_t threads{1};        // hardware threads of that CPU
  std::string isa;                 // "arm", "x86", "riscv", ...
  std::string cpu_name;            // "system.cpu0"
  std::string model;               // "o3", "minor", "timing", "atomic"
  std::string producer;            // the simulator and its version
  std::vector<std::string> op_classes, flags, reg_classes;
  std::string configuration;  // the run's config.ini by zlib; empty where nobody told it
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
  std::uint8_t flags{};   // row_flag
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

// Bytes of a row with this head in a stream with these stages.
constexpr std::size_t row_size(unsigned head, std::uint16_t stages) {
  std::size_t n = row_head_size;
  const unsigned form = head >> row_head::form_shift & 3;
  constexpr std::size_t fetch[] = {0, 1, 4, 8}, other[] = {0, 1, 2, 8}, store[] = {0, 4, 4, 8};
  for (unsigned s = stage::fetch; s < stage::store; ++s)
    if (stages & (1u << s)) n += s == stage::fetch ? fetch[form] : other[form];
  if (head & row_head::has_store) n += store[form];
  n += sid_bytes[head >> row_head::sid_shift & 3];
  n += addr_bytes[head >> row_head::addr_shift & 7];
  if (head & row_head::has_size) n += 2;
  if (head & row_head::has_thread) n += 1;
  return n;
}
inline constexpr std::size_t max_row = row_head_size + 8 * stage::count + 4 + 8 + 2 + 1;
static_assert(row_size(0x7fff, 0xff) <= max_row && row_size(0x5fff, 0xff) == max_row);

}  // namespace tracekit::tkt
