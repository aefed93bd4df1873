"""From capstone's AArch64 mnemonics to gem5's operation classes.

Read from gem5 v24.0: src/arch/arm/isa/insts/{data64,fp64,neon64,sve,crypto64,misc64,branch64}.isa.
Four tables, by the registers that an instruction uses, because names are shared (``add x0, x1, x2``
is IntAlu, ``add v0.4s, …`` SimdAdd, ``fadd d0, …`` FloatAdd, ``fadd v0.4s, …`` SimdFloatAdd).
Where gem5 is odd (frecpe is a multiply-accumulate, the rounding conversions of a scalar register
are SimdCvt), so is the table. Memory instructions are MemRead or MemWrite, whatever the registers.
capstone's aliases (cmp, mov, lsl, mul …) stand beside the real names.
"""

from __future__ import annotations

from typing import Final

from tracekit.isa.types import words


def _table(by_class: dict[str, str]) -> dict[str, str]:
    return {m: op for op, names in by_class.items() for m in names.split()}


INTEGER_OPS: Final = _table(
    {
        "IntMult": """madd msub mul mneg smaddl smsubl umaddl umsubl smull umull smnegl umnegl
            smulh umulh""",
        "IntDiv": "sdiv udiv",
        # SVE instructions on general registers
        "SimdAlu": """cntb cnth cntw cntd cntp incb inch incw incd incp decb dech decw decd decp
            sqincb sqinch sqincw sqincd uqincb uqinch uqincw uqincd sqdecb sqdech sqdecw sqdecd
            uqdecb uqdech uqdecw uqdecd""",
        # not implemented by gem5, which warns and goes on
        "No_OpClass": "bti",
    }
)
"""Only general registers; everything else is IntAlu."""

FLOAT_OPS: Final = _table(
    {
        "FloatAdd": "fadd fsub",
        "FloatMult": "fmul fnmul",
        "FloatDiv": "fdiv",
        "FloatSqrt": "fsqrt",
        "FloatMultAcc": "fmadd fmsub fnmadd fnmsub",
        "FloatCmp": "fcmp fcmpe fccmp fccmpe fmin fmax fminnm fmaxnm",
        "FloatMisc": """fmov fneg fabs frintn frintp frintm frintz frinta frinti frintx frint32x
            frint32z frint64x frint64z""",
        "FloatCvt": """fcvt fcsel scvtf ucvtf fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps
            fcvtpu fcvtzs fcvtzu fjcvtzs""",
    }
)
"""Scalar floating-point registers (b, h, s, d), general ones beside them or not; see
`SCALAR_SIMD_CVT`."""

SCALAR_SIMD_CVT: Final = words(
    "scvtf ucvtf fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu fcvtzs fcvtzu fcvtxn"
)
"""These, from one scalar register to another (``scvtf d0, d0``), are gem5's vector instructions."""

VECTOR_OPS: Final = _table(
    {
        "SimdAdd": """add sub addhn addhn2 addp addv raddhn raddhn2 rsubhn rsubhn2 subhn subhn2
            sabd uabd sadalp uadalp saddlp uaddlp saddlv uaddlv shadd uhadd shsub uhsub srhadd
            urhadd sqadd uqadd sqsub uqsub ssubl ssubl2 usubl usubl2 ssubw ssubw2 usubw usubw2
            suqadd usqadd""",
        "SimdAddAcc": """saba uaba sabal sabal2 uabal uabal2 sabdl sabdl2 uabdl uabdl2 saddl
            saddl2 uaddl uaddl2 saddw saddw2 uaddw uaddw2""",
        "SimdAlu": """and bic eor orr orn not mvn mvni bif bit bsl cls clz cmtst cnt neg abs rbit
            rev16 rev32 rev64 sqabs sqneg sqshl sqshlu uqshl uzp1 uzp2 zip1 zip2 trn1 trn2 mov""",
        "SimdCmp": """cmeq cmge cmgt cmhi cmhs cmle cmlt cmlo cmls smax smaxp smaxv smin sminp
            sminv umax umaxp umaxv umin uminp uminv sqrshl uqrshl""",
        "SimdMisc": """dup ins movi smov umov ext xtn xtn2 sqxtn sqxtn2 sqxtun sqxtun2 uqxtn
            uqxtn2 tbl tbx fmov""",
        "SimdMult": """mul pmul pmull pmull2 smull smull2 umull umull2 sqdmulh sqdmull sqdmull2
            sqrdmulh sqrdmlah sqrdmlsh""",
        "SimdMultAcc": """mla mls smlal smlal2 smlsl smlsl2 umlal umlal2 umlsl umlsl2 sqdmlal
            sqdmlal2 sqdmlsl sqdmlsl2 urecpe""",
        "SimdShift": """shl shll shll2 shrn shrn2 sli sri sshl ushl srshl urshl sshll sshll2
            ushll ushll2 sxtl sxtl2 uxtl uxtl2 sshr ushr ssra usra srshr urshr srsra ursra rshrn
            rshrn2 sqshrn sqshrn2 uqshrn uqshrn2 sqrshrn sqrshrn2 uqrshrn uqrshrn2 sqshrun
            sqshrun2 sqrshrun sqrshrun2""",
        "SimdSqrt": "ursqrte",
        "SimdDotProd": "sdot udot usdot sudot",
        "SimdCvt": """scvtf ucvtf fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu fcvtzs
            fcvtzu fcvtl fcvtl2 fcvtn fcvtn2 fcvtxn fcvtxn2 frinta frinti frintm frintn frintp
            frintx frintz""",
        "SimdFloatAdd": "fadd fsub fabd faddp fcadd",
        "SimdFloatAlu": "fabs fneg",
        "SimdFloatCmp": """facge facgt facle faclt fcmeq fcmge fcmgt fcmle fcmlt fmax fmaxnm
            fmaxnmp fmaxnmv fmaxp fmaxv fmin fminnm fminnmp fminnmv fminp fminv""",
        "SimdFloatDiv": "fdiv",
        "SimdFloatMisc": "frsqrts",
        "SimdFloatMult": "fmul fmulx",
        "SimdFloatMultAcc": """fmla fmls fcmla frecpe frecps frecpx fmlal fmlal2 fmlsl fmlsl2
            bfdot bfmlalb bfmlalt""",
        "SimdFloatMatMultAcc": "bfmmla",
        "SimdMatMultAcc": "smmla ummla usmmla",
        "SimdFloatSqrt": "fsqrt frsqrte",
        "SimdAes": "aese aesd",
        "SimdAesMix": "aesmc aesimc",
        "SimdSha1Hash": "sha1c sha1p sha1m",
        "SimdSha1Hash2": "sha1h",
        "SimdSha256Hash": "sha256h sha512h",
        "SimdSha256Hash2": "sha256h2 sha512h2",
        "SimdShaSigma2": "sha1su1 sha256su0 sha512su0",
        "SimdShaSigma3": "sha1su0 sha256su1 sha512su1",
    }
)
"""Advanced SIMD: a register with lanes (v0.4s, v0.s[1]), or a scalar form of such an
instruction."""

SVE_OPS: Final = _table(
    {
        "SimdAdd": "add sub subr adr adclt adclb sbclt sbclb sabd uabd sqadd sqsub uqadd uqsub",
        "SimdAlu": """abs and asr asrd asrr bcax bgrp bic clasta clastb cls clz cnot cnt cpy dup
            dupm eor ext fcpy insr lasta lastb lsl lslr lsr lsrr mov neg not orr pmul pmullb
            pmullt rax1 rbit rev revb revd revh revw sclamp uclamp sel smullb smullt umullb
            umullt splice sunpkhi sunpklo uunpkhi uunpklo sxtb sxth sxtw uxtb uxth uxtw tbl tbx
            trn1 trn2 uzp1 uzp2 zip1 zip2 xar inch incw incd dech decw decd incp decp""",
        "SimdDotProd": "sdot udot usdot sudot",
        "SimdCmp": """cmpeq cmpge cmpgt cmphi cmphs cmple cmplo cmpls cmplt cmpne smax smin umax
            umin whilele whilelo whilels whilelt whilege whilegt whilehi whilehs""",
        "SimdCvt": """fcvt fcvtzs fcvtzu scvtf ucvtf frinta frinti frintm frintn frintp frintx
            frintz""",
        "SimdDiv": "sdiv sdivr udiv udivr",
        "SimdMisc": "movprfx",
        "SimdMult": "mul smulh umulh",
        "SimdMultAcc": "mad mla mls msb",
        "SimdReduceAdd": "saddv uaddv",
        "SimdReduceAlu": "andv eorv orv",
        "SimdReduceCmp": "smaxv sminv umaxv uminv",
        "SimdFloatAdd": "fabd fadd fcadd fsub fsubr",
        "SimdFloatAlu": "fabs fdup fexpa fneg fmov",
        "SimdFloatCmp": """facge facgt fcmeq fcmge fcmgt fcmle fcmlt fcmne fcmuo fmax fmaxnm fmin
            fminnm""",
        "SimdFloatDiv": "fdiv fdivr",
        "SimdFloatMisc": "frsqrts fscale ftsmul",
        "SimdFloatMult": "fmul fmulx ftssel",
        "SimdFloatMultAcc": """fcmla fmad fmla fmls fmsb fnmad fnmla fnmls fnmsb frecpe frecps
            frecpx ftmad""",
        "SimdFloatReduceAdd": "fadda faddv",
        "SimdFloatReduceCmp": "fmaxnmv fmaxv fminnmv fminv",
        "SimdFloatSqrt": "frsqrte fsqrt",
        "SimdFloatMatMultAcc": "fmmla",
        "SimdMatMultAcc": "smmla ummla usmmla",
    }
)
"""SVE: a z register is among the operands."""

PREDICATE_OPS: Final = _table(
    {
        "SimdAlu": "cntp incp decp",
        "SimdCmp": "whilele whilelo whilels whilelt whilege whilegt whilehi whilehs",
    }
)
"""SVE: predicates, but no z register; everything else is SimdPredAlu."""
