"""Machines whose parameters are not known, each tuned as ``tracekit tune`` does on three programs
while the model does not have it; errors of total time on all other programs.

    python bench/unknown_machines.py MANIFEST u002 u006 … [--choose u000 u004 …] [--seed 0]

Five folds by family; machine k is tuned on programs of the training part of fold k modulo 5.  With
``--choose`` on those three (``--programs``) that, of other machines tuned without their parameters,
tell most; with ``--suggest`` on those that ``tracekit tune --suggest`` names; else on drawn ones.
Drawn cores take nothing from the machine that is left out: what they do not draw is alike in all.
With ``--known`` these parameters of each machine are told to the search.  Beside the search: the
mixture without it, parameters known, and the baselines.  A line for each machine, and the means at
the end; results are kept under --work, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.calibration.informative_programs import (
    ProgramInformation,
    core_information,
    machine_information,
    most_informative,
)
from tracekit.calibration.nearby_row import (
    class_times,
    core_paces,
    regularized_row,
)
from tracekit.calibration.random_designs import random_designs
from tracekit.calibration.search import similar_cores
from tracekit.dataset import Program, load_manifest
from tracekit.evaluation.baselines import BASELINES, aggregates, predict_baseline
from tracekit.io.arrays import save_arrays
from tracekit.mixture.family_folds import folds
from tracekit.mixture.fit import fit_row, mixture_row, segment_breaks, with_columns
from tracekit.mixture.program_sums import collect
from tracekit.mixture.survivors import half_width
from tracekit.sim import cores_digest, totals


def arguments() -> argparse.Namespace:
    """Of the command line."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("manifest")
    p.add_argument("machines", nargs="+")
    p.add_argument("--work", type=Path, default=Path("evaluation"), help="as evaluate --work")
    p.add_argument("--choose", nargs="+", default=[], metavar="MACHINE")
    p.add_argument("--suggest", action="store_true")
    p.add_argument("--programs", type=int, default=3, help="that each machine is tuned on")
    p.add_argument("--known", nargs="+", default=[], metavar="PARAMETER")
    p.add_argument("--no-search", action="store_true", help="the mixture alone, which is quick")
    p.add_argument("--every", type=int, default=1, help="only every Nth program is predicted")
    p.add_argument("--random-designs", type=int, default=128)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int)
    return p.parse_args()


def informed(
    args: argparse.Namespace, programs: Sequence[Program], apart: list[dict[str, Any]]
) -> list[ProgramInformation]:
    """What each program tells, where programs are to be chosen by that."""
    information = []
    for q in programs if args.suggest or args.choose else ():
        if args.suggest:
            information.append(_kept_information(args, q, apart))
            continue
        with q.open() as d:
            cycles = d.cycles()[:, [d.column_of(m) for m in args.choose]].astype(float)
            cores = [*apart, *random_designs(apart, args.random_designs)]
            information.append(machine_information(d.trace, cores, cycles, args.threads))
    return information


def _kept_information(
    args: argparse.Namespace, q: Program, apart: list[dict[str, Any]]
) -> ProgramInformation:
    """What a program tells of the cores, from --work where it is there."""
    of = json.dumps([apart, args.random_designs, cores_digest()], sort_keys=True)
    name = f"{q.name.replace('/', '_')}-{hashlib.sha256(of.encode()).hexdigest()[:16]}.npz"
    place = args.work / "information" / name
    if not place.exists():
        with q.open() as d:
            own = core_information(d.trace, apart, args.random_designs, threads=args.threads)
        place.parent.mkdir(parents=True, exist_ok=True)
        save_arrays(place, **asdict(own))
    with np.load(place, allow_pickle=False) as kept:
        return ProgramInformation(**kept)


def main() -> int:
    args = arguments()
    if both := sorted({*args.choose} & {*args.machines}):
        sys.exit(f"{', '.join(both)}: chosen on and tested")
    manifest = load_manifest(args.manifest)
    programs, names = manifest.programs, list(manifest.common_machines())
    known = [{**manifest.machines[m], "name": m} for m in names]
    designs = random_designs(known, args.random_designs)
    sums = collect(programs, [*known, *designs], names, args.work / "sums", threads=args.threads)
    tables = {}
    for q in programs:
        place = args.work / "sums" / f"{q.name.replace('/', '_')}-aggregates-None.npy"
        if not place.exists():
            np.save(place, aggregates(q.data, args.threads, None))
        tables[q.name] = np.load(place, allow_pickle=False)
    apart = [c for c in known if c["name"] not in args.machines]
    information = informed(args, programs, apart)
    parts = folds([q.family for q in programs], 5, args.seed)
    chosen: dict[int, list[int]] = {}
    errors: dict[str, dict[str, list[float]]] = {}
    intervals: list[tuple[Any, Any]] = []
    for m in args.machines:
        j = names.index(m)
        rest = [i for i in range(len(programs)) if i not in parts[j % 5]]
        if information and j % 5 not in chosen:
            own = [[c["name"] for c in apart].index(c) for c in args.choose] or None
            every = range(len(args.choose)) if args.choose else None
            those = most_informative([information[i] for i in rest], args.programs, own, every)
            chosen[j % 5] = sorted(rest[i] for i in those)
        random = np.random.default_rng(args.seed * 1000 + j)
        picked = chosen.get(j % 5) or random.choice(rest, args.programs, replace=False).tolist()
        tested = [i for i in range(0, len(programs), args.every) if i not in picked]
        part_of = [f"every{args.every}"] if args.every > 1 else []
        told = {k: manifest.machines[m][k] for k in args.known}
        names_of = [programs[i].name for i in picked]
        label = "-".join([m, str(args.seed), *names_of, *part_of, *sorted(told)])
        kept = args.work / f"unknown-{label}.json"
        if not args.no_search and not kept.exists():
            start = [c for c in [*known, *designs] if c["name"] != m]
            new = _search(args, programs, start, m, picked, tested, told)
            kept.write_text(json.dumps(new))
        result = {"cpu_s": 0.0, "sums": {}} if args.no_search else json.loads(kept.read_text())
        columns = np.array([c for c in range(len(known) + len(designs)) if c != j])
        train = [sums[i] for i in picked]
        own = np.arange(len(known))
        rows = {
            "parameters known": (own, fit_row(_only(train, own), j, (own == j) * 1.0, 0.3)),
            "mixture of known and drawn cores": (columns, mixture_row(_only(train, columns), j)),
        }
        found = {
            name: np.array([sums[i].x[:, c].sum(axis=0) @ row for i in tested])
            for name, (c, row) in rows.items()
        }
        if not args.no_search:
            x = np.array([np.sum(result["sums"][str(i)], axis=0) for i in tested])
            found["with those that the search found"] = x @ result["row"]
            true = [float(sums[i].y[:, j].sum()) for i in tested]
            intervals.append(_interval(result, tested, [*found.values()][-1], true))
        alone = [_alone(sums[i], j) for i in picked]
        for name in BASELINES:
            predicted = predict_baseline(name, alone, sums, tables)
            if predicted is not None:
                found[name] = predicted[tested, 0]
        line = []
        for name, values in found.items():
            held = errors.setdefault(name, {"seen": [], "unseen": []})
            e = [abs(v / sums[i].y[:, j].sum() - 1) for v, i in zip(values, tested, strict=True)]
            for i, size in zip(tested, e, strict=True):
                held["unseen" if i in parts[j % 5] else "seen"].append(float(size))
            line.append(f"{np.mean(e):.1%} {name}")
        of = f"{', '.join(names_of)}; {result['cpu_s']:.0f} s"
        print(f"{m} ({of}): {'; '.join(line[:3])}", flush=True)
    _summary(len(args.machines), errors, intervals)
    return 0


def _summary(count: int, errors: Any, intervals: list[tuple[Any, Any]]) -> None:
    print(f"{count} machines; mean (median) of absolute errors of total time")
    for name, held in errors.items():
        seen, unseen = (
            f"{np.mean(held[k]):.1%} ({np.median(held[k]):.1%})" for k in ("seen", "unseen")
        )
        print(f"  {name:<40}{seen:>16} on seen families {unseen:>16} on unseen ones")
    if intervals:
        held, widths = (np.concatenate(x) for x in zip(*intervals, strict=True))
        print(
            f"  95 % intervals: {held.mean():.1%} hold; half width {np.median(widths):.1%} median"
        )


def _search(args, programs, start, machine, picked, tested, told) -> dict:
    """The search on the picked programs, and what its cores take for the tested ones.  ``told``:
    parameters that the search knows."""
    opened = [programs[i].open() for i in picked]
    traces = [(d.trace, d.cycles()[:, d.column_of(machine)].astype(float)) for d in opened]
    begin = time.process_time()
    cores = similar_cores(traces, start, seed=args.seed, threads=args.threads, known=told)
    spent = time.process_time() - begin
    sums = {}
    for i in {*picked, *tested}:
        with programs[i].open() as d:
            sums[i] = totals(d.trace, cores, segment_breaks(len(d)), args.threads).tolist()
    times = [class_times(t, cycles, cores, args.threads) for t, cycles in traces]
    row, paces = regularized_row(times).tolist(), core_paces(times).tolist()
    return {"cores": cores, "cpu_s": spent, "sums": sums, "row": row, "paces": paces}


def _interval(result: dict, tested: list[int], found: Any, true: list[float]) -> tuple[Any, Any]:
    """Which of the tested programs the survivors' interval holds, and its half width."""
    halves = [
        half_width(np.log(np.sum(result["sums"][str(i)], axis=0) * result["paces"] / value))
        for i, value in zip(tested, found, strict=True)
    ]
    off = np.abs(np.log(np.asarray(found) / true))
    return off <= halves, np.expm1(halves)


def _only(programs, columns):
    return [with_columns(p, columns) for p in programs]


def _alone(program, machine):
    return replace(program, y=program.y[:, [machine]])


if __name__ == "__main__":
    sys.exit(main())
