"""A real program on every known machine, from a recording's features: figures, intervals, where the
time goes, and what the model knows nothing about."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.epochs import gaps
from tracekit.perfvec.distribution import Distribution, measure, of_card
from tracekit.perfvec.live import Usage
from tracekit.perfvec.model import PerfVec, period
from tracekit.perfvec.sample import Estimate, Sums, estimate, ranges_of, sums_of
from tracekit.store.reader import TraceFile

__all__ = ["BY", "honesty", "is_native", "predict_program"]

BY = ("symbol", "function", "line", "file", "pc", "phase")
#: A share of the instructions from which on a note says what may not be concluded.
NOTABLE = 0.01
#: Lines that a program may touch more than the largest of training before that is noted.
BEYOND = 1.0


def is_native(trace: TraceFile) -> bool:
    """Whether the features are a recording's."""
    return bool(trace.index.get("source", {}).get("format") == "tks")


def predict_program(
    model: PerfVec,
    trace: TraceFile,
    *,
    by: str | None = None,
    usage: Usage | None = None,
    here: str | None = None,
    binary: str | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """The result of ``tracekit predict`` for a recording (docs/json.md).  ``here``: the machine of
    the model that it was recorded on."""
    names, labels = _labels(trace, by, binary)
    sums = sums_of(model, trace, labels, threads)
    sampled = not trace.index["source"].get("contiguous")
    found = estimate(model, sums, sampled=sampled, here=here)
    periods = np.array([period(m) for m in model.machines])
    seconds = _seconds(model, found, periods, usage, here)
    machines = []
    for j, m in enumerate(model.machines):
        machines.append(
            {
                "name": str(m["name"]),
                "cpi": _number(found.cpi[j]),
                "cpi_half_interval": _number(found.half[j]),
                "ns_per_instruction": _number(1e9 * periods[j] * found.cpi[j]),
                "ns_half_interval": _number(1e9 * periods[j] * found.half[j]),
                "cold_caches": _number(found.cold[j]),
                "seconds": seconds[j] if seconds else None,
            }
        )
    machines.sort(key=_slowness)
    ranges = ranges_of(trace)
    out: dict[str, Any] = {
        "path": trace.path,
        "command": trace.index["source"].get("command"),
        "epochs": len(ranges),
        "sampled": sampled,
        "instructions": int(sums.rows.sum()),
        "machines": machines,
        "notes": [],
    }
    if usage is not None:
        from tracekit.perfvec.live import usage_dict

        out["usage"] = usage_dict(usage)
    if by:
        out["by"] = by
        out["parts"] = _parts(model, sums, found, names, by)
    out["representation"] = (found.weights @ sums.warm / (found.weights @ sums.rows)).tolist()
    out["columns"] = [str(c["name"]) for c in model.cores]
    out["honesty"], out["notes"] = honesty(model, trace, found, usage)
    return out


def _slowness(m: dict[str, Any]) -> float:
    ns = m["ns_per_instruction"]
    return float(ns) if ns is not None else float("inf")


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _seconds(
    model: PerfVec,
    found: Estimate,
    periods: npt.NDArray[np.float64],
    usage: Usage | None,
    here: str | None,
) -> list[float] | None:
    """Of the user code that ran while it was recorded, on each machine: known where this computer's
    own row is."""
    if usage is None or here is None or usage.user <= 0:
        return None
    k = model.index([here])[0]
    own = found.cpi[k] * periods[k]
    if not np.isfinite(own) or own <= 0:
        return None
    return [float(usage.user * c * p / own) for c, p in zip(found.cpi, periods, strict=True)]


def _labels(
    trace: TraceFile, by: str | None, binary: str | None
) -> tuple[list[str], npt.NDArray[np.int64] | None]:
    """Names of parts, and the part of each static instruction."""
    if by in (None, "phase"):
        return [], None
    pcs = trace.statics.pc.tolist()
    if by == "pc":
        texts = [f"{pc:#x}" for pc in pcs]
    else:
        from tracekit.hot import BY as NAMED
        from tracekit.symbols import AddressMap

        of = AddressMap.of(trace, binary or None)
        texts = [NAMED[str(by)](of, pc) for pc in pcs]
    names = list(dict.fromkeys(texts))
    number = {n: i for i, n in enumerate(names)}
    return names, np.array([number[t] for t in texts], np.int64)


def _parts(
    model: PerfVec, sums: Sums, found: Estimate, names: list[str], by: str
) -> list[dict[str, Any]]:
    """Each part's share of the time on every machine, the largest on average first; phases as they
    come."""
    if by == "phase":
        cycles = model.cycles(sums.warm) * found.weights[:, None]
        names = [f"epoch {k}" for k in range(len(cycles))]
    elif sums.parts is not None:
        cycles = model.cycles(np.einsum("e,elc->lc", found.weights, sums.parts))
    else:
        return []
    share = cycles / np.maximum(cycles.sum(axis=0), 1e-12)
    order = np.argsort(-share.mean(axis=1), kind="stable") if by != "phase" else range(len(names))
    cpi = model.cycles(sums.warm) / sums.rows[:, None] if by == "phase" else None
    out = []
    for k in order:
        if not share[k].any():
            continue
        part: dict[str, Any] = {
            "name": names[k],
            "share": dict(zip(model.names, share[k].tolist(), strict=True)),
        }
        if cpi is not None:
            part["cpi"] = dict(zip(model.names, cpi[k].tolist(), strict=True))
        out.append(part)
    return out


def honesty(
    model: PerfVec, trace: TraceFile, found: Estimate, usage: Usage | None
) -> tuple[dict[str, Any], list[str]]:
    """Shares of the instructions that the model's training had nothing of, and plain sentences on
    what may not be concluded."""
    ranges = ranges_of(trace)
    own = measure(trace, ranges, found.weights)
    seen = of_card(model.training)
    n = max(own.instructions, 1.0)
    wide = {k: v / n for k, v in own.wide.items()}
    out: dict[str, Any] = {"wide": wide, "system_call_instructions": own.system_calls / n}
    notes: list[str] = []
    if seen is None:
        notes.append("the model's card does not say what it was trained on: nothing was compared")
    else:
        out["outside"] = own.outside(seen)
        out["unseen_names"] = own.unseen_names(seen)[:20]
        _compare(out, notes, own, seen)
    if share := sum(wide.values()):
        kinds = " and ".join(sorted(wide))
        notes.append(
            f"{share:.1%} of the instructions are {kinds}, which no machine of the training ran: "
            "they count as the same operations on 16 bytes, and say nothing about wider units"
        )
    _circumstances(out, notes, trace, usage)
    chill = float(np.median(found.cold))
    out["cold_caches_median"] = chill
    if chill > 0.05:
        notes.append(
            "if nothing was cached but what half an epoch had touched before, times rise by "
            f"{chill:.0%} (median of the machines): its working set is larger than what was "
            "recorded of it; record longer epochs (--epoch)"
        )
    return out, notes


def _compare(out: dict[str, Any], notes: list[str], own: Distribution, seen: Distribution) -> None:
    outside = out["outside"]
    if outside["names"] >= NOTABLE:
        few = ", ".join(out["unseen_names"][:5])
        notes.append(
            f"{outside['names']:.1%} of the instructions are of kinds that the training never had "
            f"({few}…): their cost is a guess from their operands"
        )
    out["lines"], out["lines_in_training"] = own.lines, seen.lines
    if own.lines > BEYOND * seen.lines:
        notes.append(
            f"the sample alone touches {own.lines * 64 / 1e6:.1f} MB of data, the largest program "
            f"of the training {seen.lines * 64 / 1e6:.1f} MB: how the machines rank by cache and "
            "memory was not tested at that size"
        )
    distances = outside["data_distance"] + outside["fetch_distance"]
    if distances >= NOTABLE:
        notes.append(
            f"{distances:.1%} of the instructions reuse lines from farther than any of the training"
        )


def _circumstances(
    out: dict[str, Any], notes: list[str], trace: TraceFile, usage: Usage | None
) -> None:
    """What is not in the user code of one thread."""
    lengths = trace.index["source"].get("epoch_lengths")
    out["epochs"] = len(gaps(trace)) - 1 if lengths else 1
    if usage is None:
        out["system_share"] = out["threads"] = None
        notes.append(
            "a recording does not hold system time: what the kernel did is not in the figures"
        )
        return
    out["system_share"], out["threads"] = usage.system_share, usage.threads
    if usage.system_share >= NOTABLE:
        notes.append(
            f"{usage.system_share:.0%} of its processor time was the kernel's: nothing of that was "
            "recorded, and the figures are of the rest"
        )
    busy = (usage.user + usage.system) / max(usage.wall, 1e-9)
    out["processors_busy"] = busy
    if usage.wall > 1 and busy + usage.queued / usage.wall < 0.5:
        notes.append(
            f"it used {busy:.0%} of a processor and mostly waits: a faster machine would not "
            "shorten that"
        )
    if usage.threads > 1:
        notes.append(
            f"{usage.threads} threads: each is predicted as if it had the machine to itself; "
            "shared caches, waiting for each other and the number of cores are not in the figures"
        )
