"""What csrc/record/qemu_stream.hpp must know of machine code to make rows of QEMU's events."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

from tracekit import _core
from tracekit.isa.types import BRANCH_KINDS, Arch

Traits = tuple[int, bool, bool, bool, bool, bool, bool, int, int, "int | None", bool]
"""(branch, loads, stores, may fault, rep, silent, area, load size, store size, target, call)."""
_NO_LOADS: Final = (1 << 32) - 1
_MOST_ZEROED: Final = 4 << 15  # bytes: what DCZID_EL0's four bits can say

#: Machine code that stands for a line of memory that was read, or written, between samples:
#: `mov eax, [rip]` and `mov dword [rip], 0`, `ldr w0, .` and `str wzr, [x0]`, `lw` and `sw`.
TOUCHES: Final = {
    "x86": (bytes.fromhex("8b0500000000"), bytes.fromhex("c7050000000000000000")),
    "arm": (bytes.fromhex("00000018"), bytes.fromhex("1f0000b9")),
    "riscv": (bytes.fromhex("03250000"), bytes.fromhex("23200000")),
}
#: Their pcs, where Linux maps no program (csrc/core/touched_lines.hpp); a line of code is a load at
#: the last one.
TOUCHED_PCS: Final = _core.TOUCHED_PCS

_SILENT_ARM: Final = re.compile(r"dc\s+g?zva\b|dc\s+gva\b|dc\s+zgva\b")
_NO_ACCESS_ARM: Final = re.compile(r"prf\w*\b|dc\s|ic\s|at\s")
_CONDITIONAL_ACCESS: Final = re.compile(r"st[l]?x|cas|sc\.|rep|v?maskmov|vpmaskmov|ld1|st1")
_EXCLUSIVE_STORE: Final = re.compile(r"stl?x[rp]|sc\.")
_FAULTS: Final = re.compile(r"i?div|ud\d|int|hlt|brk|udf|ebreak|\(bad\)")
_AREAS: Final = re.compile(r"f?xsave\w*|f?xrstor\w*|fn?stenv|fldenv|fn?save|frstor")


def describer(arch: str) -> Callable[[list[tuple[int, bytes]]], list[Traits]]:
    """The function that `_core.QemuCode` asks for each new instruction's traits."""
    one = _x86 if arch == "x86" else _arm if arch == "arm" else _riscv
    return lambda asked: [one(pc, code) for pc, code in asked]


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _x86(pc: int, code: bytes) -> Traits:
    branch, rep, loads, stores, load, store, faults, area, rel = _x86_traits(code)
    target = None
    if rel:
        target = (pc + len(code) + int.from_bytes(code[-rel:], "little", signed=True)) % (1 << 64)
    call = code == b"\x0f\x05"
    return (branch, loads, stores, faults, rep, False, area, load, store, target, call)


@cache
def _x86_traits(code: bytes) -> tuple[int, bool, bool, bool, int, int, bool, bool, int]:
    from tracekit.isa import decode_many
    from tracekit.record.operands import GATHER, decode

    recipe = decode(0, code)
    if recipe is None:
        return (0, False, False, False, 0, 0, True, False, 0)
    text = decode_many("x86", [code])[0].text
    area = bool(_AREAS.match(text))
    load = store = 0
    always_loads = always_stores = False
    sure = not recipe["rep"] and not _CONDITIONAL_ACCESS.match(text)
    for o in recipe["operands"]:
        size = o.get("size", 0)
        plain = sure and o.get("kind", 0) != GATHER
        if o.get("load"):
            load, always_loads = max(load, size), always_loads or plain
        if o.get("store"):
            store, always_stores = max(store, size), always_stores or plain
    faults = bool(recipe["operands"]) or bool(_FAULTS.match(text)) or recipe["special"] == 2
    kind = BRANCH_KINDS[recipe["branch"]]
    rel = 0
    if kind in ("conditional", "jump", "call"):
        opcode = code.lstrip(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf2\xf3")
        if opcode[:1] and 0x40 <= opcode[0] <= 0x4F:
            opcode = opcode[1:]
        first = opcode[0] if opcode else 0
        rel = 1 if 0x70 <= first <= 0x7F or 0xE0 <= first <= 0xE3 or first == 0xEB else 4
    return (
        *(recipe["branch"], recipe["rep"], always_loads, always_stores, load, store),
        *(faults, area, rel),
    )


def _by_isa(arch: Arch, code: bytes) -> tuple[int, bool, bool, bool, bool, int, int]:
    """(branch, loads, stores, may fault, silent, load size, store size)."""
    from tracekit.isa import decode_many

    d = decode_many(arch, [code])[0]
    if not d.valid:
        return (0, False, False, True, False, 0, 0)
    silent = arch == "arm" and bool(_SILENT_ARM.match(d.text))
    nothing = silent or (arch == "arm" and bool(_NO_ACCESS_ARM.match(d.text)))
    load = max((m.size for m in d.memory if m.kind == "load"), default=0)
    if _EXCLUSIVE_STORE.match(d.text):  # QEMU compares and exchanges
        load = _NO_LOADS
    store = max((m.size for m in d.memory if m.kind == "store"), default=0)
    if silent:  # the program's processor says how much
        store = _MOST_ZEROED
    sure = bool(d.memory) and not nothing and not _CONDITIONAL_ACCESS.match(d.text)
    return (
        BRANCH_KINDS.index(d.branch),
        (sure or d.text.startswith("cas")) and any(m.kind == "load" for m in d.memory),
        sure and any(m.kind == "store" for m in d.memory),
        bool(d.memory) or bool(_FAULTS.match(d.text)),
        silent,
        load,
        store,
    )


_by_isa_once = cache(_by_isa)


def _arm(pc: int, code: bytes) -> Traits:
    branch, loads, stores, faults, silent, load, store = _by_isa_once("arm", code)
    w = int.from_bytes(code, "little")
    offset: int | None = None
    if w & 0x7C000000 == 0x14000000:  # b, bl
        offset = _signed(w & 0x3FFFFFF, 26) << 2
    elif w & 0xFF000000 == 0x54000000 or w & 0x7E000000 == 0x34000000:  # b.cond, cbz, cbnz
        offset = _signed(w >> 5 & 0x7FFFF, 19) << 2
    elif w & 0x7E000000 == 0x36000000:  # tbz, tbnz
        offset = _signed(w >> 5 & 0x3FFF, 14) << 2
    target = None if offset is None else (pc + offset) % (1 << 64)
    call = w & 0xFFE0001F == 0xD4000001
    return (branch, loads, stores, faults, False, silent, False, load, store, target, call)


def _riscv(pc: int, code: bytes) -> Traits:
    branch, loads, stores, faults, silent, load, store = _by_isa_once("riscv", code)
    offset = _riscv_offset(int.from_bytes(code, "little"), len(code))
    target = None if offset is None else (pc + offset) % (1 << 64)
    call = code == b"\x73\0\0\0"
    return (branch, loads, stores, faults, False, silent, False, load, store, target, call)


def _riscv_offset(w: int, length: int) -> int | None:
    """Of a direct branch."""
    if length == 4:
        if w & 0x7F == 0x6F:  # jal
            v = (w >> 31 & 1) << 20 | (w >> 12 & 0xFF) << 12
            return _signed(v | (w >> 20 & 1) << 11 | (w >> 21 & 0x3FF) << 1, 21)
        if w & 0x7F == 0x63:
            v = (w >> 31 & 1) << 12 | (w >> 7 & 1) << 11
            return _signed(v | (w >> 25 & 0x3F) << 5 | (w >> 8 & 0xF) << 1, 13)
        return None
    if w & 3 != 1:
        return None
    kind = w >> 13
    if kind == 5:  # c.j
        v = (w >> 12 & 1) << 11 | (w >> 11 & 1) << 4 | (w >> 9 & 3) << 8 | (w >> 8 & 1) << 10
        v |= (w >> 7 & 1) << 6 | (w >> 6 & 1) << 7 | (w >> 3 & 7) << 1 | (w >> 2 & 1) << 5
        return _signed(v, 12)
    if kind in (6, 7):  # c.beqz, c.bnez
        v = (w >> 12 & 1) << 8 | (w >> 10 & 3) << 3 | (w >> 5 & 3) << 6
        return _signed(v | (w >> 3 & 3) << 1 | (w >> 2 & 1) << 5, 9)
    return None
