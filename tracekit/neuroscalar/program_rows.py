"""What ``train neuroscalar`` reads of each program: its columns and cycles, computed once and kept
as arrays in a folder, so that a run that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset import Dataset, Program
from tracekit.errors import TracekitError, UsageError
from tracekit.io.arrays import array_file, save_array
from tracekit.io.output import Folder, kept_folder, write_bytes
from tracekit.neuroscalar import history, instructions
from tracekit.sim import cores_digest

__all__ = ["HELD", "VALIDATION", "Rows", "block_of", "part_of", "read_default", "read_paper"]

#: Rows of a block; of every ten blocks one is held out for the test, another for early stopping.
BLOCK, TENTH = 5000, 10
HELD, VALIDATION = 9, 4
Report = Callable[[dict[str, Any]], None]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """One program: ``columns`` float32 [rows, columns], ``cycles`` [rows, machines], and, for the
    preset ``default``, ``past`` float16 [rows, history columns], each from the other blocks, with
    the two ``keys`` of each row."""

    program: Program
    columns: npt.NDArray[np.float32]
    cycles: Array
    past: npt.NDArray[np.float16] | None = None
    keys: tuple[Array, ...] = ()

    def __len__(self) -> int:
        return len(self.columns)


def block_of(rows: int, begin: int = 0) -> npt.NDArray[np.int64]:
    """The block of each of the rows from ``begin`` on."""
    return np.arange(begin, begin + rows, dtype=np.int64) // BLOCK


def part_of(rows: int, begin: int = 0) -> npt.NDArray[np.int64]:
    """``block_of`` modulo ten."""
    return block_of(rows, begin) % TENTH


def read_default(
    programs: Sequence[Program],
    machines: Sequence[Mapping[str, Any]],
    cache: Path,
    *,
    held: frozenset[int],
    report: Report = lambda _: None,
    threads: int | None = None,
) -> list[Rows]:
    """Each program through the machines' simulated cores.  ``held``: tenths of the blocks that are
    in no statistics."""
    names = [str(m["name"]) for m in machines]
    out = []
    for p in programs:
        of = [list(machines), cores_digest(), sorted(held), instructions.FEATURE_SET]
        place = cache / _key(p, of)
        if not (place / "done").exists():
            with kept_folder(cache), p.open() as data, Folder(place, force=True) as folder:
                trace, y = data.trace, _cycles(data, names)
                keys = history.Keys()
                first: list[Array] = []
                second: list[Array] = []
                made = folder.temporary
                core = np.zeros((len(y), len(names)), np.float32)
                spec = (len(y), len(instructions.columns(names)))
                with array_file(made / "columns.npy", np.float32, spec) as values:
                    for b in instructions.blocks(trace, machines, threads):
                        n = min(len(b.values), len(y) - b.begin)  # rows behind have no targets
                        if n <= 0:
                            break
                        values.append(b.values[:n])
                        core[b.begin : b.begin + n] = b.values[:n, : 5 * len(names) : 5]
                        for to, key in zip(
                            (first, second), keys.of(b.key[:n], b.values[:n, 0]), strict=True
                        ):
                            to.append(key)
                both = [np.concatenate(k) if k else np.zeros(0, np.uint64) for k in (first, second)]
                tenth = part_of(len(y))
                part = np.where(np.isin(tenth, list(held)), -1, block_of(len(y)))
                save_array(made / "past.npy", history.leave_one_out(both, y, core, part))
                save_array(made / "keys.npy", np.stack(both))
                save_array(made / "cycles.npy", y)
                write_bytes(made / "done", b"")
                folder.commit()

        def load(name: str, place: Path = place) -> Array:
            a: Array = np.load(place / name, mmap_mode="r", allow_pickle=False)
            return a

        kept = load("keys.npy")
        out.append(
            Rows(p, load("columns.npy"), load("cycles.npy"), load("past.npy"), (kept[0], kept[1]))
        )
        report(_event(out, len(programs)))
    return out


def read_paper(
    programs: Sequence[Program],
    machine: str,
    cache: Path,
    *,
    report: Report = lambda _: None,
) -> list[Rows]:
    """The 13 numbers of each program, at the macro level."""
    out = []
    for p in programs:
        place = cache / _key(p, ["neuroscalar", machine])
        if not (place / "done").exists():
            with p.open() as data:
                if data.trace.level != "macro":
                    raise UsageError(
                        "the preset paper is of instructions; these rows are micro-ops",
                        path=data.path,
                        hint="tracekit extract --level macro",
                    )
                with kept_folder(cache), Folder(place, force=True) as folder:
                    made = folder.temporary
                    save_array(made / "cycles.npy", _cycles(data, [machine]))
                    save_array(made / "columns.npy", data.features("neuroscalar"))
                    write_bytes(made / "done", b"")
                    folder.commit()
        x, y = (
            np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in ("columns", "cycles")
        )
        out.append(Rows(p, x, y))
        report(_event(out, len(programs)))
    return out


def _cycles(data: Dataset, names: Sequence[str]) -> Array:
    """Cycles of each instruction on each machine: float32 [instructions, machines]."""
    cycles = data.cycles()[:, [data.column_of(m) for m in names]]
    out = instructions.to_rows(data.trace, cycles.T)
    return np.ascontiguousarray(out.T, np.float32)


def _key(p: Program, more: list[Any]) -> str:
    """Changes with everything that the arrays depend on; a file by its size and time of change."""
    try:
        file = p.data.stat()
    except OSError as e:
        raise TracekitError(f"cannot be read: {e.strerror}", path=str(p.data)) from None
    stamp = [file.st_size, file.st_mtime_ns]
    text = json.dumps([stamp, more, BLOCK, os.name], sort_keys=True)
    return f"{p.name.replace('/', '_')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _event(out: list[Rows], of: int) -> dict[str, Any]:
    last = out[-1]
    name = last.program.name
    return {"event": "program", "name": name, "rows": len(last), "done": len(out), "of": of}
