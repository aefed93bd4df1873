// Where an x86-64 instruction touches memory, as a recipe that is evaluated from the registers
// before it runs.  A decoder makes the recipe once for each machine code; nothing here decodes.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <array>
#include <cstdint>
#include <vector>

#include "core/static_inst.hpp"
#include "formats/common/native_batch.hpp"
#include "record/ptrace.hpp"

namespace tracekit::record {

// General registers by x86's own numbers: rax rcx rdx rbx rsp rbp rsi rdi r8..r15.
inline constexpr std::uint8_t no_reg = 0xff, reg_rip = 16, reg_rsp = 4;

struct Operand {
  enum class Kind : std::uint8_t {
    plain,       // segment + base + index * scale + disp
    bit_string,  // bt and its kin with a register: the operand's bits are addressed by `index`
    low_byte,    // xlat: the index is the register's lowest byte
    gather,  // one access for each element of vector register `index` that the mask lets through
  };
  enum class Segment : std::uint8_t { flat, fs, gs };

  Kind kind{Kind::plain};
  Segment segment{Segment::flat};
  std::uint8_t base{no_reg}, index{no_reg}, scale{1};
  bool short_address{};  // the 32-bit address size: registers and sum are cut to 32 bits
  bool load{}, store{};
  std::uint32_t size{};  // bytes of one access; 0 = unknown
  std::int64_t disp{};
  // gather and scatter
  std::uint8_t elements{}, index_bytes{};
  bool mask_is_vector{};  // AVX2: the sign bit of each element of a vector register, else an opmask
  std::uint8_t mask{no_reg};
};

// What the stepper must do about an instruction besides recording it.
enum class Special : std::uint8_t {
  none,
  system_call,
  interrupt,   // int, int3, sysenter, hlt...: leaves user code in a way that is not followed
  push_flags,  // would show the program our trap flag
};

struct Recipe {
  std::uint8_t length{};
  BranchKind branch{BranchKind::none};
  Special special{Special::none};
  bool rep{};          // rep prefix on a string instruction: rip stays until it is done
  bool rep_counted{};  // ... and rcx alone says how often (movs, stos, lods)
  std::vector<Operand> operands;
};

// Vector and mask registers, fetched only for gathers.
class VectorState {
 public:
  VectorState();
  void fetch(pid_t tid);  // throws Gone, Error
  // Element `i` of `bytes` bytes of vector register `reg`, sign-extended.
  std::int64_t element(unsigned reg, unsigned i, unsigned bytes) const;
  std::uint64_t mask(unsigned reg) const;

 private:
  std::vector<std::uint8_t> area_;
  std::array<std::uint32_t, 8> offset_{};  // of XSAVE's components, in the standard form
};

std::uint64_t general_register(const Regs& regs, std::uint8_t number);

struct Access {
  std::uint64_t address;
  std::uint32_t size;
  bool store;
};
// Appends the accesses that the instruction at regs.rip is about to make: in the operands' order, a
// read-modify-write as a load and then a store.
void evaluate(const Recipe& recipe, const Regs& regs, pid_t tid, VectorState& vectors,
              std::vector<Access>& out);

}  // namespace tracekit::record
#endif
