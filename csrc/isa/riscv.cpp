// RISC-V's text (gem5's src/arch/riscv/insts/*.cc): `mnemonic rd, rs1, rs2`, `ld rd, 8(rs1)`,
// `amoadd_w rd, rs2, (rs1)`.  Compressed instructions lead with `c_` and hide the operand that they
// read and write, or their fixed register.  Traces of RTL print Spike's text instead: dots for the
// underscores, and the assembler's aliases (`ret`, `c.mv a0, a1`, `beqz a0, pc + 8`).
#include <array>

#include "isa/decoders.hpp"
#include "isa/riscv_table.hpp"
#include "isa/scan.hpp"

namespace tracekit::isa {
namespace {

struct Name {
  std::string_view prefix;
  std::uint16_t first;  // the number of `prefix`0
  std::uint16_t count;
  std::uint16_t from = 0;  // the first index of this run
};

constexpr std::size_t max_name = 48;

// The ABI's names; s and t come in two runs each.
constexpr std::array integer_names = {
    Name{"a", 10, 8},     Name{"t", 5, 3},  Name{"t", 28, 4, 3}, Name{"s", 8, 2},
    Name{"s", 18, 10, 2}, Name{"x", 0, 32}, Name{"ureg", 32, 1},
};
constexpr std::array float_names = {
    Name{"fa", 10, 8}, Name{"ft", 0, 8},      Name{"ft", 28, 4, 8},
    Name{"fs", 8, 2},  Name{"fs", 18, 10, 2}, Name{"f", 0, 32},
};

template <class Table>
std::optional<std::uint16_t> find_name(const Table& table, std::string_view s) {
  for (const Name& n : table)
    if (const auto i = index_after(s, n.prefix); i && *i >= n.from && *i < n.from + n.count)
      return static_cast<std::uint16_t>(n.first + *i - n.from);
  return std::nullopt;
}

std::optional<Reg> parse_register(std::string_view s) {
  if (s == "zero") return Reg{RegClass::integer, 0};
  if (s == "ra") return Reg{RegClass::integer, 1};
  if (s == "sp") return Reg{RegClass::integer, 2};
  if (s == "gp") return Reg{RegClass::integer, 3};
  if (s == "tp") return Reg{RegClass::integer, 4};
  if (s == "fp") return Reg{RegClass::integer, 8};
  if (const auto i = find_name(integer_names, s)) return Reg{RegClass::integer, *i};
  if (const auto i = find_name(float_names, s)) return Reg{RegClass::floating, *i};
  if (const auto i = index_after(s, "v"); i && *i < 64) return Reg{RegClass::vector, *i};
  if (const auto i = index_after(s, "vtmp"); i && *i < 64)
    return Reg{RegClass::vector, static_cast<std::uint16_t>(32 + *i)};
  return std::nullopt;
}

constexpr bool is_zero(Reg r) { return r.cls == RegClass::integer && r.index == 0; }

void add_src(StaticInst& inst, Reg r) {
  if (!is_zero(r)) inst.src.push_unique(r);
}
void add_dst(StaticInst& inst, Reg r) {
  if (!is_zero(r)) inst.dst.push_unique(r);
}

void infer(StaticInst& inst, const RiscvTraits& t, std::string_view mnemonic,
           const std::optional<Reg>& first, const std::optional<Reg>& base) {
  inst.op = t.op;
  inst.flags = t.flags;
  if (!(t.flags & flag::IsAtomic)) inst.flags |= access_flags(t.op);
  // A jump's kind follows from the registers (the calling convention's hints).
  const auto link = [](const std::optional<Reg>& r) {
    return r && r->cls == RegClass::integer && (r->index == 1 || r->index == 5);
  };
  if (mnemonic == "jal" && link(first)) inst.flags |= flag::IsCall;
  if (mnemonic == "jalr") {
    if (link(first))
      inst.flags |= flag::IsCall;
    else if (link(base))
      inst.flags |= flag::IsReturn;
  }
  if ((mnemonic == "c_jr" || mnemonic == "jr") && link(first)) inst.flags |= flag::IsReturn;
  if (inst.upc == 0 && (inst.flags & flag::IsMicroop)) inst.flags |= flag::IsFirstMicroop;
}

}  // namespace

void decode_riscv(StaticInst& inst) {
  std::string_view rest = inst.disassembly;
  std::string_view word = take_word(rest);
  // The memory fence inside an atomic prints its encoding first.
  const bool fence_in_atomic = word.starts_with("0x");
  if (fence_in_atomic) word = take_word(rest);
  // `amoswap_d[l]` and `lr_w_aq`: the ordering is no part of the name.
  std::array<char, max_name> buffer;
  const std::size_t length = std::min({word.find('['), word.size(), max_name});
  std::transform(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(length), buffer.begin(),
                 [](char c) { return c == '.' ? '_' : c; });
  std::string_view name(buffer.data(), length);
  for (const std::string_view order : {"_aqrl", "_aq", "_rl"})
    if (name.ends_with(order)) name.remove_suffix(order.size());
  RiscvTraits traits = riscv_traits(name);

  std::array<std::optional<Reg>, 5> regs{};  // in the order of the text, memory base apart
  std::optional<Reg> base;
  std::size_t n = 0;
  bool first_is_register = false;
  for (std::size_t at = 0; !rest.empty() && at < 8; ++at) {
    std::string_view operand = take_operand(rest);
    if (const std::size_t open = operand.find('('); open != std::string_view::npos) {
      if (!base) base = parse_register(head_word(operand.substr(open + 1)));
      continue;
    }
    if (const auto r = parse_register(head_word(operand)); r && n < regs.size()) {
      if (at == 0) first_is_register = true;
      regs[n++] = r;
    }
  }

  // `jal target` and `jalr rs` link to ra without naming it.
  const bool short_link = (name == "jal" && n == 0) || (name == "jalr" && n == 1 && !base);
  if (short_link) {
    traits.shape |= riscv_no_dst | riscv_writes_ra;
    traits.flags |= flag::IsCall;
  }
  if (name == "jalr" && n >= 2 && !base) base = regs[--n];  // `jalr rd, rs, 0`
  if (inst.inferred) infer(inst, traits, name, short_link ? std::nullopt : regs[0], base);
  if (inst.inferred && fence_in_atomic) inst.flags |= flag::IsMicroop;
  const bool store =
      inst.has(flag::IsStore) && !inst.has(flag::IsStoreConditional | flag::IsAtomic);
  const bool branch = inst.has(flag::IsCondControl);
  const bool all_sources = store || branch || (traits.shape & riscv_no_dst) || !first_is_register;
  for (std::size_t i = 0; i < n; ++i) {
    if (i == 0 && !all_sources) {
      add_dst(inst, *regs[0]);
      if (traits.shape & riscv_dst_is_src) add_src(inst, *regs[0]);
    } else {
      add_src(inst, *regs[i]);
    }
  }
  if (base) add_src(inst, *base);
  if (traits.shape & riscv_reads_ra) add_src(inst, Reg{RegClass::integer, 1});
  if (traits.shape & riscv_writes_ra) add_dst(inst, Reg{RegClass::integer, 1});
  inst.access_size = traits.size;
}

}  // namespace tracekit::isa
