"""RISC-V (RV64GC): capstone says which instruction it is, the encoding which registers it uses.

capstone 5 has no register access for RISC-V and its operands follow the printed alias (``ret`` has
none), so registers are taken from the fields of the base formats, as the manual defines them
(volume I, "RV32/64G Instruction Set Listings" and "RVC Instruction Set Listings").
"""

from __future__ import annotations

from typing import Any, Final

import capstone as cs

from tracekit.isa.riscv_ops import op_class
from tracekit.isa.types import BRANCH_FLAGS, FLOATING, INTEGER, DecodedInst, MemOp, Reg

MODE: Final = cs.CS_MODE_RISCV64 | cs.CS_MODE_RISCVC
MAX_LENGTH: Final = 4

_LINKS: Final = (1, 5)
_BARRIERS: Final = ("IsReadBarrier", "IsWriteBarrier")
_SYSTEM: Final = {
    "ecall": ("IsSerializeAfter", "IsNonSpeculative", "IsSyscall"),
    "ebreak": ("IsSerializeAfter", "IsNonSpeculative"),
    "c.ebreak": ("IsSerializeAfter", "IsNonSpeculative"),
    "fence": _BARRIERS,
    "fence.tso": _BARRIERS,
    "fence.i": ("IsNonSpeculative", "IsSerializeAfter", "IsSquashAfter"),
    "wfi": ("IsNonSpeculative", "IsQuiesce", "IsSerializeAfter", "IsSquashAfter"),
    "sfence.vma": ("IsNonSpeculative", "IsSerializeAfter"),
    **dict.fromkeys(
        ("csrrw", "csrrs", "csrrc", "csrrwi", "csrrsi", "csrrci"),
        ("IsSerializeAfter", "IsNonSpeculative"),
    ),
    **dict.fromkeys(("sret", "mret", "uret"), ("IsSerializeAfter", "IsNonSpeculative", "IsReturn")),
}


class _Fields:
    """What an encoding says: registers (None = not one of that kind), branch kind, accesses."""

    __slots__ = ("atomic", "branch", "dst", "memory", "ordered", "src", "store_conditional")

    def __init__(
        self,
        src: tuple[Reg, ...] = (),
        dst: tuple[Reg, ...] = (),
        branch: str = "none",
        memory: tuple[MemOp, ...] = (),
    ) -> None:
        self.src, self.dst, self.branch, self.memory = src, dst, branch, memory
        self.atomic = self.ordered = self.store_conditional = False


def decode(insn: Any) -> DecodedInst:
    """``insn``: a capstone instruction with details."""
    code = bytes(insn.bytes)
    word = int.from_bytes(code, "little")
    mnemonic: str = insn.insn_name()
    f = _standard(word) if len(code) == 4 else _compressed(word)
    src = tuple(dict.fromkeys(r for r in f.src if r != (INTEGER, 0)))
    dst = tuple(dict.fromkeys(r for r in f.dst if r != (INTEGER, 0)))

    floating = any(r[0] == FLOATING for r in src + dst)
    integer = any(r[0] == INTEGER for r in f.src + f.dst)
    flags: set[str] = set()
    if f.memory:
        prefix = "FloatMem" if floating else "Mem"
        op = prefix + ("Read" if f.memory[0].kind == "load" else "Write")
        if f.atomic:
            flags.add("IsAtomic")
        else:
            flags.add("IsLoad" if f.memory[0].kind == "load" else "IsStore")
    else:
        op = op_class(mnemonic)
    if f.store_conditional:
        flags.add("IsStoreConditional")
    if f.ordered:
        flags.update(_BARRIERS)
    if floating:
        flags.add("IsFloating")
    if integer:
        flags.add("IsInteger")
    if f.branch != "none":
        flags.update(BRANCH_FLAGS[f.branch])
    special = _SYSTEM.get(mnemonic)
    if special:
        flags.update(special)
        flags.discard("IsInteger")
    size = f.memory[0].size if f.memory else 0
    text = f"{insn.mnemonic} {insn.op_str}".rstrip()
    syscall = mnemonic == "ecall"
    return DecodedInst(
        insn.size, op, frozenset(flags), src, dst, f.branch, size, f.memory, syscall, text
    )


def length(code: bytes) -> int:
    """Bytes of the encoding that starts ``code`` (manual, "Expanded Instruction-Length Encoding");
    0 if there are none."""
    if not code:
        return 0
    return 2 if code[0] & 3 != 3 else 4


def _x(number: int) -> Reg:
    return (INTEGER, number)


def _f(number: int) -> Reg:
    return (FLOATING, number)


def _load(size: int) -> tuple[MemOp, ...]:
    return (MemOp("load", size),)


def _store(size: int) -> tuple[MemOp, ...]:
    return (MemOp("store", size),)


def _standard(w: int) -> _Fields:
    rd, rs1, rs2, rs3 = w >> 7 & 31, w >> 15 & 31, w >> 20 & 31, w >> 27
    funct3, opcode = w >> 12 & 7, w & 0x7F
    if opcode == 0x03:
        return _Fields((_x(rs1),), (_x(rd),), memory=_load(1 << (funct3 & 3)))
    if opcode == 0x07:
        return _Fields((_x(rs1),), (_f(rd),), memory=_load(1 << (funct3 & 3)))
    if opcode in (0x13, 0x1B):
        return _Fields((_x(rs1),), (_x(rd),))
    if opcode in (0x17, 0x37):
        return _Fields((), (_x(rd),))
    if opcode == 0x23:
        return _Fields((_x(rs2), _x(rs1)), (), memory=_store(1 << (funct3 & 3)))
    if opcode == 0x27:
        return _Fields((_f(rs2), _x(rs1)), (), memory=_store(1 << (funct3 & 3)))
    if opcode == 0x2F:
        return _atomic(w, rd, rs1, rs2, 1 << funct3)
    if opcode in (0x33, 0x3B):
        return _Fields((_x(rs1), _x(rs2)), (_x(rd),))
    if opcode in (0x43, 0x47, 0x4B, 0x4F):
        return _Fields((_f(rs1), _f(rs2), _f(rs3)), (_f(rd),))
    if opcode == 0x53:
        return _floating(w >> 27, rd, rs1, rs2)
    if opcode == 0x63:
        return _Fields((_x(rs1), _x(rs2)), (), "conditional")
    if opcode == 0x67:
        link, back = rd in _LINKS, rs1 in _LINKS
        kind = "return" if back and not link else "indirect_call" if link else "indirect"
        return _Fields((_x(rs1),), (_x(rd),), kind)
    if opcode == 0x6F:
        return _Fields((), (_x(rd),), "call" if rd in _LINKS else "jump")
    if opcode == 0x73 and funct3:
        return _Fields((_x(rs1),) if funct3 < 4 else (), (_x(rd),))
    return _Fields()


def _atomic(w: int, rd: int, rs1: int, rs2: int, size: int) -> _Fields:
    funct5 = w >> 27
    load, store = MemOp("load", size), MemOp("store", size)
    if funct5 == 2:
        f = _Fields((_x(rs1),), (_x(rd),), memory=(load,))
    elif funct5 == 3:
        f = _Fields((_x(rs2), _x(rs1)), (_x(rd),), memory=(store,))
        f.store_conditional = True
    else:
        f = _Fields((_x(rs2), _x(rs1)), (_x(rd),), memory=(load, store))
        f.atomic = True
    f.ordered = bool(w >> 25 & 3)  # aq or rl: gem5 puts fence micro-ops around it
    return f


def _floating(funct5: int, rd: int, rs1: int, rs2: int) -> _Fields:
    if funct5 in (0x08, 0x0B):  # fcvt between formats, fsqrt
        return _Fields((_f(rs1),), (_f(rd),))
    if funct5 == 0x14:  # feq, flt, fle
        return _Fields((_f(rs1), _f(rs2)), (_x(rd),))
    if funct5 in (0x18, 0x1C):  # to an integer; fmv.x, fclass
        return _Fields((_f(rs1),), (_x(rd),))
    if funct5 in (0x1A, 0x1E):  # from an integer; fmv.w.x
        return _Fields((_x(rs1),), (_f(rd),))
    return _Fields((_f(rs1), _f(rs2)), (_f(rd),))


_C_LOADS: Final = {1: 8, 2: 4, 3: 8}  # funct3: bytes; 1 is a double
_C_STORES: Final = {5: 8, 6: 4, 7: 8}


def _compressed(w: int) -> _Fields:
    funct3, quadrant = w >> 13, w & 3
    rd, rs2 = w >> 7 & 31, w >> 2 & 31  # full fields
    rs1p, rs2p = 8 + (w >> 7 & 7), 8 + (w >> 2 & 7)  # three-bit fields
    sp = _x(2)
    if quadrant == 0:
        if funct3 == 0:  # c.addi4spn
            return _Fields((sp,), (_x(rs2p),))
        reg = _f(rs2p) if funct3 in (1, 5) else _x(rs2p)
        if funct3 in _C_LOADS:
            return _Fields((_x(rs1p),), (reg,), memory=_load(_C_LOADS[funct3]))
        if funct3 in _C_STORES:
            return _Fields((reg, _x(rs1p)), (), memory=_store(_C_STORES[funct3]))
        return _Fields()
    if quadrant == 1:
        if funct3 in (0, 1):  # c.addi (c.nop), c.addiw
            return _Fields((_x(rd),), (_x(rd),))
        if funct3 == 2 or (funct3 == 3 and rd != 2):  # c.li, c.lui
            return _Fields((), (_x(rd),))
        if funct3 == 3:  # c.addi16sp
            return _Fields((sp,), (sp,))
        if funct3 == 4:
            register_form = (w >> 10 & 3) == 3
            return _Fields((_x(rs1p), _x(rs2p)) if register_form else (_x(rs1p),), (_x(rs1p),))
        if funct3 == 5:
            return _Fields((), (), "jump")
        return _Fields((_x(rs1p),), (), "conditional")
    if funct3 == 0:  # c.slli
        return _Fields((_x(rd),), (_x(rd),))
    if funct3 in _C_LOADS:
        reg = _f(rd) if funct3 == 1 else _x(rd)
        return _Fields((sp,), (reg,), memory=_load(_C_LOADS[funct3]))
    if funct3 in _C_STORES:
        reg = _f(rs2) if funct3 == 5 else _x(rs2)
        return _Fields((reg, sp), (), memory=_store(_C_STORES[funct3]))
    if w >> 12 & 1 == 0:  # c.jr, c.mv
        if rs2 == 0:
            return _Fields((_x(rd),), (), "return" if rd in _LINKS else "indirect")
        return _Fields((_x(rs2),), (_x(rd),))
    if rs2:  # c.add
        return _Fields((_x(rd), _x(rs2)), (_x(rd),))
    if rd:  # c.jalr
        return _Fields((_x(rd),), (_x(1),), "indirect_call")
    return _Fields()  # c.ebreak
