"""What training reads once from each program: sums over segments.  Kept in a folder, so that a run
that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.dataset import Program
from tracekit.errors import UsageError
from tracekit.io.arrays import save_arrays
from tracekit.io.output import kept_folder
from tracekit.mixture.fit import SEGMENTS, Sums, segment_breaks
from tracekit.sim import cores_digest, totals
from tracekit.training_events import Report

__all__ = ["collect"]


def collect(
    programs: Sequence[Program],
    cores: Sequence[Mapping[str, Any]],
    machines: Sequence[str],
    cache: Path | None,
    report: Report = lambda _: None,
    threads: int | None = None,
    rows: int | None = None,
) -> list[Sums]:
    """Each program (its first ``rows``) through the cores, beside its targets on ``machines``."""
    out = []
    for p in programs:
        place = cache / f"{_key(p, cores, machines, rows)}.npz" if cache else None
        sums = _read(place, p) if place else None
        if sums is None:
            sums = _walk(p, cores, machines, threads, rows)
            if place:
                with kept_folder(place.parent):
                    save_arrays(place, force=True, x=sums.x, y=sums.y, rows=np.array(sums.rows))
        out.append(sums)
        report(
            {
                "event": "program",
                "name": p.name,
                "rows": sums.rows,
                "done": len(out),
                "of": len(programs),
            }
        )
    return out


def _walk(
    p: Program,
    cores: Sequence[Mapping[str, Any]],
    machines: Sequence[str],
    threads: int | None,
    limit: int | None,
) -> Sums:
    with p.open() as data:
        rows = min(len(data), limit or len(data))
        if rows < SEGMENTS:
            raise UsageError(
                f"{p.name}: {rows} rows; at least {SEGMENTS} are needed", path=data.path
            )
        at = [data.column_of(m) for m in machines]
        breaks = segment_breaks(rows)
        y = data.sums(breaks)[:, at]
        if empty := [m for m, total in zip(machines, y.sum(axis=0), strict=True) if total <= 0]:
            raise UsageError(f"{p.name}: no time on machine {', '.join(empty)}", path=data.path)
        x = totals(data.trace, cores, breaks, threads)
    return Sums(p.name, p.family, rows, x, y)


def _key(
    p: Program, cores: Sequence[Mapping[str, Any]], machines: Sequence[str], rows: int | None
) -> str:
    """Changes with everything that the sums depend on, the cores' code too; a file by its size and
    time of change."""
    with p.open() as data:  # whatever is wrong with the file is said before anything is computed
        status = Path(data.path).stat()
    stamp = [str(p.data), status.st_size, status.st_mtime_ns]
    of = [stamp, list(cores), cores_digest(), list(machines), SEGMENTS, rows]
    text = json.dumps(of, sort_keys=True)
    return f"{p.name.replace('/', '_')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _read(place: Path, p: Program) -> Sums | None:
    try:
        with place.open("rb") as f, np.load(f, allow_pickle=False) as z:
            return Sums(p.name, p.family, int(z["rows"]), z["x"], z["y"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None  # not there, or cut short by a kill: made again
