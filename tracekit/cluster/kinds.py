"""The kinds of task: a function each, from a task, its options and how many threads it may use to
what it found.

Cores are independent of each other, so that a long trace is walked in pieces of some cores each,
with the same numbers.  The state of an extraction goes through the whole of a trace: a trace is
one task.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from tracekit.cluster.task import Task
from tracekit.io.files import size_of
from tracekit.io.remote import public_name, remote_url
from tracekit.opening import open_trace
from tracekit.sim import SamplePlan, SimulationResult
from tracekit.store.reader import TraceFile

__all__ = ["KINDS"]

Options = Mapping[str, Any]
Value = dict[str, Any]


def extract_trace(task: Task, options: Options, threads: int | None) -> Value:
    """An input to its output; what was written is described as a summary has it."""
    from tracekit.extraction import Extraction
    from tracekit.extraction_types import Options as ExtractionOptions

    binary = task.inputs[1] if len(task.inputs) > 1 else None
    overlap = None if threads is None or threads > 1 else False
    settings = {**options, "overlap": overlap, "force": True, "binary": binary}
    extraction = Extraction(
        task.inputs[0], task.outputs[0], ExtractionOptions(**settings, statistics=True)
    )
    result = extraction.run()
    out: Value = {
        "rows": result.rows,
        "result": result.to_dict(),
        "summary": extraction.described,
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
    from tracekit.sim import simulate_samples

    given = options["machines"]
    machines = None if given is None else [machine_of_dict(m) for m in given]
    plan = _plan(options)
    with open_trace(task.inputs[0]) as trace:
        if plan is not None:
            return _simulated_samples(simulate_samples(trace, machines, plan, threads=threads))
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


def _plan(options: Options) -> SamplePlan | None:
    given = options.get("samples")
    return None if given is None else SamplePlan(**given)


def _simulated_samples(r: SimulationResult) -> Value:
    assert r.sampled is not None
    return {
        "path": r.path,
        "rows": r.rows,
        "instructions": r.instructions,
        "machines": [m.to_dict() for m in r.machines],
        "cycles": r.cycles,
        "half": r.sampled.half,
        "ranges": [list(a) for a in r.sampled.samples],
    }


def core_totals(task: Task, options: Options, threads: int | None) -> Value:
    """Cycles of simulated cores over ranges of rows: float64 [ranges, cores]."""
    from tracekit.sim import totals

    with open_trace(task.inputs[0], level=options.get("level")) as trace:
        x = totals(trace, options["cores"], options.get("breaks"), threads)
        return {"rows": len(trace), "x": x}


@functools.lru_cache(2)
def _model(folder: str | None, arch: str, level: str, files: tuple[str, ...]) -> Any:
    from tracekit.calibration.machine_rows import add_machines
    from tracekit.mixture.model import load_model

    model = load_model(folder, arch, level)
    return add_machines(model, list(files)) if files else model


def _model_of(options: Options, trace: TraceFile) -> Any:
    return _model(options["model"], trace.arch, trace.level, tuple(options["machine_files"]))


def predict_trace(task: Task, options: Options, threads: int | None) -> Value:
    """A trace's time on every machine of a model."""
    from tracekit.prediction.trace_times import predict

    with open_trace(task.inputs[0]) as trace:
        r = predict(
            trace,
            _model_of(options, trace),
            machines=options["machines"],
            by=options["by"],
            phases=options["phases"],
            binary=options["binary"],
            own_machine=options["own_machine"],
            samples=_plan(options),
            threads=threads,
        )
    intervals = r.intervals
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
        "intervals": None if intervals is None else asdict(intervals),
    }


def predict_groups(task: Task, options: Options, threads: int | None) -> Value:
    """A piece of a long trace's prediction: some of the model's cores."""
    from tracekit.prediction.trace_times import group_totals, model_for

    with open_trace(task.inputs[0]) as trace:
        model = _model_of(options, trace)
        model = model_for(trace, model, options["machines"], options["own_machine"])
        cores = model.cores[slice(*options["cores"])]
        how = (options["by"], options["phases"], options["binary"])
        sums, counts = group_totals(trace, cores, *how, threads)
        return {"rows": len(trace), "sums": sums, "counts": counts}


def predict_samples(task: Task, options: Options, threads: int | None) -> Value:
    """A piece of a prediction from samples: some of the model's cores."""
    from tracekit.prediction.trace_times import model_for, sample_totals

    plan = _plan(options)
    assert plan is not None
    with open_trace(task.inputs[0]) as trace:
        model = _model_of(options, trace)
        model = model_for(trace, model, options["machines"], options["own_machine"])
        cores = model.cores[slice(*options["cores"])]
        sums, samples = sample_totals(trace, cores, plan, threads)
        return {"rows": len(trace), "sums": sums, "samples": asdict(samples)}


def join_targets(task: Task, options: Options, threads: int | None) -> Value:
    """Targets beside one copy of the features; the inputs are the features, then the targets'
    files, then the micro-ops' features where there are some."""
    from tracekit.dataset.joining import JoinPart, join
    from tracekit.store.targets import Blocks

    found = options.get("parts", ())
    parts = [JoinPart(**{**p, "blocks": Blocks(**p["blocks"])}) for p in found]
    micro = task.inputs[1 + len(options["targets"])] if options["micro"] else None
    report = join(
        task.inputs[0],
        _targets(task, options),
        task.outputs[0],
        strict=options["strict"],
        force=True,
        micro=micro,
        base=options.get("base"),
        parts=parts,
    )
    return {
        "rows": report["rows"],
        "report": report,
        "written": {public_name(task.outputs[0]): size_of(task.outputs[0])},
    }


def _targets(task: Task, options: Options) -> list[str]:
    return [f"{n}={p}" for n, p in zip(options["targets"], task.inputs[1:], strict=False)]


def join_chunks(task: Task, options: Options, threads: int | None) -> Value:
    """A piece of a long join: some of the features' chunks, to a file of their own."""
    from tracekit.dataset.joining import join_part

    first, end = options["chunks"]
    part = join_part(task.inputs[0], _targets(task, options), (first, end), task.outputs[0])
    return {"part": asdict(part), "content": []}  # no record of it is kept


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


def _gem5_options(options: Options) -> Any:
    from tracekit.factory import RunOptions

    names = ("arguments", "skip", "warm", "instructions")
    return RunOptions(**{k: options[k] for k in names})


def functional_gem5(task: Task, options: Options, threads: int | None) -> Value:
    """A program's window on gem5's atomic CPU; the inputs are gem5, the program, its input where it
    has one, and its files."""
    from tracekit.factory import functional_run

    gem5, binary, *rest = task.inputs
    stdin = rest.pop(0) if options["stdin"] else None
    told = functional_run(gem5, binary, rest, stdin, _gem5_options(options), task.outputs[0])
    return {**told, "written": {task.outputs[0]: size_of(task.outputs[0])}}


def timed_gem5(task: Task, options: Options, threads: int | None) -> Value:
    """The same window on a machine; the features come before the inputs of `functional_gem5`."""
    from tracekit.factory import timed_run

    features, gem5, binary, *rest = task.inputs
    stdin = rest.pop(0) if options["stdin"] else None
    told = timed_run(
        gem5,
        options["machine"],
        features,
        binary,
        rest,
        stdin,
        _gem5_options(options),
        task.outputs[0],
    )
    return {**told, "written": {task.outputs[0]: size_of(task.outputs[0])}}


def evaluated_program(task: Task, options: Options, threads: int | None) -> Value:
    """Cycles of a program by a trained model, and the true ones."""
    from tracekit.evaluation.several_workers import evaluate_program

    found, true, rows = evaluate_program(task.inputs[0], options, threads)
    return {"rows": rows, "found": found, "true": true}


def network_sums(task: Task, options: Options, threads: int | None) -> Value:
    """A piece of a long program by a network: a range of its rows."""
    from tracekit.evaluation import several_workers

    low, high = options["rows"]
    x = several_workers.network_sums(task.inputs[0], options, threads)
    return {"rows": high - low, "sums": x}


def true_sums(task: Task, options: Options, threads: int | None) -> Value:
    """True cycles of a piece of a long program: some of its blocks."""
    from tracekit.evaluation import several_workers

    return {"sums": several_workers.true_sums(task.inputs[0], options)}


@functools.lru_cache(2)
def _cycle_model(folder: str, content: str, device: str, threads: int | None) -> Any:
    from tracekit.neuroscalar import CycleModel

    return CycleModel(folder, device=device, threads=threads)


def instruction_sums(task: Task, options: Options, threads: int | None) -> Value:
    """Expected cycles of a trace's rows, or of a range of them, by a model of instructions."""
    from tracekit.neuroscalar.trace_totals import piece_sums

    model = _cycle_model(options["model"], options["digest"], options["device"], threads)
    low, high = options["rows"]
    with open_trace(task.inputs[0]) as trace:
        sums, count = piece_sums(model, trace, (low, high))
        engine = {"isa": model.engine.isa, "dtype": model.engine.dtype}
        return {"rows": high - low, "instructions": count, "sums": sums, **engine}


def program_information(task: Task, options: Options, threads: int | None) -> Value:
    """What a program's first rows tell about cores."""
    from tracekit.calibration import core_information

    with open_trace(task.inputs[0]) as trace:
        own = core_information(trace, options["cores"], seed=options["seed"], threads=threads)
    return asdict(own)


KINDS: dict[str, Callable[[Task, Options, int | None], Value]] = {
    "extract": extract_trace,
    "simulate": simulate_trace,
    "core_totals": core_totals,
    "predict": predict_trace,
    "predict_groups": predict_groups,
    "predict_samples": predict_samples,
    "join": join_targets,
    "join_chunks": join_chunks,
    "program_sums": program_sums,
    "program_aggregates": program_aggregates,
    "class_totals": class_totals,
    "functional_gem5": functional_gem5,
    "timed_gem5": timed_gem5,
    "evaluated_program": evaluated_program,
    "network_sums": network_sums,
    "true_sums": true_sums,
    "program_information": program_information,
    "instruction_sums": instruction_sums,
}
