// AArch64's text (gem5's src/arch/arm/insts/*.cc): `mnemonic   dst, src, ...`.
//
// gem5 prints vector and floating-point registers by the name of the general register with the same
// number (`ldr   x10, [x0]` is ldr d10) or as fN, and zero as the vector 31.  What repairs it: gem5
// sets IsVector when any operand is a vector and IsInteger when any is a general register, and
// where both are, the mnemonic tells which is which (inside brackets all are general but SVE's z).
// Only `fmov   f1, f0` with both flags stays open: it moves either way and is read as d1 <- x0. The
// micro-op of a pre- or post-indexed access does not write its base: the addxi_uop after it does.
#include <array>

#include "isa/arm_table.hpp"
#include "isa/decoders.hpp"
#include "isa/scan.hpp"

namespace tracekit::isa {
namespace {

constexpr std::uint16_t zero_index = 31, stack_pointer = 31, first_temporary = 32, link = 30;
constexpr std::size_t max_operands = 10, max_name = 24;

struct Operand {
  char letter{};  // x, w, f, v, z or p
  std::uint16_t index{};
  bool stack{}, zero{}, temporary{};
  bool address{};  // inside brackets
};

struct Operands {
  std::array<Operand, max_operands> regs{};
  std::size_t count{};
  unsigned immediates{};  // `#n` outside brackets, shift amounts apart
  bool indexed{};         // `], #8]` or `]!`: pre- or post-indexed
  bool has_nzcv{}, sve{};
  std::uint16_t offset{};  // the immediate inside brackets, if it is positive
  std::uint16_t shift{};   // of the index register inside brackets
  bool merging{};          // SVE's /m: lanes that are off keep the destination's old value
};

std::optional<Operand> parse_register(std::string_view s) {
  Operand o;
  if (s == "ureg0") {
    o.letter = 'x';
    o.index = first_temporary;
    o.temporary = true;
    return o;
  }
  if (s == "sp" || s == "wsp") {
    o.letter = s.front() == 'w' ? 'w' : 'x';
    o.index = stack_pointer;
    o.stack = true;
    return o;
  }
  if (s == "xzr" || s == "wzr") {
    o.letter = s.front();
    o.index = zero_index;
    o.zero = true;
    return o;
  }
  if (s.empty() || std::string_view("xwfvzp").find(s.front()) == s.npos) return std::nullopt;
  const auto i = index_of(s.substr(1));
  if (!i || *i >= 64) return std::nullopt;
  o.letter = s.front();
  o.index = *i;
  if ((o.letter == 'x' || o.letter == 'w') && *i > zero_index) {
    // gem5's own indices of ureg1 and ureg2 are 36 and 37.
    o.index = static_cast<std::uint16_t>(*i > 35 ? first_temporary + *i - 35 : *i);
    o.temporary = true;
  }
  return o;
}

Operands parse_operands(std::string_view s) {
  Operands out;
  bool inside = false;
  s = s.substr(0, std::min(s.find('<'), s.size()));  // a symbol: the target of a branch
  out.merging = s.find("/m,") != s.npos;
  out.indexed = s.find("], #") != s.npos || s.find("]!") != s.npos;
  while (!s.empty()) {
    const std::string_view whole = take_operand(s);
    std::string_view part = whole;
    while (!part.empty() && (part.front() == '[' || part.front() == '{' || part.front() == ' ')) {
      if (part.front() == '[') inside = true;
      part.remove_prefix(1);
    }
    if (part.starts_with('#')) {
      if (!inside)
        ++out.immediates;
      else
        out.offset = leading_number(part.substr(1));
    } else if (const auto hash = part.find(" #"); inside && hash != part.npos) {
      out.shift = leading_number(part.substr(hash + 2));  // `LSL #3`, `SXTW #2`
    } else if (part.starts_with("nzcv")) {
      out.has_nzcv = true;
    } else if (auto r = parse_register(head_word(part)); r && out.count < max_operands) {
      r->address = inside;
      out.sve |= r->letter == 'z' || r->letter == 'p';
      out.regs[out.count++] = *r;
    }
    if (whole.find(']') != whole.npos) inside = false;
  }
  return out;
}

// gem5 prints x for a word, a doubleword and every vector register alike.  Two things in the
// address tell: an index is shifted by the size, and a scaled offset is a multiple of it.
std::uint16_t size_by_address(const Operands& ops, bool vector, bool scaled) {
  if (ops.indexed) return 0;
  if (ops.shift >= 1 && ops.shift <= 3) return static_cast<std::uint16_t>(1U << ops.shift);
  return scaled && !vector && ops.offset % 8 == 4 ? 4 : 0;
}

std::optional<Reg> as_register(const Operand& o, bool vector) {
  if (o.letter == 'p') return Reg{RegClass::vector_predicate, o.index};
  if (vector) return Reg{RegClass::vector, o.index};
  if (o.zero) return std::nullopt;
  // `f31` as the general operand of fmov and its like is the zero register.
  if (o.letter == 'f' && o.index == zero_index) return std::nullopt;
  return Reg{RegClass::integer, o.index};
}

bool names_vector(char letter) { return letter == 'v' || letter == 'z' || letter == 'f'; }

// Is operand `at` a vector register?
bool is_vector(const Operands& ops, std::size_t at, Flags flags, const ArmTraits& traits) {
  const Operand& o = ops.regs[at];
  if (ops.sve) return names_vector(o.letter);
  if (o.address) return false;
  if (!(flags & (flag::IsVector | flag::IsFloating))) return names_vector(o.letter);
  if (!(flags & flag::IsInteger)) return true;
  if (flags & (flag::IsLoad | flag::IsStore)) return true;  // the data register
  // One side is general: the first operand, or all others.
  return (at == 0) != ((traits.shape & arm_int_dst) != 0);
}

void infer(StaticInst& inst, const ArmTraits& traits, const Operands& ops, std::string_view name) {
  inst.op = traits.op;
  inst.flags = traits.flags;
  const char letter = ops.count ? ops.regs[0].letter : '\0';
  for (std::size_t i = 0; i < ops.count; ++i)
    if (names_vector(ops.regs[i].letter) && !ops.regs[i].address) inst.flags |= flag::IsVector;
  if (inst.flags & flag::IsVector) {
    // gem5 prints scalars as fN and whole vectors as wN.
    if (letter == 'w' || letter == 'x') inst.op = arm_vector_op(name, inst.op);
    if (arm_mixes(name, letter == 'f', ops.immediates)) inst.flags |= flag::IsInteger;
  }
  if (ops.indexed && (traits.flags & (flag::IsLoad | flag::IsStore))) inst.flags |= flag::IsMicroop;
  if ((inst.flags & flag::IsMicroop) && inst.upc == 0) inst.flags |= flag::IsFirstMicroop;
}

void add(SrcRegs& regs, const std::optional<Reg>& r) {
  if (r) regs.push_unique(*r);
}
void add(DstRegs& regs, const std::optional<Reg>& r) {
  if (r) regs.push_unique(*r);
}

}  // namespace

void decode_arm(StaticInst& inst) {
  std::string_view rest = inst.disassembly;
  const std::string_view word = take_word(rest);
  // gem5 spells some names with capitals (Uzp1, fcvtZs).
  std::array<char, max_name> buffer;
  const std::size_t length = std::min(word.size(), max_name);
  std::transform(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(length), buffer.begin(),
                 lower);
  const std::string_view name(buffer.data(), length);

  Operands ops = parse_operands(rest);
  const bool vector = inst.has(flag::IsVector | flag::IsFloating) || ops.sve;
  const ArmSpace space = ops.sve                    ? ArmSpace::sve
                         : !inst.inferred && vector ? ArmSpace::vector
                                                    : ArmSpace::general;
  const ArmTraits traits = arm_traits(name, space);
  if (ops.sve && ops.regs[0].letter == 'z' && sve_names_predicate(name)) {
    bool predicates = ops.count > 1;
    for (std::size_t i = 1; i < ops.count; ++i) predicates &= ops.regs[i].letter == 'p';
    if (predicates) ops.regs[0].letter = 'p';
  }
  if (inst.inferred) infer(inst, traits, ops, name);

  std::size_t data = 0;  // registers before the address
  while (data < ops.count && !ops.regs[data].address) ++data;
  const auto reg = [&](std::size_t i) {
    return as_register(ops.regs[i], is_vector(ops, i, inst.flags, traits));
  };

  // Which of the data registers are written?
  std::size_t first_written = 0, written = data ? 1 : 0;
  if (inst.has(flag::IsStore) && !inst.has(flag::IsStoreConditional | flag::IsAtomic)) written = 0;
  if (inst.has(flag::IsDataPrefetch) || (traits.shape & arm_no_dst)) written = 0;
  if (traits.shape & arm_two_dst) written = std::min<std::size_t>(data, 2);
  if ((traits.shape & arm_second_dst) && data >= 2) first_written = 1;
  bool overwrites = !(traits.shape & arm_dst_is_src) && !ops.merging;
  if ((traits.shape & arm_drops_zero) && !vector) {
    // `subs   x2, x1` and `adds   x0, #1` lack the destination, which was zero; adr has no source.
    const std::size_t full = (ops.immediates ? 1 : 2) + (name.starts_with("adr") ? 0 : 1);
    if (data < full) written = 0;
  }
  if (vector && ops.immediates && data == 1 && (name == "orr" || name == "bic"))
    overwrites = false;  // the immediate form changes the register in place
  if (traits.shape & arm_compare_swap) {
    first_written = data / 2;  // new values first, then the expected ones
    written = data - first_written;
    overwrites = false;
  }

  for (std::size_t i = 0; i < ops.count; ++i) {
    const auto r = reg(i);
    if (i >= first_written && i < first_written + written) {
      add(inst.dst, r);
      if (overwrites) continue;
    }
    add(inst.src, r);
  }

  const bool returns = name.starts_with("ret");
  if (returns && ops.count == 0) add(inst.src, Reg{RegClass::integer, link});
  if (traits.shape & arm_links) add(inst.dst, Reg{RegClass::integer, link});
  // A single access that updates its base itself (no gem5 of today prints one).
  if (ops.indexed && !inst.has(flag::IsMicroop) && data < ops.count && !inst.inferred)
    add(inst.dst, reg(data));
  const Reg codes{RegClass::condition, 0};
  if (traits.shape & arm_reads_cc || (ops.has_nzcv && name == "mrs")) inst.src.push_unique(codes);
  if (traits.shape & arm_writes_cc || (ops.has_nzcv && name == "msr")) inst.dst.push_unique(codes);

  if (traits.size > 0) {
    inst.access_size = static_cast<std::uint16_t>(traits.size);
  } else if (traits.size == arm_by_address && data && !ops.sve) {
    inst.access_size = size_by_address(ops, vector, name == "ldr" || name == "str");
  }
}

}  // namespace tracekit::isa
