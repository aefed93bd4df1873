"""Where a program spent its instructions: rows by function, source line, inlined function or
file."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tracekit.io.files import first_bytes
from tracekit.progress import Progress
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


def hot(
    path: str | Path, by: str = "symbol", binary: str | None = None, *, quiet: bool = True
) -> Hot:
    """Counts the rows (instructions; micro-ops at the micro level) of a .tks or feats.zst.

    A recording, and what was extracted from one, knows its program's files: ``binary`` then stands
    for the one of its build-id.  For other traces ``binary`` is the traced program.  Raises
    `TracekitError` where neither tells, `UsageError` where ``binary`` is not what was traced.
    """
    from tracekit.inputs.tks import is_tks

    recorded = is_tks(first_bytes(path, 16))
    if recorded:
        return _of_recording(path, by, binary, quiet)
    return _of_feats(path, by, binary)


def _of_recording(path: str | Path, by: str, binary: str | None, quiet: bool) -> Hot:
    from tracekit.inputs.tks import TksReader
    from tracekit.isa.elf import ElfImage
    from tracekit.isa.program_match import check_isa

    out = Hot(by, 0)
    files: dict[str, ObjectFile] = {}
    maps: dict[int, tuple[int, AddressMap]] = {}
    counts: Counter[tuple[AddressMap, int]] = Counter()
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(TksReader(path))
        elf = stack.enter_context(ElfImage(binary)) if binary is not None else None
        if elf is not None:
            check_isa(elf, reader.arch)
        used = elf is None
        progress = stack.enter_context(Progress(Path(path).name, None, "epochs", quiet=quiet))
        for done, epoch in enumerate(reader.epochs()):
            progress.update(done)
            pid = epoch.info["pid"]
            version = reader.map_versions.get(pid, 0)
            if maps.get(pid, (-1, None))[0] != version:
                maps[pid] = version, AddressMap(reader.maps.get(pid, ()), files)
                used = (elf is not None and maps[pid][1].use(elf)) or used
            of = maps[pid][1]
            ids, times = np.unique(epoch.rows.encoding, return_counts=True)
            for i, n in zip(ids.tolist(), times.tolist(), strict=True):
                counts[of, reader.table[i][0]] += n
        if elf is not None and not used:
            every = (m for mapped in reader.maps.values() for m in mapped)
            raise AddressMap(every).no_such_file(elf)
    for (of, pc), n in counts.items():
        out.parts[BY[by](of, pc)] += n
    return _counted(out, AddressMap(files=files).problems)


def _of_feats(path: str | Path, by: str, binary: str | None) -> Hot:
    from tracekit.store.reader import TraceFile

    out = Hot(by, 0)
    with TraceFile(path) as trace:
        of = AddressMap.of(trace, binary)
        for pc, n in zip(trace.statics.pc.tolist(), trace.statics.count.tolist(), strict=True):
            out.parts[BY[by](of, pc)] += n
    return _counted(out, of.problems)


def _counted(out: Hot, problems: dict[str, str]) -> Hot:
    out.rows = sum(out.parts.values())
    out.problems = problems
    return out
