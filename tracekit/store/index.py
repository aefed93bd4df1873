"""The index of a file as it must be: every number that a reader relies on is checked here, once.

The JSON comes from an untrusted file.  Behind ``check`` every value has its type and range, and no
size that it claims is larger than what zstd could have made of the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tracekit import schema
from tracekit.store import statics

MAX_CHUNK_ROWS = 1 << 20
MAX_STATICS = 1 << 24
#: A block of 128 KiB of one byte takes 4 bytes: no zstd frame holds more for its size.
MAX_RATIO = 1 << 15
#: What is decoded at once (the table of static instructions, a block of targets) may make so many
#: bytes; more only where it is that large itself: MOST_EXPANDED bytes for each of its own.
EXPANDED = 128 << 20
MOST_EXPANDED = 64
MAX_MACHINES = 1 << 16
TARGET_TYPES = ("u2", "u4", "f4")
_TICKS = (1 << 63) - 1


class Invalid(ValueError):
    """What is wrong, and where in the index."""


def check(index: Any, end: int) -> None:
    """Raises Invalid where ``index`` is not as docs/feats-format.md says; frames end before
    ``end``."""
    _dict(index, "index")
    for name in ("level", "arch", "cpu"):
        _is(index, name, str)
    for name in ("options", "input", "source", "anomalies"):
        _is(index, name, dict)
    if index["level"] not in ("micro", "macro"):
        raise Invalid("level")
    _options(index["options"])
    for kind, a in index["anomalies"].items():
        _int(_dict(a, f"anomalies.{kind}"), "count", 0, _TICKS)
    for name in ("path", "xxh3_128"):
        _is(index["input"], name, str)
    _int(index["input"], "bytes", 0, _TICKS)
    for name in ("squashed", "exec_lines"):
        if name in index["source"]:
            _int(index["source"], name, 0, _TICKS)
    if "xxh3_128" in index and len(_is(index, "xxh3_128", str)) != 32:
        raise Invalid("xxh3_128")
    bits = _is(index, "bits", list)
    if len(bits) != 8 or not all(type(b) is int and 0 <= b <= _TICKS for b in bits):
        raise Invalid("bits")
    first = 0
    for c in _is(index, "chunks", list):
        first += _chunk(_dict(c, "chunk"), first, end)
    if _int(index, "rows", 0, _TICKS) != first:
        raise Invalid("rows is not the sum of the chunks'")
    _statics(_is(index, "statics", dict), end)
    if "targets" in index:
        _targets(_dict(index["targets"], "targets"), [c["rows"] for c in index["chunks"]], end)


def _options(options: dict[str, Any]) -> None:
    _int(options, "line_bits", 0, 63)
    if options.get("clock_ps") is not None:
        _int(options, "clock_ps", 1, _TICKS)


def _chunk(c: dict[str, Any], first: int, end: int) -> int:
    rows = _int(c, "rows", 1, MAX_CHUNK_ROWS)
    _int(c, "first", first, first)
    _int(c, "tick_unit", 1, _TICKS)
    _int(c, "retired_before", 0, _TICKS)
    if type(c.get("timed")) is not bool:
        raise Invalid("timed of a chunk")
    for name, place in _is(c, "streams", dict).items():
        if name not in schema.COLUMNS:
            raise Invalid(f"a column {name!r}")
        _place(name, place, end, 0, 20 * rows + 64)
    return rows


def _statics(s: dict[str, Any], end: int) -> None:
    n = _int(s, "count", 0, MAX_STATICS)
    forms = _int(s, "forms", min(n, 1), n)
    for k, v in _is(s, "op_names", dict).items():
        if type(v) is not str or not k.isascii() or not k.isdigit() or len(k) > 9 or int(k) >= n:
            raise Invalid("op_names")
    streams = _is(s, "streams", dict)
    for name, place in streams.items():
        least, most = 0, 1 << 31
        if name in statics.ARRAYS:
            dtype, width = statics.ARRAYS[name]
            rows = n if name in statics.PLACED else forms
            least = most = rows * max(width, 1) * np.dtype(dtype).itemsize
        elif name == "form":
            least = most = 4 * n
        elif name == "bytes_length":
            least = most = forms
        _place(name, place, end, least, most)
    _bounded("statics", streams.values())


def _targets(t: dict[str, Any], chunk_rows: list[int], end: int) -> None:
    machines = _is(t, "machines", list)
    if not 0 < len(machines) <= MAX_MACHINES or not all(type(m) is str for m in machines):
        raise Invalid("targets.machines")
    if len(set(machines)) != len(machines):
        raise Invalid("targets.machines has a name twice")
    if t.get("dtype") not in TARGET_TYPES:
        raise Invalid("targets.dtype")
    left = _int(t, "rows", 1, sum(chunk_rows))
    blocks = _is(t, "blocks", list)
    for b, rows in zip(blocks, chunk_rows, strict=False):
        n = min(left, rows) * len(machines)
        if n == 0:
            raise Invalid("targets: a block too many")
        width = 4 if _is(_dict(b, "targets.blocks"), "kind", str) == "f4" else 1
        if b["kind"] not in ("u1", "f4") or (width == 4) != ("far" not in b):
            raise Invalid("targets: kind of a block")
        _place("cycles", b.get("cycles"), end, n * width, n * width)
        if width == 1:
            _place("far", b["far"], end, 0, 4 * n)
        _bounded("targets: a block", [b["cycles"], *([b["far"]] if width == 1 else [])])
        left -= n // len(machines)
    if left or len(blocks) > len(chunk_rows):
        raise Invalid("targets: blocks")


def _place(name: str, place: Any, end: int, least: int, most: int) -> None:
    if type(place) is not list or len(place) != 3 or any(type(x) is not int for x in place):
        raise Invalid(f"place of {name}")
    offset, size, raw = place
    if not (0 <= offset <= end and 0 <= size <= end - offset and least <= raw <= most):
        raise Invalid(f"place of {name}")
    if raw > size * MAX_RATIO:
        raise Invalid(f"size of {name}")


def expands(size: int, raw: int) -> bool:
    """Whether ``raw`` bytes, made of ``size``, are too many to make at once."""
    return raw > max(EXPANDED, size * MOST_EXPANDED)


def _bounded(what: str, places: Iterable[list[int]]) -> None:
    every = list(places)
    if expands(sum(p[1] for p in every), sum(p[2] for p in every)):
        raise Invalid(f"{what} of over {EXPANDED >> 20} MiB from few bytes")


def _dict(value: Any, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise Invalid(what)
    return value


def _is(d: dict[str, Any], key: str, kind: type) -> Any:
    if type(d.get(key)) is not kind:
        raise Invalid(key)
    return d[key]


def _int(d: dict[str, Any], key: str, least: int, most: int) -> int:
    value = d.get(key)
    if type(value) is not int or not least <= value <= most:
        raise Invalid(key)
    return value
