"""What-if against gem5, causes against idealisations, and what `why` and `report` cost.

``python bench/causes_against_gem5.py sweep`` walks the programs of the shared cache sweep through
its 36 machines and compares each change between neighbours with gem5's.  ``idealisation`` asks, for
the shared programs on the shared machines, whether removing the largest cause helps first or second
most.  ``cost`` times the commands on a trace of a million rows.  All take ``--programs N``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from tracekit.causes import CAUSES, TITLES, idealizations, stacks, what_if
from tracekit.sim import KeptRows, totals
from tracekit.store.reader import TraceFile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from shared_cycles import SHARED, folder, machine, machine_names

#: Moves of gem5's time above the first are compared; below the second nothing is to move.
MOVES, FLAT, FALSE_MOVE = 0.01, 0.001, 0.005
#: Cause -> the idealisation that takes it away.  One a family: perfect L1D includes a perfect L2.
CURES = {
    **dict.fromkeys(("integer", "multiply", "divide", "floating_point", "load_l1"), "latency"),
    **dict.fromkeys(("load_l2", "load_l3", "load_memory_latency", "load_memory_queue"), "l1d"),
    **dict.fromkeys(("mshr_full", "store_miss", "store_drain"), "l1d"),
    **dict.fromkeys((c for c in CAUSES if c.startswith("icache_")), "l1i"),
    **dict.fromkeys((c for c in CAUSES if c.startswith("mispredict_")), "bp"),
    **dict.fromkeys(("rob_full", "scheduler_full", "registers_full"), "window"),
    **dict.fromkeys(("load_queue_full", "store_queue_full"), "window"),
    "resteer_decode": "bp",
    "front_end_width": "width",
    "unit_busy": "units",
    "memory_order_squash": "memory_order",
}


@contextmanager
def opened(arch: str, program: str) -> Iterator[TraceFile]:
    """The features of a shared program's functional trace."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / f"{program}.zst"
        tracekit.extract(folder(arch) / "exec" / f"{program}.xz", path)
        with tracekit.open(path) as trace:
            yield trace


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Of ranks, ties sharing theirs."""
    ranks = []
    for x in (a, b):
        _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts - 1) / 2)[inverse])
    return float(np.corrcoef(*ranks)[0, 1])


def sweep(programs: int | None) -> np.ndarray:
    """Changes of one cache size by one step, of 23 programs: changes x (gem5's, simulated)."""
    true = json.loads((SHARED / "dse" / "totals.json").read_text())
    base = machine("o3_small")
    names = list(next(iter(true.values())))
    sizes = [tuple(map(int, n.removeprefix("l1d").split("_l2"))) for n in names]
    machines = [{**base, "l1d_kb": a, "l2_kb": b} for a, b in sizes]
    at = {s: k for k, s in enumerate(sizes)}
    steps = [sorted({s[i] for s in sizes}) for i in (0, 1)]
    pairs = [
        ("l1d_kb", at[a, c], at[b, c]) for a, b in itertools.pairwise(steps[0]) for c in steps[1]
    ]
    pairs += [
        ("l2_kb", at[c, a], at[c, b]) for a, b in itertools.pairwise(steps[1]) for c in steps[0]
    ]
    found, kinds, which, named, close, cases = [], [], [], 0, 0, 0
    for program in list(true)[:programs]:
        with opened("arm", program) as trace:
            simulated = totals(trace, machines)[0].astype(float)
        gem5 = np.array([true[program][n] for n in names], float)
        for kind, a, b in pairs:
            found.append((gem5[b] / gem5[a] - 1, simulated[b] / simulated[a] - 1))
            kinds.append(kind)
            which.append(program)
        for k in range(len(names)):
            near = [b if a == k else a for _, a, b in pairs if k in (a, b)]
            gains, guess = 1 - gem5[near] / gem5[k], 1 - simulated[near] / simulated[k]
            cases += 1
            named += int(gains[guess.argmax()] == gains.max())
            close += int(gains[guess.argmax()] >= gains.max() - 0.005)
        own = np.array(found[-len(pairs) :])
        big = np.abs(own[:, 0]) > MOVES
        off = 100 * (own[:, 1] - own[:, 0])
        print(
            f"{program:14} totals {np.mean(simulated / gem5 - 1):+7.2%}"
            f"  {big.sum():3} moves above 1 %, worst error {np.abs(off).max():5.2f} points,"
            f" in the mean {off[big].mean() if big.any() else 0.0:+5.2f}",
            flush=True,
        )
    moves, kind, program = np.array(found), np.array(kinds), np.array(which)
    table("all", moves)
    for k in ("l1d_kb", "l2_kb"):
        table(k, moves[kind == k])
    print(
        f"the change that helps most: named in {named / cases:.1%},"
        f" within 0.5 points in {close / cases:.1%}"
    )
    error = np.abs(moves[:, 1] - moves[:, 0])
    big = np.abs(moves[:, 0]) > MOVES
    for p, n in Counter(program[big & (error > 0.006)].tolist()).most_common(8):
        print(f"  above 0.6 points: {n:3} of {(big & (program == p)).sum():3} of {p}")
    return moves


def table(name: str, moves: np.ndarray) -> None:
    """One line: ``moves``: changes x (gem5's, simulated), as shares."""
    true, said = moves.T
    big, flat = np.abs(true) > MOVES, np.abs(true) < FLAT
    error = np.abs(said - true)[big]
    print(
        f"{name:8}{len(moves):6} changes, {big.sum()} above 1 %:"
        f" median {100 * np.median(error):.2f} points,"
        f" {np.median(error / np.abs(true[big])):.1%} of the change,"
        f" 95th {100 * np.quantile(error, 0.95):.2f},"
        f" sign {np.mean(np.sign(said[big]) == np.sign(true[big])):.1%},"
        f" Spearman {spearman(true[big], said[big]):.3f} (of all {spearman(true, said):.3f});"
        f" of {flat.sum()} flat ones {np.mean(np.abs(said[flat]) > FALSE_MOVE):.1%} move"
    )


def idealisation(programs: int | None) -> None:
    """Whether the largest cause that can be taken away is first or second by what that brings."""
    for arch in ("arm", "x86"):
        names = machine_names(arch)
        ranks: Counter[int] = Counter()
        missed: Counter[str] = Counter()
        paths = sorted((folder(arch) / "exec").glob("*.xz"))[:programs]
        for path in paths:
            with opened(arch, path.stem) as trace:
                kept = KeptRows(trace)
                for m in map(machine, names):
                    cause, rank = ranked(kept, m)
                    ranks[rank] += 1
                    if rank > 2:
                        missed[cause] += 1
        n = sum(ranks.values())
        print(
            f"{arch}: {len(paths)} programs x {len(names)} machines: first {ranks[1] / n:.1%},"
            f" first or second {(ranks[1] + ranks[2]) / n:.1%};"
            f" the others: {', '.join(f'{TITLES[c]} {k}' for c, k in missed.most_common(5))}",
            flush=True,
        )


def ranked(kept: KeptRows, m: dict[str, Any]) -> tuple[str, int]:
    """The largest cause that has a cure, and the rank of its cure's gain among all cures'."""
    stack = stacks(kept, [m]).of(0)
    ideal = {c.text.partition("=")[0]: c for c in idealizations(m)}
    cures = [n for n in dict.fromkeys(CURES.values()) if n in ideal]
    effects = what_if(kept, m, [ideal[n] for n in cures]).effects
    gain = dict(zip(cures, (e.gain for e in effects), strict=True))
    cause = max((c for c in stack if CURES.get(c) in gain), key=stack.__getitem__)
    mine = gain[CURES[cause]]
    return cause, 1 + sum(g > mine + 1e-9 for g in gain.values())


def cost(programs: int | None) -> None:
    """CPU and wall seconds of the commands, of about a million rows: shared programs one after
    another, ``programs`` times."""
    with tempfile.TemporaryDirectory() as temporary:
        text, feats, page = (Path(temporary) / n for n in ("t.exec", "t.zst", "r.html"))
        with text.open("wb") as out:
            for program in ("lua_mix", "sqlite_cte") * (programs or 1):
                out.write(lzma.decompress((SHARED / "exec" / f"{program}.xz").read_bytes()))
        tracekit.extract(text, feats)
        with tracekit.open(feats) as trace:
            print(f"{len(trace):,} rows")
        files = [str(SHARED / "machines" / f"{n}.json") for n in machine_names("arm")[:5]]
        run = [sys.executable, "-m", "tracekit"]
        why = [*run, "why", str(feats), "--machine", files[0]]
        print("why --no-changes:", timed([*why, "--no-changes"]))
        print("why:             ", timed(why))
        report = [*run, "report", str(feats), "--machine", *files, "-o", str(page)]
        print("report:          ", timed(report), f"{page.stat().st_size / 1e6:.2f} MB")


def timed(command: list[str]) -> str:
    """Runs it; its CPU and wall seconds."""
    begin, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return f"{cpu:.2f} s of CPU, {time.perf_counter() - begin:.2f} s"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("sweep", "idealisation", "cost"))
    parser.add_argument("--programs", type=int, help="only so many")
    args = parser.parse_args()
    {"sweep": sweep, "idealisation": idealisation, "cost": cost}[args.what](args.programs)


if __name__ == "__main__":
    main()
