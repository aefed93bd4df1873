#include "isa/arm_table.hpp"

#include <array>

#include "isa/word_list.hpp"

namespace tracekit::isa {
namespace {

using namespace flag;

struct Entry {
  std::string_view names;
  OpClass op = OpClass::IntAlu;
  Flags flags = IsInteger;
  std::uint16_t shape = 0;
  std::int8_t size = 0;
};

constexpr Flags barrier = IsReadBarrier | IsWriteBarrier;
constexpr Flags load = IsInteger | IsLoad, store = IsInteger | IsStore;
constexpr Flags vload = load | IsVector, vstore = store | IsVector;
constexpr Flags cond = IsControl | IsDirectControl | IsCondControl;
constexpr Flags direct = IsControl | IsDirectControl | IsUncondControl;
constexpr Flags indirect = IsInteger | IsControl | IsIndirectControl | IsUncondControl;
constexpr Flags serial = IsSerializeAfter | IsNonSpeculative;
constexpr Flags micro = IsMicroop;

// General registers, memory, branches and the system.
constexpr std::array general = {
    // Arithmetic and logic.
    Entry{"add sub and orr eor bic orn eon adr adrp", OpClass::IntAlu, IsInteger, arm_drops_zero},
    Entry{"adds subs ands bics", OpClass::IntAlu, IsInteger, arm_drops_zero | arm_writes_cc},
    Entry{"adc sbc", OpClass::IntAlu, IsInteger, arm_reads_cc},
    Entry{"adcs sbcs", OpClass::IntAlu, IsInteger, arm_reads_cc | arm_writes_cc},
    Entry{"ccmp ccmn", OpClass::IntAlu, IsInteger, arm_no_dst | arm_reads_cc | arm_writes_cc},
    Entry{"csel csinc csinv csneg", OpClass::IntAlu, IsInteger, arm_reads_cc},
    Entry{"cmp cmn tst", OpClass::IntAlu, IsInteger, arm_no_dst | arm_writes_cc},
    Entry{"movz movn sbfm ubfm extr lslv lsrv asrv rorv clz cls rbit rev rev16 rev32 xpac* pac* "
          "aut* crc32*"},
    Entry{"movk bfm", OpClass::IntAlu, IsInteger, arm_dst_is_src},
    Entry{"setf8 setf16 rmif", OpClass::IntAlu, IsInteger, arm_no_dst | arm_writes_cc},
    Entry{"cfinv axflag xaflag", OpClass::IntAlu, 0, arm_reads_cc | arm_writes_cc},
    Entry{"madd msub smaddl smsubl umaddl umsubl smulh umulh mul", OpClass::IntMult},
    Entry{"sdiv udiv", OpClass::IntDiv},
    Entry{"cntb cnth cntw cntd", OpClass::SimdAlu},
    Entry{"incb inch incw incd decb dech decw decd sqinc* uqinc* sqdec* uqdec*", OpClass::SimdAlu,
          IsInteger, arm_dst_is_src},
    Entry{"addvl addpl rdvl", OpClass::SimdAlu},
    // Branches.
    Entry{"b", OpClass::IntAlu, direct, arm_no_dst},
    Entry{"b.*", OpClass::IntAlu, cond, arm_no_dst | arm_reads_cc},
    Entry{"bl", OpClass::IntAlu, direct | IsInteger | IsCall, arm_no_dst | arm_links},
    Entry{"br braa brab braaz brabz", OpClass::IntAlu, indirect, arm_no_dst},
    Entry{"blr blraa blrab blraaz blrabz", OpClass::IntAlu, indirect | IsCall,
          arm_no_dst | arm_links},
    Entry{"ret retaa retab", OpClass::IntAlu, indirect | IsReturn, arm_no_dst},
    Entry{"eret eretaa eretab", OpClass::IntAlu,
          IsControl | IsIndirectControl | IsUncondControl | serial | IsReturn, arm_no_dst},
    Entry{"cbz cbnz tbz tbnz", OpClass::IntAlu, cond | IsInteger, arm_no_dst},
    // Loads and stores of one general register; a vector register's size is not told by these.
    Entry{"ldr ldur ldtr", OpClass::MemRead, load, 0, arm_by_address},
    Entry{"ldrb ldrsb ldurb ldursb ldtrb ldtrsb", OpClass::MemRead, load, 0, 1},
    Entry{"ldrh ldrsh ldurh ldursh ldtrh ldtrsh", OpClass::MemRead, load, 0, 2},
    Entry{"ldrsw ldursw ldtrsw", OpClass::MemRead, load, 0, 4},
    Entry{"ldraa ldrab", OpClass::MemRead, load, 0, 8},
    Entry{"str stur sttr", OpClass::MemWrite, store, arm_no_dst, arm_by_address},
    Entry{"strb sturb sttrb", OpClass::MemWrite, store, arm_no_dst, 1},
    Entry{"strh sturh sttrh", OpClass::MemWrite, store, arm_no_dst, 2},
    // Ordered and exclusive ones; the width of their register is not printed.
    Entry{"ldar ldapr", OpClass::MemRead, load | barrier},
    Entry{"ldarb ldaprb", OpClass::MemRead, load | barrier, 0, 1},
    Entry{"ldarh ldaprh", OpClass::MemRead, load | barrier, 0, 2},
    Entry{"stlr", OpClass::MemWrite, store | barrier, arm_no_dst},
    Entry{"stlrb", OpClass::MemWrite, store | barrier, arm_no_dst, 1},
    Entry{"stlrh", OpClass::MemWrite, store | barrier, arm_no_dst, 2},
    Entry{"ldxr", OpClass::MemRead, load},
    Entry{"ldxrb", OpClass::MemRead, load, 0, 1},
    Entry{"ldxrh", OpClass::MemRead, load, 0, 2},
    Entry{"ldaxr", OpClass::MemRead, load | barrier},
    Entry{"ldaxrb", OpClass::MemRead, load | barrier, 0, 1},
    Entry{"ldaxrh", OpClass::MemRead, load | barrier, 0, 2},
    Entry{"ldxp", OpClass::MemRead, load, arm_two_dst},
    Entry{"ldaxp", OpClass::MemRead, load | barrier, arm_two_dst},
    Entry{"stxr", OpClass::MemWrite, store | IsStoreConditional, arm_second_dst},
    Entry{"stxrb", OpClass::MemWrite, store | IsStoreConditional, arm_second_dst, 1},
    Entry{"stxrh", OpClass::MemWrite, store | IsStoreConditional, arm_second_dst, 2},
    Entry{"stlxr", OpClass::MemWrite, store | IsStoreConditional | barrier, arm_second_dst},
    Entry{"stlxrb", OpClass::MemWrite, store | IsStoreConditional | barrier, arm_second_dst, 1},
    Entry{"stlxrh", OpClass::MemWrite, store | IsStoreConditional | barrier, arm_second_dst, 2},
    Entry{"stxp", OpClass::MemWrite, store | IsStoreConditional},
    Entry{"stlxp", OpClass::MemWrite, store | IsStoreConditional | barrier},
    // Micro-ops of pairs, of pre- and post-indexing and of 16-byte accesses.
    Entry{"ldp_uop", OpClass::MemRead, load | micro, arm_two_dst, 16},
    Entry{"ldp_fp8_uop", OpClass::MemRead, vload | micro, arm_two_dst, 16},
    Entry{"ldrduxi_uop ldrdsxi_uop", OpClass::MemRead, load | micro, arm_two_dst, 8},
    Entry{"ldrdfpxi_uop", OpClass::MemRead, vload | micro, arm_two_dst, 8},
    Entry{"ldfp16_uop ldfp16_lit__uop", OpClass::MemRead, vload | micro, 0, 16},
    Entry{"ldfp16reg_uop", OpClass::MemRead, vload, 0, 16},  // gem5 forgets IsMicroop
    Entry{"ldrxi_uop ldrxr_uop ldrxl_uop", OpClass::MemRead, load | micro, 0, 8},
    Entry{"ldrfpxi_uop ldrfpxr_uop ldrfpxl_uop", OpClass::MemRead, vload | micro, 0, 8},
    Entry{"strxi_uop strxr_uop", OpClass::MemWrite, store | micro, arm_no_dst, 8},
    Entry{"strdxi_uop", OpClass::MemWrite, store | micro, arm_no_dst, 8},
    Entry{"strdfpxi_uop", OpClass::MemWrite, vstore | micro, arm_no_dst, 8},
    Entry{"strfpxi_uop strfpxr_uop strqbfpxi_uop strqbfpxr_uop strqtfpxi_uop strqtfpxr_uop",
          OpClass::MemWrite, vstore | micro, arm_no_dst, 8},
    Entry{"addxi_uop addxr_uop addi_uop add_uop subxi_uop subi_uop sub_uop uopreg_uop movret_uop",
          OpClass::IntAlu, IsInteger | micro},
    // Micro-ops of structure loads and stores print no operands at all.
    Entry{"mem_neon_uopld", OpClass::MemRead, vload | micro},
    Entry{"mem_neon_uopst", OpClass::MemWrite, vstore | micro},
    Entry{"deint_neon_uop int_neon_uop", OpClass::No_OpClass, IsVector | micro},
    Entry{"pack_neon_uop unpack_neon_uop", OpClass::SimdAdd, IsVector | micro},
    // The system.
    Entry{"svc", OpClass::IntAlu, serial | IsSyscall, arm_no_dst},
    Entry{"hvc smc", OpClass::IntAlu, serial, arm_no_dst},
    Entry{"brk hlt", OpClass::IntAlu, serial, arm_no_dst},
    Entry{"mrs", OpClass::IntAlu, IsInteger | IsSerializeBefore},
    Entry{"msr", OpClass::IntAlu, IsInteger | serial, arm_no_dst},
    Entry{"nop hint yield", OpClass::IntAlu, IsNop, arm_no_dst},
    Entry{"bti wfe wfi sev sevl", OpClass::No_OpClass, IsNonSpeculative, arm_no_dst},
    Entry{"dmb dsb", OpClass::IntAlu, barrier, arm_no_dst},
    Entry{"isb", OpClass::IntAlu, IsSquashAfter, arm_no_dst},
    Entry{"clrex", OpClass::IntAlu, 0, arm_no_dst},
    Entry{"dc", OpClass::MemWrite, store, arm_no_dst},
    Entry{"ic at tlbi sys", OpClass::IntAlu, IsInteger, arm_no_dst},
    Entry{"prfm prfum", OpClass::MemRead, load | IsDataPrefetch, arm_no_dst},
    Entry{"setffr", OpClass::SimdPredAlu, 0, arm_no_dst},
    Entry{"cterm*", OpClass::IntAlu, IsInteger, arm_no_dst | arm_reads_cc | arm_writes_cc},
};

// Atomics print `ldadd result, operand, [base]`; a 64 in the name (gem5's own) means eight bytes.
constexpr std::string_view atomic_stems =
    "cas ldadd ldclr ldeor ldset ldsmax ldsmin ldumax ldumin swp stadd stclr steor stset stsmax "
    "stsmin stumax stumin";

// Vectors and floating point (whose registers are the vectors', too).
constexpr std::array vectors = {
    // Scalar floating point.
    Entry{"fadd fsub fabd faddp", OpClass::FloatAdd, IsVector},
    Entry{"fmul fnmul fmulx", OpClass::FloatMult, IsVector},
    Entry{"fdiv", OpClass::FloatDiv, IsVector},
    Entry{"fsqrt", OpClass::FloatSqrt, IsVector},
    Entry{"fmadd fmsub fnmadd fnmsub", OpClass::FloatMultAcc, IsVector},
    Entry{"fcmp fcmpe", OpClass::FloatCmp, IsVector, arm_no_dst | arm_writes_cc},
    Entry{"fccmp fccmpe", OpClass::FloatCmp, IsVector, arm_no_dst | arm_reads_cc | arm_writes_cc},
    Entry{"fcsel", OpClass::FloatCvt, IsVector, arm_reads_cc},
    Entry{"fmax fmin fmaxnm fminnm", OpClass::FloatCmp, IsVector},
    Entry{"fmov", OpClass::FloatMisc, IsVector},
    Entry{"fabs fneg frint*", OpClass::FloatMisc, IsVector},
    Entry{"fcvt fcvtxn", OpClass::FloatCvt, IsVector},
    Entry{"fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu fcvtzs fcvtzu fjcvtzs",
          OpClass::FloatCvt, IsVector, arm_int_dst},
    Entry{"scvtf ucvtf", OpClass::FloatCvt, IsVector},
    // Vectors of floating point.
    Entry{"fmla fmls fcmla", OpClass::SimdFloatMultAcc, IsVector, arm_dst_is_src},
    Entry{"frecpe frecps frecpx", OpClass::SimdFloatMultAcc, IsVector},
    Entry{"frsqrts", OpClass::SimdFloatMisc, IsVector},
    Entry{"frsqrte", OpClass::SimdFloatSqrt, IsVector},
    Entry{"fcadd", OpClass::SimdFloatAdd, IsVector, arm_dst_is_src},
    Entry{"facge facgt fcmeq fcmge fcmgt fcmle fcmlt fmaxnmp fmaxnmv fmaxp fmaxv fminnmp fminnmv "
          "fminp fminv",
          OpClass::SimdFloatCmp, IsVector},
    Entry{"fcvtl fcvtl2 fcvtn", OpClass::SimdCvt, IsVector},
    Entry{"fcvtn2 fcvtxn2", OpClass::SimdCvt, IsVector, arm_dst_is_src},
    // Integers.
    Entry{"mla mls smlal smlal2 smlsl smlsl2 umlal umlal2 umlsl umlsl2 sqdmlal sqdmlal2 sqdmlsl "
          "sqdmlsl2 sdot udot usdot sudot",
          OpClass::SimdMultAcc, IsVector, arm_dst_is_src},
    Entry{"sqrdmlah sqrdmlsh", OpClass::SimdMult, IsVector, arm_dst_is_src},
    Entry{"mul pmul pmull pmull2 smull smull2 umull umull2 sqdmulh sqrdmulh sqdmull sqdmull2",
          OpClass::SimdMult, IsVector},
    Entry{"urecpe", OpClass::SimdMultAcc, IsVector},
    Entry{"ursqrte", OpClass::SimdSqrt, IsVector},
    Entry{"sli sri ssra usra srsra ursra rshrn2 shrn2 sqrshrn2 sqrshrun2 sqshrn2 sqshrun2 uqrshrn2 "
          "uqshrn2",
          OpClass::SimdShift, IsVector, arm_dst_is_src},
    Entry{"shl shll shll2 rshrn shrn sqrshrn sqrshrun sqshrn sqshrun srshl srshr sshl sshll "
          "sshll2 sshr uqrshrn uqshrn urshl urshr ushl ushll ushll2 ushr",
          OpClass::SimdShift, IsVector},
    Entry{"saba uaba sabal sabal2 uabal uabal2", OpClass::SimdAddAcc, IsVector, arm_dst_is_src},
    Entry{"sabdl sabdl2 uabdl uabdl2 saddl saddl2 saddw saddw2 uaddl uaddl2 uaddw uaddw2",
          OpClass::SimdAddAcc, IsVector},
    Entry{"sadalp uadalp suqadd usqadd addhn2 raddhn2 subhn2 rsubhn2", OpClass::SimdAdd, IsVector,
          arm_dst_is_src},
    Entry{"add sub addp addv addhn raddhn subhn rsubhn sabd uabd saddlp uaddlp saddlv uaddlv shadd "
          "uhadd shsub uhsub sqadd uqadd sqsub uqsub srhadd urhadd ssubl ssubl2 usubl usubl2 ssubw "
          "ssubw2 usubw usubw2",
          OpClass::SimdAdd, IsVector},
    Entry{"cmeq cmge cmgt cmhi cmhs cmle cmlt smax smaxp smaxv smin sminp sminv umax umaxp umaxv "
          "umin uminp uminv sqrshl uqrshl",
          OpClass::SimdCmp, IsVector},
    Entry{"bsl bit bif", OpClass::SimdAlu, IsVector, arm_dst_is_src},
    Entry{"mvni", OpClass::SimdAlu, IsVector},
    Entry{"abs neg and bic orr orn eor mvn not cls clz cnt cmtst rbit rev16 rev32 rev64 sqabs "
          "sqneg sqshl sqshlu uqshl trn1 trn2 zip1 zip2 uzp1 uzp2 eor3 bcax rax1 xar",
          OpClass::SimdAlu, IsVector},
    Entry{"tbx ins xtn2 sqxtn2 sqxtun2 uqxtn2", OpClass::SimdMisc, IsVector, arm_dst_is_src},
    Entry{"umov smov", OpClass::SimdMisc, IsVector, arm_int_dst},
    Entry{"dup ext tbl xtn sqxtn sqxtun uqxtn movi", OpClass::SimdMisc, IsVector},
    // Cryptography.
    Entry{"aese aesd", OpClass::SimdAes, IsVector, arm_dst_is_src},
    Entry{"aesmc aesimc", OpClass::SimdAesMix, IsVector},
    Entry{"sha1c sha1m sha1p", OpClass::SimdSha1Hash, IsVector, arm_dst_is_src},
    Entry{"sha1h", OpClass::SimdSha1Hash2, IsVector},
    Entry{"sha1su0", OpClass::SimdShaSigma3, IsVector, arm_dst_is_src},
    Entry{"sha1su1", OpClass::SimdShaSigma2, IsVector, arm_dst_is_src},
    Entry{"sha256h", OpClass::SimdSha256Hash, IsVector, arm_dst_is_src},
    Entry{"sha256h2", OpClass::SimdSha256Hash2, IsVector, arm_dst_is_src},
    Entry{"sha256su0", OpClass::SimdShaSigma2, IsVector, arm_dst_is_src},
    Entry{"sha256su1", OpClass::SimdShaSigma3, IsVector, arm_dst_is_src},
};

// SVE, whose z and p registers are printed as what they are (but sve_predicates below).
constexpr std::array sve = {
    Entry{"ld1* ldff1* ldnf1* ldnt1* ld2* ld3* ld4* ldr", OpClass::MemRead, vload},
    Entry{"st1* stnt1* st2* st3* st4* str", OpClass::MemWrite, vstore, arm_no_dst},
    Entry{"while*", OpClass::SimdCmp, IsInteger, arm_writes_cc},
    Entry{"cmpeq cmpge cmpgt cmphi cmphs cmple cmplo cmpls cmplt cmpne", OpClass::SimdCmp, IsVector,
          arm_writes_cc},
    Entry{"ptest", OpClass::SimdPredAlu, 0, arm_no_dst | arm_writes_cc},
    Entry{"ands bics brkas brkbs brkns brkpas brkpbs eors nands nors orns orrs pfirst pnext ptrues "
          "rdffrs",
          OpClass::SimdPredAlu, 0, arm_writes_cc},
    Entry{"wrffr", OpClass::SimdPredAlu, 0, arm_no_dst},
    Entry{"brka brkb brkn brkpa brkpb compact nand nor pfalse psel ptrue punpkhi punpklo rdffr "
          "setffr",
          OpClass::SimdPredAlu, 0},
    Entry{"facge facgt fcmeq fcmge fcmgt fcmle fcmlt fcmne fcmuo fmax fmaxnm fmin fminnm",
          OpClass::SimdFloatCmp, IsVector},
    Entry{"fmaxnmv fmaxv fminnmv fminv", OpClass::SimdFloatReduceCmp, IsVector},
    Entry{"fcmla fmad fmla fmls fmsb fnmad fnmla fnmls fnmsb ftmad", OpClass::SimdFloatMultAcc,
          IsVector, arm_dst_is_src},
    Entry{"frecpe frecps frecpx", OpClass::SimdFloatMultAcc, IsVector},
    Entry{"fadda faddv", OpClass::SimdFloatReduceAdd, IsVector},
    Entry{"fadd fsub fsubr fabd fcadd", OpClass::SimdFloatAdd, IsVector},
    Entry{"fmul fmulx ftssel", OpClass::SimdFloatMult, IsVector},
    Entry{"fdiv fdivr", OpClass::SimdFloatDiv, IsVector},
    Entry{"fsqrt frsqrte", OpClass::SimdFloatSqrt, IsVector},
    Entry{"frsqrts fscale ftsmul", OpClass::SimdFloatMisc, IsVector},
    Entry{"fabs fneg fdup fexpa", OpClass::SimdFloatAlu, IsVector},
    Entry{"fcvt* frint* scvtf ucvtf", OpClass::SimdCvt, IsVector},
    Entry{"smmla ummla usmmla", OpClass::SimdMatMultAcc, IsVector, arm_dst_is_src},
    Entry{"fmmla", OpClass::SimdFloatMatMultAcc, IsVector, arm_dst_is_src},
    Entry{"mad mla mls msb", OpClass::SimdMultAcc, IsVector, arm_dst_is_src},
    Entry{"mul smulh umulh", OpClass::SimdMult, IsVector},
    Entry{"sdiv sdivr udiv udivr", OpClass::SimdDiv, IsVector},
    Entry{"saddv uaddv", OpClass::SimdReduceAdd, IsVector},
    Entry{"andv eorv orv", OpClass::SimdReduceAlu, IsVector},
    Entry{"smaxv sminv umaxv uminv", OpClass::SimdReduceCmp, IsVector},
    Entry{"smax smin umax umin", OpClass::SimdCmp, IsVector},
    Entry{"adclb adclt sbclb sbclt", OpClass::SimdAdd, IsVector, arm_dst_is_src},
    Entry{"add sub subr adr sabd uabd sqadd uqadd sqsub uqsub", OpClass::SimdAdd, IsVector},
    Entry{"movprfx", OpClass::SimdMisc, IsVector},
    Entry{"sdot udot sudot usdot tbx insr splice clasta clastb", OpClass::SimdAlu, IsVector,
          arm_dst_is_src},
    Entry{"inc* dec* sqinc* sqdec* uqinc* uqdec*", OpClass::SimdAlu, IsVector, arm_dst_is_src},
    Entry{"cntp lasta lastb", OpClass::SimdAlu, IsInteger},
};
// Logical operations on predicates, whose destination gem5 prints as a z register.
constexpr std::string_view sve_predicates =
    "and ands bic bics eor eors nand nands nor nors orn orns orr orrs sel";

ArmTraits made(const Entry& e) { return ArmTraits{e.op, e.flags, e.shape, e.size, true}; }

// `ldaddal64`, `casab`, `swpl`: a stem, then acquire and release, then the size.
bool atomic_traits(std::string_view name, ArmTraits& out) {
  std::string_view stem, stems = atomic_stems;
  while (!stems.empty())
    if (const std::string_view s = take_word(stems); name.starts_with(s)) stem = s;
  if (stem.empty()) return false;
  std::string_view rest = name.substr(stem.size());
  out = ArmTraits{OpClass::MemWrite, IsInteger | IsAtomic, 0, 4, true};
  const bool pair = stem == "cas" && rest.starts_with('p');
  if (pair) rest.remove_prefix(1);
  const std::size_t ordered = std::min(rest.find_first_not_of("al"), rest.size());
  if (ordered > 2) return false;
  if (ordered) out.flags |= barrier;
  rest.remove_prefix(ordered);
  if (rest == "b")
    out.size = 1;
  else if (rest == "h")
    out.size = 2;
  else if (rest == "64")
    out.size = 8;
  else if (!rest.empty())
    return false;
  if (stem == "cas") {
    out.shape = arm_compare_swap;
    if (rest.empty()) out.size = 0;  // gem5 has one name for words and doublewords
  }
  return true;
}

struct VectorOp {
  std::string_view names;
  OpClass op;
};
constexpr std::array vector_ops = {
    VectorOp{"fadd fsub fabd faddp", OpClass::SimdFloatAdd},
    VectorOp{"fmul fmulx", OpClass::SimdFloatMult},
    VectorOp{"fdiv", OpClass::SimdFloatDiv},
    VectorOp{"fsqrt", OpClass::SimdFloatSqrt},
    VectorOp{"fabs fneg", OpClass::SimdFloatAlu},
    VectorOp{"fmax fmin fmaxnm fminnm", OpClass::SimdFloatCmp},
    VectorOp{"scvtf ucvtf fcvtxn frint* fcvta* fcvtm* fcvtns fcvtnu fcvtp* fcvtz*",
             OpClass::SimdCvt},
    VectorOp{"fmov", OpClass::SimdMisc},
};

}  // namespace

OpClass arm_vector_op(std::string_view mnemonic, OpClass scalar) {
  static const NameIndex<VectorOp> index(vector_ops);
  const VectorOp* v = index.find(mnemonic);
  return v ? v->op : scalar;
}

bool arm_mixes(std::string_view mnemonic, bool scalar, unsigned immediates) {
  if (in_list("umov smov", mnemonic)) return true;
  if (mnemonic == "dup") return immediates == 0;
  if (mnemonic == "ins") return immediates < 2;
  if (!scalar) return false;
  return in_list("scvtf ucvtf fcvta* fcvtm* fcvtns fcvtnu fcvtp* fcvtz* fjcvtzs", mnemonic) ||
         (mnemonic == "fmov" && immediates == 0);
}

bool sve_names_predicate(std::string_view mnemonic) { return in_list(sve_predicates, mnemonic); }

ArmTraits arm_traits(std::string_view mnemonic, ArmSpace space) {
  static const NameIndex<Entry> general_index(general), vector_index(vectors), sve_index(sve);
  if (space == ArmSpace::sve) {
    if (const Entry* e = sve_index.find(mnemonic)) return made(*e);
    return ArmTraits{OpClass::SimdAlu, IsVector, 0, 0, true};  // most of SVE, in gem5's eyes
  }
  const Entry* g = general_index.find(mnemonic);
  const Entry* v = vector_index.find(mnemonic);
  if (g && v) return made(space == ArmSpace::vector && !(g->flags & (IsLoad | IsStore)) ? *v : *g);
  if (g) return made(*g);
  if (v) return made(*v);
  ArmTraits atomic;
  if (atomic_traits(mnemonic, atomic)) return atomic;
  if (space == ArmSpace::vector) return ArmTraits{OpClass::SimdMisc, IsVector};
  return {};
}

}  // namespace tracekit::isa
