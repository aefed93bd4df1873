"""The fleet's answer from samples against the truth: order of designs, intervals and their widths.

    python bench/fleet_from_samples.py [--traces DIR] [--programs 30] [--fleets 1000] [--share 0.05]

Each fleet runs the programs for random shares of its time (Dirichlet, all ones).  It is sampled at
random places, two in each stretch of a program's instructions.  --allocation "time": evenly in
time, so that a program has samples by its share.  "spread", as agents do: a third of them so, and
the others by each program's time and the spread of what those said.  The programs are short (half a
million instructions), so an epoch is ``--length`` instructions here.  No fleet has more than
``--share`` of all programs' instructions.

The truth is gem5's cycles of every instruction on five designs.  ``gem5``: the sample has gem5's
cycles, so that sampling alone is tested.  With --model it has a model's, whose simulated cores
walked the whole program: ``shipped`` is the shipped table, ``unseen`` a table that is fitted
without the program's family.  Their intervals add the model's error to that of sampling, by
cross-validated residuals of the families that no judged program is of; ``sampling`` leaves that
out, for ``unseen``.  With --draws the programs are drawn so many times, for an equal part of the
fleets each: which programs are left for the model's error is chance, too.  Time on the computer
that it runs on is that of --reference ("mean": the five designs' average).
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from tracekit.agent.allocation import spreads
from tracekit.estimation import fleet

DESIGNS = ("ns_4w_mem", "ns_6w_ls", "ns_8w", "ns_lsq", "ns_rob")
DIFFERENT = 0.005
PILOT = 1 / 3
"""Of the epochs: what the programs' spreads are known from."""


def true_units(folder: Path, names: list[str], program: str, length: int) -> np.ndarray:
    """float64 [designs and reference, units]: gem5's cycles of each ``length`` rows."""
    packed = (folder / f"{program}.npy.zst").read_bytes()
    cycles = np.load(io.BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(packed)))
    rows = cycles[[names.index(n) for n in (*DESIGNS, "o3_small")]]
    n = rows.shape[1] // length
    return rows[:, : n * length].reshape(len(rows), n, length).sum(axis=2, dtype=np.float64)


def core_units(traces: Path, work: Path, program: str, length: int) -> np.ndarray:
    """Cycles of the shipped model's cores, [units, cores]; the last unit is what is left over."""
    import tracekit
    from tracekit.sim import walk

    features, kept = work / f"{program}.zst", work / f"{program}.{length}.npy"
    if kept.exists():
        return np.load(kept)
    if not features.exists():
        tracekit.extract(traces / "exec" / f"{program}.xz", features)
    model = tracekit.load_model()
    with tracekit.open(features) as trace:
        n = len(trace) // length
        sums = np.zeros((n + 1, len(model.cores)))
        for block in walk(trace, model.cores):
            at = np.minimum((block.begin + np.arange(len(block.cycles))) // length, n)
            starts = np.flatnonzero(np.diff(at, prepend=-1))
            sums[at[starts]] += np.add.reduceat(block.cycles, starts, axis=0, dtype=np.float64)
    np.save(kept, sums)
    return sums


def model_units(
    traces: Path, work: Path, programs: list[str], length: int
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """[designs, units] of each program by the shipped table and by one without its family; the
    products of the errors of programs of other families than theirs, [designs, designs]."""
    import tracekit
    from tracekit.mixture.fit import Sums, fit_table
    from tracekit.mixture.training import priors_of

    model = tracekit.load_model()
    assert model.residuals is not None
    family = dict(zip(model.residuals.programs, model.residuals.families, strict=True))
    machines = json.loads((traces / "commits" / "machines.json").read_text())
    rows = [machines.index(d) for d in DESIGNS]
    cores, sums = {}, []
    for name in family:
        cores[name] = core_units(traces, work, name, length)
        packed = (traces / "commits" / f"{name}.npy.zst").read_bytes()
        cycles = np.load(
            io.BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
        )
        y = cycles[rows].sum(axis=1, dtype=np.float64)[None]
        x = cores[name].sum(axis=0, keepdims=True)
        sums.append(Sums(name, family[name], cycles.shape[1], x, y))
    priors = priors_of(model.cores, DESIGNS)
    strength = float(str(model.training["strength"]))
    shipped = model.table[[model.names.index(d) for d in DESIGNS]]
    unseen = []
    for name in programs:
        table = fit_table([p for p in sums if p.family != family[name]], priors, strength)
        unseen.append((cores[name][:-1] @ table.T).T)
    judged = sorted({family[name] for name in programs})
    errors = model.residuals.moments(DESIGNS, judged)
    return [(cores[name][:-1] @ shipped.T).T for name in programs], unseen, errors


def draw(rng: np.random.Generator, units: int, strata: int) -> tuple[np.ndarray, np.ndarray]:
    """Two different random units in each of so many equal stretches, and each one's stretch."""
    edges = np.linspace(0, units, strata + 1).astype(int)
    low, size = edges[:-1], np.diff(edges)
    first = (rng.random(strata) * size).astype(int)
    second = (rng.random(strata) * (size - 1)).astype(int)
    second += second >= first
    at = np.concatenate([low + first, low + second])
    return at, np.concatenate([np.arange(strata)] * 2)


def taken(
    rng: np.random.Generator, units: np.ndarray, epochs: float, mean: bool
) -> tuple[np.ndarray, ...]:
    """Random epochs of a program, two in each of equal stretches of it: their places, their parts
    of the program's seconds, their times on the designs and on the reference, their stretches, and
    the share of each stretch that was not sampled."""
    strata = max(2, min(int(epochs / 2), units.shape[1] // 4))
    at, of = draw(rng, units.shape[1], strata)
    edges = np.diff(np.linspace(0, units.shape[1], strata + 1).astype(int))
    own = _reference(units, mean)[at]
    # the program's seconds, by the sample's own time there: a ratio within the program
    stands = own * edges[of] / 2
    return stands / stands.sum(), units[: len(DESIGNS), at].T, own, of, 1 - 2 / edges[of]


def sampled_epochs(
    rng: np.random.Generator,
    weights: np.ndarray,
    sampled: list[np.ndarray],
    budget: float,
    mean: bool,
    by_spread: bool,
) -> tuple[list[tuple[np.ndarray, ...]], int]:
    """Of each program, in one part or two, what `fleet` takes; and how many epochs that is."""
    share = PILOT if by_spread else 1.0
    first = [taken(rng, s, budget * w * share, mean) for w, s in zip(weights, sampled, strict=True)]
    each = [[f] for f in first]
    if by_spread:
        found = spreads(
            (k, float(w), t) for k, f in enumerate(first)
            for w, t in zip(f[0], f[1].tolist(), strict=True)
        )  # fmt: skip
        had = np.array([len(f[0]) for f in first])
        wanted = weights * np.array([found[k] for k in range(len(first))])
        more = np.maximum(0.0, budget * wanted / wanted.sum() - had)
        more *= max(0.0, budget - had.sum()) / more.sum()
        for k, epochs in enumerate(more.tolist()):
            if epochs >= 4:
                each[k].append(taken(rng, sampled[k], epochs, mean))
    parts: list[tuple[np.ndarray, ...]] = []
    strata = used = 0
    for k, own in enumerate(each):
        epochs = sum(len(p[0]) for p in own)
        used += epochs
        for stands, times, reference, of, uncounted in own:
            weight = weights[k] * len(stands) / epochs * stands
            program = np.full(len(stands), k)
            parts.append((weight, times, reference, of + strata, uncounted, program))
            strata += int(of.max()) + 1
    return parts, used


def one_fleet(
    rng: np.random.Generator,
    truth: list[np.ndarray],
    sampled: list[np.ndarray],
    share: float,
    mean: bool,
    errors: np.ndarray | None,
    by_spread: bool,
) -> tuple[list[tuple[bool, float]], list[bool], list[float]]:
    """For each pair whether its interval held and its half width; whether those that differ are in
    the right order; and the share of the instructions that was sampled."""
    weights = rng.dirichlet(np.ones(len(truth)))
    rows = [_reference(t, mean) for t in truth]
    whole = sum(t.shape[1] for t in truth)
    expected = np.zeros(len(DESIGNS))
    for w, t, ref in zip(weights, truth, rows, strict=True):
        expected += w * t[: len(DESIGNS)].sum(axis=1) / ref.sum()
    parts, used = sampled_epochs(rng, weights, sampled, whole * share, mean, by_spread)
    weight, times, reference, strata_of, uncounted, program = (
        np.concatenate([p[k] for p in parts]) for k in range(6)
    )
    found = fleet(
        DESIGNS,
        weight,
        times,
        reference=None if mean else reference,
        strata=strata_of,
        uncounted=uncounted,
        errors=errors,
        programs=program,
    )
    held, order = [], []
    for a, b in itertools.combinations(range(len(DESIGNS)), 2):
        c = found.compare(DESIGNS[a], DESIGNS[b])
        true = expected[a] / expected[b]
        held.append((abs(c.ratio - true) <= c.half, c.half / c.ratio))
        if abs(true - 1) > DIFFERENT:
            order.append((c.ratio > 1) == (true > 1))
    return held, order, [used / whole]


def _reference(units: np.ndarray, mean: bool) -> np.ndarray:
    return units[: len(DESIGNS)].mean(axis=0) if mean or len(units) == len(DESIGNS) else units[-1]


def summary(results: list[Any]) -> dict[str, float]:
    held = np.array([h for r in results for h, _ in r[0]])
    half = np.array([x for r in results for _, x in r[0]])
    order = np.array([o for r in results for o in r[1]])
    return {
        "right_order": float(order.mean()),
        "pairs_that_differ": len(order),
        "held": float(held.mean()),
        "half_width_median": float(np.median(half)),
        "half_width_mean": float(half.mean()),
        "largest_share": float(max(r[2][0] for r in results)),
    }


def _as_long(units: list[np.ndarray], truth: list[np.ndarray]) -> list[np.ndarray]:
    return [u[:, : t.shape[1]] for u, t in zip(units, truth, strict=True)]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--traces", type=Path, default=Path("../shared/traces"))
    p.add_argument("--programs", type=int, default=30, help="drawn by the seed")
    p.add_argument("--fleets", type=int, default=1000)
    p.add_argument("--draws", type=int, default=1, help="of the programs")
    p.add_argument("--allocation", choices=("spread", "time"), default="spread")
    p.add_argument("--share", type=float, default=0.05)
    p.add_argument("--length", type=int, default=500, help="instructions of an epoch")
    p.add_argument("--reference", choices=("mean", "o3_small"), default="mean")
    p.add_argument("--seed", type=int, default=30)
    p.add_argument("--model", type=Path, metavar="WORK", help="also the shipped model; features")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    folder = args.traces / "commits"
    every = sorted(f.name.removesuffix(".npy.zst") for f in folder.glob("*.npy.zst"))
    rng = np.random.default_rng(args.seed)
    drawn, found = [], {}
    for number in range(args.draws):
        drawn.append(sorted(rng.choice(every, args.programs, replace=False).tolist()))
        for kind, results in judged(args, drawn[-1], number + 1).items():
            found.setdefault(kind, []).append(results)
    out = {"seed": args.seed, "programs": drawn, "length": args.length, "share": args.share}
    for kind, parts in found.items():
        out[kind] = summary(list(itertools.chain(*parts)))
        out[kind]["half_width_by_draw"] = [summary(r)["half_width_median"] for r in parts]
    if args.json:
        print(json.dumps(out, indent=1))
        return 0
    print(
        f"{args.programs} programs, drawn {args.draws} times, {args.fleets} fleets, epochs of "
        f"{args.length}, seed {args.seed}"
    )
    for kind in found:
        s = out[kind]
        each = s["half_width_by_draw"]
        by_draw = f" ({min(each):.2%} to {max(each):.2%} by draw)" if len(each) > 1 else ""
        print(
            f"{kind:<9} right order {s['right_order']:.2%} of {s['pairs_that_differ']:,}, "
            f"held {s['held']:.1%}, half width {s['half_width_median']:.2%} (median){by_draw}, at "
            f"most {s['largest_share']:.2%} of the instructions"
        )
    return 0


def judged(args: argparse.Namespace, programs: list[str], number: int) -> dict[str, list[Any]]:
    """Fleets of these programs, by whose cycles the samples have."""
    folder = args.traces / "commits"
    names = json.loads((folder / "machines.json").read_text())
    truth = [true_units(folder, names, name, args.length) for name in programs]
    kinds: dict[str, tuple[list[np.ndarray], np.ndarray | None]] = {"gem5": (truth, None)}
    if args.model:
        args.model.mkdir(parents=True, exist_ok=True)
        shipped, unseen, errors = model_units(args.traces, args.model, programs, args.length)
        kinds["shipped"] = (_as_long(shipped, truth), errors)
        kinds["unseen"] = (_as_long(unseen, truth), errors)
        kinds["sampling"] = (_as_long(unseen, truth), None)
    mean, by_spread = args.reference == "mean", args.allocation == "spread"
    out = {}
    for kind, (units, errors) in kinds.items():
        own = np.random.default_rng([args.seed, number])
        # what is kept back pays for the two stretches that every program has at least
        out[kind] = [
            one_fleet(own, truth, units, args.share * 0.98, mean, errors, by_spread)
            for _ in range(args.fleets // args.draws)
        ]
    return out


if __name__ == "__main__":
    sys.exit(main())
