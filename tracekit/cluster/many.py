"""What commands do with many traces, as tasks of a run: each trace by itself, a long one in pieces
of the cores that it is walked with."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.cluster.run import Run, values
from tracekit.cluster.task import Outcome, Task
from tracekit.errors import TracekitError
from tracekit.extraction_types import ExtractedFile, ExtractionResult
from tracekit.hardware.digest import hardware_digest
from tracekit.hardware.machine import HardwareMachine, machine_of_dict
from tracekit.io.remote import public_name
from tracekit.mixture.model import Mixture
from tracekit.opening import open_trace
from tracekit.prediction.intervals import Intervals
from tracekit.prediction.trace_times import (
    PredictedPart,
    PredictionResult,
    check_parts,
    model_for,
    predict_from,
    predict_from_samples,
)
from tracekit.sim import Samples, SimulatedMachine, SimulationResult
from tracekit.sim.digest import cores_digest
from tracekit.sim.sample_plan import SampledCycles, SamplePlan
from tracekit.sim.samples import APPROACH, WARM
from tracekit.sim.spread import pieces
from tracekit.store.reader import TraceFile

__all__ = ["extract_many", "extraction_of", "predict_many", "simulate_many"]


def _name(path: str) -> str:
    return Path(public_name(path)).name


def extract_many(
    run: Run,
    inputs: Sequence[str],
    outputs: Sequence[str],
    options: Mapping[str, Any],
    *,
    force: bool = False,
) -> list[Outcome]:
    """`tracekit.extract` of each input to its output.  ``options``: those of `extract` but
    ``overlap`` and ``quiet``; a binary is one more input.  ``force``: outputs that no earlier run
    of the same made may be replaced, too."""
    binary = options.get("binary")
    more = (binary,) if binary else ()
    common = {k: v for k, v in options.items() if k not in ("binary", "force", "overlap", "quiet")}
    tasks = [Task(_name(p), (p, *more), outputs=(o,)) for p, o in zip(inputs, outputs, strict=True)]
    return run.map("extract", tasks, common, force=force)


def extraction_of(outcome: Outcome) -> ExtractionResult:
    """What `tracekit.extract` gave."""
    found = outcome.value["result"]
    outputs = [ExtractedFile(**o) for o in found["outputs"]]
    return ExtractionResult(outputs, found["anomalies"], found["stats"], found["input"])


def _rows(path: str) -> int:
    with open_trace(path) as trace:
        return len(trace)


def _walked(rows: int, samples: SamplePlan | None) -> int:
    """About how many rows each machine walks, those of `samples` and those before each."""
    if samples is None:
        return rows
    return min(rows, rows // samples.apart(rows) * (samples.length + APPROACH + WARM))


def simulate_many(
    run: Run,
    paths: Sequence[str],
    machines: Sequence[SimulatedMachine] | None,
    *,
    ranges: int | None = None,
    causes: bool = False,
    samples: SamplePlan | None = None,
) -> list[SimulationResult | TracekitError]:
    """`tracekit.simulate` of each trace, or why it failed; without ``machines`` each on its own.
    With ``samples`` `simulate_samples` of each."""
    tasks: list[Task] = []
    counts: list[int] = []
    for path in paths:
        many = 1 if machines is None else len(machines)
        try:
            # Samples at places that are drawn anew each time must be drawn once.
            whole = machines is None or (samples is not None and samples.seed is None)
            parts = [(0, many)] if whole else pieces(_walked(_rows(path), samples), many)
        except TracekitError:  # that its task will meet, and the run's records tell
            parts = [(0, many)]
        counts.append(len(parts))
        for a, b in parts:
            some = None if machines is None else [m.to_dict() for m in machines[a:b]]
            label = "" if whole or (samples and len(parts) == 1) else f"machines {a}:{b}"
            tasks.append(Task(_name(path), (path,), {"machines": some}, label=label))
    real = any(isinstance(m, HardwareMachine) for m in machines or ())
    digest = hardware_digest() if real else cores_digest()
    plan = None if samples is None else asdict(samples)
    common = {"ranges": ranges, "causes": causes, "samples": plan, "cores": digest}
    found = iter(run.map("simulate", tasks, common))
    out: list[SimulationResult | TracekitError] = []
    for n in counts:
        own = list(itertools.islice(found, n))
        try:
            out.append(_simulated(values(own)))
        except TracekitError as e:
            out.append(e)
    return out


def _simulated(own: Sequence[Mapping[str, Any]]) -> SimulationResult:
    first = own[0]
    if "half" in first:
        return _of_samples(own)
    causes = None if first["causes"] is None else np.vstack([v["causes"] for v in own])
    return SimulationResult(
        first["path"],
        first["rows"],
        first["instructions"],
        tuple(machine_of_dict(m) for v in own for m in v["machines"]),
        np.concatenate([v["cycles"] for v in own]),
        first["breaks"],
        np.hstack([v["cycles_by_range"] for v in own]),
        None,
        causes,
    )


def _of_samples(own: Sequence[Mapping[str, Any]]) -> SimulationResult:
    v, ranges = own[0], [(a, b) for a, b in own[0]["ranges"]]
    cycles, half = (np.concatenate([part[k] for part in own]) for k in ("cycles", "half"))
    return SimulationResult(
        v["path"],
        v["rows"],
        v["instructions"],
        tuple(machine_of_dict(m) for part in own for m in part["machines"]),
        cycles,
        np.array([0, v["rows"]], np.int64),
        cycles[None],
        sampled=SampledCycles(cycles, half, ranges, v["rows"]),
    )


def predict_many(
    run: Run, paths: Sequence[str], model: Mixture, options: Mapping[str, Any]
) -> list[PredictionResult | TracekitError]:
    """`tracekit.predict` of each trace, or why it failed. ``options``: ``model`` (its folder, or
    None), ``machine_files``, ``machines``, ``by``, ``phases``, ``binary``, ``own_machine`` and
    ``samples`` (a `SamplePlan` as a dictionary, or None); they describe ``model``."""
    more = [options["model"], *options["machine_files"], options["binary"]]
    files = tuple(str(p) for p in more if p is not None)
    given = options.get("samples")
    plan = None if given is None else SamplePlan(**given)
    check_parts(options["by"], plan)
    whole: list[Task] = []
    parts: list[Task] = []
    edges = []
    for path in paths:
        try:
            own = _pieces_of(path, model, options, plan)
        except TracekitError:  # that its task will meet, and the run's records tell
            own = [(0, 1)]
        edges.append(own)
        if len(own) == 1:
            whole.append(Task(_name(path), (path, *files)))
        else:
            parts += [
                Task(_name(path), (path, *files), {"cores": [a, b]}, label=f"cores {a}:{b}")
                for a, b in own
            ]
    common = {**options, "digest": cores_digest()}
    kind = "predict_groups" if plan is None else "predict_samples"
    both = [run.map(k, t, common) if t else [] for k, t in (("predict", whole), (kind, parts))]
    done, found = map(iter, both)
    out: list[PredictionResult | TracekitError] = []
    for path, own in zip(paths, edges, strict=True):
        outcomes = list(itertools.islice(done if len(own) == 1 else found, len(own)))
        try:
            if len(own) == 1:
                out.append(_predicted(values(outcomes)[0]))
                continue
            walked = values(outcomes)
            with open_trace(path) as trace:
                used = model_for(trace, model, options["machines"], options["own_machine"])
                out.append(_predicted_from(trace, used, options, walked))
        except TracekitError as e:
            out.append(e)
    return out


def _pieces_of(
    path: str, model: Mixture, options: Mapping[str, Any], plan: SamplePlan | None
) -> list[tuple[int, int]]:
    """The model's cores that a task each walks a trace with; one piece is the whole.
    `TracekitError` where the trace cannot be opened, or is not the model's."""
    with open_trace(path) as trace:
        used = model_for(trace, model, options["machines"], options["own_machine"])
        own = pieces(_walked(len(trace), plan), len(used.cores))
        # Micro-ops that are joined first, and places that are drawn anew each time: by one worker.
        alone = model.level != trace.level or (plan is not None and plan.seed is None)
        return own[:1] if alone else own


def _predicted_from(
    trace: TraceFile,
    model: Mixture,
    options: Mapping[str, Any],
    walked: Sequence[Mapping[str, Any]],
) -> PredictionResult:
    """From what the pieces of a trace gave, in the order of the model's cores."""
    sums = np.hstack([v["sums"] for v in walked])
    if (given := walked[0].get("samples")) is None:
        how = (options["by"], options["phases"], options["binary"])
        return predict_from(trace, model, *how, (sums, walked[0]["counts"]))
    lists = {k: tuple(given[k]) for k in ("stratum", "sizes", "expected", "spreads")}
    samples = Samples(**{**given, **lists, "ranges": [(a, b) for a, b in given["ranges"]]})
    return predict_from_samples(trace, model, sums, samples)


def _predicted(v: Mapping[str, Any]) -> PredictionResult:
    i = v["intervals"]
    return PredictionResult(
        v["path"],
        v["rows"],
        v["instructions"],
        tuple(v["machines"]),
        tuple(v["summaries"]),
        v["cycles"],
        v["seconds"],
        v["representation"],
        tuple(v["columns"]),
        v["by"],
        tuple(PredictedPart(name, rows, cycles) for name, rows, cycles in v["parts"]),
        None if i is None else Intervals(**{**i, "warnings": tuple(i["warnings"])}),
    )
