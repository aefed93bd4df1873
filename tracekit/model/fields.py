"""The fields of a card's JSON objects, each checked as it is read; errors say where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.errors import FormatError

#: Of a layer; of a list.
MAX_WIDTH, MAX_ENTRIES = 8192, 4096


def merged(parts: Sequence[Mapping[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    """Tensors of several parts; one that two of them ask for has one shape."""
    out: dict[str, tuple[int, ...]] = {}
    for part in parts:
        for name, shape in part.items():
            if out.setdefault(name, shape) != shape:
                raise FormatError(f"tensor {name!r} is asked for as {out[name]} and as {shape}")
    return out


def an_object(entry: Any, where: str) -> dict[str, Any]:
    """``entry``, where it is a JSON object."""
    if not isinstance(entry, dict):
        raise FormatError(f"{where} is not a JSON object")
    return entry


def a_list(entries: Any, where: str) -> list[Any]:
    """``entries``, where they are a list that is not too long."""
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise FormatError(f"{where} is not a list of at most {MAX_ENTRIES} entries")
    return entries


def fields_of(
    entry: Mapping[str, Any], fields: tuple[set[str], set[str]], common: set[str], where: str
) -> None:
    """``fields``: those that it must have, and those that it may have beside ``common``."""
    needed, allowed = fields
    if missing := needed - entry.keys():
        raise FormatError(f"{where}: {', '.join(sorted(missing))} missing")
    if unknown := entry.keys() - needed - allowed - common:
        raise FormatError(f"{where}: unknown {', '.join(sorted(unknown))}")


def text_of(entry: Mapping[str, Any], key: str, where: str) -> str:
    """A name."""
    value = entry.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= 256:
        raise FormatError(f"{where}: {key} is not a name")
    return value


def size_of(entry: Mapping[str, Any], key: str, where: str, most: int = MAX_WIDTH) -> int:
    """A whole number from 1 to ``most``."""
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise FormatError(f"{where}: {key} is {value!r}; a number from 1 to {most}")
    return value


def finite_of(value: Any, where: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e38:
        raise FormatError(f"{where} is not a finite number")
    return float(value)
