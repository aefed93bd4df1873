"""A real program on every known machine, from a recording's features: figures, intervals, where the
time goes, and what the model knows nothing about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.analysis.epoch_hashes import gaps
from tracekit.hardware import HardwareMachine
from tracekit.io.json_types import finite_or_null
from tracekit.mixture.distribution import Distribution, measure, of_card
from tracekit.mixture.model import Mixture
from tracekit.prediction.advice import advice
from tracekit.prediction.intervals import model_halves, tied_with_fastest
from tracekit.prediction.live import Usage
from tracekit.prediction.real_machines import real_machines_of, real_times
from tracekit.prediction.sampling import (
    Estimate,
    Sums,
    estimate,
    ranges_of,
    sums_of,
    threads_of,
)
from tracekit.prediction.warm_samples import tells_touched
from tracekit.progress import Progress
from tracekit.record.missing import described
from tracekit.sim.clock import period
from tracekit.store.reader import TraceFile

__all__ = ["BY", "out_of_distribution", "predict_program", "unlike_training"]

BY = ("symbol", "function", "line", "file", "pc", "phase", "process")
#: A share of the instructions from which on a note says what may not be concluded.
NOTABLE = 0.01
#: Less than that is 0.0 %.
SHOWN = 0.0005
#: Files that load a program's libraries, of glibc, musl and others.
_DYNAMIC_LINKER = re.compile(r"/ld(64|-[^/]*)?\.so[.\d]*$")
#: Lines that a program may touch more than the largest of training before that is noted.
BEYOND = 1.0


def predict_program(
    model: Mixture,
    trace: TraceFile,
    *,
    by: str | None = None,
    usage: Usage | None = None,
    here: str | None = None,
    real: HardwareMachine | None = None,
    binary: str | None = None,
    threads: int | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """The result of ``tracekit predict`` for a recording (docs/json.md).  ``here``: the machine of
    the model that it was recorded on; ``real``: that computer itself, as it was measured;
    ``quiet``: no progress on standard error."""
    names, labels = _labels(trace, by, binary, quiet)
    sums = sums_of(model, trace, labels, threads, quiet=quiet)
    sampled = not trace.index["source"].get("contiguous")
    even = not tells_touched(trace)  # in time, else in instructions
    found = estimate(model, sums, sampled=sampled, here=here, even_in_time=even)
    periods = np.array([period(m) for m in model.machines])
    seconds = _seconds(model, found, periods, usage, here)
    machines = []
    for j, m in enumerate(model.machines):
        machines.append(
            {
                "name": str(m["name"]),
                "cpi": finite_or_null(found.cpi[j]),
                "cpi_half_interval": finite_or_null(found.half[j]),
                "ns_per_instruction": finite_or_null(1e9 * periods[j] * found.cpi[j]),
                "ns_half_interval": finite_or_null(1e9 * periods[j] * found.half[j]),
                "cpi_sampling_half_interval": finite_or_null(found.half[j]),
                "cpi_model_half_interval": None,
                "cold_caches": finite_or_null(found.cold[j]),
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
    out["real_machines"] = real_times(
        trace,
        real_machines_of(trace, real),
        ranges,
        found.weights,
        sampled=sampled,
        user=_user_seconds(usage),
        here=real,
        threads=threads,
        quiet=quiet,
    )
    owners = threads_of(trace, ranges)
    if len({pid for pid, _ in owners}) > 1:
        out["processes"] = _processes(model, trace, sums, found, owners)
    out["warnings"], out["enough"] = advice(found, out["instructions"], usage, sampled=sampled)
    if usage is not None:
        from tracekit.prediction.live import usage_dict

        out["usage"] = usage_dict(usage)
    if by == "process":
        out["by"] = by
        out["parts"] = [
            {"name": p["name"], "share": p["share"]}
            for p in _processes(model, trace, sums, found, owners)
        ]
    elif by:
        out |= {"by": by, "parts": _parts(model, sums, found, names, by)}
    out["representation"] = (found.weights @ sums.warm / (found.weights @ sums.rows)).tolist()
    out["columns"] = [str(c["name"]) for c in model.cores]
    out["out_of_distribution"], out["notes"] = out_of_distribution(model, trace, found, usage)
    _add_model_intervals(model, out)
    return out


def _add_model_intervals(model: Mixture, out: dict[str, Any]) -> None:
    """Widens the intervals by what the model is off on programs that it has not seen, and says
    which machines they do not tell from the fastest."""
    outside = out["out_of_distribution"].get("outside") or {}
    strange = min(1.0, max(outside.values(), default=0.0))
    known = model.residuals
    names = [m["name"] for m in out["machines"]]
    halves = model_halves(model, np.array(out["representation"]), strange)
    for m, half in zip(out["machines"], np.expm1(halves).tolist(), strict=True):
        if not np.isfinite(half) or m["cpi"] is None:
            continue
        m["cpi_model_half_interval"] = m["cpi"] * half
        if m["cpi_half_interval"] is not None:
            both = float(np.hypot(m["cpi_half_interval"], m["cpi"] * half))
            m["cpi_half_interval"] = both
            if m["ns_per_instruction"] is not None:
                m["ns_half_interval"] = m["ns_per_instruction"] / m["cpi"] * both
    ns, by_model, sampling = (
        np.array([np.nan if (x := _in_ns(m, k)) is None else x for m in out["machines"]])
        for k in ("cpi", "cpi_model_half_interval", "cpi_sampling_half_interval")
    )
    pairs = None if known is None else known.pair_halves(names, strange)
    tied = tied_with_fastest(ns, by_model, sampling, pairs).tolist()
    for m, near in zip(out["machines"], tied, strict=True):
        m["tied_with_fastest"] = near


def _in_ns(m: dict[str, Any], key: str) -> float | None:
    """What is in cycles an instruction, in nanoseconds; None where one of both is not known."""
    if m[key] is None or m["ns_per_instruction"] is None or not m["cpi"]:
        return None
    return float(m[key] / m["cpi"] * m["ns_per_instruction"])


def _slowness(m: dict[str, Any]) -> float:
    ns = m["ns_per_instruction"]
    return float(ns) if ns is not None else float("inf")


def _seconds(
    model: Mixture,
    found: Estimate,
    periods: npt.NDArray[np.float64],
    usage: Usage | None,
    here: str | None,
) -> list[float] | None:
    """Of the user code that ran while it was recorded, on each machine: known where this computer's
    own row is."""
    user = _user_seconds(usage)
    if user is None or here is None:
        return None
    k = model.index([here])[0]
    own = found.cpi[k] * periods[k]
    if not np.isfinite(own) or own <= 0:
        return None
    return [float(user * c * p / own) for c, p in zip(found.cpi, periods, strict=True)]


def _user_seconds(usage: Usage | None) -> float | None:
    """Of the processes that were recorded; None where stepping took the time."""
    if usage is None or usage.stepped:
        return None
    user = usage.user - (0.0 if usage.followed else usage.children)
    return user if user > 0 else None


def _labels(
    trace: TraceFile, by: str | None, binary: str | None, quiet: bool
) -> tuple[list[str], npt.NDArray[np.int64] | None]:
    """Names of parts, and the part of each static instruction."""
    if by in (None, "phase", "process"):
        return [], None
    pcs = trace.statics.pc.tolist()
    if by == "pc":
        texts = [f"{pc:#x}" for pc in pcs]
    else:
        from tracekit.analysis.hotspots import BY as NAMED
        from tracekit.symbols import AddressMap

        of = AddressMap.of(trace, binary or None)
        texts = []
        with Progress(f"name each {by}", len(pcs), "addresses", quiet=quiet) as progress:
            for pc in pcs:
                texts.append(NAMED[str(by)](of, pc))
                progress.update(len(texts))
    names = list(dict.fromkeys(texts))
    number = {n: i for i, n in enumerate(names)}
    return names, np.array([number[t] for t in texts], np.int64)


def _parts(
    model: Mixture, sums: Sums, found: Estimate, names: list[str], by: str
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


def _processes(
    model: Mixture, trace: TraceFile, sums: Sums, found: Estimate, owners: list[tuple[int, int]]
) -> list[dict[str, Any]]:
    """Each process's share of the time on every machine, the largest on average first."""
    cycles = model.cycles(sums.warm) * found.weights[:, None]
    whole = np.maximum(cycles.sum(axis=0), 1e-12)
    maps = trace.index["source"].get("maps") or {}
    pids = np.array([pid for pid, _ in owners], np.int64)
    out = []
    for pid in dict.fromkeys(pids.tolist()):
        own = pids == pid
        share = cycles[own].sum(axis=0) / whole
        program = _program_of(maps.get(str(pid), []))
        out.append(
            {
                "name": f"{pid} {program.rpartition('/')[2]}" if program else str(pid),
                "pid": pid,
                "epochs": int(own.sum()),
                "instructions": int(sums.rows[own].sum()),
                "share": dict(zip(model.names, share.tolist(), strict=True)),
            }
        )
    return sorted(out, key=lambda p: -float(np.mean(list(p["share"].values()))))


def _program_of(maps: Sequence[Any]) -> str | None:
    """The program's own file among a process's maps ([begin, end, offset, path, build-id] each).

    Recordings by steps have it first, by its address.  Those of QEMU have files in the order in
    which they first ran, the dynamic linker before all others, and the program's own file last.
    A program that was executed in the place of another lies where that one was.
    """
    files = [m for m in maps if str(m[3]).startswith("/")]
    if not files:
        return None
    if _DYNAMIC_LINKER.search(str(files[0][3])):
        return str(files[-1][3])
    own = files[0]
    for m in files[1:]:
        if m[0] < own[1] and own[0] < m[1]:
            own = m
    return str(own[3])


def out_of_distribution(
    model: Mixture, trace: TraceFile, found: Estimate, usage: Usage | None
) -> tuple[dict[str, Any], list[str]]:
    """Shares of the instructions that the model's training had nothing of, and plain sentences on
    what may not be concluded."""
    ranges = ranges_of(trace)
    out, notes = unlike_training(model, trace, ranges, found.weights)
    _circumstances(out, notes, trace, usage)
    _together(notes, threads_of(trace, ranges), usage)
    chill = float(np.median(found.cold))
    out["cold_caches_median"] = chill
    if chill > 0.05:
        notes.append(
            "if nothing was cached but what half an epoch had touched before, times rise by "
            f"{chill:.0%} (median of the machines): its working set is larger than what was "
            "recorded of it; record longer epochs (--epoch)"
        )
    return out, notes


def unlike_training(
    model: Mixture,
    trace: TraceFile,
    ranges: Sequence[tuple[int, int]],
    weights: npt.NDArray[np.float64],
) -> tuple[dict[str, Any], list[str]]:
    """The part of `out_of_distribution` that the rows tell: kinds of instructions, distances and
    sizes that no program of the training had.  ``weights``: of the instructions of each range."""
    own = measure(trace, ranges, weights)
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
    if (share := sum(wide.values())) >= SHOWN:
        kinds = " and ".join(sorted(wide))
        notes.append(
            f"{share:.1%} of the instructions are {kinds}, which no machine of the training ran: "
            "they count as the same operations on 16 bytes, and say nothing about wider units"
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
    """What is not in the recorded user code."""
    lengths = trace.index["source"].get("epoch_lengths")
    out["epochs"] = len(gaps(trace)) - 1 if lengths else 1
    if usage is None:
        out["system_share"] = out["threads"] = None
        notes.append(
            "a recording does not hold system time: what the kernel did is not in the figures"
        )
        return
    out["threads"], out["processes"] = usage.threads, usage.processes
    if usage.short:
        notes.append(usage.short)
    if usage.in_place:
        why = f": a copy would lack {described(usage.missing)}" if usage.missing else ""
        notes.append(
            f"{usage.in_place} of {usage.epochs} epochs were stepped in the program itself{why}; "
            "it all but stood still while they lasted"
        )
    if usage.stepped:
        out["system_share"] = None
        notes.append(
            "the program was stepped from its start: what the kernel did, and what it waited for, "
            "is not in the figures"
        )
        return
    out["system_share"] = usage.system_share
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
    others = usage.children / max(usage.user + usage.system, 1e-9)
    if others >= NOTABLE and not usage.followed:
        notes.append(
            f"{others:.0%} of the processor time was its child processes', of which nothing was "
            "recorded (--follow-forks)"
        )


def _together(notes: list[str], owners: list[tuple[int, int]], usage: Usage | None) -> None:
    """What is predicted as one, though it is several."""
    threads, pids = len(set(owners)), len({pid for pid, _ in owners})
    there = usage.threads if usage is not None else threads
    if threads > 1:
        of = f" of {pids} processes" if pids > 1 else ""
        notes.append(
            f"the epochs of {threads} threads{of} are predicted as one thread, one after another "
            "on one core: shared caches, waiting for each other and the number of cores are not in "
            "the figures"
        )
    elif there > 1:
        notes.append(
            f"{there} threads ran, and the epochs are of one: it is predicted as if it had the "
            "machine to itself; shared caches, waiting for each other and the number of cores are "
            "not in the figures"
        )
