"""What a worker makes of one epoch: its signature, its sketch, its time on designs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit._version import __version__
from tracekit.agent.state import Prediction
from tracekit.errors import TracekitError, UsageError
from tracekit.estimation.estimator import QUANTILE
from tracekit.mixture import Mixture, load_model
from tracekit.mixture.distribution import measure, of_card
from tracekit.prediction.sampling import EDGES, NEW, NEW_SPREAD, walk_epochs
from tracekit.record import Recording, RecordOptions
from tracekit.store.reader import TraceFile

__all__ = [
    "SKETCH",
    "Loaded",
    "Source",
    "Taken",
    "identify",
    "memory_folder",
    "model_of",
    "placed_sketch",
    "predictions",
    "sequence_hash",
    "take",
]

#: Numbers of a sketch.
SKETCH: Final = 128
#: Epochs that are shorter say nothing.
SHORTEST: Final = 1000
U64 = npt.NDArray[np.uint64]


class Taken:
    """What stepping cost, in seconds: ``lost`` by the program, ``copy`` of the copy's processor
    time; ``why`` there is no epoch, None where there is one."""

    def __init__(self, lost: float, copy: float, why: str | None) -> None:
        self.lost, self.copy, self.why = lost, copy, why


def take(
    pid: int, epoch: int, copy_seconds: float, output: Path, *, lowest_priority: bool = True
) -> Taken:
    """One epoch of a process into ``output``, by a copy; the process itself is never stepped.
    ``lowest_priority``: of the copy.

    Raises `RecordError` where the process may not be recorded.
    """
    import time

    options = RecordOptions(
        epoch=epoch,
        count=1,
        random=True,
        duration=5.0,
        wait=0.5,
        copy_seconds=copy_seconds,
        max_overhead=0.5,  # so that copied pages are counted, too
        snapshots_only=True,
        lowest_priority=lowest_priority,
    )
    own = time.thread_time()
    with Recording([], output, options) as recording:
        recording.attach(pid)
        totals = recording.run()
    own = time.thread_time() - own
    lost = totals.paused + totals.page_copies + totals.contended
    copy = max(0.0, totals.processor - own)  # the recorder's own part is in our rusage
    why = None
    if totals.epochs == 0:
        why = next(iter(totals.skipped), totals.end)
    elif totals.instructions < SHORTEST:
        why = "too short"
    return Taken(lost, copy, why)


def identify(trace: TraceFile) -> tuple[str, bytes]:
    """The signature of all of a trace, and its sketch.

    The signature is NeuroScalar's, the SHA-256 of the pcs, with each pc given by its file's
    build-id (else its path) and the offset there, so that it does not depend on where files were
    mapped.  The sketch counts instructions by hashed line of code of 64 bytes: `SKETCH` shares of
    65,535, uint16.  Epochs of one loop have almost the same sketch wherever in it they begin.
    """
    pcs = trace.column("pc", (0, len(trace)))
    places = _placed(trace, pcs)
    return sequence_hash(places), placed_sketch(places)


def sequence_hash(places: U64) -> str:
    """NeuroScalar's signature of pcs, uint64 [instructions]: 64 hexadecimal digits."""
    return hashlib.sha256(np.ascontiguousarray(places, "<u8").tobytes()).hexdigest()


def placed_sketch(places: U64) -> bytes:
    """The sketch of pcs, uint64 [instructions]."""
    lines = (places >> np.uint64(6)) * np.uint64(0x9E3779B97F4A7C15)
    buckets = (lines >> np.uint64(57)).astype(np.int64)
    shares = np.bincount(buckets, minlength=SKETCH) / max(1, len(places))
    return np.rint(65_535 * shares).astype("<u2").tobytes()


def _placed(trace: TraceFile, pcs: U64) -> U64:
    source: Any = trace.index.get("source", {})
    maps = source.get("maps") or {}
    regions = sorted(tuple(m) for own in maps.values() for m in own if m[1] > m[0])
    if not regions:
        return np.asarray(pcs, np.uint64)
    begins = np.array([r[0] for r in regions], np.uint64)
    shifts = []
    for begin, _, offset, path, build_id in regions:
        name = str(build_id or path or "anonymous")
        base = int.from_bytes(
            hashlib.sha256(name.encode("utf-8", "replace")).digest()[:7], "little"
        )
        shifts.append(((base << 6) + offset - begin) % (1 << 64))
    at = np.clip(np.searchsorted(begins, pcs, "right").astype(np.int64) - 1, 0, None)
    return np.asarray(pcs + np.array(shifts, np.uint64)[at], np.uint64)


@dataclass(frozen=True)
class Source:
    """Where a model is: "shipped", the folder of a mixture for X86, or "repository:NAME", which is
    looked up in the ``store`` of ``tracekit models`` ("": the user's) and used until ``days_off``
    days after the repository's word has expired."""

    name: str
    store: str = ""
    days_off: int = 30


@dataclass(frozen=True)
class Loaded:
    """The part of a model that predicts some designs, its name and its version."""

    model: Mixture
    name: str
    version: str


def model_of(source: Source, designs: Sequence[str]) -> Loaded:
    """The part of a model that predicts ``designs``.

    Raises `UsageError` where it does not have a design, and `TracekitError` where it was withdrawn,
    is not what was signed, or is too old.
    """
    if source.name == "shipped":
        model, name, version = load_model(None, "x86"), "default-x86", __version__
    elif source.name.startswith("repository:"):
        from tracekit.repository import ModelStore

        store = ModelStore(Path(source.store) if source.store else None)
        folder, entry = store.model(source.name.partition(":")[2], days_off=source.days_off)
        model, name, version = load_model(folder, "x86"), entry.name, str(entry.version)
    else:
        from tracekit.model import folder_digest, load_card

        folder = Path(source.name)
        model, name = load_model(folder, "x86"), load_card(folder).name
        version = folder_digest(folder)[:16]
    if model.arch not in ("x86", "") or model.level != "macro":
        raise UsageError("is no model of X86 instructions", path=source.name)
    return Loaded(model.only(list(designs)), name, version)


def predictions(loaded: Loaded, trace: TraceFile) -> list[Prediction]:
    """A trace of one epoch on each design.

    The walk is that of ``tracekit predict`` (docs/sampling.md); ``half`` holds what is not known of
    the caches before the epoch, its edges, and the model's mean error on unseen programs where its
    card tells it.
    """
    model = loaded.model
    sums = walk_epochs(model, trace, [(0, len(trace))], threads=1)
    warm, unwarmed = model.cycles(sums.warm)[0], model.cycles(sums.unwarmed)[0]
    cycles = np.maximum(warm + NEW * unwarmed, 1e-3)
    error = _card_error(model)
    spread = np.sqrt(
        (NEW_SPREAD / 2 * unwarmed) ** 2 + (EDGES / 2 * cycles) ** 2 + (error * cycles) ** 2
    )
    distance = _distance(model, trace)
    out = []
    for k, machine in enumerate(model.machines):
        clock = machine.get("clock_ghz")
        if not isinstance(clock, int | float) or clock <= 0:
            raise UsageError(f"the clock of {machine['name']} is not known", path=loaded.name)
        half = QUANTILE[0.90] * float(spread[k])
        out.append(
            Prediction(
                str(machine["name"]),
                loaded.name,
                loaded.version,
                float(cycles[k]),
                half,
                float(clock),
                distance,
            )
        )
    return out


def _card_error(model: Mixture) -> float:
    """The standard deviation of a program's relative error: 1.25 of its mean, as of a normal."""
    found: Any = model.training.get("evaluation")
    found = found.get("unseen_programs_seen_machines") if isinstance(found, dict) else None
    mean = found.get("mean") if isinstance(found, dict) else None
    return 1.25 * float(mean) if isinstance(mean, int | float) and 0 <= mean < 10 else 0.0


def _distance(model: Mixture, trace: TraceFile) -> float | None:
    """The largest share of the instructions that the training had nothing of, by any feature."""
    seen = of_card(model.training)
    if seen is None:
        return None
    return float(max(measure(trace, [(0, len(trace))]).outside(seen).values()))


def memory_folder() -> Path:
    """A folder of this user whose files are in memory alone; `TracekitError` where there is
    none."""
    mounts: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        mounts[left.split()[4]] = right.split()[0]
    for name in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{os.geteuid()}", "/dev/shm"):
        if not name or not Path(name).is_dir() or not os.access(name, os.W_OK | os.X_OK):
            continue
        place = Path(name).resolve()
        own = next((str(p) for p in (place, *place.parents) if str(p) in mounts), "/")
        if mounts.get(own) in ("tmpfs", "ramfs"):
            return place
    raise TracekitError(
        "there is no folder in memory (XDG_RUNTIME_DIR, /dev/shm): traces would be on disk"
    )
