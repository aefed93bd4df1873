"""The search for cores of a machine of unknown parameters beside pycma, nevergrad and optuna, at
equal numbers of simulated cores.

    python -m pip install cma nevergrad optuna
    python bench/search_peers.py MANIFEST u008 u015 … --programs lz4 mm_naive chase

All have the class objective on the first --rows of each program, see the same known and random
designs first, and may have as many cores simulated as the search takes with generations that are
all judged on those rows.  Of each the best objective, and the mean error of total time on the
programs that are not named, of the row that its twelve best cores (of the search: the twelve that
it ends with) make.  A machine's own core is in none of it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracekit.calibration import search
from tracekit.calibration.ensemble import Ensemble
from tracekit.calibration.nearby_row import ClassTimes, regularized_row
from tracekit.calibration.random_designs import GRID, possible, random_designs
from tracekit.calibration.row_classes import CLASSES, DIVISIONS, class_labels
from tracekit.calibration.search_settings import Round, SearchSettings
from tracekit.dataset import load_manifest
from tracekit.sim import ClassedRows

#: Of every method, and of the random designs.
SEED = 7
#: Cores that peers are asked for at once, and that a row is made of.
BATCH, KEPT = 32, search.CANDIDATES
Core = dict[str, Any]


class Counted:
    """A judge that counts the cores that it simulates and remembers them; a core that is not
    possible costs nothing and is worse than all others."""

    def __init__(self, judge: search.Judge) -> None:
        self.judge = judge
        self.cores: list[Core] = []
        self.errors: list[float] = []
        self.asked = 0

    def __call__(self, cores: Sequence[Mapping[str, Any]]) -> Any:
        found = self.judge(cores)
        self.cores += [dict(c) for c in cores]
        self.errors += found[0].tolist()
        return found

    def of(self, cores: Sequence[Core]) -> list[float]:
        """Objectives, for peers."""
        self.asked += len(cores)
        good = [c for c in cores if possible(c)]
        found = iter(self(good)[0].tolist() if good else [])
        return [next(found) if c in good else 1e4 for c in cores]

    def goes_on(self, budget: int) -> bool:
        """Whether fewer are simulated; or a peer asks for cores that are not possible."""
        return len(self.cores) < budget and self.asked < 2 * budget

    def best(self, count: int) -> list[Core]:
        """The best ones, each once."""
        out: list[Core] = []
        for i in np.argsort(self.errors, kind="stable").tolist():
            core = {k: v for k, v in self.cores[i].items() if k != "name"}
            if core not in out:
                out.append(core)
            if len(out) == count:
                break
        return out


class Space:
    """Cores as numbers 0 to 1 by parameter, names as one number each; and as choices."""

    def __init__(self, start: Sequence[Core], width: bool) -> None:
        keys = list(dict.fromkeys((*GRID, "issue_width", "phys_int", "phys_vec")))
        self.values = {k: search._values(k, start) for k in keys if not (width and k == "width")}
        self.ensemble = Ensemble(self.values)
        self.most = np.concatenate(
            [np.ones(len(v)) if isinstance(v[0], str) else [max(1, len(v) - 1)]
             for v in self.values.values()]
        )  # fmt: skip

    def numbers(self, core: Core) -> np.ndarray:
        return self.ensemble._place(core) / self.most

    def core(self, base: Core, numbers: np.ndarray) -> Core:
        return search._made(self.ensemble._core(base, np.asarray(numbers) * self.most), {})

    def chosen(self, base: Core, choice: Mapping[str, int]) -> Core:
        return search._made(base | {k: self.values[k][i] for k, i in choice.items()}, {})

    def choice(self, core: Core) -> dict[str, int]:
        return {k: v.index(core[k]) for k, v in self.values.items()}


def pycma(judge: Counted, space: Space, start: Sequence[Core], budget: int) -> None:
    import cma

    base = judge.best(1)[0]
    options = {"bounds": [0, 1], "seed": SEED, "popsize": BATCH, "verbose": -9, "tolfun": 0}
    es = cma.CMAEvolutionStrategy(space.numbers(base), 0.15, options)
    while judge.goes_on(budget):
        asked = es.ask()
        es.tell(asked, judge.of([space.core(base, x) for x in asked]))


def nevergrad(judge: Counted, space: Space, start: Sequence[Core], budget: int) -> None:
    import nevergrad as ng

    base = judge.best(1)[0]
    choices = {
        k: (ng.p.Choice if isinstance(v[0], str) else ng.p.TransitionChoice)(range(len(v)))
        for k, v in space.values.items()
    }
    space_of = ng.p.Dict(**choices)
    space_of.random_state.seed(SEED)
    left = budget - len(judge.cores)
    optimizer = ng.optimizers.NGOpt(space_of, budget=left, num_workers=BATCH)
    for core in judge.best(BATCH):
        optimizer.suggest(space.choice(core))
    while judge.goes_on(budget):
        asked = [optimizer.ask() for _ in range(BATCH)]
        for a, error in zip(
            asked, judge.of([space.chosen(base, a.value) for a in asked]), strict=True
        ):
            optimizer.tell(a, error)


def optuna(judge: Counted, space: Space, start: Sequence[Core], budget: int) -> None:
    import optuna as o

    o.logging.set_verbosity(o.logging.ERROR)
    base = judge.best(1)[0]
    of: dict[str, Any] = {
        k: o.distributions.CategoricalDistribution(list(range(len(v))))
        if isinstance(v[0], str)
        else o.distributions.IntDistribution(0, len(v) - 1)
        for k, v in space.values.items()
    }
    sampler = o.samplers.TPESampler(seed=SEED, constant_liar=True)
    study = o.create_study(sampler=sampler)
    for core, error in zip(list(judge.cores), list(judge.errors), strict=True):
        choice = space.choice(core)
        study.add_trial(o.trial.create_trial(params=choice, distributions=of, value=error))
    while judge.goes_on(budget):
        asked = [study.ask(of) for _ in range(BATCH)]
        for a, error in zip(
            asked, judge.of([space.chosen(base, a.params) for a in asked]), strict=True
        ):
            study.tell(a, error)


PEERS: dict[str, Callable[[Counted, Space, Sequence[Core], int], None]] = {
    "pycma": pycma,
    "optuna TPE": optuna,
    "nevergrad NGOpt": nevergrad,
}


def ours(traces: Any, start: list[Core], settings: SearchSettings) -> tuple[list[Core], Counted]:
    """What the search ends with, and all that it simulated."""
    counted: list[Counted] = []
    plain = search.Judge

    def judge(*arguments: Any) -> Counted:
        counted.append(Counted(plain(*arguments)))
        return counted[-1]

    search.Judge = judge  # type: ignore[misc, assignment]
    try:
        found = search.similar_cores(traces, start, KEPT, SEED, settings=settings)
    finally:
        search.Judge = plain  # type: ignore[misc]
    every = Counted(counted[0].judge)
    for c in counted:
        every.cores += c.cores
        every.errors += c.errors
    return found, every


def tell(
    machine: str,
    tuned: Sequence[str],
    kept: Mapping[str, ClassedRows],
    cycles: Mapping[str, Any],
    labels: Mapping[str, Any],
    method: str,
    cores: Sequence[Core],
    judge: Counted,
    spent: float,
) -> None:
    """Prints what a method found, and how far the row from its ``cores`` is off elsewhere."""
    new = [{**c, "name": f"candidate{i}"} for i, c in enumerate(cores)]
    x = {n: k.totals(new)[1] for n, k in kept.items()}
    y = {n: k.sums(cycles[n])[1] for n, k in kept.items()}
    time_x = {n: v.sum(axis=0) / DIVISIONS for n, v in x.items()}
    time_y = {n: float(v.sum()) / DIVISIONS for n, v in y.items()}
    counts = {n: np.bincount(labels[n].ravel(), minlength=CLASSES) for n in tuned}
    row = regularized_row([ClassTimes(x[n], y[n], counts[n], time_x[n], time_y[n]) for n in tuned])
    off = [abs(time_x[n] @ row / time_y[n] - 1) for n in x if n not in tuned]
    print(
        f"{machine} {method:<18} {len(judge.cores):>5} cores; objective {min(judge.errors):5.1f}; "
        f"other programs {np.mean(off):6.1%} mean {np.median(off):6.1%} median {max(off):6.1%} "
        f"worst; {spent:.0f} s of CPU",
        flush=True,
    )


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("manifest")
    p.add_argument("machines", nargs="+")
    p.add_argument("--programs", nargs="+", required=True)
    p.add_argument("--without", nargs="*", default=[], help="machines that no core is of")
    p.add_argument("--rows", type=int, default=1 << 15)
    p.add_argument("--generations", type=int, nargs=2, default=(10, 2), metavar=("BEFORE", "AFTER"))
    p.add_argument("--every", type=int, default=1, help="only every Nth other program is predicted")
    args = p.parse_args()
    warnings.filterwarnings("ignore")
    manifest = load_manifest(args.manifest)
    names = [m for m in manifest.common_machines() if m not in args.without]
    known: list[Core] = [{**manifest.machines[m], "name": m} for m in names]
    start = [*known, *random_designs(known, seed=SEED)]
    rest = [q.name for q in manifest.programs if q.name not in args.programs][:: args.every]
    opened = {q.name: q.open() for q in manifest.programs if q.name in [*args.programs, *rest]}
    labels = {n: class_labels(d.trace, args.rows) for n, d in opened.items()}
    kept = {n: ClassedRows(d.trace, labels[n], CLASSES, args.rows) for n, d in opened.items()}
    settings = SearchSettings(
        rounds=(Round(args.rows, *args.generations),),
        settling_rows=args.rows,
    )
    for machine in args.machines:
        begun = [c for c in start if c["name"] != machine]
        cycles = {
            n: d.cycles((0, args.rows))[:, d.column_of(machine)].astype(float)
            for n, d in opened.items()
        }
        traces = [(opened[n].trace, cycles[n]) for n in args.programs]
        marked = [(opened[n].trace, cycles[n], labels[n]) for n in args.programs]

        told = partial(tell, machine, args.programs, kept, cycles, labels)
        begin = time.process_time()
        found, every = ours(traces, begun, settings)
        told("tracekit", found, every, time.process_time() - begin)
        told("tracekit, best 12", every.best(KEPT), every, 0.0)
        first, given = search.begun(traces, begun, settings=settings)
        space = Space(first, "width" in given)
        for method, run in PEERS.items():
            judge = Counted(search.Judge(marked, args.rows, settings=settings))
            begin = time.process_time()
            judge(first)
            run(judge, space, first, len(every.cores))
            told(method, judge.best(KEPT), judge, time.process_time() - begin)
    return 0


if __name__ == "__main__":
    sys.exit(main())
