"""The summary of a run: a line a trace with totals, CPI, statistics of features and anomalies; as a
table, as Parquet, and in numbers over all."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.cluster.run_folder import Record, asked_of, is_run, records_of
from tracekit.cluster.task import error_from
from tracekit.errors import UsageError
from tracekit.extras import install_command
from tracekit.io.output import write_bytes

__all__ = ["RunState", "runs_in", "state_of", "table", "write_parquet"]


@dataclass(frozen=True)
class RunState:
    """How a run stands: what was asked, and of its tasks which are done, failed (with why) and
    missing; ``traces``: a line for each file of features that was written."""

    path: str
    asked: Mapping[str, Any]
    done: list[Record]
    failed: list[Record]
    missing: list[str]
    traces: list[dict[str, Any]]

    @property
    def rows(self) -> int:
        """Rows of all tasks that are done."""
        values = [r.value.get("rows") for r in self.done if isinstance(r.value, dict)]
        return sum(v for v in values if isinstance(v, int))

    @property
    def seconds(self) -> float:
        """What all tasks took, one after another."""
        return sum(r.seconds for r in (*self.done, *self.failed))

    def reasons(self) -> list[tuple[str, str]]:
        """The name of each task that failed, and why it did."""
        return [(r.name, str(error_from(r.error))) for r in self.failed]

    def totals(self) -> dict[str, Any]:
        """Over all traces: rows, instructions, bytes, cycles and CPI of those that are timed, and
        damage survived by kind."""
        timed = [t for t in self.traces if t["cycles"] is not None]
        cycles = sum(t["cycles"] for t in timed)
        anomalies: dict[str, int] = {}
        for t in self.traces:
            for kind, count in t["anomalies"].items():
                anomalies[kind] = anomalies.get(kind, 0) + count
        return {
            "traces": len(self.traces),
            **{k: sum(t[k] for t in self.traces) for k in ("rows", "instructions", "bytes")},
            "cycles": cycles if timed else None,
            "cpi": cycles / max(sum(t["instructions"] for t in timed), 1) if timed else None,
            "anomalies": anomalies,
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON (docs/json.md, "tracekit runs")."""
        return {
            "path": self.path,
            "tracekit": self.asked["tracekit"],
            "requests": self.asked["requests"],
            "tasks": len(self.asked["tasks"]),
            "done": len(self.done),
            "failed": [{"name": name, "error": why} for name, why in self.reasons()],
            "missing": self.missing,
            "rows": self.rows,
            "seconds": self.seconds,
            "totals": self.totals(),
            "traces": self.traces,
        }


def state_of(folder: str | Path) -> RunState:
    """How the run in a folder stands; a task whose record is damaged is missing.  Raises
    `TracekitError` where it is none."""
    path = Path(folder)
    asked, records = asked_of(path), records_of(path)
    done, failed, missing = [], [], []
    traces: list[dict[str, Any]] = []
    for key, _, title in asked["tasks"]:
        record = records.get(str(key))
        told = _told(record)
        if record is None or told is None:
            missing.append(str(title))
        elif record.state == "failed":
            failed.append(record)
        else:
            done.append(record)
            traces += [{"trace": record.name, **t} for t in told]
    return RunState(str(folder), asked, done, failed, missing, traces)


def runs_in(folder: str | Path) -> list[str]:
    """The runs that lie in a folder, by name; none of a folder that is a run itself.  What may not
    be looked into is left out."""
    path = Path(folder)
    if is_run(path) or not path.is_dir():
        return []
    out = []
    for there in sorted(path.iterdir()):
        with contextlib.suppress(PermissionError):
            if is_run(there):
                out.append(str(there))
    return out


def _told(record: Record | None) -> list[dict[str, Any]] | None:
    """What a record says of the files that were written; None of one that is damaged."""
    if record is None or not _number(record.seconds) or not isinstance(record.error, Mapping):
        return None
    found = record.value.get("summary", []) if isinstance(record.value, dict) else []
    return found if isinstance(found, list) and all(map(_is_trace, found)) else None


def _is_trace(t: Any) -> bool:
    if not isinstance(t, dict) or not all(_number(t.get(k)) for k in ("rows", "instructions")):
        return False
    maybe = all(k in t and (t[k] is None or _number(t[k])) for k in ("cycles", "cpi"))
    anomalies, columns = t.get("anomalies"), t.get("columns")
    return (
        maybe
        and _number(t.get("bytes"))
        and isinstance(anomalies, dict)
        and all(map(_number, anomalies.values()))
        and isinstance(columns, dict)
        and all(isinstance(c, dict) for c in columns.values())
    )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _flat(trace: Mapping[str, Any]) -> dict[str, Any]:
    out = {k: v for k, v in trace.items() if k not in ("columns", "anomalies")}
    out["anomalies"] = sum(trace["anomalies"].values())
    out["anomaly_kinds"] = ", ".join(f"{n} x {k}" for k, n in trace["anomalies"].items())
    for name, numbers in trace["columns"].items():
        out.update({f"{name}.{k}": v for k, v in numbers.items()})
    return out


def write_parquet(
    traces: Sequence[Mapping[str, Any]], path: str | Path, *, force: bool = False
) -> None:
    """A row a file of features; the columns' statistics are columns ``NAME.mean`` and so on.
    Raises `UsageError` without pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError("Parquet needs pyarrow", hint=install_command("cluster")) from None
    rows = [_flat(t) for t in traces]
    names = list(dict.fromkeys(k for r in rows for k in r))
    columns = {}
    for name in names:
        values = [r.get(name) for r in rows]
        kinds = {type(v) for v in values if v is not None}
        kind = pa.string() if kinds == {str} else pa.int64() if kinds == {int} else pa.float64()
        columns[name] = pa.array(values, kind)
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd")
    write_bytes(path, out.getbuffer(), force=force)


def table(traces: Sequence[Mapping[str, Any]], totals: Mapping[str, Any]) -> list[str]:
    """Lines: a trace each, all of them last."""
    width = max([5, *(len(str(t["trace"])) for t in traces)])
    lines = [
        f"{'trace':<{width}}{'rows':>14}{'instructions':>14}{'CPI':>8}{'bytes/row':>11}  damage"
    ]
    whole = {**totals, "trace": "all"}
    for t in (*traces, whole):
        cpi = "-" if t["cpi"] is None else f"{t['cpi']:.3f}"
        damage = ", ".join(f"{n} x {k.replace('_', ' ')}" for k, n in t["anomalies"].items())
        lines.append(
            f"{t['trace']:<{width}}{t['rows']:>14,}{t['instructions']:>14,}{cpi:>8}"
            f"{t['bytes'] / max(t['rows'], 1):>11.2f}  {damage}".rstrip()
        )
    return lines
