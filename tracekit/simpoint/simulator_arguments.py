"""A program's regions by its simulation points, and what simulators are told to run them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Literal

from tracekit.errors import UsageError
from tracekit.extraction import extract
from tracekit.inputs.tks import is_tks
from tracekit.io.files import first_bytes
from tracekit.io.output import scratch
from tracekit.opening import open_trace
from tracekit.simpoint.clusters import SimulationPoint
from tracekit.simpoint.vectors import BlockVectors
from tracekit.store.frames import MAGIC
from tracekit.store.reader import TraceFile

__all__ = ["arguments", "opened", "regions"]


@contextlib.contextmanager
def opened(
    path: str | os.PathLike[str],
    *,
    level: Literal["auto", "micro", "macro"] = "auto",
    cpu: str | None = None,
    quiet: bool = True,
) -> Iterator[TraceFile]:
    """A feats.zst, a recording, or any trace that extraction reads, open."""
    name = os.fspath(path)
    head = first_bytes(path, 16)
    if is_tks(head) or head[8:] == MAGIC:
        if level != "auto" or cpu is not None:
            raise UsageError("--level and --cpu mean nothing of it", path=name)
        with open_trace(path) as trace:
            yield trace
        return
    with scratch() as folder:
        made = extract(path, folder / "feats.zst", level=level, cpu=cpu, quiet=quiet).outputs
        if len(made) > 1:
            raise UsageError(
                "a trace of several CPUs; --cpu chooses one",
                path=name,
                hint=", ".join(sorted(o.cpu for o in made)),
            )
        with TraceFile(made[0].path) as trace:
            yield trace


def regions(
    vectors: BlockVectors, points: Sequence[SimulationPoint]
) -> list[dict[str, int | float]]:
    """Of each point ``interval``, ``cluster``, ``weight``, ``begin`` (instructions before it),
    ``instructions``, and where rows are known ``first_row`` and ``rows``."""
    lengths = vectors.instructions
    before = lengths.cumsum() - lengths
    out: list[dict[str, int | float]] = []
    for p in points:
        region: dict[str, int | float] = {
            "interval": p.interval,
            "cluster": p.cluster,
            "weight": p.weight,
            "begin": int(before[p.interval]),
            "instructions": int(lengths[p.interval]),
        }
        if vectors.rows is not None:
            first, end = vectors.rows[p.interval : p.interval + 2].tolist()
            region |= {"first_row": first, "rows": end - first}
        out.append(region)
    return out


def arguments(
    found: Sequence[dict[str, int | float]],
    length: int,
    warmup: int,
    prefix: str,
) -> dict[str, list[str]]:
    """What gem5's se.py and ChampSim's tracer and simulator are told, for all regions or for one
    after another.

    gem5 takes a checkpoint of every region in one run and restores the k-th; ChampSim simulates
    what its tracer has written of a region.  ``prefix``: of the lists that `write_points` wrote.
    """
    gem5 = [
        f"--simpoint-profile --simpoint-interval={length}",
        f"--take-simpoint-checkpoints={prefix}.simpoints,{prefix}.weights,{length},{warmup}",
    ]
    champsim = []
    for k, region in enumerate(found, 1):
        gem5.append(f"--restore-simpoint-checkpoint --checkpoint-restore={k}")
        begin, own = int(region["begin"]), int(region["instructions"])
        warm = min(warmup, begin)
        champsim.append(
            f"tracer: -s {begin - warm} -t {warm + own}; "
            f"champsim: --warmup-instructions {warm} --simulation-instructions {own}"
        )
    return {"gem5": gem5, "champsim": champsim}
