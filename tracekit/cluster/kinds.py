"""The kinds of task: a function each, from a task, its options and how many threads it may use to
what it found.

Cores are independent of each other, so that a long trace is walked in pieces of some cores each,
with the same numbers.  The state of an extraction goes through the whole of a trace: a trace is
one task.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracekit.cluster.statistics import statistics_of
from tracekit.cluster.task import Task
from tracekit.io.remote import public_name, remote_url
from tracekit.opening import open_trace

__all__ = ["KINDS"]

Options = Mapping[str, Any]
Value = dict[str, Any]


def extract_trace(task: Task, options: Options, threads: int | None) -> Value:
    """An input to its output; what was written is described as a summary has it."""
    from tracekit.extraction import extract

    binary = task.inputs[1] if len(task.inputs) > 1 else None
    overlap = None if threads is None or threads > 1 else False
    settings = {**options, "overlap": overlap, "force": True, "binary": binary}
    result = extract(task.inputs[0], task.outputs[0], **settings)
    given = task.outputs[0]
    told = []
    for o in result.outputs:
        place = o.path
        if remote_url(given) is not None:  # under the name that opens it
            place = given.rpartition("/")[0] + "/" + o.path.rpartition("/")[2]
        told.append(statistics_of(place))
    out: Value = {
        "rows": result.rows,
        "result": result.to_dict(),
        "summary": told,
        "written": {public_name(o.path): o.bytes for o in result.outputs},
    }
    whole = result.input.get("files") is None and options.get("count") is None
    if whole and binary is None and remote_url(task.inputs[0]) is None:
        out["content"] = [f"xxh3_128:{result.input['xxh3_128']}"]
    return out


def simulate_trace(task: Task, options: Options, threads: int | None) -> Value:
    """A trace on machines, or on some of them."""
    from tracekit.hardware.machine import machine_of_dict
    from tracekit.hardware.simulation import simulate

    given = options["machines"]
    machines = None if given is None else [machine_of_dict(m) for m in given]
    with open_trace(task.inputs[0]) as trace:
        r = simulate(
            trace,
            machines,
            ranges=options["ranges"],
            causes=options["causes"],
            threads=threads,
        )
    return {
        "path": r.path,
        "rows": r.rows,
        "instructions": r.instructions,
        "machines": [m.to_dict() for m in r.machines],
        "cycles": r.cycles,
        "breaks": r.breaks,
        "cycles_by_range": r.cycles_by_range,
        "causes": r.causes,
    }


def core_totals(task: Task, options: Options, threads: int | None) -> Value:
    """Cycles of simulated cores over ranges of rows: float64 [ranges, cores]."""
    from tracekit.sim import totals

    with open_trace(task.inputs[0], level=options.get("level")) as trace:
        x = totals(trace, options["cores"], options.get("breaks"), threads)
        return {"rows": len(trace), "x": x}


@functools.lru_cache(2)
def _model(folder: str | None, arch: str, files: tuple[str, ...]) -> Any:
    from tracekit.calibration.machine_rows import add_machines
    from tracekit.mixture.model import load_model

    model = load_model(folder, arch)
    return add_machines(model, list(files)) if files else model


def _model_of(options: Options, arch: str) -> Any:
    return _model(options["model"], arch, tuple(options["machine_files"]))


def predict_trace(task: Task, options: Options, threads: int | None) -> Value:
    """A trace's time on every machine of a model."""
    from tracekit.prediction.trace_times import predict

    with open_trace(task.inputs[0]) as trace:
        r = predict(
            trace,
            _model_of(options, trace.arch),
            machines=options["machines"],
            by=options["by"],
            phases=options["phases"],
            binary=options["binary"],
            own_machine=options["own_machine"],
            threads=threads,
        )
    return {
        "path": r.path,
        "rows": r.rows,
        "instructions": r.instructions,
        "machines": list(r.machines),
        "summaries": list(r.summaries),
        "cycles": r.cycles,
        "seconds": r.seconds,
        "representation": r.representation,
        "columns": list(r.columns),
        "by": r.by,
        "parts": [[p.name, p.rows, p.cycles] for p in r.parts],
    }


def predict_groups(task: Task, options: Options, threads: int | None) -> Value:
    """A piece of a long trace's prediction: some of the model's cores."""
    from tracekit.prediction.trace_times import group_totals, model_for

    with open_trace(task.inputs[0]) as trace:
        model = _model_of(options, trace.arch)
        model = model_for(trace, model, options["machines"], options["own_machine"])
        cores = model.cores[slice(*options["cores"])]
        how = (options["by"], options["phases"], options["binary"])
        sums, counts = group_totals(trace, cores, *how, threads)
        return {"rows": len(trace), "sums": sums, "counts": counts}


def join_targets(task: Task, options: Options, threads: int | None) -> Value:
    """Targets beside one copy of the features; the inputs are the features, then the targets'
    files, then the micro-ops' features where there are some."""
    from tracekit.dataset.joining import join

    names = options["targets"]
    targets = [f"{n}={p}" for n, p in zip(names, task.inputs[1:], strict=False)]
    micro = task.inputs[1 + len(names)] if options["micro"] else None
    report = join(
        task.inputs[0],
        targets,
        task.outputs[0],
        strict=options["strict"],
        force=True,
        micro=micro,
    )
    from tracekit.io.files import size_of

    return {
        "rows": report["rows"],
        "report": report,
        "written": {public_name(task.outputs[0]): size_of(task.outputs[0])},
    }


def program_sums(task: Task, options: Options, threads: int | None) -> Value:
    """What training and evaluation read of a program: sums over its segments."""
    from pathlib import Path

    from tracekit.dataset import Program
    from tracekit.mixture.program_sums import walk_program

    program = Program(options["name"], options["family"], Path(task.inputs[0]))
    s = walk_program(program, options["cores"], options["machines"], threads, options["limit"])
    return {"rows": s.rows, "x": s.x, "y": s.y}


def program_aggregates(task: Task, options: Options, threads: int | None) -> Value:
    """What the baselines of an evaluation read of a program."""
    from pathlib import Path

    from tracekit.evaluation.baselines import aggregates

    return {"x": aggregates(Path(task.inputs[0]), threads, options["limit"])}


@functools.lru_cache(8)
def _classed(path: str, level: Any, labelled: int, rows: int, window: int) -> Any:
    """The first rows of a trace in their classes, decoded once for many questions."""
    from tracekit.calibration.row_classes import CLASSES, class_labels
    from tracekit.sim import ClassedRows

    with open_trace(path, level=level) as trace:
        return ClassedRows(trace, class_labels(trace, labelled)[:, :rows], CLASSES, window)


def class_totals(task: Task, options: Options, threads: int | None) -> Value:
    """Cycles of cores by windows and classes of a trace's first rows."""
    how = (options[k] for k in ("level", "labelled", "rows", "window"))
    kept = _classed(task.inputs[0], *how)
    windows, classes = kept.totals(options["cores"], threads)
    return {"windows": np.asarray(windows), "classes": np.asarray(classes)}


KINDS: dict[str, Callable[[Task, Options, int | None], Value]] = {
    "extract": extract_trace,
    "simulate": simulate_trace,
    "core_totals": core_totals,
    "predict": predict_trace,
    "predict_groups": predict_groups,
    "join": join_targets,
    "program_sums": program_sums,
    "program_aggregates": program_aggregates,
    "class_totals": class_totals,
}
