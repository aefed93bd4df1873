"""Where a program spent its instructions: rows by function, source line, inlined function or
file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tracekit.errors import TracekitError
from tracekit.symbols import AddressMap, ObjectFile

BY: Final[dict[str, Callable[[AddressMap, int], str]]] = {
    "symbol": AddressMap.name,
    "function": AddressMap.function,
    "line": AddressMap.line,
    "file": AddressMap.file,
}
"""symbol: the function whose code it is; function: the innermost inlined one."""


@dataclass
class Hot:
    """``parts``: rows by name, most first; ``problems``: path to why a file could give no names."""

    by: str
    rows: int
    parts: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)


def hot(path: str | Path, by: str = "symbol", binary: str | None = None) -> Hot:
    """Counts the rows (instructions; micro-ops at the micro level) of a .tks or feats.zst.

    A recording, and what was extracted from one, knows its program's files; for other traces
    ``binary`` is the traced program.  Raises `TracekitError` where neither tells.
    """
    from tracekit.streams.tks import is_tks

    try:
        with Path(path).open("rb") as f:
            recording = is_tks(f.read(16))
    except OSError as e:
        raise TracekitError(f"cannot open: {e.strerror}", path=str(path)) from None
    return _of_recording(path, by) if recording else _of_feats(path, by, binary)


def _of_recording(path: str | Path, by: str) -> Hot:
    from tracekit.streams.tks import TksReader

    out = Hot(by, 0)
    files: dict[str, ObjectFile] = {}
    maps: dict[int, tuple[int, AddressMap]] = {}
    counts: Counter[tuple[AddressMap, int]] = Counter()
    with TksReader(path) as reader:
        for epoch in reader.epochs():
            pid = epoch.info["pid"]
            version = reader.map_versions.get(pid, 0)
            if maps.get(pid, (-1, None))[0] != version:
                maps[pid] = version, AddressMap(reader.maps.get(pid, ()), files)
            of = maps[pid][1]
            ids, times = np.unique(epoch.rows.encoding, return_counts=True)
            for i, n in zip(ids.tolist(), times.tolist(), strict=True):
                counts[of, reader.table[i][0]] += n
    for (of, pc), n in counts.items():
        out.parts[BY[by](of, pc)] += n
    return _counted(out, files)


def _of_feats(path: str | Path, by: str, binary: str | None) -> Hot:
    from tracekit.store.reader import TraceFile

    out = Hot(by, 0)
    with TraceFile(path) as trace:
        of = AddressMap.of(trace, binary)
        for pc, n in zip(trace.statics.pc.tolist(), trace.statics.count.tolist(), strict=True):
            out.parts[BY[by](of, pc)] += n
    return _counted(out, of.files)


def _counted(out: Hot, files: dict[str, ObjectFile]) -> Hot:
    out.rows = sum(out.parts.values())
    out.problems = {p: f.problem for p, f in files.items() if f.problem is not None}
    return out
