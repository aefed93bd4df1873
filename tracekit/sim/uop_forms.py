"""X86 instructions without their registers, from gem5's names of macro-ops (``ADD_R_M``) or from a
recording's machine code (``add rax, qword ptr [rcx]``)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from tracekit.isa.types import words

__all__ = ["STRING", "Form", "form_of"]

#: String instructions, by their names without a size.
STRING: Final = re.compile(r"(movs|stos|lods|cmps|scas)[bwdq]?")


class Form(NamedTuple):
    """An instruction without its registers: ``operands`` are letters: R general register, X vector,
    F x87 or MMX, K mask, I immediate, M memory, P memory relative to the instruction."""

    name: str
    operands: str
    byte: bool  # a byte is extended
    locked: bool
    repeated: bool
    narrow: bool = False  # it works on one byte or two


#: A macro's name, alone or in front of its micro-ops.
_GEM5: Final = re.compile(r"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*|syscall|sysenter)(?:\.\w+)?(?=$|; | : )")
_GEM5_LETTERS: Final = {"R": "R", "M": "M", "P": "P", "I": "I", "XMM": "X", "MMX": "F", "ST": "F"}
_PREFIXES: Final = words(
    "lock rep repe repz repne repnz bnd notrack data16 xacquire xrelease cs ds es ss"
)
_NARROW: Final = re.compile(r"[abcd][lh]|[sd]il|[sb]pl|r\d+b")
_WORD: Final = re.compile(r"[abcd]x|[sd]i|[sb]p|r\d+w")


@lru_cache(maxsize=1 << 16)
def form_of(text: str) -> Form:
    """The form of an instruction, from gem5's macro name or capstone's text."""
    text = text.strip()
    if m := _GEM5.match(text):
        return _gem5_form(m[1])
    head, _, rest = text.lower().partition(" ")
    prefixes: list[str] = []
    while head in _PREFIXES and rest:
        prefixes.append(head)
        head, _, rest = rest.strip().partition(" ")
    operands = [o.strip() for o in rest.split(",")] if rest.strip() else []
    letters = "".join(map(_letter, operands))
    byte = "byte ptr" in rest or bool(len(operands) > 1 and _NARROW.fullmatch(operands[1]))
    narrow = bool(operands and (_NARROW.fullmatch(operands[0]) or _WORD.fullmatch(operands[0])))
    repeated = any(p.startswith("rep") for p in prefixes)
    name = _same_name(head)
    if (m := STRING.fullmatch(name)) and "X" not in letters:
        return Form(m[1], letters, False, False, repeated)
    if name == "nop":
        letters, byte, narrow = "", False, False
    if name == "movq" and "R" in letters:
        name = "movd"
    return Form(name, letters, byte, "lock" in prefixes, False, narrow)


#: gem5's names where the assembler's differ; conditions stand behind j, set and cmov.
_CONDITIONS: Final = {"e": "z", "ne": "nz", "ae": "nb", "a": "nbe", "ge": "nl", "g": "nle"}
_CONDITIONAL: Final = re.compile(r"(j|set|cmov)(e|ne|ae|a|ge|g)")
_SAME: Final = {
    "movsxl": "movsxd",
    "retq": "ret",
    "callq": "call",
    "shl": "sal",
    "movabs": "mov",
    "cdq": "cqo",
    "cwd": "cqo",
    "cwde": "cdqe",
    "cbw": "cdqe",
    "endbr64": "nop",
    # Without its extension a scan's prefix means nothing, as on gem5's X86.
    "tzcnt": "bsf",
    "lzcnt": "bsr",
}


def _same_name(name: str) -> str:
    if m := _CONDITIONAL.fullmatch(name):
        return m[1] + _CONDITIONS[m[2]]
    return _SAME.get(name, name)


def _letter(operand: str) -> str:
    if "[" in operand:
        return "P" if "rip" in operand else "M"
    if operand.startswith(("xmm", "ymm", "zmm")):
        return "X"
    if operand.startswith(("st", "mm")):
        return "F"
    if re.match(r"k\d", operand):
        return "K"
    return "I" if operand[:1].isdigit() or operand.startswith("-") else "R"


def _gem5_form(text: str) -> Form:
    name, *tokens = text.split("_")
    name = name.lower()
    letters = "".join(_GEM5_LETTERS.get(t, "") for t in tokens)
    if name == "hint":
        return Form("nop", "", False, False, False)
    if (m := STRING.fullmatch(name)) and "X" not in letters:
        return Form(m[1], letters, False, False, "E" in tokens or "N" in tokens)
    if "1" in tokens:  # a shift by one
        letters += "I"
    return Form(name, letters, "B" in tokens, "LOCKED" in tokens, False)
