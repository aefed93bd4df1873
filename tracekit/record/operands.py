"""Where an x86-64 instruction touches memory: capstone's operands as recipes for the stepper.

A recipe is made once for each machine code; csrc/record/operands.hpp evaluates it from the
registers.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, TypedDict

import capstone as cs
from capstone import x86_const as xc

# csrc/record/operands.hpp
PLAIN: Final = 0
BIT_STRING: Final = 1
LOW_BYTE: Final = 2
GATHER: Final = 3
NO_SPECIAL: Final = 0
SYSTEM_CALL: Final = 1
INTERRUPT: Final = 2
PUSH_FLAGS: Final = 3
_RIP: Final = 16
# csrc/core/static_inst.hpp, BranchKind
NO_BRANCH, CONDITIONAL, JUMP, CALL, INDIRECT, INDIRECT_CALL, RET = range(7)

_GPR: Final = (
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
_RBX, _RSP, _RBP, _RDI = 3, 4, 5, 7


class Operand(TypedDict, total=False):
    """One operand in memory; what is absent has the value that operands.hpp initialises it with."""

    kind: int
    segment: int
    base: int
    index: int
    scale: int
    short_address: bool
    load: bool
    store: bool
    size: int
    disp: int
    elements: int
    index_bytes: int
    mask_is_vector: bool
    mask: int


class Recipe(TypedDict):
    """What the stepper needs to know of one machine instruction."""

    length: int
    branch: int
    special: int
    rep: bool
    rep_counted: bool
    operands: list[Operand]


_NO_ACCESS: Final = re.compile(
    r"lea|f?nop|prefetch\w*|clflush(?:opt)?|clwb|cldemote|clzero|invlpg|bnd\w+|endbr\w*|monitorx?"
)
# Destinations in memory that capstone 5 calls loads, or neither.
_STORES: Final = re.compile(
    r"mov\w*|vmov\w*|v?pextr[bwdq]|v?extract\w*|vp?compress\w*|vpmov\w*|v?p?scatter\w*|vcvtps2ph"
    r"|vp?maskmov\w*|set\w+|v?stmxcsr|fn?st\w*|fn?save|fisttp|fist|fistp|fbstp|fxsave\w*|xsave\w*"
    r"|s[gi]dt|sldt|str|smsw|kmov\w+|stos\w"
)
_UPDATES: Final = re.compile(
    r"cmpxchg(?:8b|16b)?|xadd|xchg|add|adc|sub|sbb|and|or|xor|inc|dec|neg|not|sh[lr]d?|sal|sar|ro[lr]"
    r"|rc[lr]|bt[src]|aadd|aand|aor|axor"
)
_LOADS: Final = re.compile(
    r"cmp|test|bt|push|call|jmp|i?mul|i?div|v?u?comis\w|v?ldmxcsr|frstor|fldenv"
)
_SIZE: Final = {"comiss": 4, "ucomiss": 4, "comisd": 8, "ucomisd": 8}
_STRING: Final = re.compile(r"(movs|stos|lods|cmps|scas|ins|outs)[bwdq]")
_COUNTED: Final = ("movs", "stos", "lods")
_GATHER: Final = re.compile(r"vp?(?:gather|scatter)([dq])(ps|pd|d|q)")
_INTERRUPTS: Final = re.compile(
    r"int\w*|sysenter|sysexit|sysret\w*|hlt|iret\w*|in|out|ins[bwd]|outs[bwd]|cli|sti|ud[012]\w*"
    r"|xbegin|xabort"
)
_BRANCH_CONDITIONAL: Final = re.compile(r"j(?!mp)\w+|loop\w*")
_FIXED_AREAS: Final = {"fxsave": 512, "fxsave64": 512, "fxrstor": 512, "fxrstor64": 512}
_X87_ENVIRONMENTS: Final = {"fnstenv": 28, "fldenv": 28, "fnsave": 108, "frstor": 108}


@cache
def _general() -> dict[int, int]:
    table = {xc.X86_REG_RIP: _RIP, xc.X86_REG_EIP: _RIP}
    for number, name in enumerate(_GPR):
        table[getattr(xc, f"X86_REG_{name.upper()}")] = number
        short = f"{name}d" if name[1].isdigit() else f"e{name[1:]}"
        table[getattr(xc, f"X86_REG_{short.upper()}")] = number
        word = f"{name}w" if name[1].isdigit() else name[1:]
        table[getattr(xc, f"X86_REG_{word.upper()}")] = number
    return table


@cache
def _vectors() -> dict[int, tuple[int, int]]:
    """capstone's register to (number, bytes)."""
    return {
        getattr(xc, f"X86_REG_{kind}MM{i}"): (i, size)
        for kind, size in (("X", 16), ("Y", 32), ("Z", 64))
        for i in range(32)
    }


@cache
def _masks() -> dict[int, int]:
    return {getattr(xc, f"X86_REG_K{i}"): i for i in range(8)}


@cache
def _disassembler() -> Any:
    md = cs.Cs(cs.CS_ARCH_X86, cs.CS_MODE_64)
    md.detail = True
    return md


def decode(pc: int, code: bytes) -> Recipe | None:
    """The recipe of the instruction at the start of ``code``, None where there is none.

    An instruction that capstone does not know is none either: its length is not known.
    """
    insn = next(_disassembler().disasm(code, pc, 1), None)
    if insn is None:
        return None
    mnemonic = insn.insn_name()
    operands = insn.operands
    string = _STRING.fullmatch(mnemonic)
    if string and any(o.type == xc.X86_OP_REG and o.size == 16 for o in operands):
        string = None  # movsd of SSE
    repeated = bool(string) and insn.prefix[0] in (xc.X86_PREFIX_REP, xc.X86_PREFIX_REPNE)
    short = insn.addr_size == 4
    special = NO_SPECIAL
    if mnemonic == "syscall":
        special = SYSTEM_CALL
    elif mnemonic.startswith("pushf"):
        special = PUSH_FLAGS
    elif _INTERRUPTS.fullmatch(mnemonic):
        special = INTERRUPT
    return {
        "length": insn.size,
        "branch": _branch(mnemonic, operands),
        "special": special,
        "rep": repeated,
        "rep_counted": bool(repeated and not short and string and string[1] in _COUNTED),
        "operands": _operands(insn, mnemonic, operands, bool(string)),
    }


def _branch(mnemonic: str, operands: Any) -> int:
    if mnemonic.startswith(("ret", "iret")):
        return RET
    direct = bool(operands) and operands[0].type == xc.X86_OP_IMM
    if mnemonic in ("call", "lcall"):
        return CALL if direct else INDIRECT_CALL
    if mnemonic in ("jmp", "ljmp"):
        return JUMP if direct else INDIRECT
    return CONDITIONAL if _BRANCH_CONDITIONAL.fullmatch(mnemonic) else NO_BRANCH


def _operands(insn: Any, mnemonic: str, operands: Any, string: bool) -> list[Operand]:
    out: list[Operand] = []
    if not _NO_ACCESS.fullmatch(mnemonic):
        for i, o in enumerate(operands):
            if o.type == xc.X86_OP_MEM:
                out.append(_explicit(insn, mnemonic, operands, i, string))
    width = 2 if 0x66 in insn.prefix else 8
    if mnemonic == "push" or mnemonic.startswith("pushf"):
        out.append({"base": _RSP, "disp": -width, "size": width, "store": True})
    elif mnemonic == "pop" or mnemonic.startswith("popf"):
        for o in out:  # the address is formed after rsp has moved
            if o.get("base") == _RSP:
                o["disp"] += width
        out.insert(0, {"base": _RSP, "size": width, "load": True})
    elif mnemonic == "call":
        out.append({"base": _RSP, "disp": -8, "size": 8, "store": True})
    elif mnemonic.startswith("ret"):
        out.append({"base": _RSP, "size": 8, "load": True})
    elif mnemonic == "leave":
        out.append({"base": _RBP, "size": 8, "load": True})
    elif mnemonic == "enter":
        out.append({"base": _RSP, "disp": -8, "size": 8, "store": True})
    elif mnemonic == "xlatb":
        out.append({"kind": LOW_BYTE, "base": _RBX, "index": 0, "size": 1, "load": True})
    elif mnemonic in ("maskmovdqu", "vmaskmovdqu"):
        out.append({"base": _RDI, "size": 16, "store": True})
    elif mnemonic == "maskmovq":
        out.append({"base": _RDI, "size": 8, "store": True})
    elif mnemonic.startswith(("movdir64b", "enqcmd")) and operands[0].type == xc.X86_OP_REG:
        register = _general().get(operands[0].reg)
        if register is not None:
            out.append({"base": register, "size": 64, "store": True})
    return sorted(out, key=lambda o: bool(o.get("store")) and not o.get("load"))  # loads come first


def _explicit(insn: Any, mnemonic: str, operands: Any, i: int, string: bool) -> Operand:
    o = operands[i]
    memory = o.mem
    load, store = _direction(mnemonic, i, o.access, string)
    size = int(o.size)
    if size == 16:
        size = _SIZE.get(mnemonic.removeprefix("v"), size)
    size = _FIXED_AREAS.get(mnemonic, _X87_ENVIRONMENTS.get(mnemonic, size))
    if mnemonic.startswith(("xsave", "xrstor")):
        size = 0  # by what is in use
    out: Operand = {
        "kind": PLAIN,
        "scale": memory.scale,
        "disp": memory.disp,
        "size": size,
        "load": load,
        "store": store,
        "short_address": insn.addr_size == 4,
    }
    if memory.segment == xc.X86_REG_FS:
        out["segment"] = 1
    elif memory.segment == xc.X86_REG_GS:
        out["segment"] = 2
    base = _general().get(memory.base)
    if base is not None:
        out["base"] = base
    index = _general().get(memory.index)
    if index is not None:
        out["index"] = index
    elif memory.index in _vectors():
        _gather(out, mnemonic, operands, memory.index)
    if mnemonic in ("bt", "bts", "btr", "btc") and operands[1].type == xc.X86_OP_REG:
        # The bit number may reach any unit beyond the operand's own address.
        if index is None:
            out |= {"kind": BIT_STRING, "index": _general()[operands[1].reg]}
        else:
            out["size"] = 0  # base, index and bit number together: the unit is not computed
    return out


def _direction(mnemonic: str, i: int, access: int, string: bool) -> tuple[bool, bool]:
    """Whether memory operand ``i`` is read, and whether it is written."""
    if string:
        kind = mnemonic[:4]
        if kind == "movs":
            return i == 1, i == 0
        return (False, True) if kind in ("stos", "insb", "insw", "insd") else (True, False)
    if _LOADS.fullmatch(mnemonic):
        return True, False
    if _UPDATES.fullmatch(mnemonic) and (i == 0 or mnemonic == "xchg"):
        return True, True
    if i == 0 and (mnemonic == "pop" or _STORES.fullmatch(mnemonic)):
        return False, True
    store = bool(access & cs.CS_AC_WRITE)
    return bool(access & cs.CS_AC_READ) or not store, store


def _gather(out: Operand, mnemonic: str, operands: Any, index: int) -> None:
    """The accesses of the elements of a gather or scatter (VSIB addressing)."""
    m = _GATHER.fullmatch(mnemonic)
    number, index_size = _vectors()[index]
    if m is None:
        out["size"] = 0  # a prefetch of elements, or one that is not known
        return
    size = 8 if m[2] in ("pd", "q") else 4
    index_bytes = 8 if m[1] == "q" else 4
    registers = [o for o in operands if o.type == xc.X86_OP_REG]
    data = max((_vectors()[o.reg][1] for o in registers if o.reg in _vectors()), default=16)
    out |= {
        "kind": GATHER,
        "index": number,
        "index_bytes": index_bytes,
        "size": size,
        "elements": min(data // size, index_size // index_bytes),
        "load": "gather" in mnemonic,
        "store": "scatter" in mnemonic,
    }
    for o in registers:
        if o.reg in _masks():
            out["mask"] = _masks()[o.reg]
    if "mask" not in out and len(registers) == 2:  # AVX2: the mask is the last vector register
        out |= {"mask_is_vector": True, "mask": _vectors()[registers[1].reg][0]}
