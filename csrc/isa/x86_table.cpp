#include "isa/x86_table.hpp"

#include <array>

#include "isa/scan.hpp"
#include "isa/word_list.hpp"

namespace tracekit::isa {
namespace {

using namespace flag;

struct Entry {
  std::string_view names;
  X86Form form;
  OpClass op = OpClass::IntAlu;
  Flags flags = IsInteger;
  std::uint16_t hidden = 0;
  // What stands in gem5's code of a micro-op is its source, whether or not its value counts: some
  // merge into what they overwrite, multiplications compute flags from their product.
  bool merges = false;
  std::uint16_t rereads = 0;
};

constexpr Flags vec = IsFloating;  // gem5 calls xmm registers floating
constexpr Flags both = IsInteger | IsFloating;

constexpr std::array table = {
    Entry{"mov movi", X86Form::mov},
    Entry{"add addi sub subi and andi or ori xor xori adc adci sbb sbbi sll slli srl srli sra srai "
          "rol roli ror rori rcl rcli rcr rcri sext sexti zext zexti popcnt wrdh",
          X86Form::alu},
    Entry{"lea", X86Form::alu, OpClass::IntAlu, IsInteger, 0, true},
    Entry{"limm rdip rdval rdcr rddr rdsel rdbase rdlimit rdattr rdtsc rdm5reg rdxftw ruflags "
          "rflags ruflag rflag",
          X86Form::write},
    Entry{"ld ldst", X86Form::load, OpClass::MemRead, IsInteger | IsLoad},
    Entry{"ldstl", X86Form::load, OpClass::MemRead, IsInteger | IsLoad | IsNonSpeculative},
    Entry{"ldsplit ldsplitl", X86Form::load_pair, OpClass::MemRead, IsInteger | IsLoad},
    Entry{"ldfp ldfp87 ldifp87", X86Form::load, OpClass::FloatMemRead, both | IsLoad},
    Entry{"st stul stis stsplit stsplitul cda clflushopt clwb", X86Form::store, OpClass::MemWrite,
          IsInteger | IsStore},
    Entry{"stfp stfp87", X86Form::store, OpClass::FloatMemWrite, both | IsStore},
    Entry{"tia chks wrip wripi wrcr wrdr wrbase wrlimit wrsel wrattr wrval wrdl wrtsc wrxftw "
          "wruflags wruflagsi wrflags wrflagsi",
          X86Form::sources},
    Entry{"mul1s mul1si", X86Form::sources, OpClass::IntMult, IsInteger, x86_out_product, false,
          x86_in_low | x86_in_high},
    Entry{"mul1u mul1ui", X86Form::sources, OpClass::IntMult, IsInteger, x86_out_product, false,
          x86_in_high},
    Entry{"mulel", X86Form::write, OpClass::IntAlu, IsInteger, x86_in_low},
    Entry{"muleh", X86Form::write, OpClass::IntAlu, IsInteger, x86_in_high},
    Entry{"div1 div1i", X86Form::sources, OpClass::IntDiv, IsInteger,
          x86_out_division | x86_out_divisor},
    Entry{"div2 div2i", X86Form::alu, OpClass::IntDiv, IsInteger,
          x86_in_quotient | x86_in_remainder | x86_in_divisor | x86_out_division},
    Entry{"divq", X86Form::write, OpClass::IntAlu, IsInteger, x86_in_quotient},
    Entry{"divr", X86Form::write, OpClass::IntAlu, IsInteger, x86_in_remainder},
    Entry{"mdb mdbi", X86Form::sources, OpClass::IntAlu, IsInteger, x86_out_double},
    Entry{"sld sldi srd srdi", X86Form::alu, OpClass::IntAlu, IsInteger, x86_in_double},
    Entry{"br eret fault panic warn_once halt", X86Form::none, OpClass::No_OpClass, 0},
    Entry{"mfence", X86Form::none, OpClass::IntAlu, IsReadBarrier | IsWriteBarrier},
    Entry{"sfence", X86Form::none, OpClass::IntAlu, IsWriteBarrier},
    Entry{"lfence", X86Form::none, OpClass::IntAlu, IsReadBarrier},
    Entry{"serialize", X86Form::none, OpClass::IntAlu, IsSerializing | IsSerializeAfter},
    // Media micro-ops.
    Entry{"mov2int", X86Form::media_new, OpClass::SimdMisc, both, 0, true},
    Entry{"mov2fp", X86Form::media, OpClass::SimdMisc, both},
    Entry{"movsign", X86Form::media, OpClass::SimdMisc, both},
    Entry{"extractps", X86Form::media_new, OpClass::SimdMisc, both},
    Entry{"rounds", X86Form::media, OpClass::SimdMisc, both},
    Entry{"unpack pack phminposuw", X86Form::media_new, OpClass::SimdMisc, vec},
    Entry{"maskmov shuffle blend blendxmm extmove palignr insertps pabs", X86Form::media,
          OpClass::SimdMisc, vec},
    Entry{"mxor mor mand mandn", X86Form::media_new, OpClass::SimdAlu, vec},
    Entry{"mminf mmaxf", X86Form::media, OpClass::SimdFloatCmp, vec},
    Entry{"mmini mmaxi", X86Form::media, OpClass::SimdCmp, vec},
    Entry{"msqrt", X86Form::media, OpClass::SimdFloatSqrt, vec},
    Entry{"mrcp", X86Form::media, OpClass::SimdFloatAlu, vec},
    Entry{"maddf msubf", X86Form::media, OpClass::SimdFloatAdd, vec},
    Entry{"mmulf", X86Form::media, OpClass::SimdFloatMult, vec},
    Entry{"mdivf", X86Form::media, OpClass::SimdFloatDiv, vec},
    Entry{"maddi msubi mavg", X86Form::media, OpClass::SimdAdd, vec},
    Entry{"msad", X86Form::media_new, OpClass::SimdAdd, vec},
    Entry{"mmuli", X86Form::media, OpClass::SimdMult, vec},
    Entry{"msrl msrli msra msrai msll mslli", X86Form::media, OpClass::SimdShift, vec},
    Entry{"cvtf2i cvti2f cvtf2f", X86Form::media, OpClass::SimdFloatCvt, vec},
    Entry{"mcmpf2r", X86Form::media, OpClass::SimdFloatCvt, vec},
    Entry{"mcmpi2r", X86Form::media, OpClass::SimdCvt, vec},
    Entry{"mcmpf2rf", X86Form::sources, OpClass::SimdFloatCvt, vec},
    Entry{"emms", X86Form::none, OpClass::FloatMisc, 0},
    // Micro-ops of the x87 unit; movfp also moves parts of xmm registers.
    Entry{"lfpimm", X86Form::write, OpClass::FloatAdd, vec},
    Entry{"movfp", X86Form::media_new, OpClass::IntAlu, vec, 0, true},
    Entry{"xorfp addfp subfp", X86Form::media_new, OpClass::FloatAdd, vec},
    Entry{"absfp chsfp", X86Form::media_new, OpClass::FloatAdd, vec},
    Entry{"mulfp", X86Form::media_new, OpClass::FloatMult, vec},
    Entry{"divfp premfp", X86Form::media_new, OpClass::FloatDiv, vec},
    Entry{"sqrtfp sinfp cosfp tanfp yl2xfp", X86Form::media_new, OpClass::FloatSqrt, vec},
    Entry{"cvtf_i2d cvtf_i2d_hi cvtint_fp80 cvtfp80h_int cvtfp80l_int", X86Form::media_new,
          OpClass::FloatCvt, both},
    Entry{"cvtf_d2i", X86Form::media_new, OpClass::FloatCvt, both, 0, true},
    Entry{"compfp", X86Form::sources, OpClass::FloatCmp, vec},
    Entry{"pop87", X86Form::none, OpClass::IntAlu, 0},
};

// How a micro-op meets the condition codes, when its macro is no irregular one.
enum class Meets : std::uint8_t {
  writes,
  compares,  // writes the flags of floating-point numbers
  reads,
  reads_one,  // and writes EZF
  branch,     // reads if it is conditional
  moves,      // reads in a conditional macro
  carries,    // reads, and writes in an arithmetic macro
  computes,   // writes in an arithmetic macro
  tests_bit,
};
struct Meeting {
  std::string_view names;
  Meets meets;
};
constexpr std::array meetings = {
    Meeting{"wruflags wruflagsi wrflags wrflagsi", Meets::writes},
    Meeting{"mcmpf2rf compfp", Meets::compares},
    Meeting{"ruflags rflags", Meets::reads},
    Meeting{"ruflag rflag", Meets::reads_one},
    Meeting{"wrip wripi br", Meets::branch},
    Meeting{"mov movi", Meets::moves},
    Meeting{"adc adci sbb sbbi rcl rcli rcr rcri", Meets::carries},
    Meeting{
        "add addi sub subi and andi or ori xor xori sll slli srl srli sra srai rol roli ror rori "
        "sld sldi srd srdi mul1s mul1si mul1u mul1ui",
        Meets::computes},
    Meeting{"sext sexti", Meets::tests_bit},
};

enum class Family : std::uint8_t { arithmetic, conditional, bit_test };
struct MacroFamily {
  std::string_view names;  // the macro's name up to the first underscore
  Family family;
};
constexpr std::array families = {
    MacroFamily{"CMPXCHG", Family::arithmetic},  // its moves are conditional, too
    MacroFamily{"ADC ADD AND CMP DEC IMUL INC JRCXZ LOOP LOOPE LOOPNE MUL NEG OR RCL RCR ROL ROR "
                "SAL SAR SBB SHLD SHR SHRD SUB TEST XADD XOR",
                Family::arithmetic},
    MacroFamily{"CMOV* SET*", Family::conditional},
    MacroFamily{"BT BTC BTR BTS", Family::bit_test},
};

// Macros that use the codes inside: a bit for each micro-op that writes or reads them, from their
// microcode.
struct Irregular {
  std::string_view names;
  std::uint64_t writes, reads;
};
constexpr std::array irregular = {
    Irregular{"DIV_B_R", 0x10, 0x20},
    Irregular{"DIV_R", 0x40, 0x80},
    Irregular{"IDIV_B_R", 0x804091, 0x6588342},
    Irregular{"IDIV_R", 0x2010091, 0x19620342},
    Irregular{"DIV_B_M", 0x20, 0x40},
    Irregular{"DIV_M", 0x80, 0x100},
    Irregular{"IDIV_B_M", 0x1008121, 0xcb10682},
    Irregular{"IDIV_M", 0x4020121, 0x32c40682},
    Irregular{"DIV_B_P", 0x40, 0x80},
    Irregular{"DIV_P", 0x100, 0x200},
    Irregular{"IDIV_B_P", 0x2010241, 0x19620d02},
    Irregular{"IDIV_P", 0x8040241, 0x65880d02},
    Irregular{"BSR_R_R", 0x1111112, 0x4ccccc4},
    Irregular{"BSR_R_M", 0x2222224, 0x9999988},
    Irregular{"BSR_R_P", 0x4444448, 0x13333310},
    Irregular{"BSF_R_R", 0x4444442, 0x13333304},
    Irregular{"BSF_R_M", 0x8888884, 0x66666608},
    Irregular{"BSF_R_P", 0x11111108, 0xcccccc10},
    Irregular{"BOUND_R_M", 0x14, 0x28},
    Irregular{"ENTER_I_I", 0x10280, 0x20500},
    Irregular{"INS_M_R", 0x0, 0xb},
    Irregular{"INS_E_M_R", 0x401, 0x102e},
    Irregular{"OUTS_R_M", 0x0, 0xb},
    Irregular{"OUTS_E_R_M", 0x401, 0x102e},
    Irregular{"CMPXCHG8B_M", 0x14, 0x1e8},
    Irregular{"CMPXCHG8B_P", 0x28, 0x3d0},
    Irregular{"CMPXCHG8B_LOCKED_M", 0x28, 0x3d0},
    Irregular{"CMPXCHG8B_LOCKED_P", 0x50, 0x7a0},
    Irregular{"CMPS_M_M", 0x40, 0xb},
    Irregular{"CMPS_E_M_M", 0x301, 0x102e},
    Irregular{"CMPS_N_M_M", 0x301, 0x102e},
    Irregular{"LODS_M", 0x0, 0xb},
    Irregular{"LODS_E_M", 0x81, 0x22e},
    Irregular{"MOVS_M_M", 0x0, 0xb},
    Irregular{"MOVS_E_M_M", 0x101, 0x82e},
    Irregular{"SCAS_M", 0x20, 0xb},
    Irregular{"SCAS_E_M", 0x181, 0x42e},
    Irregular{"SCAS_N_M", 0x181, 0x42e},
    Irregular{"STOS_M", 0x0, 0xb},
    Irregular{"STOS_E_M", 0x81, 0x22e},
    Irregular{"PSLLDQ_XMM_I", 0x12, 0x24},
    Irregular{"PSRLDQ_XMM_I", 0x12, 0x24},
};

// What the arithmetic of a macro leaves in the registers of condition codes; those of all others
// are written whole.
struct Leaves {
  std::string_view names;
  X86ConditionParts parts;
};
constexpr std::array leaves = {
    Leaves{"INC DEC", {x86_cfof, x86_zaps | x86_cfof}},                // not CF
    Leaves{"SAL SAR SHR SHLD SHRD", {x86_zaps, x86_zaps | x86_cfof}},  // not AF
    Leaves{"ROL ROR RCL RCR MUL IMUL", {0, x86_cfof}},                 // CF and OF alone
    Leaves{"BT BTC BTR BTS", {x86_cfof, x86_cfof}},                    // CF alone
    Leaves{"JRCXZ LOOP LOOPE LOOPNE", {0, x86_ezf}},
};

bool bit(std::uint64_t mask, unsigned at) { return at < 64 && (mask >> at & 1); }

const Irregular* find_irregular(std::string_view macro) {
  static const NameIndex<Irregular> index(irregular);
  return index.find(macro);
}

const Meeting* find_meeting(std::string_view uop) {
  static const NameIndex<Meeting> index(meetings);
  return index.find(uop);
}

// Up to the first underscore.
std::string_view instruction_of(std::string_view macro) { return macro.substr(0, macro.find('_')); }

}  // namespace

X86Traits x86_traits(std::string_view uop, X86Registers registers) {
  static const NameIndex<Entry> index(table);
  const Entry* e = index.find(uop);
  if (!e) return {};
  X86Traits traits{e->form, e->op, e->flags, e->hidden, true};
  if (registers == X86Registers::renamed) {
    if (e->merges) traits.form = X86Form::media;
    traits.hidden |= e->rereads;
  }
  return traits;
}

bool x86_plain_branch(std::string_view macro, unsigned upc) {
  const Irregular* i = find_irregular(macro);
  return i && !bit(i->reads, upc);
}

X86Conditions x86_conditions(std::string_view macro, std::string_view uop, unsigned upc,
                             Flags flags) {
  static const NameIndex<MacroFamily> family_index(families);
  const Meeting* meeting = find_meeting(uop);
  if (meeting && meeting->meets == Meets::branch) return {(flags & IsCondControl) != 0, false};
  if (const Irregular* i = find_irregular(macro)) return {bit(i->reads, upc), bit(i->writes, upc)};
  if (!meeting) return {};
  const std::string_view name = instruction_of(macro);
  const MacroFamily* found = family_index.find(name);
  const auto is = [&](Family f) { return found && found->family == f; };
  switch (meeting->meets) {
    case Meets::writes:
    case Meets::compares:
      return {false, true};
    case Meets::reads:
    case Meets::reads_one:
      return {true, false};
    case Meets::moves:
      return {is(Family::conditional) || name == "CMPXCHG", false};
    case Meets::carries:
      return {true, is(Family::arithmetic)};
    case Meets::computes:
      return {false, is(Family::arithmetic)};
    case Meets::tests_bit:
      return {false, is(Family::bit_test)};
    case Meets::branch:
      break;
  }
  return {};
}

X86ConditionParts x86_condition_parts(std::string_view macro, std::string_view uop,
                                      X86Conditions conditions) {
  static const NameIndex<Leaves> index(leaves);
  const std::string_view name = instruction_of(macro);
  const Meeting* meeting = find_meeting(uop);
  const auto is = [&](Meets m) { return meeting && meeting->meets == m; };
  X86ConditionParts p;
  if (conditions.reads) p.reads = is(Meets::carries) ? x86_cfof : x86_all_codes;
  if (is(Meets::reads_one)) p.writes = x86_ezf;
  if (!conditions.writes) return p;
  if (is(Meets::writes)) {
    p.writes = x86_all_codes;
  } else if (is(Meets::compares)) {
    p.reads |= x86_zaps | x86_cfof;
    p.writes = x86_zaps | x86_cfof;
  } else if (name == "IDIV") {
    p.writes |= uop.starts_with("div") ? x86_ezf : x86_ecf;
  } else if ((name == "BSF" || name == "BSR") && uop == "and") {
    p.reads |= x86_zaps;
    p.writes = x86_zaps;
  } else if (find_irregular(macro) && !((name == "SCAS" || name == "CMPS") && uop == "sub")) {
    p.writes |= x86_ezf;
  } else if (const Leaves* l = index.find(name)) {
    p.reads |= l->parts.reads;
    p.writes = l->parts.writes;
  } else {
    p.writes = x86_zaps | x86_cfof;
  }
  return p;
}

}  // namespace tracekit::isa
