"""What training reads once from each program: sums over segments.  Kept in a folder, so that a run
that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.dataset import Program
from tracekit.errors import UsageError
from tracekit.io.arrays import save_arrays
from tracekit.io.output import kept_folder
from tracekit.mixture.fit import SEGMENTS, Sums, segment_breaks
from tracekit.sim import cores_digest, totals
from tracekit.sim.spread import Question, Spread, pieces
from tracekit.text import counted
from tracekit.training_events import Report

__all__ = ["collect", "walk_program"]


def collect(
    programs: Sequence[Program],
    cores: Sequence[Mapping[str, Any]],
    machines: Sequence[str],
    cache: Path | None,
    report: Report = lambda _: None,
    threads: int | None = None,
    rows: int | None = None,
    spread: Spread | None = None,
) -> list[Sums]:
    """Each program (its first ``rows``) through the cores, beside its targets on ``machines``.
    ``spread``: who walks what is not in the cache."""
    places = [cache / f"{_key(p, cores, machines, rows)}.npz" if cache else None for p in programs]
    kept = [_read(place, p) if place else None for place, p in zip(places, programs, strict=True)]
    walked: Iterator[Sums] = iter(())
    if spread is not None:
        missing = [p for p, sums in zip(programs, kept, strict=True) if sums is None]
        walked = iter(_spread_sums(spread, missing, cores, machines, rows))
    out = []
    for p, place, sums in zip(programs, places, kept, strict=True):
        if sums is None:
            sums = (
                walk_program(p, cores, machines, threads, rows) if spread is None else next(walked)
            )
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


def _spread_sums(
    spread: Spread,
    programs: Sequence[Program],
    cores: Sequence[Mapping[str, Any]],
    machines: Sequence[str],
    limit: int | None,
) -> list[Sums]:
    questions: list[Question] = []
    counts = []
    for p in programs:
        with p.open() as data:
            parts = pieces(min(len(data), limit or len(data)), len(cores))
        options = {"name": p.name, "family": p.family, "machines": list(machines), "limit": limit}
        counts.append(len(parts))
        questions += [(str(p.data), {**options, "cores": list(cores[a:b])}) for a, b in parts]
    found = iter(spread("program_sums", questions))
    out = []
    for p, n in zip(programs, counts, strict=True):
        own = [next(found) for _ in range(n)]
        x = np.hstack([f["x"] for f in own])
        out.append(Sums(p.name, p.family, int(own[0]["rows"]), x, own[0]["y"]))
    return out


def walk_program(
    p: Program,
    cores: Sequence[Mapping[str, Any]],
    machines: Sequence[str],
    threads: int | None,
    limit: int | None,
) -> Sums:
    """A program (its first ``limit`` rows) through the cores, beside its targets."""
    with p.open() as data:
        rows = min(len(data), limit or len(data))
        if rows < SEGMENTS:
            raise UsageError(
                f"{p.name}: {counted(rows, 'row')}; at least {SEGMENTS} are needed", path=data.path
            )
        at = [data.column_of(m) for m in machines]
        breaks = segment_breaks(rows)
        y = data.sums(breaks)[:, at]
        if empty := [m for m, total in zip(machines, y.sum(axis=0), strict=True) if total <= 0]:
            raise UsageError(f"{p.name}: no time on machine {', '.join(empty)}", path=data.path)
        x = totals(data.trace, cores, breaks, threads)
    return Sums(p.name, p.family, rows, x, y)


def file_stamp(p: Program) -> list[str | int]:
    """A program's file by its path, size and time of change.  Raises TracekitError for whatever is
    wrong with the file: it is said before anything is computed."""
    with p.open() as data:
        status = Path(data.path).stat()
    return [str(p.data), status.st_size, status.st_mtime_ns]


def _key(
    p: Program, cores: Sequence[Mapping[str, Any]], machines: Sequence[str], rows: int | None
) -> str:
    """Changes with everything that the sums depend on, the cores' code too; a file by its size and
    time of change."""
    of = [file_stamp(p), list(cores), cores_digest(), list(machines), SEGMENTS, rows]
    text = json.dumps(of, sort_keys=True)
    return f"{p.name.replace('/', '_')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _read(place: Path, p: Program) -> Sums | None:
    try:
        with place.open("rb") as f, np.load(f, allow_pickle=False) as z:
            return Sums(p.name, p.family, int(z["rows"]), z["x"], z["y"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None  # not there, or cut short by a kill: made again
