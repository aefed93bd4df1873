"""What every model is shown beside: constant CPI, a table by op class, a simple analytical model,
and boosted trees on the same aggregates where scikit-learn is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.errors import UsageError
from tracekit.mixture.fit import Sums, fit_table, segment_breaks, with_columns
from tracekit.sim import totals
from tracekit.store.reader import TraceFile

__all__ = ["BASELINES", "aggregates", "predict_baseline"]

F64 = npt.NDArray[np.float64]

BASELINES = ("constant CPI", "op-class table", "analytical", "boosted trees")
#: Lines of the caches whose misses the analytical model counts: 8 kB to 16 MB.
CACHE_LINES = tuple(2**k for k in (7, 8, 9, 10, 11, 13, 15, 18))
CODE_LINES = (128, 512)
#: A core that only data dependences and first misses hold: its cycles are the height of the
#: dataflow.
DATAFLOW: dict[str, Any] = {
    **dict.fromkeys(("width", "int_alu", "int_mul", "fp", "simd", "load_ports", "store_ports"), 32),
    "name": "dataflow",
    "issue_width": 64,
    "rob": 1000,
    "iq": 1000,
    "lq": 250,
    "sq": 250,
    "phys_int": 1000,
    "phys_vec": 1000,
    "phys_float": 1000,
    "fetch_buffer": 64,
    "fetch_queue": 256,
    "front_delay": 1,
    "issue_to_exec": 1,
    "int_mul_lat": 3,
    "int_div_lat": 12,
    "fp_add_lat": 3,
    "fp_mul_lat": 4,
    "fp_div_lat": 12,
    "agu_lat": 1,
    "bp": "LTAGE",
    "btb": 8192,
    "clock_ghz": 1.0,
    "mem": "DDR4_2400_8x8",
    "l1i_kb": 4096,
    "l1i_assoc": 16,
    "l1i_lat": 1,
    "l1d_kb": 4096,
    "l1d_assoc": 16,
    "l1d_lat": 2,
    "l1d_mshrs": 256,
    "l1d_pf": "none",
    "l2_kb": 8192,
    "l2_assoc": 16,
    "l2_lat": 1,
    "l2_mshrs": 256,
    "l2_pf": "none",
    "l3_kb": 0,
    "l3_assoc": 16,
    "l3_lat": 1,
}
_OPS = len(schema.OP_CLASSES)
#: How firmly the linear baselines are held: enough for columns that few programs have.
_HELD = 0.01


def aggregates(features: Path, threads: int | None = None, limit: int | None = None) -> F64:
    """Counts by segment: rows of each op class, misses by cache size, entropy of branches, taken
    branches, height of the dataflow: float64 [segments, columns].  ``limit``: first rows only."""
    with TraceFile(features) as trace:
        breaks = segment_breaks(min(len(trace), limit or len(trace)))
        height = totals(trace, [DATAFLOW], breaks, threads)
        parts = []
        for a, b in zip(breaks[:-1].tolist(), breaks[1:].tolist(), strict=True):
            rows = (a, b)
            is_mem = trace.column("is_mem", rows)
            data = trace.column("data_distance", rows)[is_mem]
            fetch = trace.column("fetch_distance", rows)
            local = trace.column("p_local", rows).astype(np.float64)
            branches = trace.statics.has("IsCondControl")[trace.column("static_id", rows)]
            p = np.clip(local[branches], 1e-9, 1 - 1e-9)
            parts.append(
                np.concatenate(
                    [
                        np.bincount(trace.column("op", rows), minlength=_OPS),
                        [(data > n).sum() for n in CACHE_LINES],
                        [(fetch > n).sum() for n in CODE_LINES],
                        [np.minimum(p, 1 - p).sum(), branches.sum()],
                        [trace.column("taken", rows).sum(), is_mem.sum()],
                    ]
                )
            )
        return np.hstack([np.array(parts, np.float64), height])


def _with(programs: Sequence[Sums], x: Sequence[F64]) -> list[Sums]:
    return [replace(p, x=a) for p, a in zip(programs, x, strict=True)]


def _linear(train: Sequence[Sums], test: Sequence[Sums], counts: int) -> F64:
    """Non-negative costs of the columns, held towards the same CPI for every row: the first
    ``counts`` columns count rows, the others cost nothing."""
    cpi = np.mean([p.y.sum(axis=0) / p.rows for p in train], axis=0)
    priors = np.zeros((train[0].y.shape[1], train[0].x.shape[1]))
    priors[:, :counts] = cpi[:, None]
    table = fit_table(train, priors, _HELD)
    return np.stack([p.x.sum(axis=0) @ table.T for p in test])


def predict_baseline(
    name: str, train: Sequence[Sums], test: Sequence[Sums], x: dict[str, F64]
) -> F64 | None:
    """Total cycles, [test programs, machines]; ``x`` has each program's aggregates.  None:
    scikit-learn is needed and not there."""
    if name == "constant CPI":
        cpi = np.mean([p.y.sum(axis=0) / p.rows for p in train], axis=0)
        return np.stack([p.rows * cpi for p in test])
    fit, ask = (_with(ps, [x[p.name] for p in ps]) for ps in (train, test))
    if name == "op-class table":
        ops = range(_OPS)
        return _linear(
            [with_columns(p, ops) for p in fit], [with_columns(p, ops) for p in ask], _OPS
        )
    if name == "analytical":

        def analytical(p: Sums) -> Sums:
            rows = p.x[:, :_OPS].sum(axis=1, keepdims=True)
            return replace(p, x=np.hstack([rows, p.x[:, _OPS:]]))

        return _linear([analytical(p) for p in fit], [analytical(p) for p in ask], 1)
    if name == "boosted trees":
        return _trees(fit, ask)
    raise UsageError(f"no baseline {name!r}; there are {', '.join(BASELINES)}")


def _trees(train: Sequence[Sums], test: Sequence[Sums]) -> F64 | None:
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits  # scikit-learn needs it, too
    except ModuleNotFoundError:
        return None

    def inputs(p: Sums) -> tuple[F64, F64]:
        rows = p.x[:, :_OPS].sum(axis=1, keepdims=True)
        return p.x / rows, rows[:, 0]

    a = np.vstack([inputs(p)[0] for p in train])
    out = np.zeros((len(test), train[0].y.shape[1]))
    for j in range(out.shape[1]):
        cpi = np.concatenate([p.y[:, j] / inputs(p)[1] for p in train])
        model = HistGradientBoostingRegressor(max_iter=100, learning_rate=0.1, random_state=0)
        # A few hundred rows: more threads only wait for one another, on a busy machine for minutes.
        with threadpool_limits(1):
            model.fit(a, np.log(np.maximum(cpi, 1e-6)))
            for i, p in enumerate(test):
                b, rows = inputs(p)
                out[i, j] = float((np.exp(model.predict(b)) * rows).sum())
    return out
