"""Which registers of an instruction make its address, and which results need no loaded data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from tracekit.hardware.forms import Decoded
from tracekit.isa.types import FLOATING, INTEGER, PREDICATE, VECTOR, Reg

__all__ = ["Roles", "operand_roles"]

_STACK_POINTER: Final[Reg] = (INTEGER, 4)
_FRAME_POINTER: Final[Reg] = (INTEGER, 5)
_STACK: Final = frozenset(["push", "pop", "call", "ret", "pushfq", "popfq", "leave", "enter"])
_STRINGS: Final = re.compile(r"(?:movs|stos|lods|cmps|scas)[bwdq]")
_WORD: Final = re.compile(r"[a-z]\w*")
_GENERAL: Final = ("ax", "cx", "dx", "bx", "sp", "bp", "si", "di")


class Roles(NamedTuple):
    """Bit masks over the places of sources and destinations of a static instruction: sources that
    the address needs, sources that the operation (or a store as its data) needs, and destinations
    that follow from the address alone."""

    address_sources: int
    data_sources: int
    early_destinations: int


def operand_roles(
    d: Decoded, isa: str, sources: Sequence[Reg], destinations: Sequence[Reg]
) -> Roles:
    """The roles of registers in tracekit's numbering, as the rows of a trace name them."""
    address, data, early = (_x86 if isa == "x86" else _arm)(d)
    if not address:
        return Roles(0, (1 << len(sources)) - 1, 0)
    of_address = _mask(sources, address)
    of_data = ~of_address & ((1 << len(sources)) - 1) | _mask(sources, data)
    return Roles(of_address, of_data, _mask(destinations, early))


def _mask(registers: Sequence[Reg], wanted: frozenset[Reg]) -> int:
    return sum(1 << i for i, r in enumerate(registers) if r in wanted)


_Sets = tuple[frozenset[Reg], frozenset[Reg], frozenset[Reg]]


def _x86(d: Decoded) -> _Sets:
    prefix, _, name = d.mnemonic.rpartition(" ")
    address: set[Reg] = set()
    data: set[Reg] = set()
    early: set[Reg] = set()
    string = bool(_STRINGS.fullmatch(name)) and "xmm" not in d.form
    if name not in ("lea", "nop"):
        for operand in d.operands:
            if "[" in operand:
                address |= _registers(operand[operand.index("[") :])
            elif not string:
                data |= _registers(operand)
    if name in _STACK:
        pointer = _FRAME_POINTER if name == "leave" else _STACK_POINTER
        address.add(pointer)
        early.add(_STACK_POINTER)
        if name == "pop" and data == {_STACK_POINTER}:
            early.clear()
        if name == "pop":
            data.clear()
    elif string:
        early |= address | ({(INTEGER, 1)} if prefix else set())
        address |= {(INTEGER, 1)} if prefix else set()
    elif name in ("mov", "movzx", "movsx", "movsxd", "movbe") and "[" in d.operands[-1]:
        data.clear()  # the destination is not read
    return frozenset(address), frozenset(data), frozenset(early)


def _registers(text: str) -> set[Reg]:
    found = (_x86_register(word) for word in _WORD.findall(text))
    return {r for r in found if r is not None}


@cache
def _x86_register(name: str) -> Reg | None:
    if m := re.fullmatch(r"[xyz]mm(\d+)", name):
        return VECTOR, int(m[1])
    if m := re.fullmatch(r"(?:mm|st)(\d)", name):
        return FLOATING, int(m[1])
    if m := re.fullmatch(r"k(\d)", name):
        return PREDICATE, int(m[1])
    if m := re.fullmatch(r"r(\d+)[dwb]?", name):
        return INTEGER, int(m[1])
    if m := re.fullmatch(r"[re]?(ax|cx|dx|bx|sp|bp|si|di)", name):
        return INTEGER, _GENERAL.index(m[1])
    if m := re.fullmatch(r"([abcd])[lh]", name):
        return INTEGER, _GENERAL.index(m[1] + "x")
    if m := re.fullmatch(r"(si|di|bp|sp)l", name):
        return INTEGER, _GENERAL.index(m[1])
    return None


def _arm(d: Decoded) -> _Sets:
    place = next((i for i, o in enumerate(d.operands) if o.startswith("[")), None)
    if place is None:
        return frozenset(), frozenset(), frozenset()
    operand = d.operands[place]
    inside = _WORD.findall(operand)
    address = {r for r in map(_arm_register, inside) if r is not None}
    written = operand.endswith("!") or place + 1 < len(d.operands)
    early: set[Reg] = set()
    if written and (base := _arm_register(inside[0])) is not None:
        early.add(base)
        address |= {r for r in map(_arm_register, d.operands[place + 1 :]) if r is not None}
    data: set[Reg] = set()
    if not d.mnemonic.startswith("ld"):
        data = {r for r in map(_arm_register, d.operands[:place]) if r is not None}
    return frozenset(address), frozenset(data), frozenset(early)


@cache
def _arm_register(name: str) -> Reg | None:
    if name in ("sp", "wsp"):
        return INTEGER, 31
    if m := re.fullmatch(r"([wx])(\d+)", name):
        return INTEGER, int(m[2])
    if m := re.fullmatch(r"[bhsdqv](\d+).*", name):
        return VECTOR, int(m[1])
    return {"fp": (INTEGER, 29), "lr": (INTEGER, 30)}.get(name)
