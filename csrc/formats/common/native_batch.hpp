// What a stream of a real machine's instructions is made of, whatever its source (a recording,
// DynamoRIO's drmemtrace, ChampSim, QEMU's execlog, Valgrind's lackey): dynamic instructions in
// program order, each pointing at its machine code, and their memory accesses.  The step after this
// one turns it into a RowBatch and a StaticTable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/row_batch.hpp"
#include "core/static_inst.hpp"

namespace tracekit {

// One machine instruction at one address.  Code that is rewritten in place (a JIT) has several.
struct Encoding {
  static constexpr std::size_t max_bytes = 15;  // x86's limit; AArch64 has 4, RISC-V 2 or 4

  std::uint64_t pc{};
  std::uint8_t length{};  // bytes of the instruction; 0 = the source does not say
  bool known{};           // `bytes` is the machine code (a source may give a length alone)
  // In memory order, zeros after `length`.  Where the code is not known, what the source tells
  // instead (ChampSim's registers, drmemtrace's kind of branch), or zeros.
  std::array<std::uint8_t, max_bytes> bytes{};

  std::string_view code() const {
    return known ? std::string_view(reinterpret_cast<const char*>(bytes.data()), length)
                 : std::string_view();
  }
  friend bool operator==(const Encoding&, const Encoding&) = default;
};

// Interns encodings: one id for each pc and content, ids from 0 in order of first appearance.
class EncodingTable {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  // Throws std::length_error for more bytes than an instruction can have.
  std::uint32_t intern(std::uint64_t pc, std::string_view code) {
    if (code.size() > Encoding::max_bytes)
      throw std::length_error("an instruction of over 15 bytes");
    Encoding e;
    e.pc = pc;
    e.length = static_cast<std::uint8_t>(code.size());
    e.known = !code.empty();
    std::memcpy(e.bytes.data(), code.data(), code.size());
    return intern(e);
  }
  std::uint32_t intern(const Encoding& e) {
    if (2 * (all_.size() + 1) > slots_.size()) grow();
    std::size_t at = hash(e) & (slots_.size() - 1);
    for (; slots_[at] != none; at = (at + 1) & (slots_.size() - 1))
      if (all_[slots_[at]] == e) return slots_[at];
    slots_[at] = static_cast<std::uint32_t>(all_.size());
    all_.push_back(e);
    return slots_[at];
  }
  const Encoding& operator[](std::uint32_t id) const { return all_[id]; }
  std::size_t size() const { return all_.size(); }

 private:
  // Of the content too: an input may hold any number of contents for one pc.
  static std::size_t hash(const Encoding& e) {
    std::uint64_t head, rest;
    std::memcpy(&head, e.bytes.data(), 8);
    std::memcpy(&rest, e.bytes.data() + Encoding::max_bytes - 8, 8);
    std::uint64_t h = e.pc * 0x9e3779b97f4a7c15ULL;
    h = (h ^ (h >> 29) ^ head) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 32) ^ rest) * 0x94d049bb133111ebULL;
    return static_cast<std::size_t>(h >> 20);
  }
  void grow() {
    std::vector<std::uint32_t> wider(slots_.empty() ? 1024 : 2 * slots_.size(), none);
    for (std::uint32_t id = 0; id < all_.size(); ++id) {
      std::size_t at = hash(all_[id]) & (wider.size() - 1);
      while (wider[at] != none) at = (at + 1) & (wider.size() - 1);
      wider[at] = id;
    }
    slots_ = std::move(wider);
  }

  std::vector<Encoding> all_;
  std::vector<std::uint32_t> slots_;  // open addressing, a power of two, at most half full
};

namespace native_bit {
enum : std::uint8_t {
  taken = 1,        // the branch was taken (only where `taken_known`)
  taken_known = 2,  // the source told the outcome; else the next instruction's pc decides
  restart = 4,  // does not follow from the instruction before: an epoch's first, a signal, a gap
  no_end = 8,   // the source stopped inside it: a system call or fault that was not followed
};
}  // namespace native_bit

// Accesses that one instruction may have: a repeated string instruction has those of all its
// rounds, and a damaged or hostile stream one without end.  What is over it is counted and left
// out.
inline constexpr std::size_t max_accesses = std::size_t{1} << 21;

// A stretch of one thread's (or one CPU's) instructions in program order.  `encoding` indexes the
// EncodingTable that the stream keeps beside its batches and that only grows.
struct NativeBatch {
  Column<std::uint32_t> encoding;
  Column<std::uint8_t> bits;           // native_bit
  Column<std::uint64_t> first_access;  // the instruction's accesses start here...
  Column<std::uint64_t> address;       // (one element an access, in the order they were made)
  Column<std::uint32_t> access_size;   // bytes; 0 = unknown
  Column<std::uint8_t> is_store;       // 1 = store, 0 = load; a read-modify-write is one of each

  std::size_t size() const { return encoding.size(); }
  std::size_t accesses() const { return address.size(); }
  // ...and end before this one.
  std::size_t end_access(std::size_t i) const {
    return i + 1 < first_access.size() ? first_access[i + 1] : address.size();
  }
  void add_instruction(std::uint32_t id, std::uint8_t b) {
    encoding.push_back(id);
    bits.push_back(b);
    first_access.push_back(address.size());
  }
  void add_access(std::uint64_t at, std::uint32_t size, bool store) {  // of the last instruction
    address.push_back(at);
    access_size.push_back(size);
    is_store.push_back(store ? 1 : 0);
  }
  void clear() {
    encoding.clear();
    bits.clear();
    first_access.clear();
    address.clear();
    access_size.clear();
    is_store.clear();
  }
};

}  // namespace tracekit
