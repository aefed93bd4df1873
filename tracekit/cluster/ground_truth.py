"""A plan's programs on its machines by gem5, as tasks of a run: features, cycles, and the dataset
that they make up."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.cluster.joins import map_joins
from tracekit.cluster.run import Run
from tracekit.cluster.task import Outcome, Task
from tracekit.factory import Plan, PlannedProgram
from tracekit.io.output import kept_folder, write_json
from tracekit.plugin import plugin_folder

__all__ = ["GroundTruth", "make_ground_truth"]

_SCRIPTS = ("tracekit_run.py", "tracekit_machine.py")


@dataclass
class GroundTruth:
    """What was made.  ``manifest``: its path, None where nothing is left; ``programs`` and
    ``machines`` that it has, by name; ``failed``: (program, machine or "", why); ``left_out``:
    programs that lack a machine of the others, and machines that none has, with why."""

    manifest: str | None = None
    programs: list[str] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)
    rows: int = 0
    runs: int = 0
    seconds: float = 0.0
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "manifest": self.manifest,
            "programs": self.programs,
            "machines": self.machines,
            "rows": self.rows,
            "runs": self.runs,
            "seconds": self.seconds,
            "failed": [{"program": p, "machine": m, "error": e} for p, m, e in self.failed],
            "left_out": [{"name": n, "reason": r} for n, r in self.left_out],
        }


def make_ground_truth(
    run: Run, plan: Plan, gem5: str, folder: str | os.PathLike[str], *, force: bool = False
) -> GroundTruth:
    """Runs what is missing of ``plan`` and writes into ``folder``: ``machines/``, ``features/``,
    ``cycles/``, ``data/`` and ``manifest.json``, which training reads.

    A run that fails is told and left out: a machine that failed on every program, then a program
    that lacks one of the other machines, since a dataset has every machine for every program.
    ``force``: files that no earlier run of this plan made may be replaced, too.
    """
    place = Path(folder)
    with contextlib.ExitStack() as folders:
        for name in ("machines", "features", "cycles", "data"):
            folders.enter_context(kept_folder(place / name))
        return _make(run, plan, gem5, place, force)


def _make(run: Run, plan: Plan, gem5: str, place: Path, force: bool) -> GroundTruth:
    for m in plan.machines:
        write_json(place / "machines" / f"{m['name']}.json", m, force=True)
    out = GroundTruth()
    common = {"scripts": _scripts_digest()}
    tasks = [_functional(p, gem5, place) for p in plan.programs]
    done = run.map("functional_gem5", tasks, common, force=force)
    _count(out, done)
    ready = [p for p, o in zip(plan.programs, done, strict=True) if o.error is None]
    out.failed += [(o.task.name, "", str(o.error)) for o in done if o.error is not None]
    pairs = [(p, m) for p in ready for m in plan.machines]
    tasks = [_timed(p, m, gem5, place) for p, m in pairs]
    timed = run.map("timed_gem5", tasks, common, force=force)
    _count(out, timed)
    failed: dict[str, set[str]] = {p.name: set() for p in ready}
    for (p, m), o in zip(pairs, timed, strict=True):
        if o.error is not None:
            out.failed.append((p.name, str(m["name"]), str(o.error)))
            failed[p.name].add(str(m["name"]))
    machines, programs = _whole(out, plan, ready, failed)
    joined = _join(run, out, machines, programs, place, force)
    if joined:
        out.manifest = str(place / "manifest.json")
        write_json(out.manifest, _manifest(plan, machines, joined), force=True)
    return out


def _scripts_digest() -> str:
    """Of what runs inside gem5: another script is another run."""
    folder = plugin_folder() / "gem5_patches"
    found = hashlib.sha256()
    for name in _SCRIPTS:
        found.update((folder / name).read_bytes())
    return found.hexdigest()


def _count(out: GroundTruth, outcomes: Sequence[Outcome]) -> None:
    out.runs += sum(o.error is None for o in outcomes)
    out.seconds += sum(o.seconds for o in outcomes)


def _inputs(p: PlannedProgram, gem5: str) -> tuple[str, ...]:
    stdin = (str(p.stdin),) if p.stdin is not None else ()
    return (gem5, str(p.binary), *stdin, *map(str, p.files))


def _options(p: PlannedProgram) -> dict[str, Any]:
    return {
        "arguments": list(p.arguments),
        "skip": p.skip,
        "warm": p.warm,
        "instructions": p.instructions,
        "stdin": p.stdin is not None,
    }


def _features(p: PlannedProgram, place: Path) -> str:
    return str(place / "features" / f"{p.name}.zst")


def _cycles(p: PlannedProgram, machine: str, place: Path) -> str:
    return str(place / "cycles" / f"{p.name}.{machine}.npy.zst")


def _functional(p: PlannedProgram, gem5: str, place: Path) -> Task:
    return Task(p.name, _inputs(p, gem5), _options(p), (_features(p, place),))


def _timed(p: PlannedProgram, machine: dict[str, Any], gem5: str, place: Path) -> Task:
    name = str(machine["name"])
    inputs = (_features(p, place), *_inputs(p, gem5))
    options = {**_options(p), "machine": machine}
    return Task(p.name, inputs, options, (_cycles(p, name, place),), label=name)


def _whole(
    out: GroundTruth, plan: Plan, ready: Sequence[PlannedProgram], failed: dict[str, set[str]]
) -> tuple[list[str], list[PlannedProgram]]:
    """The machines and programs of which nothing is missing."""
    machines = []
    for m in plan.machines:
        name = str(m["name"])
        if ready and all(name in failed[p.name] for p in ready):
            out.left_out.append((name, "it failed on every program"))
        else:
            machines.append(name)
    programs = []
    for p in ready:
        if lacking := [m for m in machines if m in failed[p.name]]:
            out.left_out.append((p.name, f"it failed on {', '.join(lacking)}"))
        else:
            programs.append(p)
    return machines, programs


def _join(
    run: Run,
    out: GroundTruth,
    machines: list[str],
    programs: list[PlannedProgram],
    place: Path,
    force: bool,
) -> list[PlannedProgram]:
    """Each program's cycles beside its features; those programs."""
    tasks = [
        Task(
            f"{p.name}.zst",
            (_features(p, place), *(_cycles(p, m, place) for m in machines)),
            {"targets": machines, "base": str(place)},
            (str(place / "data" / f"{p.name}.zst"),),
        )
        for p in programs
    ]
    common = {"micro": False, "strict": True}
    done = map_joins(run, tasks, common, force=force) if machines else []
    joined = []
    for p, o in zip(programs, done, strict=False):
        if o.error is not None:
            out.failed.append((p.name, "", str(o.error)))
            continue
        joined.append(p)
        out.rows += int(o.value["rows"])
    out.programs, out.machines = [p.name for p in joined], machines if joined else []
    return joined


def _manifest(plan: Plan, machines: list[str], programs: list[PlannedProgram]) -> dict[str, Any]:
    families = {p.family for p in programs}
    return {
        "machines": {m: f"machines/{m}.json" for m in machines},
        "programs": [
            {"name": p.name, "family": p.family, "data": f"data/{p.name}.zst"} for p in programs
        ],
        "validation": [f for f in plan.validation if f in families],
        "test": [f for f in plan.test if f in families],
    }
