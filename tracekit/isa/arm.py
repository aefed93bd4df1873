"""AArch64: capstone's decoding of an instruction to the row of gem5's (all its micro-ops)."""

from __future__ import annotations

import re
from typing import Any, Final

import capstone as cs
from capstone import arm64_const as ac

from tracekit.isa.arm_ops import (
    FLOAT_OPS,
    INTEGER_OPS,
    PREDICATE_OPS,
    SCALAR_SIMD_CVT,
    SVE_OPS,
    VECTOR_OPS,
)
from tracekit.isa.types import (
    BRANCH_FLAGS,
    CC,
    INTEGER,
    PREDICATE,
    VECTOR,
    DecodedInst,
    MemOp,
    Reg,
    words,
)

MODE: Final = cs.CS_MODE_ARM
MAX_LENGTH: Final = 4

_SIZES: Final = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16, "w": 4, "x": 8, "v": 16}
_SUFFIX: Final = {"b": 1, "h": 2, "w": 4}
_LINK: Final[Reg] = (INTEGER, 30)


def _registers() -> dict[int, Reg]:
    table: dict[int, Reg] = {}
    for name, number in vars(ac).items():
        m = re.fullmatch(r"ARM64_REG_([WXBHSDQVZP])(\d+)", name)
        if m:
            kind, n = m[1], int(m[2])
            cls = INTEGER if kind in "WX" else PREDICATE if kind == "P" else VECTOR
            table[number] = (cls, n)
    table |= {
        ac.ARM64_REG_FP: (INTEGER, 29),
        ac.ARM64_REG_LR: _LINK,
        ac.ARM64_REG_SP: (INTEGER, 31),
        ac.ARM64_REG_WSP: (INTEGER, 31),
        ac.ARM64_REG_NZCV: CC,
        ac.ARM64_REG_FFR: (PREDICATE, 16),
    }
    return table


_REGS: Final = _registers()

_BRANCHES: Final = {
    "b": "jump",
    "bl": "call",
    "br": "indirect",
    "blr": "indirect_call",
    "ret": "return",
    **dict.fromkeys(("cbz", "cbnz", "tbz", "tbnz"), "conditional"),
    **dict.fromkeys(("braa", "brab", "braaz", "brabz"), "indirect"),
    **dict.fromkeys(("blraa", "blrab", "blraaz", "blrabz"), "indirect_call"),
    **dict.fromkeys(("retaa", "retab", "eret", "eretaa", "eretab", "drps"), "return"),
}
_READS_CC: Final = words(
    """adc adcs sbc sbcs ngc ngcs csel csinc csinv csneg cset csetm cinc cinv cneg ccmp ccmn
        fcsel fccmp fccmpe cfinv axflag xaflag"""
)
_WRITES_CC: Final = words(
    """adds subs ands bics adcs sbcs ngcs negs cmp cmn tst ccmp ccmn fcmp fcmpe fccmp fccmpe
        cfinv axflag xaflag rmif setf8 setf16 ptest ptrues brkas brkbs brkns brkpas brkpbs nands
        nors orns orrs eors rdffrs pfirst pnext ctermeq ctermne movs nots whilele whilelo whilels
        whilelt whilege whilegt whilehi whilehs cmpeq cmpge cmpgt cmphi cmphs cmple cmplo cmpls
        cmplt cmpne"""
)
_READS_DST: Final = words(
    """movk bfi bfxil bfm bfc ins bsl bit bif mla mls fmla fmls sri sli ssra usra srsra ursra tbx
        smlal smlal2 umlal umlal2 smlsl smlsl2 umlsl umlsl2 sqdmlal sqdmlal2 sqdmlsl sqdmlsl2
        saba uaba sabal sabal2 uabal uabal2 sadalp uadalp sdot udot usdot sudot smmla ummla
        usmmla xtn2 sqxtn2 sqxtun2 uqxtn2 shrn2 rshrn2 sqshrn2 uqshrn2 sqrshrn2 uqrshrn2 sqshrun2
        sqrshrun2 addhn2 raddhn2 subhn2 rsubhn2 fcvtn2 fcvtxn2 aese aesd sha1c sha1p sha1m
        sha1su0 sha1su1 sha256h sha256h2 sha256su0 sha256su1 sha512h sha512h2 sha512su0 sha512su1
        suqadd usqadd fcmla"""
)
_READS_DST_PREFIX: Final = re.compile(r"[us]?q?(inc|dec)[bhwdp]|pac|aut|xpac")
_NO_DST: Final = words(
    """cmp cmn tst ccmp ccmn fcmp fcmpe fccmp fccmpe cbz cbnz tbz tbnz msr dc ic at tlbi sys
        ptest ctermeq ctermne wrffr setffr setf8 setf16 rmif"""
)
_NO_DST_PREFIX: Final = re.compile(r"prf|bl?ra?[ab]?z?$|ret|hint")
_ACCUMULATOR_FIRST: Final = words("madd msub smaddl smsubl umaddl umsubl")
_BARRIERS: Final = ("IsReadBarrier", "IsWriteBarrier")
_SPECIAL_FLAGS: Final = {
    "svc": ("IsSerializeAfter", "IsNonSpeculative", "IsSyscall"),
    "hvc": ("IsSerializeAfter", "IsNonSpeculative", "IsSyscall"),
    "smc": ("IsSerializeAfter", "IsNonSpeculative"),
    "brk": ("IsSerializeAfter",),
    "hlt": ("IsSerializeAfter",),
    "mrs": ("IsSerializeBefore",),
    "msr": ("IsSerializeAfter", "IsNonSpeculative"),
    "dmb": _BARRIERS,
    "dsb": (*_BARRIERS, "IsSerializeAfter"),
    "isb": ("IsSquashAfter",),
    "eret": ("IsSerializeAfter", "IsNonSpeculative", "IsSquashAfter"),
    "wfi": ("IsNonSpeculative", "IsQuiesce", "IsSerializeAfter", "IsUnverifiable"),
    "wfe": ("IsNonSpeculative", "IsQuiesce", "IsSerializeAfter", "IsUnverifiable"),
    "bti": ("IsNonSpeculative",),
    "nop": ("IsNop",),
}
_ATOMIC: Final = re.compile(
    r"(ld|st)(add|clr|eor|set|[su]max|[su]min)(a|l|al)?[bh]?|(cas|casp|swp)(a|l|al)?[bh]?"
)
_EXCLUSIVE_STORE: Final = re.compile(r"stl?x[rp][bh]?")
_ACQUIRE_RELEASE: Final = re.compile(
    r"ldax[rp][bh]?|ldap?u?r[bh]?|ldlar[bh]?|stlx[rp][bh]?|stll?u?r[bh]?"
)
_LOAD: Final = re.compile(r"ld.*")
_STORE: Final = re.compile(r"st.*")
_PREFETCH: Final = re.compile(r"prfu?m|prf[bhwd]")
_STRUCTURE: Final = re.compile(r"(ld|st)([1-4])(r?)")
_SVE_MEMORY: Final = re.compile(r"(ld|st)(ff|nf|nt)?([1-4])(r|rq|ro)?(s?)([bhwd])")


def decode(insn: Any) -> DecodedInst:
    """``insn``: a capstone instruction with details."""
    mnemonic: str = insn.insn_name()
    operands = insn.operands
    names = [insn.reg_name(o.reg) for o in operands if o.type == ac.ARM64_OP_REG]
    branch = _BRANCHES.get(mnemonic, "none")
    if branch == "jump" and insn.cc not in (0, ac.ARM64_CC_AL, ac.ARM64_CC_NV):
        branch = "conditional"
    memory, atomic = _memory(insn, mnemonic, operands, names)
    src, dst = _registers_of(insn, mnemonic, operands, branch, memory, atomic)

    has_vector = any(r[0] == VECTOR for r in src + dst)
    has_predicate = any(r[0] == PREDICATE for r in src + dst)
    flags: set[str] = set()
    if memory:
        # gem5: an atomic is a MemWrite, whatever it returns
        op = "MemWrite" if atomic or memory[0].kind == "store" else "MemRead"
        flags.add("IsInteger")
        if atomic:
            flags.add("IsAtomic")
        else:
            flags.add("IsLoad" if memory[0].kind == "load" else "IsStore")
        if has_vector:
            flags.add("IsVector")
        if _EXCLUSIVE_STORE.fullmatch(mnemonic):
            flags.add("IsStoreConditional")
        if _PREFETCH.fullmatch(mnemonic):
            flags.add("IsDataPrefetch")
        if (atomic and _orders(mnemonic)) or _ACQUIRE_RELEASE.fullmatch(mnemonic):
            flags.update(_BARRIERS)
    else:
        op = _op_class(mnemonic, operands, names, has_vector, has_predicate)
        if has_vector:
            flags.add("IsVector")
        if mnemonic != "nop" and (not has_vector or any(r[0] == INTEGER for r in src + dst)):
            flags.add("IsInteger")
    if branch != "none":
        flags.update(BRANCH_FLAGS[branch])
        if mnemonic == "b" and branch in ("conditional", "jump"):
            flags.discard("IsInteger")
    special = _SPECIAL_FLAGS.get(mnemonic)
    if special:
        flags.update(special)
        if mnemonic not in ("mrs", "msr"):
            flags.discard("IsInteger")
    size = memory[0].size if memory else 0
    text = f"{insn.mnemonic} {insn.op_str}".rstrip()
    return DecodedInst(
        insn.size, op, frozenset(flags), src, dst, branch, size, memory, mnemonic == "svc", text
    )


def _orders(mnemonic: str) -> bool:
    m = _ATOMIC.fullmatch(mnemonic)
    return m is not None and bool(m[3] or m[5])


def _op_class(mnemonic: str, operands: Any, names: list[str], vector: bool, predicate: bool) -> str:
    if any(n[0] == "z" and n[1:].isdigit() for n in names):
        return SVE_OPS.get(mnemonic, "SimdAlu")
    if predicate:
        return PREDICATE_OPS.get(mnemonic, "SimdPredAlu")
    if not vector:
        return INTEGER_OPS.get(mnemonic, "IntAlu")
    lanes = any(o.type == ac.ARM64_OP_REG and (o.vas or o.vector_index != -1) for o in operands)
    if not lanes and not any(n[0] == "v" for n in names):
        scalars_only = all(n[0] in "bhsdq" for n in names)
        fixed = scalars_only and mnemonic in SCALAR_SIMD_CVT
        if mnemonic in FLOAT_OPS and not fixed:
            return FLOAT_OPS[mnemonic]
    elif mnemonic == "fmov" and any(n[0] in "wx" for n in names):
        return "FloatMisc"  # fmov x0, v0.d[1]
    elif mnemonic == "mov" and any(
        o.type == ac.ARM64_OP_REG and o.vector_index != -1 for o in operands
    ):
        return "SimdMisc"  # an alias of ins, umov and dup
    return VECTOR_OPS.get(mnemonic, "SimdMisc")


def _memory(
    insn: Any, mnemonic: str, operands: Any, names: list[str]
) -> tuple[tuple[MemOp, ...], bool]:
    """The accesses, and whether the instruction is an atomic one."""
    if mnemonic == "dc":
        zeroes = any(o.type == ac.ARM64_OP_SYS for o in operands) and "zva" in insn.op_str
        return ((MemOp("store", 64),) if zeroes else (MemOp("store", 0),)), False
    if not any(o.type == ac.ARM64_OP_MEM for o in operands):
        literal = mnemonic in ("ldr", "ldrsw") and operands and operands[-1].type == ac.ARM64_OP_IMM
        if not literal:
            return (), False
    if _PREFETCH.fullmatch(mnemonic):
        return (MemOp("load", 0),), False
    if _ATOMIC.fullmatch(mnemonic):
        size = _suffix_size(mnemonic, names) * (2 if mnemonic.startswith("casp") else 1)
        return (MemOp("load", size), MemOp("store", size)), True
    kind: Any = (
        "load" if _LOAD.fullmatch(mnemonic) else "store" if _STORE.fullmatch(mnemonic) else None
    )
    if kind is None:
        return (), False
    m = _SVE_MEMORY.fullmatch(mnemonic)
    if m and any(n[0] == "z" for n in names):
        return (MemOp(kind, {"b": 1, "h": 2, "w": 4, "d": 8}[m[6]], 0),), False
    m = _STRUCTURE.fullmatch(mnemonic)
    if m:
        vectors = [o for o in operands if o.type == ac.ARM64_OP_REG and o.vas]
        lane = bool(vectors) and vectors[0].vector_index != -1
        whole = sum(_vas_bytes(o.vas)[0] for o in vectors)
        element = _vas_bytes(vectors[0].vas)[1] if vectors else 0
        size = element * len(vectors) if lane or m[3] else whole
        return (MemOp(kind, size),), False
    data = names[1:] if _EXCLUSIVE_STORE.fullmatch(mnemonic) else names
    pair = mnemonic.startswith(("ldp", "stp", "ldnp", "stnp", "ldxp", "ldaxp", "stxp", "stlxp"))
    if mnemonic == "ldpsw":
        return (MemOp(kind, 8),), False
    size = _suffix_size(mnemonic, data) * (2 if pair else 1)
    if data and data[0][0] in "zp":
        size = 0  # whole SVE registers: the vector's length is not in the encoding
    return (MemOp(kind, size),), False


def _suffix_size(mnemonic: str, names: list[str]) -> int:
    """Bytes of one transfer register: from the name's suffix (ldrb, ldursh, ldrsw), else the
    register."""
    m = re.fullmatch(r".*?(?:rs?|rs|ur|urs|as?|al|l|p|x|xr|d[da]*|t|ts|r)([bhw])", mnemonic)
    if m and mnemonic[-1] in "bh":
        return _SUFFIX[mnemonic[-1]]
    if mnemonic.endswith("sw"):
        return 4
    return _SIZES.get(names[0][0], 8) if names else 8


def _vas_bytes(vas: int) -> tuple[int, int]:
    """Bytes of a whole register and of an element of an arrangement (v0.4s)."""
    return _VAS.get(vas, (0, 0))


_VAS: Final = {
    number: (
        (int(m[1] or 0) or 16 // _SIZES[m[2].lower()]) * _SIZES[m[2].lower()],
        _SIZES[m[2].lower()],
    )
    for name, number in vars(ac).items()
    if (m := re.fullmatch(r"ARM64_VAS_(\d*)([BHSDQ])", name))
}


def _registers_of(
    insn: Any,
    mnemonic: str,
    operands: Any,
    branch: str,
    memory: tuple[MemOp, ...],
    atomic: bool,
) -> tuple[tuple[Reg, ...], tuple[Reg, ...]]:
    """Sources and destinations in the order of first use.

    capstone 5's access marks are wrong for aliases (``cmp`` "writes" a register, ``lsl`` reads its
    destination) and missing for SVE, so the rule is the manual's: the first register is written,
    the others are read, and the exceptions are listed.
    """
    regs = [o for o in operands if o.type == ac.ARM64_OP_REG]
    at = next((i for i, o in enumerate(operands) if o.type == ac.ARM64_OP_MEM), -1)
    address = [r for r in (operands[at].mem.base, operands[at].mem.index) if r] if at >= 0 else []
    post = at >= 0 and at + 1 < len(operands)
    if post and operands[-1].type == ac.ARM64_OP_REG:  # post-index by a register
        address.append(operands[-1].reg)
        regs.pop()
    written, updated = _split(mnemonic, regs, memory, atomic, insn.op_str)
    read = [*updated, *(o.reg for o in regs[len(written) :])]
    if mnemonic in _ACCUMULATOR_FIRST and len(read) == 3:
        read = [read[2], read[0], read[1]]
    load = bool(memory) and memory[0].kind == "load"
    moved = mnemonic in ("stp", "stnp") and not post and at >= 0 and operands[at].mem.disp != 0
    order = address + read if (load and not atomic) or moved else read + address
    if insn.writeback and address:
        written = [*written, operands[at].mem.base]
    table = _REGS
    src = dict.fromkeys(table[r] for r in order if r in table)
    dst = dict.fromkeys(table[r] for r in written if r in table)
    if branch in ("call", "indirect_call"):
        dst[_LINK] = None
    elif branch == "return" and not src:
        src[_LINK] = None
    if mnemonic in _READS_CC or (mnemonic == "b" and branch == "conditional"):
        src[CC] = None
    if mnemonic in _WRITES_CC or insn.update_flags:
        dst[CC] = None
    return tuple(src), tuple(dst)


def _split(
    mnemonic: str, regs: list[Any], memory: tuple[MemOp, ...], atomic: bool, op_str: str
) -> tuple[list[int], list[int]]:
    """The registers that are written, in front of ``regs``, and those of them that are read too."""
    numbers = [o.reg for o in regs]
    if not regs or mnemonic in _NO_DST or _NO_DST_PREFIX.match(mnemonic):
        return [], []
    if atomic:
        if mnemonic.startswith("cas"):
            n = 2 if mnemonic.startswith("casp") else 1
            return numbers[:n], numbers[:n]
        if mnemonic.startswith("st"):
            return [], []
        # swp and ldadd: the first is read, the second written
        regs.reverse()
        return numbers[-1:], []
    if memory and memory[0].kind == "store":
        return (numbers[:1], []) if _EXCLUSIVE_STORE.fullmatch(mnemonic) else ([], [])
    if memory:
        names = [_REGS.get(r, (INTEGER, 0))[0] for r in numbers]
        n = len(names)
        while n > 1 and names[n - 1] == PREDICATE:  # what governs a predicated load
            n -= 1
        lane = any(o.vector_index != -1 for o in regs)
        return numbers[:n], numbers[:n] if lane else []
    updates = (
        mnemonic in _READS_DST
        or _READS_DST_PREFIX.match(mnemonic) is not None
        or (regs[0].vector_index != -1 and _REGS.get(numbers[0], CC)[0] == VECTOR)
        or (
            mnemonic in ("orr", "bic") and len(regs) == 1
        )  # an immediate combined with what is there
        or "/m" in op_str
    )
    return numbers[:1], numbers[:1] if updates else []
