"""What the abstract X86 cores work on: the µops of every static instruction of a trace at the macro
level, with registers and sizes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit import _core, schema
from tracekit.sim.core_parts import CoreInstructions
from tracekit.sim.microcode_loops import DIVISION_TURNS, Loops, likely_turns
from tracekit.sim.register_values import RegisterValues
from tracekit.sim.uop_cracking import (
    BITWISE,
    EXTENSIONS,
    LOAD,
    MOVES,
    STORE,
    Uop,
    crack,
)
from tracekit.sim.uop_forms import Form, form_of

__all__ = ["table", "uop_counts"]

_WRITES_INT = _core.CORE_INST_BITS["writes_int"]
_WRITES_VEC = _core.CORE_INST_BITS["writes_vec"]
_SOURCES, _DESTINATIONS = _core.CORE_INST_SOURCES, _core.CORE_INST_DESTINATIONS

#: A register's number in the cores: the halves of a vector register are two.
_CC, _LOW, _HIGH, _STACK, _MASK, _TEMPORARY = 32, 64, 128, 192, 224, 240  # flags: two
_RAX: Final = 0
_RDX: Final = 2
_RSP: Final = 4


_OP: Final = {n: i for i, n in enumerate(schema.OP_CLASSES)}
_KIND: Final = {n: i for i, n in enumerate(schema.BRANCH_KINDS)}
#: Letters of a part that stand for the same registers in all instructions: its temporaries first.
_ALWAYS: Final = {
    **{k: [_TEMPORARY + i] for i, k in enumerate("tux3456qmnijklUV")},
    "s": [_RSP],
    "A": [_RAX],
    "D": [_RDX],
}
_FLAGS: Final = [_CC, _CC + 1, *_ALWAYS["k"], *_ALWAYS["l"]]


def table(statics: Any) -> CoreInstructions:
    """The parts of every static instruction of a trace at the macro level; nothing is told of where
    an instruction lies, nor of its registers' values."""
    forms, form = _forms(statics)
    # What an instruction's parts are follows from its form and its registers: each found once.
    firsts, which = _distinct(statics, form)
    lists = [crack(forms[form[i]]) for i in firsts]
    parts = _uops_of([forms[form[i]] for i in firsts], lists, statics, firsts)
    lengths = np.array([len(p) for p in lists], np.intp)
    starts = np.cumsum(lengths) - lengths
    n = len(statics)
    begin = np.zeros(n + 1, np.uint32)
    begin[1:] = np.cumsum(lengths[which])
    of = np.repeat(np.arange(n), lengths[which])
    at = np.arange(len(of)) - np.repeat(begin[:-1].astype(np.intp), lengths[which])
    at += starts[which][of]
    flat = [p for uops in lists for p in uops]
    src, dst, flags = parts[0][at], parts[1][at], parts[2][at]
    size = statics.access_size[of].astype(np.uint16)
    memory = np.array([bool(p.flags & (LOAD | STORE)) for p in flat], bool)[at]
    wide = np.array([p.high for p in flat], bool)[at]
    halves = wide | np.roll(wide, -1)
    size = np.where(memory, np.where(halves, 8, size), 0).astype(np.uint16)
    kinds = np.array([_branch_kind(f) for f in forms], np.uint8)[form]
    branches = np.array([p.branch for p in flat], bool)[at]
    branch = np.where(branches, kinds[of], 0).astype(np.uint8)
    return CoreInstructions(
        np.ascontiguousarray(statics.pc[of], np.uint64),
        flags,
        np.array([_OP[p.op] for p in flat], np.uint8)[at],
        branch,
        size,
        np.where(wide, 8, 0).astype(np.uint8),
        src,
        dst,
        begin,
        RegisterValues.empty(len(of)),
        _loops(forms, form, lists, which, begin),
    )


def uop_counts(statics: Any) -> npt.NDArray[np.int64]:
    """How many parts each static instruction is, which its form alone says: int64 [statics]."""
    forms, form = _forms(statics)
    return np.array([len(crack(f)) for f in forms], np.int64)[form]


def _forms(statics: Any) -> tuple[list[Form], npt.NDArray[np.intp]]:
    """The forms that there are, and which of them each static instruction has."""
    numbers: dict[Form, int] = {}
    known: dict[tuple[str, bool], int] = {}
    small = ((statics.access_size > 0) & (statics.access_size < 4)).tolist()
    each = []
    for key in zip(statics.disassembly, small, strict=True):
        if (number := known.get(key)) is None:
            form = form_of(key[0])
            form = form._replace(narrow=form.narrow or key[1])
            number = known[key] = numbers.setdefault(form, len(numbers))
        each.append(number)
    return list(numbers), np.array(each, np.intp)


def _loops(
    forms: list[Form],
    form: npt.NDArray[np.intp],
    lists: list[tuple[Uop, ...]],
    which: npt.NDArray[np.intp],
    begin: npt.NDArray[np.uint32],
) -> Loops:
    looping = np.array([f.name in DIVISION_TURNS for f in forms], bool)
    found = []
    for i in np.flatnonzero(looping[form]).tolist():
        uops = lists[which[i]]
        k = next(k for k, uop in enumerate(uops) if uop.back)
        branch = int(begin[i]) + k
        found.append((i, branch - uops[k].back, branch, likely_turns(forms[form[i]].name)))
    return Loops.of(found)


def _distinct(statics: Any, form: npt.NDArray[np.intp]) -> tuple[list[int], npt.NDArray[np.intp]]:
    """The first instruction of each form and registers, and which of them each instruction is."""
    n = len(statics)
    if not n:
        return [], np.zeros(0, np.intp)
    columns = [np.ascontiguousarray(form, np.uint32)]
    columns += [statics.arrays[f"{k}_{v}"] for k in ("src", "dst") for v in ("class", "index")]
    packed = np.concatenate([c.view(np.uint8).reshape(n, -1) for c in columns], axis=1)
    keys, width = packed.tobytes(), packed.shape[1]
    seen: dict[bytes, int] = {}
    which = [seen.setdefault(keys[i : i + width], len(seen)) for i in range(0, len(keys), width)]
    found = np.array(which, np.intp)
    return np.unique(found, return_index=True)[1].tolist(), found


def _uops_of(
    forms: list[Form], lists: list[tuple[Uop, ...]], statics: Any, firsts: list[int]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16], npt.NDArray[np.uint32]]:
    """Sources, destinations and flags of all parts of instructions ``firsts``, in their order."""
    total = sum(map(len, lists))
    src = np.full((total, _SOURCES), _core.NO_REGISTER, np.uint16)
    dst = np.full((total, _DESTINATIONS), _core.NO_REGISTER, np.uint16)
    flags = np.array([p.flags for uops in lists for p in uops], np.uint32)
    sources, targets = _pairs(statics, "src", firsts), _pairs(statics, "dst", firsts)
    at = 0
    for form, uops, inputs, outputs in zip(forms, lists, sources, targets, strict=True):
        reads, writes = _roles(form, inputs, outputs)
        for p in uops:
            for k, r in enumerate(_numbers(p.reads, reads)[:_SOURCES]):
                src[at, k] = r
            found = _numbers(p.writes, writes)[:_DESTINATIONS]
            for k, r in enumerate(found):
                dst[at, k] = r
            if any(r < _CC for r in found):
                flags[at] |= _WRITES_INT
            if any(_LOW <= r < _STACK for r in found):
                flags[at] |= _WRITES_VEC
            at += 1
    return src, dst, flags


def _branch_kind(form: Form) -> int:
    """Of the form's branch, where it has one."""
    name = form.name
    if name.startswith(("ret", "iret")):
        return _KIND["return"]
    direct = form.operands[:1] == "I"
    if name == "call":
        return _KIND["call" if direct else "indirect_call"]
    if name in ("jmp", "ljmp"):
        return _KIND["jump" if direct else "indirect"]
    return _KIND["conditional"]  # those of the microcode, too


def _pairs(statics: Any, kind: str, of: list[int]) -> list[list[tuple[int, int]]]:
    classes = statics.arrays[f"{kind}_class"][of].tolist()
    numbers = statics.arrays[f"{kind}_index"][of].tolist()
    return [
        [(c, k) for c, k in zip(cs, ks, strict=True) if c != 255]
        for cs, ks in zip(classes, numbers, strict=True)
    ]


def _roles(
    form: Form, src: list[tuple[int, int]], dst: list[tuple[int, int]]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Which registers each letter of a part stands for."""
    general = [k & 31 for c, k in src if c == 0]
    written = [k & 31 for c, k in dst if c == 0]
    address = general
    data: list[int] = general
    if "M" in form.operands and general:
        # Address registers come before the data's, each once (tracekit.isa.x86).
        if form.name in ("div", "idiv", "mul", "imul") and len(form.operands) == 1:
            data = [r for r in general if r in (0, 2)]
            address = [r for r in general if r not in data] or general
        elif "R" in form.operands and form.name not in MOVES | EXTENSIONS:
            # A register that addresses, too, comes once.
            own = form.operands[:1] == "R" and form.name not in ("cmp", "test")
            data = [r for r in general if r in written] if own else general[-1:]
            address = [r for r in general if r not in data or general[-1:] != data]
            if not own:  # fs:0x28 and the like have none
                address = address or general
        elif form.name == "call":
            address = [r for r in general if r != _RSP]
        elif "X" not in form.operands:
            data = general if "R" in form.operands and form.operands[:1] == "M" else []
    if form.name == "call" and form.operands == "R":
        data = [r for r in general if r != _RSP]
    vectors = [k & 31 for c, k in src if c in (1, 2, 3)]
    outs = [k & 31 for c, k in dst if c in (1, 2, 3)]
    # A vector operation is merged into its destination's old value, but for the bitwise ones.
    merges = not BITWISE.fullmatch(form.name)
    masks = [_MASK + (k & 7) for c, k in src if c == 4]
    lanes = outs + [r for r in vectors if r not in outs] if merges else vectors
    reads = {
        "a": _ALWAYS["x"] if "P" in form.operands else address,
        "d": data + masks,
        "e": [r for r in data if r not in (_RAX, _RDX)],
        "p": written,
        "f": _FLAGS,
        "z": [_CC],
        "o": [_CC + 1],
        "v": [_LOW + r for r in lanes],
        "w": [_HIGH + r for r in lanes],
        **_ALWAYS,
    }
    flags = any(c == 5 for c, _ in dst)
    out_general = written + [_MASK + (k & 7) for c, k in dst if c == 4]
    stack = form.name in ("push", "pop", "call", "ret", "leave", "enter")
    writes = {
        "r": [r for r in out_general if not (stack and r == _RSP)],
        "c": [_CC, _CC + 1] if flags else [],
        "z": [_CC] if flags else [],
        "o": [_CC + 1] if flags else [],
        "v": [_LOW + r for r in outs],
        "w": [_HIGH + r for r in outs],
        **_ALWAYS,
    }
    return reads, writes


def _numbers(letters: str, roles: dict[str, list[int]]) -> list[int]:
    return list(dict.fromkeys(r for c in letters for r in roles[c]))
