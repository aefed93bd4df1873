"""What-if against gem5 for every kind of parameter: plans of runs, and the table of errors.

``python bench/changes_against_gem5.py plan DIR`` writes DIR/plan.toml: twelve programs of the
shared X86 set, drawn by a seed, on ``ns_8w`` and on 30 machines that each differ from it in one
parameter.
``tracekit factory DIR/plan.toml --gem5 PATH -o DATASET`` runs it in gem5.  ``python
bench/changes_against_gem5.py table DATASET`` simulates the same changes and compares.  ``keep
DATASET --output FILE`` keeps gem5's totals of each program's longest stretch of rows that its
shared trace has, too, and ``table FILE`` compares by FILE and the shared traces, without gem5.
``table`` takes several of both, and ``--sweep`` adds the changes of causes_against_gem5.py.

Seed, programs, windows and changes were written before anything was run.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

import tracekit
from tracekit.sim import totals

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from causes_against_gem5 import FALSE_MOVE, FLAT, MOVES, spearman, sweep
from shared_cycles import SHARED, machine

SEED, BASE, INSTRUCTIONS = 20_261_123, "ns_8w", 250_000
#: Stretches of rows that `keep` looks for: through every so many rows, of which so many tell where
#: else they are; shorter ones are not kept.
APART, UNIQUE, SHORTEST = 4_000, 64, 100_000
#: How many programs of each ELF file are drawn.
PROGRAMS = {"kern": 4, "kern2": 3, "lu": 1, "sq": 1, "lz": 2, "jp": 1}
#: Kind -> the changes of one parameter each.
CHANGES: dict[str, tuple[str, ...]] = {
    "window": ("rob=64", "rob=128"),
    "queues": ("iq=32", "lq=16", "sq=16", "sq=64"),
    "registers": ("phys_int=128",),
    "width": ("width=4", "issue_width=4"),
    "units": ("int_alu=2", "fp=1", "load_ports=2"),
    "latencies": ("int_mul_lat=5", "fp_add_lat=4", "issue_to_exec=2", "front_delay=4"),
    "cache latencies": ("l1d_lat=2", "l1d_lat=5", "l2_lat=20"),
    "cache sizes": ("l1d_kb=16", "l1i_kb=8", "l2_kb=256"),
    "misses": ("l1d_mshrs=4",),
    "predictors": ("bp=LTAGE", "bp=Local", "btb=512"),
    "prefetchers": ("l1d_pf=stride", "l2_pf=tagged"),
    "memory": ("mem=LPDDR3_1600_1x32",),
    "clock": ("clock_ghz=3.0",),
}


def changed(text: str) -> dict[str, Any]:
    """``ns_8w`` with one parameter changed, by a name that says so."""
    key, _, value = text.partition("=")
    base = machine(BASE)
    kind = type(base[key])
    return {**base, key: kind(value), "name": text.replace("=", "-")}


def programs() -> list[str]:
    """Names of the shared X86 programs that are run."""
    listed = json.loads((SHARED / "x86" / "programs.json").read_text())
    source = random.Random(SEED)
    out = []
    for elf, count in PROGRAMS.items():
        out += sorted(source.sample([n for n, p in listed.items() if p["elf"] == elf], count))
    return out


def plan(folder: Path) -> None:
    """The machines' files and plan.toml."""
    (folder / "machines").mkdir(parents=True, exist_ok=True)
    machines = machines_of_plan()
    for m in machines:
        (folder / "machines" / f"{m['name']}.json").write_text(json.dumps(m, indent=1))
    files = [f"machines/{m['name']}.json" for m in machines]
    lines = ["[machines]", f"use = {json.dumps(files)}"]
    lines += ["", "[window]", f"instructions = {INSTRUCTIONS}"]
    listed = json.loads((SHARED / "x86" / "programs.json").read_text())
    elf = SHARED / "x86" / "elf"
    for name in programs():
        p = listed[name]
        scripts = [a for a in p["args"] if a.endswith(".lua")]
        arguments = [Path(a).name if a in scripts else a for a in p["args"]]
        lines += ["", "[[programs]]", f'name = "{name}"', f'binary = "{elf / p["elf"]}"']
        lines += [f"files = {json.dumps([str(elf / s) for s in scripts])}"] if scripts else []
        lines += [f"arguments = {json.dumps(arguments)}", f"skip = {p['skipped_instructions']}"]
    (folder / "plan.toml").write_text("\n".join(lines) + "\n")
    print(folder / "plan.toml")


def cycles(dataset: Path, program: str, name: str, rows: slice = slice(None)) -> int:
    """gem5's total of a program, or of some of its rows, on a machine."""
    packed = (dataset / "cycles" / f"{program}.{name}.npy.zst").read_bytes()
    return int(np.load(io.BytesIO(zstandard.decompress(packed)))[rows].sum(dtype=np.int64))


def machines_of_plan() -> list[dict[str, Any]]:
    """The base, and each change of it."""
    return [machine(BASE)] + [changed(c) for some in CHANGES.values() for c in some]


def shared_features(program: str, folder: Path) -> Path:
    """Features of a shared trace."""
    path = folder / f"{program}.zst"
    tracekit.extract(SHARED / "x86" / "exec" / f"{program}.xz", path)
    return path


def places(trace: tracekit.TraceFile) -> np.ndarray:
    """Of each row its pc and its place among the instruction's micro-ops, as one number."""
    statics = trace.statics
    each = statics.pc.astype(np.uint64) << np.uint64(8) | statics.upc.astype(np.uint64)
    return each[trace.column("static_id", (0, len(trace)))]


def common(run: np.ndarray, shared: np.ndarray) -> tuple[int, int, int]:
    """The longest stretch that both have, of those that go through a row of ``shared`` whose number
    is a multiple of `APART`: its first rows in both, and how many."""
    best = (0, 0, 0)
    for at in range(0, len(shared) - UNIQUE, APART):
        if best[1] <= at < best[1] + best[2]:
            continue
        found = np.flatnonzero(run[: len(run) - UNIQUE] == shared[at])
        for k in range(1, UNIQUE):
            found = found[run[found + k] == shared[at + k]]
        for there in found[:20].tolist():
            behind = equal(run[there:], shared[at:])
            before = equal(run[:there][::-1], shared[:at][::-1])
            if before + behind > best[2]:
                best = (there - before, at - before, before + behind)
    return best


def equal(a: np.ndarray, b: np.ndarray) -> int:
    """How many numbers of both are the same, from the first one on."""
    n = min(len(a), len(b))
    other = np.flatnonzero(a[:n] != b[:n])
    return int(other[0]) if len(other) else n


def keep(dataset: Path, output: Path) -> None:
    """Writes gem5's totals of the longest stretches that runs and shared traces have in common: an
    environment of another length changes how a program starts, and what it does with addresses."""
    machines, kept = machines_of_plan(), {}
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted((dataset / "features").glob("*.zst")):
            with (
                tracekit.open(path) as run,
                tracekit.open(shared_features(path.stem, Path(scratch))) as trace,
            ):
                first, begin, rows = common(places(run), places(trace))
            print(f"{path.stem}: {rows:,} rows{' are too few' if rows < SHORTEST else ''}")
            if rows < SHORTEST:
                continue
            own = slice(first, first + rows)
            kept[path.stem] = {
                "rows": [begin, begin + rows],
                "cycles": {m["name"]: cycles(dataset, path.stem, m["name"], own) for m in machines},
            }
    about = {"gem5": "v24.0.0.1", "seed": SEED, "base": BASE, "programs": kept}
    output.write_text(json.dumps(about, indent=1) + "\n")


def runs(source: Path, folder: Path) -> Iterator[tuple[str, Path, list[int] | None, list[int]]]:
    """Of each program of a dataset, or of what `keep` wrote: its name, its features, which of their
    rows (None: all), and gem5's totals of those on the machines."""
    names = [m["name"] for m in machines_of_plan()]
    if source.is_dir():
        for path in sorted((source / "features").glob("*.zst")):
            true = [cycles(source, path.stem, name) for name in names]
            yield path.stem, path, None, true
        return
    for program, kept in json.loads(source.read_text())["programs"].items():
        true = [kept["cycles"][name] for name in names]
        yield program, shared_features(program, folder), kept["rows"], true


def table(sources: list[Path], details: bool, with_sweep: bool) -> None:
    """Errors of the simulated changes, by kind; times where the clock changes."""
    machines = machines_of_plan()
    texts = [c for some in CHANGES.values() for c in some]
    kind_of = {c: kind for kind, some in CHANGES.items() for c in some}
    period = np.array([round(1000 / m["clock_ghz"]) for m in machines], float)
    moves: dict[str, list[tuple[float, float]]] = defaultdict(list)
    named = close = cases = 0
    with tempfile.TemporaryDirectory() as scratch:
        every_run = (run for source in sources for run in runs(source, Path(scratch)))
        for program, path, rows, measured in every_run:
            with tracekit.open(path) as trace:
                edges = [0, len(trace)] if rows is None else [0, *rows]
                simulated = totals(trace, machines, edges)[-1]
            true, said = np.array(measured, float) * period, simulated * period
            gains, guess = 1 - true[1:] / true[0], 1 - said[1:] / said[0]
            cases += 1
            named += int(gains[guess.argmax()] == gains.max())
            close += int(gains[guess.argmax()] >= gains.max() - 0.005)
            print(f"{program:14} total {said[0] / true[0] - 1:+7.2%}", flush=True)
            for c, a, b in zip(texts, -gains, -guess, strict=True):
                moves[c].append((a, b))
                if details and abs(b - a) > 0.01:
                    print(f"    {c:22} gem5 {100 * a:+7.2f} %, simulated {100 * b:+7.2f} %")
    every = np.array([m for some in moves.values() for m in some])
    line("all", every)
    for kind, some in CHANGES.items():
        line(kind, np.array([m for c in some for m in moves[c]]))
    if details:
        for c in texts:
            line(f"{kind_of[c]}: {c}", np.array(moves[c]))
    print(
        f"the change that helps most: named for {named} of {cases} programs, within 0.5 points"
        f" for {close}"
    )
    if with_sweep:
        line("all, and those of the sweep", np.concatenate([every, sweep(None)]))


def line(name: str, moves: np.ndarray) -> None:
    """One line of ``moves``: changes x (gem5's, simulated), as shares."""
    true, said = moves.T
    big, flat = np.abs(true) > MOVES, np.abs(true) < FLAT
    text = f"{name:34}{len(moves):5} changes, {big.sum():4} above 1 %"
    if big.any():
        error = np.abs(said - true)[big]
        text += (
            f": median {100 * np.median(error):5.2f} points,"
            f" {np.median(error / np.abs(true[big])):6.1%} of the change,"
            f" 95th {100 * np.quantile(error, 0.95):5.2f},"
            f" sign {np.mean(np.sign(said[big]) == np.sign(true[big])):.1%}"
        )
    if big.sum() > 2:
        text += f", Spearman {spearman(true[big], said[big]):.3f}"
    if flat.any():
        text += f"; {np.mean(np.abs(said[flat]) > FALSE_MOVE):.1%} of {flat.sum()} flat ones move"
    print(text)


def main() -> None:
    """Writes the plan, keeps, or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("plan", "keep", "table"))
    parser.add_argument(
        "paths", type=Path, nargs="+", help="of the plan, or datasets and what was kept"
    )
    parser.add_argument("--output", type=Path, help="of keep")
    parser.add_argument("--details", action="store_true", help="each change, and what is far off")
    parser.add_argument("--sweep", action="store_true", help="of table: with the cache sweep's")
    args = parser.parse_args()
    if args.what != "table" and len(args.paths) > 1:
        parser.error(f"{args.what}: one path")
    if args.what == "plan":
        plan(args.paths[0])
    elif args.what == "keep":
        if args.output is None:
            parser.error("keep: --output FILE")
        keep(args.paths[0], args.output)
    else:
        table(args.paths, args.details, args.sweep)


if __name__ == "__main__":
    main()
