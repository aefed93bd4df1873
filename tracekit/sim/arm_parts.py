"""The micro-ops of whole ARM instructions, as gem5's decoder makes them.

A pair of registers, a vector of 16 bytes that is stored, an address register that moves on and a
structure are several micro-ops (src/arch/arm/insts/macromem.cc and isa/insts/ldr64.isa, str64.isa);
every other instruction is one.  gem5's text of an instruction has its micro-ops' texts; of machine
code they are written down here in gem5's words, so that what is known of micro-ops holds for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.sim.arm_values import general_register
from tracekit.sim.code_around import INT, VECTOR
from tracekit.sim.structure_loads import TEMPORARY_VECTOR
from tracekit.store.statics import NO_REG, StaticTable

__all__ = ["MicroOps", "arm_parts", "micro_op_texts", "part_counts"]

#: A register: its class and number.
_Register = tuple[int, int]
_Arrays = dict[str, npt.NDArray[Any]]

_LOAD: Final = np.uint64(1 << schema.FLAGS.index("IsLoad"))
_STORE: Final = np.uint64(1 << schema.FLAGS.index("IsStore"))
_OP: Final = {name: i for i, name in enumerate(schema.OP_CLASSES)}


class _Access(NamedTuple):
    """A micro-op of memory: bytes, and the class of the registers that it loads or stores."""

    load: bool
    size: int
    registers: int


#: gem5's micro-ops of pairs and of 16 bytes, by name.
_ACCESSES: Final = {
    "ldp_uop": _Access(True, 16, INT),
    "ldp_fp8_uop": _Access(True, 16, VECTOR),
    "ldrduxi_uop": _Access(True, 8, INT),
    "ldrdsxi_uop": _Access(True, 8, INT),
    "ldrdfpxi_uop": _Access(True, 8, VECTOR),
    "ldfp16_uop": _Access(True, 16, VECTOR),
    "ldfp16reg_uop": _Access(True, 16, VECTOR),
    "strxi_uop": _Access(False, 8, INT),
    "strdxi_uop": _Access(False, 8, INT),
    "strfpxi_uop": _Access(False, 8, VECTOR),
    "strdfpxi_uop": _Access(False, 8, VECTOR),
    **{f"strq{half}fpx{by}_uop": _Access(False, 8, VECTOR) for half in "bt" for by in "ir"},
}
#: Those of a pair, by whether it is loaded and the first letter of its registers; of 16 bytes, and
#: of what is stored in two accesses, one register at a time.
_PAIRS: Final = {
    (True, "x"): "ldp_uop",
    (True, "d"): "ldp_fp8_uop",
    (True, "w"): "ldrduxi_uop",
    (True, "s"): "ldrdfpxi_uop",
    (False, "w"): "strdxi_uop",
    (False, "s"): "strdfpxi_uop",
}
_ONE_BY_ONE: Final = {
    (True, "q"): ("ldfp16_uop",),
    (False, "q"): ("strqbfpxi_uop", "strqtfpxi_uop"),
    (False, "x"): ("strxi_uop",),
    (False, "d"): ("strfpxi_uop",),
}
#: Of structures: what gem5 prints no operands of.
_STRUCTURE: Final = re.compile(r"mem_neon_uop(ld|st)$")
_MARSHAL: Final = {
    "deint_neon_uop": "No_OpClass",
    "int_neon_uop": "No_OpClass",
    "unpack_neon_uop": "SimdAdd",
    "pack_neon_uop": "SimdAdd",
}

_REGISTER: Final = r"[a-z]\d{1,2}|[xw]zr|w?sp|ureg0"
_SUM: Final = re.compile(rf"(?:add|sub)xi_uop\s+(?P<to>{_REGISTER}), (?P<by>{_REGISTER})\b")
_ACCESS: Final = re.compile(
    rf"(?P<name>\w+)\s+(?P<moved>(?:(?:{_REGISTER}), )+)\[(?P<base>{_REGISTER})"
    rf"(?:, (?:#(?P<number>-?\d{{1,6}})|(?P<by>{_REGISTER}))[^\]]*)?\]$"
)
#: capstone's texts.
_ADDRESS: Final = r"\[(?P<base>x\d{1,2}|sp)(?:, (?P<by>[^\]]+))?\](?P<pre>!)?(?:, (?P<post>\S+))?"
_ONE: Final = re.compile(rf"(?P<name>\w+) (?P<first>[bhsdqxw](?:\d{{1,2}}|zr)), {_ADDRESS}$")
_TWO: Final = re.compile(
    rf"(?P<name>ldn?p|stn?p|ldpsw) (?P<first>[sdqxw](?:\d{{1,2}}|zr)), "
    rf"(?P<second>[sdqxw](?:\d{{1,2}}|zr)), {_ADDRESS}$"
)
_SET: Final = re.compile(
    r"(?P<name>(?:ld|st)[1-4]r?) "
    r"\{(?P<set>v\d{1,2}\.(?P<shape>16b|8[bh]|4[hs]|2[sd]|1d|[bhsd])(?:, v\d{1,2}\.\w+){0,3})\}"
    rf"(?P<lane>\[\d+\])?, {_ADDRESS}$"
)
_VECTOR_NUMBER: Final = re.compile(r"v(\d+)")
_NUMBER: Final = re.compile(r"#(-?)(0x)?([0-9a-f]{1,8})$")
#: Loads and stores of one register whose address register may move on.
_MOVING: Final = re.compile(r"(ldr|str)(s?[bhw])?$")


class _Part(NamedTuple):
    """A micro-op; ``own``: what the instruction's columns say, without a move of ``base``."""

    text: str
    op: str = ""
    flags: np.uint64 = np.uint64(0)
    size: int = 0
    offset: int = 0
    src: tuple[_Register, ...] = ()
    dst: tuple[_Register, ...] = ()
    own: bool = False


@lru_cache(maxsize=1 << 16)
def micro_op_texts(text: str) -> tuple[str, ...]:
    """gem5's texts of the micro-ops of an instruction, from gem5's own text of it or from
    capstone's; one text where it is one micro-op.  Structures from machine code: `arm_parts`."""
    text = text.strip()
    if "; " in text:
        return tuple(piece.strip() for piece in text.split(";"))
    if found := _TWO.match(text):
        return _pair(found)
    if found := _ONE.match(text):
        return _single(text, found)
    return (text,)


def _pair(found: re.Match[str]) -> tuple[str, ...]:
    load, kind = found["name"].startswith("ld"), found["first"][0]
    one, two = (f"x{r[1:]}" for r in (found["first"], found["second"]))
    at, first, last = "ureg0", [f"addxi_uop ureg0, {found['base']}, {_number(found['by'])}"], []
    if found["post"]:
        at, first = found["base"], []
        last = [f"addxi_uop {at}, {at}, {_number(found['post'])}"]
    if found["pre"]:
        last = [f"addxi_uop {found['base']}, ureg0, #0"]
    if names := _ONE_BY_ONE.get((load, kind)):
        second = f"[{at}, #{16 if kind == 'q' else 8}]"
        places = ((one, f"[{at}]"), (two, second))
        middle = [f"{name} {r}, {place}" for r, place in places for name in names]
    else:
        name = "ldrdsxi_uop" if found["name"] == "ldpsw" else _PAIRS[load, kind]
        middle = [f"{name} {one}, {two}, [{at}]"]
    return (*first, *middle, *last)


def _single(text: str, found: re.Match[str]) -> tuple[str, ...]:
    name, base, number = found["name"], found["base"], found["post"] or found["by"]
    moves = bool(found["post"] or found["pre"])
    if found["first"][0] == "q" and name in ("str", "stur"):
        register = f"w{found['first'][1:]}"
        at = base if found["post"] or not found["by"] else f"{base}, {_offset(found['by'])}"
        by = "i" if "#" in at or "," not in at else "r"
        accesses = [f"strq{half}fpx{by}_uop {register}, [{at}]" for half in "bt"]
    else:
        accesses = [text]
    if not moves or not _MOVING.match(name):
        return tuple(accesses)
    return (*accesses, f"addxi_uop {base}, {base}, {_number(number)}")


def _number(text: str | None) -> str:
    """``#-0x10`` as gem5 writes it."""
    found = _NUMBER.match(text or "")
    if not found or not (found[2] or found[3].isdecimal()):
        return "#0"
    return f"#{int(found[1] + found[3], 16 if found[2] else 10)}"


def _offset(text: str) -> str:
    return _number(text) if text.startswith("#") else text.partition(",")[0]


def _register(name: str | None, cls: int = INT) -> tuple[_Register, ...]:
    """Of gem5's text; none of no register, and of the zero register."""
    if not name:
        return ()
    number = general_register(name) if cls == INT else int(name[1:])
    return () if number is None else ((cls, number),)


def _of_text(text: str) -> _Part | None:
    """A micro-op of gem5's text; None: of no pair, vector of 16 bytes, sum or structure."""
    name = text.partition(" ")[0]
    if found := _SUM.match(text):
        return _Part(text, "IntAlu", src=_register(found["by"]), dst=_register(found["to"]))
    if found := _STRUCTURE.match(name):
        load = found[1] == "ld"
        return _Part(text, "MemRead" if load else "MemWrite", _LOAD if load else _STORE)
    if name in _MARSHAL:
        return _Part(text, _MARSHAL[name])
    found, access = _ACCESS.match(text), _ACCESSES.get(name)
    if found is None or access is None:
        return None
    names = [n for n in found["moved"].split(", ") if n]
    moved = tuple(r for n in names for r in _register(n, _class_of(n, access.registers)))
    address = _register(found["base"]) + _register(found["by"])
    offset = int(found["number"] or 0) + 8 * ("qtfp" in name)
    if access.load:
        return _Part(text, "MemRead", _LOAD, access.size, offset, address, moved)
    return _Part(text, "MemWrite", _STORE, access.size, offset, (*moved, *address))


def _class_of(name: str, cls: int) -> int:
    """Of a register that is moved: names without a number are general ones'."""
    return cls if name[1:].isdecimal() else INT


@lru_cache(maxsize=1 << 16)
def _parts_of(text: str) -> tuple[_Part, ...]:
    """Of an instruction of several; empty of one."""
    text = text.strip()
    if found := _SET.match(text):
        return tuple(_structure(text, found))
    texts = micro_op_texts(text)
    if len(texts) < 2:
        return ()
    parts = [_of_text(t) or _Part(t, own=True) for t in texts]
    first = next((p.offset for p in parts if p.flags), 0)
    return tuple(p._replace(offset=(p.offset - first) & 0xFF) if p.flags else p for p in parts)


def _structure(text: str, found: re.Match[str]) -> Iterator[_Part]:
    """VldMultOp64, VldSingleOp64 and the stores (macromem.cc) of capstone's text."""
    load, lane = found["name"].startswith("ld"), bool(found["lane"]) or found["name"].endswith("r")
    vectors = tuple((VECTOR, int(number)) for number in _VECTOR_NUMBER.findall(found["set"]))
    lanes, element = found["shape"][:-1], {"b": 1, "h": 2, "s": 4, "d": 8}[found["shape"][-1]]
    whole = element if lane else element * int(lanes or 1)
    total = whole * len(vectors)
    count = -(-total // 16)
    memory = tuple((VECTOR, TEMPORARY_VECTOR + k) for k in range(count))
    base = _register(found["base"])
    moves = [_Part("addxi_uop", "IntAlu", src=base, dst=base)] if found["post"] else []
    marshal = "SimdAdd" if lane else "No_OpClass"
    accesses = [
        _Part(text, "MemRead", _LOAD, min(16, total - 16 * k), 16 * k, base, (r,))
        if load
        else _Part(text, "MemWrite", _STORE, min(16, total - 16 * k), 16 * k, (r, *base))
        for k, r in enumerate(memory)
    ]
    pieces = range(0, len(vectors), 2)
    if load:
        yield from (*accesses, *moves)
        yield from (_Part(text, marshal, src=memory, dst=vectors[k : k + 2]) for k in pieces)
        return
    for k in pieces:
        yield _Part(text, marshal, src=vectors, dst=memory[k : k + 2])
    yield from (*accesses, *moves)


class MicroOps(NamedTuple):
    """Those of all static instructions, in their order: as a static table, how far each
    access is behind its row's address, and where each instruction's begin (n + 1)."""

    statics: StaticTable
    offset: npt.NDArray[np.uint8]
    begin: npt.NDArray[np.uint32]


def _cracked(
    statics: StaticTable,
) -> tuple[list[tuple[_Part, ...]], npt.NDArray[np.int64]]:
    """Each instruction's parts, none of one that is a micro-op itself, and how many it is."""
    each = [_parts_of(text) for text in statics.disassembly]
    return each, np.array([len(parts) or 1 for parts in each], np.int64)


def part_counts(statics: StaticTable) -> npt.NDArray[np.int64]:
    """How many micro-ops each instruction is: int64 [statics]."""
    return _cracked(statics)[1]


def arm_parts(statics: StaticTable) -> MicroOps:
    """Of a trace whose rows are instructions."""
    each, counts = _cracked(statics)
    begin = np.zeros(len(each) + 1, np.uint32)
    begin[1:] = np.cumsum(counts)
    of = np.repeat(np.arange(len(each)), counts)
    arrays = {name: a[of] for name, a in statics.arrays.items()}
    arrays["upc"] = (np.arange(len(of)) - begin[of]).astype(arrays["upc"].dtype)
    texts = [statics.disassembly[i] for i in of.tolist()]
    offset = np.zeros(len(of), np.uint8)
    for i in np.flatnonzero(counts > 1).tolist():
        moved = {r for part in each[i] for r in part.dst}
        for k, part in enumerate(each[i], int(begin[i])):
            texts[k] = part.text
            if part.own:
                _without(arrays, k, moved)
                continue
            arrays["op"][k], arrays["flags"][k] = _OP[part.op], part.flags
            arrays["access_size"][k], offset[k] = part.size, part.offset
            _put(arrays, k, "src", part.src)
            _put(arrays, k, "dst", part.dst)
    return MicroOps(StaticTable(arrays, texts, [b""] * len(of)), offset, begin)


def _put(arrays: _Arrays, k: int, kind: str, found: tuple[_Register, ...]) -> None:
    cls, index = arrays[f"{kind}_class"], arrays[f"{kind}_index"]
    cls[k], index[k] = NO_REG, 0
    for j, register in enumerate(dict.fromkeys(found)):
        if j < cls.shape[1]:
            cls[k, j], index[k, j] = register


def _without(arrays: _Arrays, k: int, moved: set[_Register]) -> None:
    """The access of an instruction whose address register another micro-op moves on."""
    pairs = zip(arrays["dst_class"][k].tolist(), arrays["dst_index"][k].tolist(), strict=True)
    _put(arrays, k, "dst", tuple(r for r in pairs if r[0] != NO_REG and r not in moved))
