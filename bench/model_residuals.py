"""How far a shipped model is off on families of programs that it was not fitted on, by machine:
what `tracekit predict` makes its model intervals of (docs/sampling.md).

    python bench/model_residuals.py arm [--kept FOLDER]
    python bench/model_residuals.py x86 [--level micro] [--kept FOLDER]
    python bench/model_residuals.py riscv --manifest DATASET/manifest.json

Walks the shared traces, or the programs of a dataset that `tracekit factory` made, through the
model's cores, fits the table once for each family without that family's programs, and writes
residuals.json into the model's folder: of each program its family, how far it lies outside of the
others' distribution, and the logarithm of predicted over true cycles on each machine, of the fit
and of the machine's own simulated core.  Prints how often intervals of
the other families' residuals hold a family's true times, and how wide they are.  ``--kept`` keeps
extracted traces and sums for the next run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import tracekit
from tracekit.dataset import load_manifest
from tracekit.io.output import write_json
from tracekit.mixture.distribution import Distribution, measure
from tracekit.mixture.fit import Sums, fit_table
from tracekit.mixture.model import Mixture, default_model_path, load_model
from tracekit.mixture.residuals import RESIDUALS, Residuals, strangeness
from tracekit.mixture.training import priors_of
from tracekit.sim import totals

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from shared_cycles import commits, folder


def program_sums(
    arch: str, model: Mixture, names: dict[str, str], kept: Path
) -> tuple[list[Sums], list[Distribution]]:
    """Each program's cycles on the cores and on gem5's machines, whole, and its distribution."""
    sums, seen = [], []
    for name, family in names.items():
        path = kept / f"{arch}.{model.level}.{name}.zst"
        if not path.exists():
            tracekit.extract(folder(arch) / "exec" / f"{name}.xz", path, level=model.level)
        with tracekit.open(path) as trace:
            seen.append(measure(trace))
            x = totals(trace, model.cores)
            rows = len(trace)
        y = commits(arch, name, model.names).sum(axis=1, dtype=np.float64)[None]
        sums.append(Sums(name, family, rows, x, y))
        print(f"{name}: {rows:,} rows", file=sys.stderr, flush=True)
    return sums, seen


def dataset_sums(model: Mixture, manifest: Path) -> tuple[list[Sums], list[Distribution]]:
    """The same of a dataset's programs."""
    sums, seen = [], []
    for program in load_manifest(manifest).programs:
        with program.open() as data:
            seen.append(measure(data.trace))
            x = totals(data.trace, model.cores)
            at = [data.column_of(m) for m in model.names]
            y = data.sums(np.array([0, len(data)]))[:, at]
            sums.append(Sums(program.name, program.family, len(data), x, y))
    return sums, seen


def without_each_family(model: Mixture, sums: list[Sums], seen: list[Distribution]) -> Residuals:
    """What a fit without a program's family gets wrong of it."""
    priors = priors_of(model.cores, model.names)
    strength = float(str(model.training["strength"]))
    logs, strange, cores = [], [], []
    own = [[str(c["name"]) for c in model.cores].index(m) for m in model.names]
    for i, p in enumerate(sums):
        others = [k for k, q in enumerate(sums) if q.family != p.family]
        table = fit_table([sums[k] for k in others], priors, strength)
        logs.append(np.log(p.x[0] @ table.T / p.y[0]))
        cores.append(np.log(p.x[0, own] / p.y[0]))
        known = Distribution()
        for k in others:
            known.add(seen[k])
        strange.append(strangeness(seen[i], known))
    return Residuals(
        model.names,
        tuple(p.name for p in sums),
        tuple(p.family for p in sums),
        np.array(strange),
        np.array(logs),
        np.array(cores),
    )


def main() -> int:
    """Measures, writes and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arch", choices=["arm", "x86", "riscv"])
    parser.add_argument("--level", choices=["macro", "micro"], default="macro", help="of rows")
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--manifest", type=Path, help="the model's programs; else shared traces")
    parser.add_argument("--check", action="store_true", help="write nothing, print what is there")
    args = parser.parse_args()
    model = load_model(None, args.arch, args.level)
    place = default_model_path(args.arch, args.level) / RESIDUALS
    if args.check:
        found = Residuals.load(place)
    elif args.manifest is not None:
        found = without_each_family(model, *dataset_sums(model, args.manifest))
        write_json(place, found.as_dict(), force=True)
    elif args.arch == "riscv":
        parser.error("no traces of RISC-V are shared: --manifest")
    else:
        programs = model.training["programs"]
        assert isinstance(programs, list)
        names = {str(p["name"]): str(p["family"]) for p in programs}
        with tempfile.TemporaryDirectory() as made:
            kept = args.kept or Path(made)
            kept.mkdir(parents=True, exist_ok=True)
            found = without_each_family(model, *program_sums(args.arch, model, names, kept))
        write_json(place, found.as_dict(), force=True)
    print(json.dumps(found.coverage(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
