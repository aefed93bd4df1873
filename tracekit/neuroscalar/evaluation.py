"""How well a model predicts single instructions that training did not see, beside answers that need
no model; and, with several machines, how well it tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset import Manifest, Program
from tracekit.errors import UsageError
from tracekit.evaluation.ranks import kendall
from tracekit.neuroscalar import ab, instructions
from tracekit.neuroscalar.intervals import residuals_of
from tracekit.neuroscalar.metrics import Scores, group_medians, mean_scores, score
from tracekit.neuroscalar.model import CYCLES, MEAN, CycleModel
from tracekit.neuroscalar.program_rows import (
    HELD,
    VALIDATION,
    Rows,
    block_of,
    part_of,
    read_default,
    read_paper,
)
from tracekit.sim.parameters import suggestion

__all__ = ["SPLITS", "Case", "evaluate"]

#: ``blocks``: held-out blocks of the programs that were trained on (seen); ``families``: the
#: programs of the manifest's test, whole (unseen); ``validation``: the blocks that stop a training
#: early, for choices that must not look at the others.
SPLITS = ("blocks", "families", "validation")
Array = npt.NDArray[Any]
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Case:
    """Rows of one program that are evaluated: predictions and truth, [rows, machines]."""

    program: Program
    cycles: Array
    mean: Array
    truth: Array
    op: npt.NDArray[np.int64]
    inst: npt.NDArray[np.uint64]
    core: Array | None = None


def evaluate(
    models: Sequence[CycleModel],
    manifest: Manifest,
    split: str,
    cache: Path,
    *,
    sample: int = 1,
    without: Sequence[tuple[str, str]] = (),
    report: Report = lambda _: None,
) -> dict[str, Any]:
    """Scores of each model's machines and of the baselines, by program and over all; with more than
    one machine in all, ``ab`` compares them, ``ab_of_cores`` by their simulated cores alone.

    ``sample``: of whole programs only every so manieth block of 5000 rows.  ``intervals``: of
    unseen families, how often intervals of a program's total hold that come from the other
    families, and how wide they are.
    """
    machines = [m for model in models for m in model.machines]
    _check(split, sample, machines)
    _check_pairs(machines, without)
    unseen = split == "families"
    wanted = [p for p in manifest.programs if (p.family in manifest.test) == unseen]
    if not wanted:
        raise UsageError(f"no programs for the split {split}", path=str(manifest.path))
    train = [p for p in manifest.programs if p.family not in manifest.test]
    bases = _Baselines(machines)
    for p in train:
        bases.learn(p, *_known(models, manifest, p, cache, split))
    per_program: dict[str, Any] = {}
    scores: dict[str, dict[str, list[Scores]]] = {m: {} for m in machines}
    pooled: dict[str, dict[str, list[Array]]] = {m: {} for m in machines}
    counts: list[ab.Counts] = []
    of_cores: list[ab.Counts] = []
    for number, p in enumerate(wanted):
        case = _case(models, manifest, p, cache, split, sample)
        entry: dict[str, Any] = {"family": p.family, "rows": len(case.truth), "machines": {}}
        for j, m in enumerate(machines):
            truth = case.truth[:, j]
            answers = {"model": (case.cycles[:, j], case.mean[:, j])}
            answers |= bases.answers(p, j, case.op, case.inst, seen=not unseen)
            if case.core is not None:
                answers["simulated core"] = (case.core[:, j], case.core[:, j])
            own = {}
            for name, (found, expected) in answers.items():
                s = score(found, truth, expected)
                own[name] = s.as_dict()
                scores[m].setdefault(name, []).append(s)
                pooled[m].setdefault(name, []).append(_sums(found, truth))
            entry["machines"][m] = own
        if len(machines) > 1:
            c = ab.count(machines, case.cycles, case.mean, case.truth)
            counts.append(c)
            entry["ab"] = ab.report(c, without)
            if case.core is not None:
                of_cores.append(ab.count(machines, case.core, case.core, case.truth))
        per_program[p.name] = entry
        report({"event": "program", "name": p.name, "done": number + 1, "of": len(wanted)})
    out: dict[str, Any] = {
        "split": split,
        "seen": not unseen,
        "sample": sample,
        "models": [str(m.folder) for m in models],
        "machines": {
            m: {
                name: {"mean_of_programs": mean_scores(s), "pooled": _pool(pooled[m][name])}
                for name, s in scores[m].items()
            }
            for m in machines
        },
        "programs": per_program,
    }
    if counts:
        out["ab"] = _comparison(counts, without)
    if of_cores:
        out["ab_of_cores"] = _comparison(of_cores, without)
    residuals = residuals_of(out)
    out["intervals"] = None if residuals is None else residuals.coverage()
    return out


def _check(split: str, sample: int, machines: Sequence[str]) -> None:
    """Raises UsageError for what `evaluate` cannot do."""
    if split not in SPLITS:
        raise UsageError(f"split {split!r}: one of {', '.join(SPLITS)}")
    if sample < 1:
        raise UsageError(f"sample is {sample}; at least 1")
    if len(set(machines)) != len(machines):
        raise UsageError("two models are of one machine", hint="compare different machines")


def _check_pairs(machines: Sequence[str], pairs: Sequence[tuple[str, str]]) -> None:
    """Raises UsageError where one is no pair of the machines."""
    for a, b in pairs:
        for m in (a, b):
            if m not in machines:
                raise UsageError(f"without {a} and {b}: no machine {m}{suggestion(m, machines)}")
        if a == b:
            raise UsageError(f"without {a} and {b}: a machine and itself are no pair")


def _comparison(counts: Sequence[ab.Counts], without: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Over the rows of all programs, and over programs: machines by total time on each, programs by
    time on each machine."""
    out = ab.report(ab.merge(counts), without)
    out["program_kendall_mean"] = float(np.nanmean([kendall(c.true, c.found) for c in counts]))
    out["program_kendall_by_difference"] = ab.by_difference(counts)
    out["time_kendall"] = {
        m: kendall(
            np.array([c.true[j] / max(c.rows, 1) for c in counts]),
            np.array([c.found[j] / max(c.rows, 1) for c in counts]),
        )
        for j, m in enumerate(counts[0].machines)
    }
    return out


def _sums(found: Array, truth: Array) -> Array:
    """What pooling over programs needs: rows, absolute errors, hits, hits within 1 and 2."""
    t, p = truth.astype(np.float64), found.astype(np.float64)
    off = np.abs(np.rint(p) - t)
    values = [len(t), np.abs(p - t).sum(), (off == 0).sum(), (off <= 1).sum(), (off <= 2).sum()]
    return np.array(values, np.float64)


def _pool(parts: Sequence[Array]) -> dict[str, float]:
    n, error, hit, one, two = np.sum(parts, axis=0)
    n = max(n, 1)
    return {
        "rows": float(n),
        "mae": float(error / n),
        "acc_round": float(hit / n),
        "within_1": float(one / n),
        "within_2": float(two / n),
    }


def _rows(model: CycleModel, manifest: Manifest, p: Program, cache: Path) -> Rows:
    if model.card.feature_set != instructions.FEATURE_SET:
        return read_paper([p], model.machines[0], cache)[0]
    held = frozenset({HELD} if manifest.validation else {HELD, VALIDATION})
    return read_default(
        [p], model.card.extra["simulated_cores"], cache, held=held, threads=model.threads
    )[0]


def _identity(model: CycleModel, rows: Rows, at: Array) -> tuple[Array, Array]:
    """Op class and static instruction of some rows, as whatever numbers."""
    x = np.asarray(rows.columns[at])
    op = x[:, model.card.columns.index("op")].astype(np.int64)
    if rows.keys:
        return op, np.asarray(rows.keys[0])[at]
    parts = x[:, [model.card.columns.index(f"pc{k}") for k in range(3)]].astype(np.uint64)
    pc = parts[:, 0] | parts[:, 1] << np.uint64(22) | parts[:, 2] << np.uint64(44)
    return op, pc


def _known(
    models: Sequence[CycleModel], manifest: Manifest, p: Program, cache: Path, split: str
) -> tuple[Array, Array, Array]:
    """Op class, static instruction and cycles [rows, machines] of a program's training rows."""
    every = [_rows(m, manifest, p, cache) for m in models]
    hidden = (HELD, VALIDATION) if split == "validation" else (HELD,)
    at = np.flatnonzero(~np.isin(part_of(len(every[0])), hidden))
    op, inst = _identity(models[0], every[0], at)
    return op, inst, np.hstack([np.asarray(r.cycles)[at] for r in every])


def _case(
    models: Sequence[CycleModel],
    manifest: Manifest,
    p: Program,
    cache: Path,
    split: str,
    sample: int,
) -> Case:
    """Predictions of the blocks that count, each run over the rows before it first."""
    cycles, mean, truth, cores = [], [], [], []
    identity: tuple[Array, Array] | None = None
    for model in models:
        rows = _rows(model, manifest, p, cache)
        tenth, block = part_of(len(rows)), block_of(len(rows))
        use = tenth == (HELD if split == "blocks" else VALIDATION)
        if split == "families":
            use = block % sample == 0
        ahead = int(model.engine.lookahead)
        found = list(model.feed(_pieces(model, rows, use, ahead)))
        kept = np.concatenate([k for _, k in _spans(use, ahead)])
        cycles.append(np.concatenate([f[CYCLES] for f in found])[kept])
        mean.append(np.concatenate([f[MEAN] for f in found])[kept])
        truth.append(np.asarray(rows.cycles)[use])
        if rows.keys:  # columns of simulated cores
            at = [model.card.columns.index(f"{m}.cycles") for m in model.machines]
            cores.append(np.asarray(rows.columns[use])[:, at])
        if identity is None:
            identity = _identity(model, rows, np.flatnonzero(use))
    if identity is None:
        raise UsageError("no models to evaluate")
    op, inst = identity
    core = np.hstack(cores) if len(cores) == len(models) else None
    return Case(p, np.hstack(cycles), np.hstack(mean), np.hstack(truth), op, inst, core)


WARM = 256


def _spans(use: Array, ahead: int) -> Iterator[tuple[slice, npt.NDArray[np.bool_]]]:
    """Ranges of rows to run, with WARM rows before each and ``ahead`` behind; and which of a
    range's rows count."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], use, [False]])))
    for a, b in edges.reshape(-1, 2).tolist():
        low, high = max(0, a - WARM), min(b + ahead, len(use))
        at = np.arange(low, high)
        yield slice(low, high), (at >= a) & (at < b)


def _pieces(model: CycleModel, rows: Rows, use: Array, ahead: int) -> Iterator[Array]:
    for span, _ in _spans(use, ahead):
        values = np.array(rows.columns[span], np.float32)
        if rows.keys:
            values = model.look_up(values, [np.asarray(k)[span] for k in rows.keys])
        yield values


class _Baselines:
    """Answers that need no model: always 0, one constant, a median by op class, one by static
    instruction (of programs that were trained on)."""

    LARGEST = 4096

    def __init__(self, machines: Sequence[str]) -> None:
        self._m = len(machines)
        self._counts = np.zeros((self._m, 256, self.LARGEST + 1), np.int64)
        self._sums = np.zeros((self._m, 256))
        self._tables: dict[str, list[tuple[Array, Array, Array]]] = {}

    def learn(self, p: Program, op: Array, inst: Array, cycles: Array) -> None:
        tables = []
        width = self.LARGEST + 1
        names, codes = np.unique(inst, return_inverse=True)
        rows = np.maximum(np.bincount(codes, minlength=len(names)), 1)
        for j in range(self._m):
            y = cycles[:, j]
            at = op * width + np.minimum(np.rint(y), self.LARGEST).astype(np.int64)
            self._counts[j] += np.bincount(at, minlength=256 * width).reshape(256, width)
            self._sums[j] += np.bincount(op, y, 256)
            _, medians = group_medians(codes, y)
            tables.append((names, medians, np.bincount(codes, y, len(names)) / rows))
        self._tables[p.name] = tables

    def _median(self, counts: Array) -> Array:
        half = (counts.sum(axis=-1, keepdims=True) + 1) // 2
        out: Array = (counts.cumsum(axis=-1) >= np.maximum(half, 1)).argmax(axis=-1)
        return out.astype(np.float64)

    def answers(
        self, p: Program, j: int, op: Array, inst: Array, *, seen: bool
    ) -> dict[str, tuple[Array, Array]]:
        """(prediction, what adds up to the total) of each baseline."""
        counts = self._counts[j]
        rows = np.maximum(counts.sum(axis=1), 1)
        n = len(op)
        mean = self._sums[j].sum() / rows.sum()
        by_op, op_mean = self._median(counts)[op], (self._sums[j] / rows)[op]
        constant = float(self._median(counts.sum(axis=0)))
        out = {
            "always 0": (np.zeros(n), np.zeros(n)),
            "constant": (np.full(n, constant), np.full(n, mean)),
            "op-class table": (by_op, op_mean),
        }
        if seen and p.name in self._tables:
            names, medians, means = self._tables[p.name][j]
            at = np.minimum(np.searchsorted(names, inst), max(len(names) - 1, 0))
            known = names[at] == inst
            out["table by instruction"] = (
                np.where(known, medians[at], by_op),
                np.where(known, means[at], op_mean),
            )
        return out
