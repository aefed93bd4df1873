"""x86-64: capstone's decoding of one instruction to the row of gem5's macro-op.

Operands, memory accesses and branch kinds come from capstone; the operation class and the flags are
those that gem5's micro-ops have when they are joined by the rules of features.md ("The macro
level").
"""

from __future__ import annotations

import re
from typing import Any, Final

import capstone as cs
from capstone import x86_const as xc

from tracekit.isa.types import (
    BRANCH_FLAGS,
    CC,
    FLOATING,
    INTEGER,
    PREDICATE,
    VECTOR,
    DecodedInst,
    MemOp,
    Reg,
    words,
)
from tracekit.isa.x86_ops import op_class

MODE: Final = cs.CS_MODE_64
MAX_LENGTH: Final = 15

_GPR: Final = [
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *(f"r{i}" for i in range(8, 16)),
]
_RSP: Final[Reg] = (INTEGER, 4)
_JUMPS: Final = frozenset((xc.X86_INS_JMP, xc.X86_INS_LJMP))
_CALLS: Final = frozenset((xc.X86_INS_CALL, xc.X86_INS_LCALL))
_RETS: Final = frozenset(
    (
        xc.X86_INS_RET,
        xc.X86_INS_RETF,
        xc.X86_INS_RETFQ,
        xc.X86_INS_IRET,
        xc.X86_INS_IRETD,
        xc.X86_INS_IRETQ,
    )
)
_SYSCALLS: Final = frozenset((xc.X86_INS_SYSCALL, xc.X86_INS_SYSENTER))
_NO_ACCESS: Final = frozenset((xc.X86_INS_LEA, xc.X86_INS_NOP))
_PREFETCHES: Final = frozenset(
    (
        *(
            xc.X86_INS_PREFETCH,
            xc.X86_INS_PREFETCHNTA,
            xc.X86_INS_PREFETCHT0,
            xc.X86_INS_PREFETCHT1,
        ),
        *(xc.X86_INS_PREFETCHT2, xc.X86_INS_PREFETCHW, xc.X86_INS_PREFETCHWT1),
    )
)
_PUSHES: Final = {
    xc.X86_INS_PUSH: 0,
    xc.X86_INS_PUSHF: 2,
    xc.X86_INS_PUSHFQ: 8,
    xc.X86_INS_ENTER: 8,
}
_POPS: Final = {xc.X86_INS_POP: 0, xc.X86_INS_POPF: 2, xc.X86_INS_POPFQ: 8, xc.X86_INS_LEAVE: 8}
_RDX: Final[Reg] = (INTEGER, 2)
_SIGN_TO_RDX: Final = frozenset(("cwd", "cdq", "cqo"))  # capstone has rax written too
_DISCARDS: Final = frozenset(("test", "cmp"))  # capstone has test's register written
_FLAGS_FIRST: Final = frozenset(
    ("mul", "imul", "div", "idiv", "bsf", "bsr", "bts", "btr", "btc", "cmpxchg", "xadd")
)
_WRITES_CC: Final = frozenset(
    ("cmpxchg", "cmpxchg8b", "cmpxchg16b", "xadd")
)  # not in all its forms
_IMPLICIT_FIRST: Final = frozenset(
    (xc.X86_INS_MUL, xc.X86_INS_DIV, xc.X86_INS_IDIV, xc.X86_INS_CALL)
)
_REPS: Final = (xc.X86_PREFIX_REP, xc.X86_PREFIX_REPNE)
_STRINGS: Final = frozenset(
    f"{op}{size}"
    for op in ("movs", "stos", "lods", "cmps", "scas", "ins", "outs")
    for size in "bwdq"
)
_GATHER: Final = re.compile(r"vp?(?:gather|scatter)(?:pf[01])?([dq])(ps|pd|d|q)")
_CONDITIONAL_EXTRA: Final = frozenset(
    (
        xc.X86_INS_LOOP,
        xc.X86_INS_LOOPE,
        xc.X86_INS_LOOPNE,
        xc.X86_INS_JCXZ,
        xc.X86_INS_JECXZ,
        xc.X86_INS_JRCXZ,
    )
)
# capstone 5 calls some plain stores loads, and some read-modify-writes neither.
_STORES: Final = re.compile(
    r"v?mov(?:[au]p[sd]|dq[au]|dqu?(?:8|16|32|64)|dqa(?:32|64)|[lh]p[sd]|q|d|s[sd]|nt.*)|v?pextr[bwdq]"
    r"|v?extract.*|v?p?compress.*|vpmov.*|vp?scatter.*|vcvtps2ph|vp?maskmov.*|set.*|movbe|movnti|movdir.*"
    r"|v?stmxcsr|f(?:n?st(?:cw|sw|env)|n?save|xsave.*|stp?|istt?p?|bstp)|xsave.*|s[gi]dt|sldt|str|smsw"
)
_UPDATES: Final = words("cmpxchg cmpxchg8b cmpxchg16b xadd xchg")
# Loads of the integer kind though a vector register is involved, as gem5 cracks them.
_INTEGER_LOADS: Final = words("pinsrb pinsrw pinsrd pinsrq ldmxcsr stmxcsr fldcw fnstcw fnstsw")
# Bytes where capstone has the register's width instead.
_SIZES: Final = {"comiss": 4, "ucomiss": 4, "comisd": 8, "ucomisd": 8}
# Destinations that are read too: the old value, or a part of it, survives.
_KEEPS: Final = re.compile(r"cmov.*|bs[fr]|cvtsi2s[sd]|cvtss2sd|cvtsd2ss")
# Flags that gem5's micro-ops of these carry (microops/specop.isa, the serialize_* of insts/**).
_FENCES: Final = {
    xc.X86_INS_MFENCE: ("IsReadBarrier", "IsWriteBarrier"),
    xc.X86_INS_LFENCE: ("IsReadBarrier", "IsSerializeAfter"),
    xc.X86_INS_SFENCE: ("IsWriteBarrier",),
    xc.X86_INS_CPUID: ("IsSerializing", "IsSerializeAfter"),
    xc.X86_INS_RDTSC: ("IsSerializing", "IsSerializeBefore", "IsReadBarrier", "IsWriteBarrier"),
    xc.X86_INS_RDTSCP: ("IsSerializing", "IsSerializeBefore", "IsReadBarrier", "IsWriteBarrier"),
    xc.X86_INS_HLT: ("IsNonSpeculative", "IsQuiesce"),
}


def _registers() -> dict[int, Reg]:
    table: dict[int, Reg] = {}
    for name, number in vars(xc).items():
        if not name.startswith("X86_REG_"):
            continue
        r = name[8:].lower()
        for kind in ("xmm", "ymm", "zmm"):
            if r.startswith(kind) and r[3:].isdigit():
                table[number] = (VECTOR, int(r[3:]))
        if r[:2] in ("mm", "st") and r[2:].isdigit():
            table[number] = (FLOATING, int(r[2:]))
        elif r.startswith("k") and r[1:].isdigit():
            table[number] = (PREDICATE, int(r[1:]))
    for i, r in enumerate(_GPR):
        if i >= 8:
            names = [r, f"{r}d", f"{r}w", f"{r}b"]
        elif r.endswith("x"):
            names = [r, f"e{r[1:]}", r[1:], f"{r[1]}l", f"{r[1]}h"]
        else:
            names = [r, f"e{r[1:]}", r[1:], f"{r[1:]}l"]
        for n in names:
            table[getattr(xc, f"X86_REG_{n.upper()}")] = (INTEGER, i)
    table[xc.X86_REG_EFLAGS] = CC
    return table


_REGS: Final = _registers()


def decode(insn: Any) -> DecodedInst:
    """``insn``: a capstone instruction with details."""
    code = insn.id
    operands = insn.operands
    mnemonic: str = insn.insn_name()
    rep = insn.prefix[0] in _REPS and mnemonic in _STRINGS
    branch = _branch(insn, code, operands)
    memory = _memory(insn, code, mnemonic, operands, rep)
    src, dst = _registers_of(insn, operands, bool(memory) and memory[0].kind == "load")

    vector = any(r[0] == VECTOR for r in src + dst)
    floating = vector or any(r[0] == FLOATING for r in src + dst)
    floating = floating or (mnemonic.startswith("f") and mnemonic not in _INTEGER_LOADS)
    flags: set[str] = set()
    loads = any(m.kind == "load" for m in memory)
    stores = any(m.kind == "store" for m in memory)
    if memory and code in _PREFETCHES:
        flags.add("IsDataPrefetch")
    integer = any(r[0] == INTEGER for r in src + dst)
    op = op_class(mnemonic, vector=vector, integer=integer)
    if memory:
        bare = mnemonic[1:] if mnemonic.startswith("v") else mnemonic
        float_access = floating and not (bare in _INTEGER_LOADS or branch != "none")
        op = "FloatMem" if float_access else "Mem"
        op += "Read" if memory[0].kind == "load" else "Write"
        flags.add("IsInteger")  # the address
    if loads:
        flags.add("IsLoad")
    if stores:
        flags.add("IsStore")
    if floating:
        flags.add("IsFloating")
    if branch != "none" or integer:
        flags.add("IsInteger")
    flags.update(_FENCES.get(code, ()))
    locked = insn.prefix[0] == xc.X86_PREFIX_LOCK or (code == xc.X86_INS_XCHG and memory)
    if locked and memory:
        flags.update(("IsReadBarrier", "IsWriteBarrier", "IsNonSpeculative"))
    if branch != "none":
        flags.update(BRANCH_FLAGS[branch])
    syscall = code in _SYSCALLS or (code == xc.X86_INS_INT and operands[0].imm == 0x80)
    size = memory[0].size if memory else 0
    text = f"{insn.mnemonic} {insn.op_str}".rstrip()
    return DecodedInst(
        insn.size, op, frozenset(flags), src, dst, branch, size, memory, syscall, text
    )


def _branch(insn: Any, code: int, operands: Any) -> str:
    if code in _RETS:
        return "return"
    direct = bool(operands) and operands[0].type == xc.X86_OP_IMM
    if code in _CALLS:
        return "call" if direct else "indirect_call"
    if code in _JUMPS:
        return "jump" if direct else "indirect"
    if code in _CONDITIONAL_EXTRA or (insn.group(cs.CS_GRP_JUMP) and direct):
        return "conditional"
    return "none"


def _memory(insn: Any, code: int, mnemonic: str, operands: Any, rep: bool) -> tuple[MemOp, ...]:
    loads: list[MemOp] = []
    stores: list[MemOp] = []
    count = 0 if rep else 1
    if code not in _NO_ACCESS:
        for i, o in enumerate(operands):
            if o.type != xc.X86_OP_MEM:
                continue
            size, n = int(o.size), count
            if "gather" in mnemonic or "scatter" in mnemonic:
                size, n = _elements(insn, mnemonic, operands)
            elif size == 16:
                size = _SIZES.get(mnemonic.removeprefix("v"), size)
            access = o.access or cs.CS_AC_READ
            if code in _PREFETCHES:
                access = cs.CS_AC_READ
            elif mnemonic in _UPDATES:
                access = cs.CS_AC_READ | cs.CS_AC_WRITE
            elif i == 0 and _STORES.fullmatch(mnemonic):
                access = cs.CS_AC_WRITE
            if access & cs.CS_AC_READ:
                loads.append(MemOp("load", size, n))
            if access & cs.CS_AC_WRITE:
                stores.append(MemOp("store", size, n))
    if code in _PUSHES:
        stores.append(MemOp("store", _PUSHES[code] or _stack_size(operands)))
    elif code in _POPS:
        loads.insert(0, MemOp("load", _POPS[code] or _stack_size(operands)))
    elif code in _CALLS:
        stores.append(MemOp("store", 8))
    elif code in _RETS:
        loads.append(MemOp("load", 8))
    elif code == xc.X86_INS_XLATB:
        loads.append(MemOp("load", 1))
    return (*loads, *stores)


def _stack_size(operands: Any) -> int:
    return 2 if operands and operands[0].size == 2 and operands[0].type != xc.X86_OP_IMM else 8


def _elements(insn: Any, mnemonic: str, operands: Any) -> tuple[int, int]:
    """Size and number of the element accesses of a gather or scatter."""
    m = _GATHER.fullmatch(mnemonic)
    if m is None:
        return 0, 0
    size = 8 if m[2] in ("pd", "q") else 4
    data = index = 0
    for o in operands:
        if o.type == xc.X86_OP_REG and o.size >= 16:
            data = max(data, int(o.size))
        elif o.type == xc.X86_OP_MEM and o.mem.index:
            index = {"x": 16, "y": 32, "z": 64}.get(insn.reg_name(o.mem.index)[0], 16)
    return size, max(1, min(data // size, index // (8 if m[1] == "q" else 4)))


def _registers_of(insn: Any, operands: Any, loads: bool) -> tuple[tuple[Reg, ...], tuple[Reg, ...]]:
    """Sources and destinations in the order that gem5's micro-ops use them: a load's address comes
    before the registers that it is combined with, a store's after the data."""
    regs = _REGS
    if insn.id == xc.X86_INS_NOP:
        return (), ()
    mnemonic: str = insn.insn_name()
    read, written = insn.regs_access()
    reads, writes = list(read), list(written)
    address: list[int] = []
    data: list[int] = []
    out: list[int] = []
    merged: list[int] = []
    kept: list[int] = []
    for o in operands:
        if o.type == xc.X86_OP_MEM:
            address += (o.mem.index, o.mem.base)
        elif o.type == xc.X86_OP_REG:
            access = o.access or _mask_access(mnemonic, o is operands[0])
            if access & cs.CS_AC_WRITE:
                out.append(o.reg)
                # gem5 merges into the old value what is narrower than 32 bits
                if o.size < 4 and regs.get(o.reg, CC)[0] == INTEGER:
                    merged.append(o.reg)
            if access & cs.CS_AC_READ:
                data.append(o.reg)
    if mnemonic in _DISCARDS:
        data = [o.reg for o in operands if o.type == xc.X86_OP_REG]
        out, writes = [], [xc.X86_REG_EFLAGS]
    elif mnemonic == "cmpxchg":
        writes.append(xc.X86_REG_RAX)
    elif _KEEPS.fullmatch(mnemonic):
        kept = out
    explicit = {*address, *data, *merged, *kept}
    implicit = [r for r in reads if r not in explicit]
    if mnemonic in _SIGN_TO_RDX:
        writes = [r for r in writes if regs.get(r) == _RDX]
    if mnemonic in _WRITES_CC or mnemonic.startswith("ktest"):
        writes.append(xc.X86_REG_EFLAGS)
    if loads:
        order = merged + address + data + kept + implicit
    elif insn.id in _IMPLICIT_FIRST:
        order = implicit + data + address
    else:
        order = merged + data + kept + address + implicit
    src = _cc_last(dict.fromkeys(regs[r] for r in order if r in regs))
    if mnemonic == "pop":  # the stack pointer moves before the register is written
        out, writes = writes, out
    dst = _cc_last(dict.fromkeys(regs[r] for r in (*out, *writes) if r in regs))
    if mnemonic in _FLAGS_FIRST:
        dst = tuple(sorted(dst, key=lambda r: r != CC))
    if mnemonic.startswith("cmov") and not address:  # the old value, the condition, the new one
        old = [regs[r] for r in out if r in regs]
        src = tuple(dict.fromkeys((*old, CC, *src)))
    if mnemonic == "div":
        where, what = ([regs[r] for r in of if r in regs] for of in (address, data))
        src = tuple(dict.fromkeys((*where, _RDX, *what, *src)))
    elif mnemonic == "idiv":
        dst = tuple(dict.fromkeys((CC, _RDX, *dst)))
    return src, dst


def _mask_access(mnemonic: str, first: bool) -> int:
    """capstone 5 does not mark the operands of some instructions on mask registers."""
    if not mnemonic.startswith("k"):
        return 0
    written = first and "test" not in mnemonic
    return int(cs.CS_AC_WRITE if written else cs.CS_AC_READ)


def _cc_last(found: dict[Reg, None]) -> tuple[Reg, ...]:
    if CC in found:
        del found[CC]
        return (*found, CC)
    return tuple(found)
