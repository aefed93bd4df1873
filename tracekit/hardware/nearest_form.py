"""The form whose entry stands for one that a table does not have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

__all__ = ["nearest_form"]

#: What stands for an instruction of which nothing is known, by kinds of its operands.
_ANY: Final = {
    "x86": (
        (re.compile(r"zmm"), "vpaddd zmm, zmm, zmm"),
        (re.compile(r"ymm"), "vpaddd ymm, ymm, ymm"),
        (re.compile(r"xmm"), "paddd xmm, xmm"),
        (re.compile(r"\bst\b|^f"), "fadd st, st"),
        (re.compile(r""), "add r64, r64"),
    ),
    "arm": (
        (re.compile(r"\b[bhsdqv]\b|v\."), "add v.4s, v.4s, v.4s"),
        (re.compile(r""), "add x, x, x"),
    ),
}
_KIND: Final = re.compile(r"([a-z]+)(\d*)")
_MEMORY: Final = ("m", "[")


def nearest_form(form: str, entries: Mapping[str, object], isa: str) -> str:
    """``form`` where ``entries`` has it; else the form of the same mnemonic (with or without the v
    of AVX) whose operands differ least, else a plain addition of its registers' kind."""
    if form in entries:
        return form
    return _nearest(form, tuple(entries), isa)


@lru_cache(maxsize=1 << 12)
def _nearest(form: str, known: tuple[str, ...], isa: str) -> str:
    name, operands = _parts(form)
    best: tuple[float, str] | None = None
    for candidate in _by_name(known).get(name, ()):
        apart = _distance(operands, _parts(candidate)[1])
        found = (apart + 15.0 * (_locked(candidate) != _locked(form)), candidate)
        if best is None or found < best:
            best = found
    if best is not None:
        return best[1]
    return next(known for pattern, known in _ANY[isa] if pattern.search(form))


@lru_cache(maxsize=32)
def _by_name(known: tuple[str, ...]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for form in known:
        out.setdefault(_parts(form)[0], []).append(form)
    return out


def _locked(form: str) -> bool:
    return form.startswith("lock ")


def _parts(form: str) -> tuple[str, tuple[str, ...]]:
    """The mnemonic without prefixes and the v of AVX, and the kinds of operands."""
    words = form.split(" ")
    while len(words) > 1 and words[0] in ("lock", "rep", "repe", "repne", "repz", "repnz"):
        words = words[1:]
    name = words[0]
    if name.startswith("v") and "mm" in form:
        name = name[1:]
    return name, tuple(" ".join(words[1:]).split(", ")) if len(words) > 1 else ()


def _distance(a: tuple[str, ...], b: tuple[str, ...]) -> float:
    """How much kinds of operands differ: memory for a register most, a width least.  AVX's
    additional source is set against the destination."""
    if len(a) != len(b):
        longer, shorter = (a, b) if len(a) > len(b) else (b, a)
        merged = len(longer) - len(shorter) == 1 and longer[0] == longer[1]
        if merged and shorter:
            return 5.0 + _distance(longer[1:], shorter)
        return 20.0 + abs(len(a) - len(b))
    return sum(map(_kinds_apart, a, b))


def _kinds_apart(a: str, b: str) -> float:
    if a == b:
        return 0.0
    if a.startswith(_MEMORY) != b.startswith(_MEMORY):
        return 10.0
    ka, kb = _KIND.match(a), _KIND.match(b)
    if ka is None or kb is None:
        return 2.0
    if ka[1] == kb[1]:
        return 1.0 + abs(len(a) - len(b)) * 0.1
    if ka[1].endswith("mm") and kb[1].endswith("mm"):
        return 1.5
    return 5.0
