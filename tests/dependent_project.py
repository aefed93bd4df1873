"""A small project that depends on tracekit, as a user with mypy --strict writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import tracekit


def sizes(base: tracekit.Machine) -> list[tracekit.Machine]:
    return [base.replace(name=f"rob{n}", rob=n) for n in (32, 64, 128)]


def lines(trace: tracekit.TraceFile) -> npt.NDArray[np.uint64]:
    return trace["addr"][trace["is_mem"]] >> np.uint64(6)


def misses(trace: tracekit.TraceFile) -> float:
    curve = tracekit.miss_ratio_curve(tracekit.stack_distance(lines(trace)), sizes=[512])
    return float(curve.ratios[0])


def report(path: Path) -> dict[str, float]:
    with tracekit.open(path) as trace:
        model: tracekit.Mixture = tracekit.load_model(arch=trace.arch)
        found: tracekit.PredictionResult = tracekit.predict(trace, model)
        result = tracekit.simulate(trace, sizes(tracekit.machines()["u007"]), ranges=4)
        out = {m.name: float(c) for m, c in zip(result.machines, result.cycles, strict=True)}
        out["misses"] = misses(trace)
        out["cpi"] = float(trace.targets("cycles").mean())
        out["predicted"] = float(found.cycles[found.machines.index("u007")])
        x, y = next(trace.windows("perfvec", 16, target="cycles"))
        out["window"] = float(x.sum() + y.sum())
    return out
