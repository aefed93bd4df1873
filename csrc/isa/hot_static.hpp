// The few facts of a static instruction that every dynamic row asks for, in 32 bytes.
#pragma once

#include <cstdint>

#include "core/static_table.hpp"

namespace tracekit {

struct HotStatic {
  enum : std::uint8_t {
    control = 1,
    conditional = 2,
    load_ref = 4,  // what perfvec-ref counts as a load: the op class MemRead alone
    load = 8,      // reads memory
    memory = 16,   // expected to access memory
    syscall = 32,
    any_fall = 64,  // the fall-through is not known: up to 15 bytes behind pc
    last = 128,     // ends its instruction: a macro-op's last micro-op, or no micro-op at all
  };
  std::uint64_t pc{};
  std::uint64_t
      fall[2]{};  // where a conditional branch goes on when it is not taken; 0 = no candidate
  std::uint16_t upc{};
  std::uint8_t bits{};
  bool inner{};  // a branch of the microcode, which its macro-op is not

  bool is(unsigned mask) const { return (bits & mask) != 0; }
};

// A HotStatic as the file's static table holds it.  The encoder's own go through `stored` into the
// table and the decoder's through `restored` out of it: both foretell the same of a row.
struct StoredHot {
  std::uint64_t pc{};
  std::uint16_t upc{};
  std::uint8_t bits{};
  std::uint8_t fall[2]{};  // bytes behind pc; 0 = no candidate
};

inline StoredHot stored(const HotStatic& h) {
  StoredHot s{h.pc, h.upc, h.bits, {}};
  for (unsigned k = 0; k < 2; ++k)
    s.fall[k] = static_cast<std::uint8_t>(h.fall[k] ? h.fall[k] - h.pc : 0);
  return s;
}

inline HotStatic restored(const StoredHot& s) {
  HotStatic h;
  h.pc = s.pc, h.upc = s.upc, h.bits = s.bits;
  for (unsigned k = 0; k < 2; ++k) h.fall[k] = s.fall[k] ? s.pc + s.fall[k] : 0;
  return h;
}

// Everything it needs must be in the table already: of an X86 branch, the `limm` of its macro-op.
HotStatic make_hot(Arch arch, const StaticTable& table, std::uint32_t sid);

}  // namespace tracekit
