"""Where gem5 itself falls one way or another: other runs of pairs on which the cores are far off.

    python bench/gem5_modes.py WORK --gem5 gem5.opt      # an hour on one processor

A loop may keep for good what a predictor, or a pair of a store and a load, makes of its first
turns.  gem5's random numbers decide it, and the length of the program's path, from which the
stack's addresses follow.  Kernels of the shared ARM traces run again, the same half million
instructions, each with other random numbers and under other names: the pairs of a kernel and a
machine on which a core is more than ``--above`` percent off, and ``--lot`` pairs of all by lot.
A pair's line tells the core's error against the shared run, how far gem5's runs spread (the most
cycles over the least, less one), and the core's error against the nearest one.  Pairs by lot are
the same each time.  Run again, it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tracekit
from tracekit.plugin import plugin_folder
from tracekit.sim import completed, totals

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from shared_cycles import SHARED, commits, folder, machine, machine_names

#: Program -> the file of kernels, and its arguments, as the shared traces were made: the addresses
#: of each of their rows are the same.
KERNELS = {
    "aes": "kern2 aes 200",
    "base64": "kern2 b64 30000",
    "binsearch": "kern2 bsearch 60000 6000",
    "blackscholes": "kern bs 2000",
    "bst": "kern bst 3000 6000",
    "bytecode": "kern interp 90000",
    "chase": "kern chase 6000 400000",
    "chase_big": "kern chase 40000 300000",
    "conv2d": "kern2 conv 120 5",
    "crc": "kern2 crc 40000",
    "hashjoin": "kern hashj 30000 32768",
    "huffman": "kern2 huff 24000",
    "json": "kern2 json 16000",
    "life": "kern life 48 6",
    "lu": "kern lu 70",
    "mm": "kern mm 48 16",
    "msort": "kern ms 12000",
    "perm": "kern2 perm 8",
    "qsort": "kern qs 4000",
    "queens": "kern nq 10",
    "raytrace": "kern2 ray 64",
    "regex": "kern2 regex 9000",
    "sha": "kern sha 400",
    "transpose": "kern2 transp 200 3",
    "trie": "kern2 trie 8000",
    "wordcount": "kern2 wc 40000",
}
INSTRUCTIONS = 500_000
#: gem5's seed, and what is behind the program's name: runs of a pair.
RUNS = ((5489, ""), (1, ""), (2, ""), (5489, "-name"), (5489, "-longer-name"), (1, "-name"))


def gem5_cycles(gem5: str, program: str, name: str, seed: int, behind: str, work: Path) -> int:
    """From the first retirement of the window to its last, on the machine with that name."""
    out = work / f"{program}.{name}.{seed}{behind}.json"
    if out.exists():
        return int(json.loads(out.read_text()))
    kernels, *arguments = KERNELS[program].split()
    binary = work / f"{kernels}{behind}"
    if not binary.exists():
        shutil.copy(SHARED / "elf" / "arm" / kernels, binary)
    run = work / "run"
    run.mkdir(exist_ok=True)
    parameters = completed(machine(name), "arm")
    (run / "machine.json").write_text(json.dumps(parameters))
    scripts = plugin_folder() / "gem5_patches"
    traced = [str(scripts / "tracekit_run.py"), "--out", str(run / "trace.tkt"), "--exit"]
    traced += ["--cpu", r"^system\.cpu$", "--start-inst", "0", "--insts", str(INSTRUCTIONS)]
    built = [str(scripts / "tracekit_machine.py"), str(run / "machine.json"), "--with-parent"]
    command = [gem5, f"--outdir={run}", *traced, *built, "--random-seed", str(seed)]
    ran = subprocess.run(
        [*command, "--", str(binary), *arguments], capture_output=True, text=True, cwd=work
    )
    if "the traced region is complete" not in ran.stdout:
        raise SystemExit(f"{program} on {name}: {ran.stdout[-500:]}{ran.stderr[-500:]}")
    tracekit.extract(run / "trace.tkt", run / "feats.zst", force=True)
    with tracekit.open(run / "feats.zst") as trace:
        retired = [int(trace.column("retire", (k, k + 1))[0]) for k in (0, len(trace) - 1)]
    cycles = (retired[1] - retired[0]) // round(1000 / float(parameters["clock_ghz"]))
    out.write_text(json.dumps(cycles))
    return cycles


def core_cycles(program: str, names: Sequence[str], work: Path) -> np.ndarray:
    """Of the shared trace of the program on cores with the parameters of these machines."""
    path = work / f"{program}.zst"
    if not path.exists():
        tracekit.extract(folder("arm") / "exec" / f"{program}.xz", path)
    with tracekit.open(path) as trace:
        return totals(trace, [machine(name) for name in names])[0]


def show(title: str, lines: list[tuple[str, str, float, list[int], int]]) -> None:
    """A table of pairs: program, machine, the core's cycles, those of gem5's runs, of the shared
    one."""
    print(
        f"\n{title}\n\n| program | machine | core, shared run | gem5's runs | core, nearest run |"
    )
    print("|---|---|---|---|---|")
    off, spread = [], []
    for program, name, core, runs, shared in lines:
        every = np.array([shared, *runs])
        spread.append(every.max() / every.min() - 1)
        nearest = min(core / every - 1, key=abs)
        off.append((abs(core / shared - 1), abs(nearest)))
        print(
            f"| {program} | {name} | {core / shared - 1:+.1%} | {spread[-1]:.1%} | {nearest:+.1%} |"
        )
    most = np.array(spread)
    means = 100 * np.mean(off, axis=0)
    print(
        f"\n{len(lines)} pairs: core {means[0]:.1f} % off, {means[1]:.1f} % of the nearest run; "
        f"gem5's runs spread {np.median(most):.2%} in the median, more than 5 % on "
        f"{(most > 0.05).sum()}, more than 18 % on {(most > 0.18).sum()}",
        flush=True,
    )


def main() -> int:
    """Runs what is missing and prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--gem5", required=True)
    parser.add_argument("--above", type=float, default=10, help="percent that a core is off")
    parser.add_argument("--lot", type=int, default=60, help="pairs by lot")
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    names = machine_names("arm")
    core = {program: core_cycles(program, names, work) for program in KERNELS}
    gem5 = {p: commits("arm", p, names).sum(axis=1, dtype=np.int64) for p in KERNELS}
    pairs = [(program, k) for program in KERNELS for k in range(len(names))]
    error = {(p, k): abs(core[p][k] / gem5[p][k] - 1) for p, k in pairs}
    far = sorted((x for x in pairs if error[x] > args.above / 100), key=lambda x: -error[x])
    lot = sorted(random.Random(1).sample(pairs, args.lot))
    for title, chosen in ((f"More than {args.above:g} % off", far), ("By lot", lot)):
        lines = []
        for program, k in chosen:
            runs = [gem5_cycles(args.gem5, program, names[k], *how, work) for how in RUNS]
            lines.append((program, names[k], float(core[program][k]), runs, int(gem5[program][k])))
        show(title, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
