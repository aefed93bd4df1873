"""Windows of ten million instructions, warm, in gem5 and here: six programs on six machines.

    python bench/long_windows.py x86 WORK plan                     # or arm
    tracekit factory WORK/plan.toml --gem5 gem5.opt -o WORK/data   # an hour on one processor
    python bench/long_windows.py x86 WORK report [--keep]

Programs use more memory than first caches have, and the machines have second and third ones of many
sizes.  gem5 and the cores here are cold at a window's first row; its first two million
instructions warm both and are not judged.  ``report`` prints each pair's error, of cores without a
fit, of the shipped model, and of the half million instructions behind the warm ones alone, for the
whole.  ``--keep`` writes gem5's cycles to long_windows.json.  Programs, machines and windows were
written before anything was run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from whole_program_list import SHARED, compiled, text

from tracekit.dataset import Dataset, load_manifest
from tracekit.mixture import load_model
from tracekit.sim import totals

MACHINES = ("o3_small", "io_2w", "u001", "u004", "u007", "u010")
#: Instructions: of the window, and of its beginning that is not judged.
WINDOW, WARM = 12_000_000, 2_000_000
#: Rows of a short window.
SHORT = 500_000
ROUNDS = "1000000"
#: Instruction set -> its compiler, and the level of the model that ships for it.
COMPILERS = {"x86": "gcc", "arm": "aarch64-linux-gnu-gcc"}
LEVELS = {"x86": "micro", "arm": "macro"}
#: Name -> file of kernels, its arguments, and the instructions to skip, in which it sets up.
KERNELS = {
    "hash-linear": ("hash", ("linear", ROUNDS, "65536"), 5_000_000),
    "graph-breadth": ("graph", ("breadth", ROUNDS, "40000"), 12_000_000),
    "sort-radix": ("sort", ("radix", ROUNDS, "150000"), 3_000_000),
    "pointers-tree": ("pointers", ("tree", ROUNDS, "40000"), 15_000_000),
    "linear-lu": ("linear", ("lu", ROUNDS, "300"), 3_000_000),
}
COMPRESSION_SKIP = 20_000_000
KEPT = Path(__file__).with_suffix(".json")


def plan(isa: str, work: Path) -> str:
    """plan.toml, beside the programs and the text that bzip2 reads."""
    binaries = {f: compiled(f, COMPILERS[isa], work) for f in {f for f, _, _ in KERNELS.values()}}
    (work / "text.txt").write_text(text(1_000_000))
    lines = ["[machines]", f"use = {json.dumps(MACHINES)}", "", "[window]"]
    lines += [f"instructions = {WINDOW}"]

    def program(name: str, binary: Path, arguments: list[str], skip: int) -> list[str]:
        where = ["", "[[programs]]", f'name = "{name}"', f"binary = {json.dumps(str(binary))}"]
        return [*where, f"arguments = {json.dumps(arguments)}", f"skip = {skip}"]

    for name, (file, arguments, skip) in KERNELS.items():
        lines += program(name, binaries[file], list(arguments), skip)
    bzip2 = program("bzip2", SHARED / isa / "bzip2", ["-k", "-c", "text.txt"], COMPRESSION_SKIP)
    lines += [*bzip2, 'files = ["text.txt"]']
    return "\n".join(lines) + "\n"


def warm_end(instruction_ends: npt.NDArray[np.bool_]) -> int:
    """The row behind the first WARM instructions."""
    return int(np.searchsorted(np.cumsum(instruction_ends), WARM) + 1)


def judged(
    dataset: Dataset, cores: Sequence[Mapping[str, Any]]
) -> tuple[list[float], npt.NDArray[np.float64], list[int]]:
    """gem5's cycles of the judged rows on each of MACHINES, the cores' [parts, cores] behind WARM:
    a short window and the rest; and where these begin and end."""
    trace = dataset.trace
    ends = trace.statics.ends()[trace.column("static_id").astype(np.int64)]
    begin = warm_end(ends)
    edges = [0, begin, begin + SHORT, len(dataset)]
    columns = [dataset.column_of(m) for m in MACHINES]
    gem5 = dataset.sums(np.array([begin, len(dataset)]))[0, columns]
    return gem5.tolist(), totals(trace, cores, edges, 1)[1:], edges[1:]


def report(isa: str, manifest: Path) -> dict[str, Any]:
    """Prints the errors, of the model where it has the machine; what ``--keep`` writes."""
    model, dataset = load_model(None, isa, LEVELS[isa]), load_manifest(manifest)
    cores = [*model.cores]
    cores += [{**dataset.machines[m], "name": m} for m in MACHINES if m not in model.names]
    own = [[c["name"] for c in cores].index(m) for m in MACHINES]
    kept, every = {}, []
    print("| program | rows | way | " + " | ".join(MACHINES) + " |")
    print("|---" * (3 + len(MACHINES)) + "|")
    for program in dataset.programs:
        with program.open() as opened:
            gem5, parts, (begin, short, end) = judged(opened, cores)
        sums = parts.sum(axis=0)
        by_model = np.ravel(model.cycles(sums[None, : len(model.cores)]))
        fitted = dict(zip(model.names, by_model, strict=True))
        ways = {
            "cores": sums[own],
            "model": np.array([fitted.get(m, np.nan) for m in MACHINES]),
            "short window": parts[0][own] * (end - begin) / (short - begin),
        }
        errors = {way: cycles / np.array(gem5) - 1 for way, cycles in ways.items()}
        every.append(list(errors.values()))
        for way, error in errors.items():
            cells = " | ".join("" if np.isnan(x) else f"{x:+.1%}" for x in error)
            print(f"| {program.name} | {end - begin:,} | {way} | {cells} |")
        cycles = dict(zip(MACHINES, gem5, strict=True))
        kept[program.name] = {"rows": end - begin, "warm_rows": begin, "cycles": cycles}
    sizes = np.abs(every)
    for k, way in enumerate(ways):
        print(f"{way}: mean {np.nanmean(sizes[:, k]):.2%}, worst {np.nanmax(sizes[:, k]):.2%}")
    return kept


def main() -> None:
    """Writes the plan, or prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("isa", choices=sorted(COMPILERS))
    parser.add_argument("work", type=Path)
    parser.add_argument("what", choices=("plan", "report"))
    parser.add_argument("--keep", action="store_true", help=f"gem5's cycles in {KEPT.name}")
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if args.what == "plan":
        (work / "plan.toml").write_text(plan(args.isa, work), encoding="utf-8")
        print(work / "plan.toml")
        return
    kept = report(args.isa, work / "data" / "manifest.json")
    if args.keep:
        every = json.loads(KEPT.read_text(encoding="utf-8")) | {args.isa: kept}
        KEPT.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
