"""`apply_binary` on the columns of a static table (csrc/bind/rows.cpp), in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tracekit._core import FLAGS, OP_CLASSES
from tracekit.isa.binary import Static, apply_binary
from tracekit.isa.elf import ElfImage
from tracekit.isa.program_match import check_instructions, check_isa
from tracekit.isa.types import BRANCH_KINDS, Reg

_NO_REG: Final = 255
_FLAG_BIT: Final = {name: 1 << i for i, name in enumerate(FLAGS)}


def overlay(
    columns: dict[str, Any], binary: str | Path, arch: str, *, macro: bool
) -> dict[str, int]:
    """Puts what the machine code in the file ``binary`` says over what the text said.

    ``columns`` is ``StaticTable.columns()``; its arrays and its list ``bytes`` are changed.
    ``arch`` is the trace's ("unknown" fits every file); ``macro`` tells the level.  Returns the
    fields of `tracekit.isa.binary.BinaryCounts` by name.  Raises `TracekitError` for a file that
    cannot be read, `UsageError` where it is not the program that was traced.
    """
    with ElfImage(binary) as elf:
        check_isa(elf, arch)
        check_instructions(elf, columns["pc"], columns["flags"], columns["bytes"])
        merged, counts = apply_binary(_statics(columns), elf, macro=macro)
    for i, s in enumerate(merged):
        if s.code:
            _write(columns, i, s)
    return counts._asdict()


def _statics(columns: dict[str, Any]) -> list[Static]:
    names: dict[int, frozenset[str]] = {}  # a trace has some dozens of combinations
    result = []
    regs = {k: columns[k].tolist() for k in ("src_class", "src_index", "dst_class", "dst_index")}
    plain = ("pc", "upc", "op", "flags", "branch", "access_size", "inferred")
    for i, (pc, upc, op, bits, branch, size, inferred) in enumerate(
        zip(*(columns[k].tolist() for k in plain), strict=True)
    ):
        flags = names.get(bits)
        if flags is None:
            flags = names[bits] = frozenset(n for n, b in _FLAG_BIT.items() if bits & b)
        src = _regs(regs["src_class"][i], regs["src_index"][i])
        dst = _regs(regs["dst_class"][i], regs["dst_index"][i])
        kind = BRANCH_KINDS[branch]
        result.append(Static(pc, upc, OP_CLASSES[op], flags, src, dst, kind, size, bool(inferred)))
    return result


def _regs(classes: list[int], numbers: list[int]) -> tuple[Reg, ...]:
    return tuple((c, n) for c, n in zip(classes, numbers, strict=True) if c != _NO_REG)


def _write(columns: dict[str, Any], i: int, s: Static) -> None:
    columns["bytes"][i] = s.code
    columns["branch"][i] = BRANCH_KINDS.index(s.branch)
    columns["access_size"][i] = s.access_size
    lost = 0
    for kind, regs in (("src", s.src), ("dst", s.dst)):
        classes, numbers = columns[f"{kind}_class"], columns[f"{kind}_index"]
        room = classes.shape[1]
        lost += max(0, len(regs) - room)
        classes[i], numbers[i] = _NO_REG, 0
        for k, (cls, number) in enumerate(regs[:room]):
            classes[i, k], numbers[i, k] = cls, number
    columns["operands_lost"][i] = lost
    if s.inferred:
        columns["op"][i] = OP_CLASSES.index(s.op)
        columns["flags"][i] = sum(_FLAG_BIT[n] for n in s.flags)
