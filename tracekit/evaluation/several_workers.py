"""Programs that several workers evaluate: short ones whole, long ones in pieces."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset import Program
from tracekit.evaluation.program_totals import MixtureTotals, NetworkTotals, totals_of
from tracekit.model import folder_digest
from tracekit.sim.spread import PIECE, Question, Spread, spread_totals

__all__ = ["evaluate_program", "evaluated", "evaluated_by", "network_sums", "true_sums"]

F64 = npt.NDArray[np.float64]
Model = NetworkTotals | MixtureTotals
#: Cycles by the model in its unit, float64 [machines], the true ones, [1, machines], and of how
#: many rows.
Evaluated = tuple[F64, F64, int]


def _machines(model: Model) -> list[str]:
    return [str(m.get("name")) for m in model.card.microarchitectures]


def evaluated(model: Model, program: Program, rows: int | None) -> Evaluated:
    """A program, or its first rows only."""
    with program.open() as data:
        n = min(len(data), rows or len(data))
        at = [data.column_of(m) for m in _machines(model)]
        y: F64 = data.sums(np.array([0, n]))[:, at]
        return model.of(data, n), y, n


# ---- what a worker does


@functools.lru_cache(2)
def _kept(folder: str, content: str, threads: int | None) -> Model:
    """``content``: changes where the model does, which is kept for the next program."""
    return totals_of(folder, threads)


def _program(path: str, options: Mapping[str, Any]) -> Program:
    return Program(options["name"], options["family"], Path(path))


def evaluate_program(path: str, options: Mapping[str, Any], threads: int | None) -> Evaluated:
    """`evaluated` of a program's data."""
    model = _kept(options["model"], options["content"], threads)
    return evaluated(model, _program(path, options), options["limit"])


def network_sums(path: str, options: Mapping[str, Any], threads: int | None) -> F64:
    """What a range of a program's rows adds to a network's total."""
    model = _kept(options["model"], options["content"], threads)
    assert isinstance(model, NetworkTotals)
    low, high = options["rows"]
    with _program(path, options).open() as data:
        return model.sums(data, (low, high), options["of"])


def true_sums(path: str, options: Mapping[str, Any]) -> F64:
    """True cycles of some blocks of a program's first rows, by block and machine."""
    first, end = options["blocks"]
    with _program(path, options).open() as data:
        at = [data.column_of(m) for m in options["machines"]]
        return data.block_sums((first, end), options["of"])[:, at]


# ---- who asks them


def evaluated_by(
    spread: Spread,
    folder: str | Path,
    programs: Sequence[Program],
    rows: int | None,
    threads: int | None,
) -> list[Evaluated]:
    """`evaluated` of each program, by whoever ``spread`` asks."""
    model = totals_of(folder, threads)
    options = {"model": str(folder), "content": folder_digest(folder), "limit": rows}
    sizes = []
    for p in programs:
        with p.open() as data:
            sizes.append(min(len(data), rows or len(data)))
    long = [k for k, n in enumerate(sizes) if len(model.pieces(n)) > 1]
    out: dict[int, Evaluated] = {}
    short = [k for k in range(len(programs)) if k not in long]
    if short:
        asked = [_question(programs[k], options) for k in short]
        for k, v in zip(short, spread("evaluated_program", asked), strict=True):
            out[k] = (v["found"], v["true"], v["rows"])
    if long:
        own, of = [programs[k] for k in long], [sizes[k] for k in long]
        by = _by_network if isinstance(model, NetworkTotals) else _by_mixture
        found = by(spread, model, own, of, options)  # type: ignore[arg-type]
        true = _true(spread, _machines(model), own, of)
        out |= {k: (x, y, sizes[k]) for k, x, y in zip(long, found, true, strict=True)}
    return [out[k] for k in range(len(programs))]


def _question(p: Program, options: Mapping[str, Any]) -> Question:
    return str(p.data), {**options, "name": p.name, "family": p.family}


def _by_network(
    spread: Spread,
    model: NetworkTotals,
    programs: Sequence[Program],
    sizes: Sequence[int],
    options: Mapping[str, Any],
) -> list[F64]:
    parts = [model.pieces(n) for n in sizes]
    asked = [
        _question(p, {**options, "rows": list(piece), "of": n})
        for p, n, own in zip(programs, sizes, parts, strict=True)
        for piece in own
    ]
    found = iter(spread("network_sums", asked))
    return [model.total([v["sums"] for v in itertools.islice(found, len(own))]) for own in parts]


def _by_mixture(
    spread: Spread,
    model: MixtureTotals,
    programs: Sequence[Program],
    sizes: Sequence[int],
    options: Mapping[str, Any],
) -> list[F64]:
    with ExitStack() as stack:
        traces = [stack.enter_context(p.open()).trace for p in programs]
        for trace in traces:
            model.check(trace)
        edges = [np.array([0, n], np.int64) for n in sizes]
        found = spread_totals(spread, traces, model.model.cores, edges)
    return [model.total(x) for x in found]


def _true(
    spread: Spread, machines: Sequence[str], programs: Sequence[Program], sizes: Sequence[int]
) -> list[F64]:
    """True cycles of each program, float64 [1, machines]."""
    asked: list[Question] = []
    counts = []
    for p, n in zip(programs, sizes, strict=True):
        with p.open() as data:
            count = min(data.blocks, -(-n * len(data.machines) // PIECE))
            edges = [k * data.blocks // count for k in range(count + 1)]
        counts.append(count)
        more = {"machines": list(machines), "of": n}
        asked += [
            _question(p, {**more, "blocks": list(piece)}) for piece in itertools.pairwise(edges)
        ]
    found = iter(spread("true_sums", asked))
    out = []
    for count in counts:
        total = np.zeros((1, len(machines)))
        for v in itertools.islice(found, count):
            for block in v["sums"]:  # one after another, as `Dataset.sums` adds them
                total[0] += block
        out.append(total)
    return out
