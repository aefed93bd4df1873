"""From capstone's x86 mnemonics to the operation classes of gem5's macro-ops (register forms).

gem5 cracks an x86 instruction into micro-ops; the macro has the class of its first memory micro-op,
else of the first that is neither IntAlu nor No_OpClass, else IntAlu (features.md, "The macro
level").  Memory is added by the decoder from the operands; this table is the rest, read from gem5
v24.0: src/arch/x86/isa/insts/** (which micro-ops) and
src/arch/x86/isa/microops/{regop,fpop,mediaop}.isa (their classes).  A mnemonic that is not here is
IntAlu.  What gem5 does not implement (AVX, FMA, AES, SHA) has the class that gem5 gives the same
operation on ARM.

Mnemonics of VEX and EVEX forms are looked up with their "v" taken off, where they are not here with
it.
"""

from __future__ import annotations

from typing import Final

from tracekit.isa.types import words

_BY_CLASS: Final = {
    "IntMult": "mul imul mulx",
    "IntDiv": "div idiv",
    # x87: src/arch/x86/isa/insts/x87
    "FloatAdd": """fadd faddp fiadd fsub fsubp fsubr fsubrp fisub fisubr fabs fchs fld1 fldz
        fldpi fldl2e fldl2t fldlg2 fldln2 movq2dq""",
    "FloatMult": "fmul fmulp fimul",
    "FloatDiv": "fdiv fdivp fdivr fdivrp fidiv fidivr fprem fprem1",
    "FloatSqrt": "fsqrt fsin fcos fsincos fptan fpatan fyl2x fyl2xp1 f2xm1",
    "FloatCmp": """fcom fcomp fcompp fcomi fcompi fucom fucomp fucompp fucomi fucompi fucomip
        fcomip ftst""",
    "FloatMisc": "emms femms fxam frndint fscale fxtract",
    # SSE: floating point
    "SimdFloatAdd": """addss addsd addps addpd subss subsd subps subpd haddps haddpd hsubps
        hsubpd addsubps addsubpd""",
    "SimdFloatMult": "mulss mulsd mulps mulpd dpps dppd",
    "SimdFloatDiv": "divss divsd divps divpd",
    "SimdFloatSqrt": "sqrtss sqrtsd sqrtps sqrtpd",
    "SimdFloatAlu": """rcpss rcpps rsqrtss rsqrtps rcp14ss rcp14ps rsqrt14ss rsqrt14ps rcp14pd
        rsqrt14pd""",
    "SimdFloatCmp": """minss minsd minps minpd maxss maxsd maxps maxpd rangeps rangepd rangess
        rangesd""",
    "SimdFloatCvt": """comiss comisd ucomiss ucomisd cmpss cmpsd_xmm cmpps cmppd cvtss2si
        cvtsd2si cvttss2si cvttsd2si cvtss2sd cvtsd2ss cvtps2pd cvtpd2ps cvtdq2ps cvtdq2pd
        cvtps2dq cvtpd2dq cvttps2dq cvttpd2dq cvtpi2ps cvtpi2pd cvtps2pi cvtpd2pi cvttps2pi
        cvttpd2pi cvtph2ps cvtps2ph cvtusi2ss cvtusi2sd cvtss2usi cvtsd2usi cvttss2usi cvttsd2usi
        cvtqq2ps cvtqq2pd cvtps2qq cvtpd2qq cvttps2qq cvttpd2qq cvtuqq2pd cvtuqq2ps cvtudq2pd
        cvtudq2ps cvtps2udq cvtpd2udq cvttps2udq cvttpd2udq cvtps2uqq cvtpd2uqq cvttps2uqq
        cvttpd2uqq"""
    "",
    # SSE: integers
    "SimdAdd": """paddb paddw paddd paddq paddsb paddsw paddusb paddusw psubb psubw psubd psubq
        psubsb psubsw psubusb psubusw pavgb pavgw psadbw mpsadbw dbpsadbw phaddw phaddd phaddsw
        phsubw phsubd phsubsw""",
    "SimdMult": """pmullw pmulld pmullq pmulhw pmulhuw pmuludq pmuldq pmulhrsw pmaddwd pmaddubsw
        pmulhrw pclmulqdq pmadd52luq pmadd52huq gf2p8mulb""",
    "SimdShift": """psllw pslld psllq pslldq psrlw psrld psrlq psrldq psraw psrad psraq psllvw
        psllvd psllvq psrlvw psrlvd psrlvq psravw psravd psravq prold prolq prolvd prolvq prord
        prorq prorvd prorvq""",
    "SimdCmp": """pminub pminuw pminud pminuq pminsb pminsw pminsd pminsq pmaxub pmaxuw pmaxud
        pmaxuq pmaxsb pmaxsw pmaxsd pmaxsq ptest testps testpd ptestmb ptestmw ptestmd ptestmq
        ptestnmb ptestnmw ptestnmd ptestnmq pcmpestri pcmpestrm pcmpistri pcmpistrm""",
    "SimdCvt": """pcmpeqb pcmpeqw pcmpeqd pcmpeqq pcmpgtb pcmpgtw pcmpgtd pcmpgtq pcmpb pcmpw
        pcmpd pcmpq pcmpub pcmpuw pcmpud pcmpuq""",
    "SimdAlu": """pxor por pand pandn pxord pxorq pord porq pandd pandq pandnd pandnq xorps xorpd
        orps orpd andps andpd andnps andnpd pternlogd pternlogq popcntb popcntw popcntd popcntq
        plzcntd plzcntq pconflictd pconflictq""",
    "SimdMisc": """pshufb pshufd pshufhw pshuflw pshufw shufps shufpd shuff32x4 shuff64x2
        shufi32x4 shufi64x2 punpcklbw punpcklwd punpckldq punpckhbw punpckhwd punpckhdq unpcklps
        unpckhps packsswb packssdw packuswb packusdw palignr alignd alignq cvtsi2ss cvtsi2sd
        pmovmskb movmskps movmskpd movd movq_gpr maskmovdqu maskmovq pinsrb pinsrw pinsrd pinsrq
        pextrb pextrw pextrd pextrq insertps extractps pmovsxbw pmovsxbd pmovsxbq pmovsxwd
        pmovsxwq pmovsxdq pmovzxbw pmovzxbd pmovzxbq pmovzxwd pmovzxwq pmovzxdq pmovwb pmovdb
        pmovdw pmovqb pmovqw pmovqd pmovm2b pmovm2w pmovm2d pmovm2q pmovb2m pmovw2m pmovd2m
        pmovq2m blendps blendpd blendvps blendvpd pblendvb pblendw pblendd pblendmb pblendmw
        pblendmd pblendmq roundss roundsd roundps roundpd rndscaless rndscalesd rndscaleps
        rndscalepd pabsb pabsw pabsd pabsq psignb psignw psignd phminposuw broadcastss
        broadcastsd broadcastf128 broadcasti128 broadcastf32x4 broadcasti32x4 broadcasti64x4
        pbroadcastb pbroadcastw pbroadcastd pbroadcastq permd permq permps permpd permw permb
        perm2f128 perm2i128 permilps permilpd permi2b permi2w permi2d permi2q permi2ps permi2pd
        permt2b permt2w permt2d permt2q permt2ps permt2pd insertf128 inserti128 extractf128
        extracti128 insertf32x4 insertf64x2 insertf64x4 inserti32x4 inserti32x8 inserti64x2
        inserti64x4 extractf32x4 extractf64x2 extractf64x4 extracti32x4 extracti64x2 extracti32x8
        extracti64x4 compressps compresspd pcompressd pcompressq expandps expandpd pexpandd
        pexpandq zeroall zeroupper""",
    "SimdFloatMultAcc": " ".join(
        f"vf{n}{kind}{order}{t}"
        for n in ("", "n")
        for kind in ("madd", "msub")
        for order in ("", "132", "213", "231")  # without an order: FMA4
        for t in ("ss", "sd", "ps", "pd")
    )
    + " "
    + " ".join(
        f"vf{kind}{order}{t}"
        for kind in ("maddsub", "msubadd")
        for order in ("132", "213", "231")
        for t in ("ps", "pd")
    ),
    "SimdDotProd": "pdpbusd pdpbusds pdpwssd pdpwssds",
    "SimdAes": "aesenc aesenclast aesdec aesdeclast aeskeygenassist",
    "SimdAesMix": "aesimc",
    "SimdSha1Hash": "sha1rnds4 sha1nexte",
    "SimdSha1Hash2": "sha1msg1 sha1msg2",
    "SimdSha256Hash": "sha256rnds2",
    "SimdShaSigma2": "sha256msg1 sha256msg2",
    "SimdPredAlu": " ".join(
        f"{k}{w}"
        for k in sorted(words("kand kandn kor kxor kxnor knot kadd kshiftl kshiftr kunpck"))
        for w in ("b", "w", "d", "q", "bw", "wd", "dq")
    )
    + " kortestb kortestw kortestd kortestq ktestb ktestw ktestd ktestq",
}

OPS: Final[dict[str, str]] = {m: op for op, names in _BY_CLASS.items() for m in names.split()}


def op_class(mnemonic: str, *, vector: bool, integer: bool) -> str:
    """The class of a register form.

    ``vector`` and ``integer``: it uses such registers, which tells SSE's cmpsd from the string
    instruction, and the two kinds of movq.
    """
    if vector and mnemonic == "cmpsd":
        mnemonic = "cmpsd_xmm"
    elif mnemonic in ("movq", "vmovq"):
        mnemonic = "movq_gpr" if integer else "movq"
    op = OPS.get(mnemonic)
    if op is None and mnemonic.startswith("v"):
        op = OPS.get(mnemonic[1:])
        if op is None and mnemonic.startswith("vcmp"):  # vcmpltps and the like
            op = "SimdFloatCvt"
        elif op is None and mnemonic.startswith("vpcmp"):
            op = "SimdCvt"
    elif op is None and vector and mnemonic.startswith("cmp"):  # cmpltsd and the like
        op = "SimdFloatCvt"
    return op or "IntAlu"
