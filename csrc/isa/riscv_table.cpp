#include "isa/riscv_table.hpp"

#include <array>

#include "isa/word_list.hpp"

namespace tracekit::isa {
namespace {

using namespace flag;
constexpr Flags serial = IsSerializeAfter | IsNonSpeculative;
constexpr Flags micro = IsMicroop | IsFirstMicroop | IsLastMicroop;
constexpr Flags cond = IsInteger | IsControl | IsDirectControl | IsCondControl;
constexpr Flags direct = IsControl | IsDirectControl | IsUncondControl;
constexpr Flags indirect = IsInteger | IsControl | IsIndirectControl | IsUncondControl;

struct Entry {
  std::string_view names;
  OpClass op;
  Flags flags;
  std::uint8_t shape = 0;
  std::uint8_t size = 0;
};

constexpr std::array table = {
    Entry{"lb lbu c_lbu", OpClass::MemRead, IsInteger, 0, 1},
    Entry{"lh lhu c_lh c_lhu", OpClass::MemRead, IsInteger, 0, 2},
    Entry{"lw lwu c_lw c_lwsp", OpClass::MemRead, IsInteger, 0, 4},
    Entry{"ld c_ld c_ldsp", OpClass::MemRead, IsInteger, 0, 8},
    Entry{"sb c_sb", OpClass::MemWrite, IsInteger, riscv_no_dst, 1},
    Entry{"sh c_sh", OpClass::MemWrite, IsInteger, riscv_no_dst, 2},
    Entry{"sw c_sw c_swsp", OpClass::MemWrite, IsInteger, riscv_no_dst, 4},
    Entry{"sd c_sd c_sdsp", OpClass::MemWrite, IsInteger, riscv_no_dst, 8},
    Entry{"flh", OpClass::FloatMemRead, IsInteger | IsFloating, 0, 2},
    Entry{"flw c_flw c_flwsp", OpClass::FloatMemRead, IsInteger | IsFloating, 0, 4},
    Entry{"fld c_fld c_fldsp", OpClass::FloatMemRead, IsInteger | IsFloating, 0, 8},
    Entry{"fsh", OpClass::FloatMemWrite, IsInteger | IsFloating, riscv_no_dst, 2},
    Entry{"fsw c_fsw c_fswsp", OpClass::FloatMemWrite, IsInteger | IsFloating, riscv_no_dst, 4},
    Entry{"fsd c_fsd c_fsdsp", OpClass::FloatMemWrite, IsInteger | IsFloating, riscv_no_dst, 8},
    Entry{"lr_w", OpClass::MemRead, IsInteger | micro, 0, 4},
    Entry{"lr_d", OpClass::MemRead, IsInteger | micro, 0, 8},
    Entry{"sc_w", OpClass::MemWrite, IsInteger | IsStoreConditional | micro, 0, 4},
    Entry{"sc_d", OpClass::MemWrite, IsInteger | IsStoreConditional | micro, 0, 8},
    Entry{"amoadd_w amoswap_w amoxor_w amoor_w amoand_w amomin_w amomax_w amominu_w amomaxu_w",
          OpClass::MemRead, IsInteger | IsAtomic | micro, 0, 4},
    Entry{"amoadd_d amoswap_d amoxor_d amoor_d amoand_d amomin_d amomax_d amominu_d amomaxu_d",
          OpClass::MemRead, IsInteger | IsAtomic | micro, 0, 8},
    Entry{"cbo_*", OpClass::MemWrite, IsInteger, riscv_no_dst, 0},
    Entry{"beq bne blt bge bltu bgeu c_beqz c_bnez", OpClass::IntAlu, cond, riscv_no_dst},
    Entry{"c_j", OpClass::IntAlu, direct, riscv_no_dst},
    Entry{"jal", OpClass::IntAlu, direct | IsInteger},
    Entry{"c_jal", OpClass::IntAlu, direct | IsInteger | IsCall, riscv_writes_ra},
    Entry{"c_jr", OpClass::IntAlu, indirect, riscv_no_dst},
    Entry{"jalr", OpClass::IntAlu, indirect},
    Entry{"c_jalr", OpClass::IntAlu, indirect | IsCall, riscv_no_dst | riscv_writes_ra},
    Entry{"mul mulh mulhsu mulhu mulw", OpClass::IntMult, IsInteger},
    Entry{"c_mul", OpClass::IntMult, IsInteger, riscv_dst_is_src},
    Entry{"div divu rem remu divw divuw remw remuw", OpClass::IntDiv, IsInteger},
    Entry{"c_add c_addw c_sub c_subw c_and c_or c_xor c_addi c_addiw c_addi16sp c_andi c_slli "
          "c_srli c_srai c_not c_zext_* c_sext_*",
          OpClass::IntAlu, IsInteger, riscv_dst_is_src},
    Entry{"ecall", OpClass::No_OpClass, serial | IsSyscall},
    Entry{"ebreak c_ebreak", OpClass::No_OpClass, serial},
    Entry{"mret sret uret", OpClass::No_OpClass, serial | IsReturn},
    Entry{"wfi", OpClass::No_OpClass, serial | IsQuiesce | IsSquashAfter},
    Entry{"sfence_vma fence_vma", OpClass::No_OpClass, serial, riscv_no_dst},
    Entry{"fence", OpClass::No_OpClass, IsReadBarrier | IsWriteBarrier},
    Entry{"fence_i", OpClass::No_OpClass, serial | IsSquashAfter},
    Entry{"csr*", OpClass::No_OpClass, IsInteger | serial},
    Entry{"fadd_* fsub_*", OpClass::FloatAdd, IsFloating},
    Entry{"fmul_*", OpClass::FloatMult, IsFloating},
    Entry{"fdiv_*", OpClass::FloatDiv, IsFloating},
    Entry{"fsqrt_*", OpClass::FloatSqrt, IsFloating},
    Entry{"fmadd_* fmsub_* fnmadd_* fnmsub_*", OpClass::FloatMultAcc, IsFloating},
    Entry{"fmin_* fmax_*", OpClass::FloatCmp, IsFloating},
    Entry{"fle_* flt_* feq_*", OpClass::FloatCmp, IsInteger | IsFloating},
    Entry{"fcvt_s_d fcvt_d_s fcvt_h_s fcvt_s_h fcvt_h_d fcvt_d_h", OpClass::FloatCvt, IsFloating},
    Entry{"fmv_s fmv_d fabs_* fneg_*", OpClass::FloatMisc, IsFloating},
    Entry{"fcvt_* fmv_*", OpClass::FloatCvt, IsInteger | IsFloating},
    Entry{"fsgnj*", OpClass::FloatMisc, IsFloating},
    Entry{"fclass_*", OpClass::FloatMisc, IsInteger | IsFloating},
    // The assembler's aliases, which Spike's disassembler prints (traces of RTL use it).
    Entry{"nop c_nop", OpClass::IntAlu, IsNop, riscv_no_dst},
    Entry{"beqz bnez blez bgez bltz bgtz bgt ble bgtu bleu", OpClass::IntAlu, cond, riscv_no_dst},
    Entry{"j tail", OpClass::IntAlu, direct, riscv_no_dst},
    Entry{"call", OpClass::IntAlu, direct | IsInteger | IsCall, riscv_no_dst | riscv_writes_ra},
    Entry{"jr", OpClass::IntAlu, indirect, riscv_no_dst},
    Entry{"ret", OpClass::IntAlu, indirect | IsReturn, riscv_no_dst | riscv_reads_ra},
    Entry{"fsflags* fsrm* fscsr", OpClass::No_OpClass, IsInteger | serial, riscv_no_dst},
    Entry{"frflags frrm frcsr rdcycle rdtime rdinstret", OpClass::No_OpClass, IsInteger | serial},
    // The vector extension; the micro-ops' names end in _micro.
    Entry{"vsetvl*", OpClass::SimdConfig, IsInteger | IsVector | IsControl | IsUncondControl},
    Entry{"vlse8* vlse1* vlse3* vlse6*", OpClass::SimdStridedLoad, IsInteger | IsVector},
    Entry{"vsse8* vsse1* vsse3* vsse6*", OpClass::SimdStridedStore, IsInteger | IsVector,
          riscv_no_dst},
    Entry{"vluxei* vloxei*", OpClass::SimdIndexedLoad, IsInteger | IsVector},
    Entry{"vsuxei* vsoxei*", OpClass::SimdIndexedStore, IsInteger | IsVector, riscv_no_dst},
    Entry{"vlseg*", OpClass::SimdUnitStrideSegmentedLoad, IsInteger | IsVector},
    Entry{"vsseg*", OpClass::SimdUnitStrideSegmentedStore, IsInteger | IsVector, riscv_no_dst},
    Entry{"vl1r* vl2r* vl4r* vl8r*", OpClass::SimdWholeRegisterLoad, IsInteger | IsVector},
    Entry{"vs1r* vs2r* vs4r* vs8r*", OpClass::SimdWholeRegisterStore, IsInteger | IsVector,
          riscv_no_dst},
    Entry{"vlm_v*", OpClass::SimdUnitStrideMaskLoad, IsInteger | IsVector},
    Entry{"vsm_v*", OpClass::SimdUnitStrideMaskStore, IsInteger | IsVector, riscv_no_dst},
    Entry{"vle8ff* vle16ff* vle32ff* vle64ff*", OpClass::SimdUnitStrideFaultOnlyFirstLoad,
          IsInteger | IsVector},
    Entry{"vle8* vle1* vle3* vle6*", OpClass::SimdUnitStrideLoad, IsInteger | IsVector},
    Entry{"vse8* vse1* vse3* vse6*", OpClass::SimdUnitStrideStore, IsInteger | IsVector,
          riscv_no_dst},
    Entry{"vfmadd* vfnmadd* vfmsub* vfnmsub* vfmacc* vfnmacc* vfmsac* vfnmsac* vfwmacc* vfwnmacc* "
          "vfwmsac* vfwnmsac*",
          OpClass::SimdFloatMultAcc, IsVector, riscv_dst_is_src},
    Entry{"vmacc* vnmsac* vmadd* vnmsub* vwmacc*", OpClass::SimdMultAcc, IsVector,
          riscv_dst_is_src},
    Entry{"vfadd* vfsub* vfrsub* vfwadd* vfwsub*", OpClass::SimdFloatAdd, IsVector},
    Entry{"vfmul* vfwmul*", OpClass::SimdFloatMult, IsVector},
    Entry{"vfdiv* vfrdiv* vfrec7*", OpClass::SimdFloatDiv, IsVector},
    Entry{"vfsqrt* vfrsqrt7*", OpClass::SimdFloatSqrt, IsVector},
    Entry{"vfcvt* vfwcvt* vfncvt* vfsgnj*", OpClass::SimdFloatCvt, IsVector},
    Entry{"vfmin* vfmax* vmfeq* vmfle* vmflt* vmfne* vmfgt* vmfge*", OpClass::SimdFloatCmp,
          IsVector},
    Entry{"vfredmin* vfredmax*", OpClass::SimdFloatReduceCmp, IsVector},
    Entry{"vfred* vfwred*", OpClass::SimdFloatReduceAdd, IsVector},
    Entry{"vredsum* vwredsum*", OpClass::SimdReduceAdd, IsVector},
    Entry{"vredmin* vredmax*", OpClass::SimdReduceCmp, IsVector},
    Entry{"vred*", OpClass::SimdReduceAlu, IsVector},
    Entry{"vdiv* vrem*", OpClass::SimdDiv, IsVector},
    Entry{"vmul* vwmul* vsmul*", OpClass::SimdMult, IsVector},
    Entry{"vmseq* vmsne* vmslt* vmsle* vmsgt* vmin* vmax*", OpClass::SimdCmp, IsVector},
    Entry{"vsll* vsrl* vsra* vssrl* vssra* vnsrl* vnsra*", OpClass::SimdShift, IsVector},
    Entry{"vnclip*", OpClass::SimdCvt, IsVector},
    Entry{"vzext* vsext*", OpClass::SimdExt, IsVector},
    Entry{"vadd* vsub* vrsub* vadc* vsbc* vsadd* vssub* vmadc* vmsbc* vaadd* vasub* vwadd* vwsub*",
          OpClass::SimdAdd, IsVector},
    Entry{"vand* vor* vxor* vmand* vmor* vmxor* vmnand* vmnor* vmxnor* vcpop* vmsbf* vmsof* "
          "vmsif* viota*",
          OpClass::SimdAlu, IsVector},
    Entry{"v*", OpClass::SimdMisc, IsVector},
};

}  // namespace

RiscvTraits riscv_traits(std::string_view mnemonic) {
  static const NameIndex<Entry> index(table);
  if (const Entry* e = index.find(mnemonic)) return RiscvTraits{e->op, e->flags, e->shape, e->size};
  return {};
}

}  // namespace tracekit::isa
