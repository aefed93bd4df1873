// X86's text: `MACRO : uop   dst, src1, src2` (gem5's src/arch/x86/insts/microop_args.hh), plus the
// macros that print themselves alone (`CPUID`, `syscall`, `HLT`).
//
// Registers as gem5's operands are, not as the macro's are: `mov   r9, r9, rdx` reads rdx alone, a
// destination of one or two bytes is read too (the rest of the register stays), a media micro-op
// reads the half that it merges into.  Control registers, segments and rip are no operands here.
#include <algorithm>
#include <array>

#include "isa/decoders.hpp"
#include "isa/scan.hpp"
#include "isa/text_decode.hpp"
#include "isa/word_list.hpp"
#include "isa/x86_table.hpp"

namespace tracekit::isa {
namespace {

// gem5's numbers: t0-t15 follow the sixteen registers, the hidden ones follow those.
constexpr std::uint16_t temporaries = 16, prod_low = 32, prod_high = 33, quotient = 34,
                        remainder_ = 35, divisor = 36, double_bits = 37;
constexpr std::uint16_t micro_vectors = 16;  // %ufpN after the sixteen xmm registers
constexpr std::uint16_t high_halves = 128;   // %xmmN_high, where halves are told apart

struct Parsed {
  Reg reg;
  std::uint8_t width;  // bytes; 0 where the name does not tell
};

constexpr std::array<std::string_view, 8> legacy = {"ax", "cx", "dx", "bx", "sp", "bp", "si", "di"};

std::optional<Parsed> integer_register(std::string_view s) {
  const auto reg = [](std::size_t i, std::uint8_t w) {
    return Parsed{Reg{RegClass::integer, static_cast<std::uint16_t>(i)}, w};
  };
  for (std::size_t i = 0; i < legacy.size(); ++i) {
    const std::string_view n = legacy[i];
    if (s == n) return reg(i, 2);
    if (s.size() == 3 && s.substr(1) == n) {
      if (s[0] == 'r') return reg(i, 8);
      if (s[0] == 'e') return reg(i, 4);
    }
    if (s.size() == 3 && s.substr(0, 2) == n && s[2] == 'l') return reg(i, 1);  // spl
    // `ah` is a part of rax.
    if (i < 4 && s.size() == 2 && s[0] == n[0] && (s[1] == 'l' || s[1] == 'h')) return reg(i, 1);
  }
  if (s.size() < 2 || (s[0] != 'r' && s[0] != 't')) return std::nullopt;
  std::string_view digits = s.substr(1);
  std::uint8_t width = 8;
  if (digits.ends_with('b'))
    width = 1;
  else if (digits.ends_with('w'))
    width = 2;
  else if (digits.ends_with('d'))
    width = 4;
  if (width != 8) digits.remove_suffix(1);
  const auto i = index_of(digits);
  if (!i) return std::nullopt;
  if (s[0] == 'r') return *i >= 8 && *i < 16 ? std::optional(reg(*i, width)) : std::nullopt;
  return *i < 64 ? std::optional(reg(temporaries + *i, width)) : std::nullopt;
}

std::optional<Parsed> parse_register(std::string_view s, X86Registers registers) {
  if (!s.starts_with('%')) return integer_register(head_word(s));
  s.remove_prefix(1);
  const auto reg = [](RegClass cls, unsigned i) {
    return Parsed{Reg{cls, static_cast<std::uint16_t>(i)}, 0};
  };
  if (s.starts_with("xmm")) {
    const std::string_view word = head_word(s);
    const auto i = index_after(word.substr(0, word.find('_')), "xmm");
    if (!i || *i >= micro_vectors) return std::nullopt;
    const unsigned half = registers == X86Registers::renamed && word.ends_with("_high");
    return reg(RegClass::vector, *i + half * high_halves);
  }
  if (const auto i = index_after(head_word(s), "ufp"); i && *i < 64)
    return reg(RegClass::vector, micro_vectors + *i);
  if (const auto i = index_after(head_word(s), "mmx"); i && *i < 8)
    return reg(RegClass::floating, *i);  // an x87 register by its other name
  if (s.starts_with("st(") && s.size() > 3)
    if (const auto i = index_of(s.substr(3, s.find(')') == s.npos ? 0 : s.find(')') - 3));
        i && *i < 8)
      return reg(RegClass::floating, *i);
  return std::nullopt;
}

constexpr bool is_t0(Reg r) { return r.cls == RegClass::integer && r.index == temporaries; }

void add_src(StaticInst& inst, Reg r) {
  if (!is_t0(r)) inst.src.push_unique(r);
}
void add_dst(StaticInst& inst, Reg r) {
  if (!is_t0(r)) inst.dst.push_unique(r);
}
Reg gpr(unsigned i) { return Reg{RegClass::integer, static_cast<std::uint16_t>(i)}; }

// `DS:[8*rax + rbx + 0x10]`: the registers of the address are read.
void read_address(StaticInst& inst, std::string_view address) {
  while (!address.empty()) {
    const std::size_t n = std::min(address.find_first_of("+]"), address.size());
    std::string_view term = trim(address.substr(0, n));
    if (const std::size_t star = term.find('*'); star != term.npos) term.remove_prefix(star + 1);
    if (const auto r = integer_register(head_word(term))) add_src(inst, r->reg);
    address.remove_prefix(std::min(n + 1, address.size()));
  }
}

struct Text {
  std::string_view macro, uop, operands;
};

Text split(std::string_view s) {
  s = trim(s);
  const std::size_t colon = s.find(" : ");
  Text t;
  if (colon == s.npos) {
    t.macro = take_word(s);
    // Barriers print as `CMPXCHG_LOCKED_M_R.mfence`.
    if (const std::size_t dot = t.macro.find('.'); dot != t.macro.npos) {
      t.uop = t.macro.substr(dot + 1);
      t.macro = t.macro.substr(0, dot);
    }
    t.operands = s;
    return t;
  }
  t.macro = trim(s.substr(0, colon));
  s.remove_prefix(colon + 3);
  t.uop = take_word(s);
  t.operands = s;
  return t;
}

Flags branch_flags(const Text& t, unsigned upc) {
  using namespace flag;
  if (t.uop == "br")  // the loops and skips inside a macro; a few join two paths
    return IsControl | (x86_plain_branch(t.macro, upc) ? 0 : IsDirectControl | IsCondControl);
  if (t.uop != "wrip" && t.uop != "wripi") return 0;
  if (t.macro.starts_with("CALL"))
    return IsControl | IsUncondControl | IsCall |
           (t.macro.ends_with("_I") ? IsDirectControl : IsIndirectControl);
  if (t.macro.starts_with("RET") || t.macro.starts_with("IRET"))
    return IsControl | IsUncondControl | IsIndirectControl | IsReturn;
  if (t.macro.starts_with("JMP"))
    return IsControl | IsUncondControl |
           (t.macro.ends_with("_I") ? IsDirectControl : IsIndirectControl);
  if (in_list("J* LOOP*", t.macro)) return IsControl | IsCondControl | IsDirectControl;
  return IsControl | IsUncondControl | IsIndirectControl;
}

void infer(StaticInst& inst, const Text& t, const X86Traits& traits) {
  using namespace flag;
  if (t.uop.empty()) {
    inst.op = OpClass::IntAlu;
    inst.flags = t.macro == "CPUID" ? IsInteger | IsSerializing | IsSerializeAfter : 0;
    return;
  }
  inst.op = traits.op;
  inst.flags = traits.flags | IsMicroop | branch_flags(t, inst.upc);
  if (t.uop == "br") inst.op = OpClass::IntAlu;
  if (inst.upc == 0) inst.flags |= IsFirstMicroop;
}

// Bytes that one access of `uop` moves, where its data register's width does not tell.
std::uint8_t media_access(const Text& t) {
  // Four or eight by a prefix that the name does not show.
  if (in_list("MOVD_XMM_M MOVD_XMM_P MOVD_M_XMM MOVD_P_XMM CVTSI2SD_* CVTSI2SS_*", t.macro))
    return 0;
  // What the instruction accesses; gem5 fetches 8 bytes for most scalar singles.
  if (in_list("MOVSS_* ADDSS_* SUBSS_* MULSS_* DIVSS_* MINSS_* MAXSS_* SQRTSS_* RCPSS_* RSQRTSS_* "
              "CMPSS_* COMISS_* UCOMISS_* CVTSS2* CVTTSS2* INSERTPS_* ROUNDSS_* PMOVSXBD_* "
              "PMOVZXBD_* PMOVSXWQ_* PMOVZXWQ_*",
              t.macro))
    return 4;
  if (in_list("PMOVSXBQ_* PMOVZXBQ_*", t.macro)) return 2;
  if (in_list("ldfp87 ldifp87 stfp87", t.uop)) return 0;
  return 8;
}

void hidden_registers(StaticInst& inst, std::uint16_t hidden) {
  struct Hidden {
    std::uint16_t bits, index;
  };
  constexpr std::array read = {
      Hidden{x86_in_low, prod_low},      Hidden{x86_in_high, prod_high},
      Hidden{x86_in_quotient, quotient}, Hidden{x86_in_remainder, remainder_},
      Hidden{x86_in_divisor, divisor},   Hidden{x86_in_double, double_bits},
  };
  constexpr std::array written = {
      Hidden{x86_out_product, prod_low},  Hidden{x86_out_product, prod_high},
      Hidden{x86_out_division, quotient}, Hidden{x86_out_division, remainder_},
      Hidden{x86_out_divisor, divisor},   Hidden{x86_out_double, double_bits},
  };
  for (const Hidden& h : read)
    if (hidden & h.bits) add_src(inst, gpr(h.index));
  for (const Hidden& h : written)
    if (hidden & h.bits) add_dst(inst, gpr(h.index));
}

// The condition codes: one register, or those of gem5.
void add_conditions(StaticInst& inst, const Text& t, X86Conditions cc, X86Registers registers) {
  const auto codes = [](unsigned i) {
    return Reg{RegClass::condition, static_cast<std::uint16_t>(i)};
  };
  if (registers == X86Registers::whole) {
    if (cc.reads) inst.src.push_unique(codes(0));
    if (cc.writes) inst.dst.push_unique(codes(0));
    return;
  }
  const X86ConditionParts parts = x86_condition_parts(t.macro, t.uop, cc);
  for (unsigned i = 0; i < x86_condition_registers; ++i) {
    if (parts.reads >> i & 1) inst.src.push_unique(codes(i));
    if (parts.writes >> i & 1) inst.dst.push_unique(codes(i));
  }
}

}  // namespace

void decode_x86(StaticInst& inst, X86Registers registers) {
  const Text t = split(inst.disassembly);
  const X86Traits traits = t.uop.empty() ? X86Traits{X86Form::none} : x86_traits(t.uop, registers);
  if (inst.inferred) infer(inst, t, traits);

  const X86Conditions cc = x86_conditions(t.macro, t.uop, inst.upc, inst.flags);
  std::string_view rest = t.operands;
  std::uint8_t width = 0;
  bool wrote = false;  // the first general register of a load or a result has been taken
  for (unsigned at = 0; !rest.empty() && at < 8; ++at) {
    std::string_view operand = take_operand(rest);
    if (const std::size_t open = operand.find('['); open != operand.npos) {
      read_address(inst, operand.substr(open + 1));
      continue;
    }
    const auto r = parse_register(operand, registers);
    if (!r) continue;
    if (at == 0) width = r->width;
    const bool narrow = r->width != 0 && r->width < 4;
    switch (traits.form) {
      case X86Form::none:
        break;
      case X86Form::sources:
      case X86Form::store:
        add_src(inst, r->reg);
        break;
      case X86Form::load:
      case X86Form::write:
        if (at == 0) {
          add_dst(inst, r->reg);
          if (narrow) add_src(inst, r->reg);
        }
        break;
      case X86Form::load_pair:
        if (at < 2) add_dst(inst, r->reg);
        break;
      case X86Form::alu:
      case X86Form::media:
      case X86Form::media_new:
      case X86Form::mov:
        if (at == 0) {
          add_dst(inst, r->reg);
          wrote = true;
          if (traits.form == X86Form::media || (narrow && traits.form != X86Form::media_new))
            add_src(inst, r->reg);
        } else if (traits.form == X86Form::mov && t.uop == "mov" && at == 1 && width >= 4 &&
                   wrote && !cc.reads) {
          // gem5 drops this source of a full-width move.
        } else {
          add_src(inst, r->reg);
        }
        break;
    }
  }
  hidden_registers(inst, traits.hidden);
  if (t.uop.empty() && t.macro == "CPUID") {
    add_src(inst, gpr(0));
    add_src(inst, gpr(1));
    for (unsigned i = 0; i < 4; ++i) add_dst(inst, gpr(i));
  }
  add_conditions(inst, t, cc, registers);
  if (traits.op == OpClass::MemRead || traits.op == OpClass::MemWrite)
    inst.access_size = traits.form == X86Form::load_pair ||  // both halves
                               t.uop.starts_with("stsplit")
                           ? width * 2
                           : width;
  if (traits.op == OpClass::FloatMemRead || traits.op == OpClass::FloatMemWrite)
    inst.access_size = media_access(t);
}

}  // namespace tracekit::isa

namespace tracekit {

bool is_inner_branch(const StaticInst& inst) {
  const std::string_view text = inst.disassembly;
  const std::size_t colon = text.find(" : ");
  if (!inst.has(flag::IsControl) || colon == text.npos) return false;
  std::string_view rest = text.substr(colon + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest == "br" || rest.starts_with("br ");
}

std::optional<std::int64_t> x86_branch_displacement(const StaticInst& limm) {
  const isa::Text t = isa::split(limm.disassembly);
  // LOOP and JRCXZ have no limm: their displacement is in `wripi   t1, d`.
  const bool short_form = t.uop == "wripi" && isa::in_list("LOOP* JRCXZ*", t.macro);
  if (t.uop != "limm" && !short_form) return std::nullopt;
  std::string_view rest = t.operands;
  if (!isa::take_operand(rest).starts_with(short_form ? "t1" : "t2")) return std::nullopt;
  std::string_view number = isa::take_operand(rest);
  if (number.starts_with("0x")) number.remove_prefix(2);
  std::uint64_t v = 0;
  const auto [end, err] = std::from_chars(number.data(), number.data() + number.size(), v, 16);
  if (err != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  return short_form ? static_cast<std::int8_t>(v) : static_cast<std::int64_t>(v);
}

}  // namespace tracekit
