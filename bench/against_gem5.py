"""The simulated cores against gem5, nothing fitted: accuracy, speed, and the picture of the README.

``python bench/against_gem5.py [--arch x86] [--level macro] [--programs N] [--threads T]
[--plot docs/images/accuracy.svg]`` simulates the shared ARM programs on the 46 machines whose
parameters are known (or the X86 ones on 22, rows being micro-ops, or instructions), and prints the
error of total time, of each machine and of the pairs that are farthest off, and the processor time
of a row and machine.  gem5's speed is its own statistic (hostOpRate) of
the runs that wrote the shared text traces.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import numpy as np

import tracekit
from tracekit.plotting import figure, save
from tracekit.sim import totals

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from shared_cycles import SHARED, commits, folder, machine, machine_names

#: Pairs of a program and a machine that are shown.
FARTHEST = 20


def gem5_rates() -> list[float]:
    """Micro-ops a second that gem5 stated for each of the O3 runs that wrote text traces."""
    return [
        float(rate)
        for path in sorted((SHARED / "text").glob("*.stats"))
        for rate in re.findall(r"^hostOpRate +(\d+)", path.read_text(), re.M)
    ]


def measure(
    arch: str, level: Literal["micro", "macro"], programs: list[str], threads: int
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Simulated and true cycles an instruction [programs, machines], CPU seconds, row-machines."""
    names = machine_names(arch)
    machines = [machine(name) for name in names]
    simulated, true, seconds, work = [], [], 0.0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for program in programs:
            path = Path(scratch) / f"{program}.zst"
            tracekit.extract(folder(arch) / "exec" / f"{program}.xz", path, level=level)
            with tracekit.open(path) as trace:
                rows = len(trace)
                began = time.process_time()
                cycles = totals(trace, machines, threads=threads)[0]
                seconds += time.process_time() - began
            path.unlink()
            gem5 = commits(arch, program, names).sum(axis=1, dtype=np.int64)
            simulated.append(cycles / rows)
            true.append(gem5 / rows)
            work += rows * len(machines)
            error = np.abs(cycles / gem5 - 1)
            print(
                f"{program:14} {rows:9,} rows  mean error {100 * error.mean():5.1f} %", flush=True
            )
    return np.array(simulated), np.array(true), seconds, work


def show(programs: list[str], names: list[str], error: np.ndarray) -> None:
    """Prints the errors [programs, machines] of each machine, and the largest ones."""
    for name, each in zip(names, error.T, strict=True):
        mean, bias = 100 * np.abs(each).mean(), 100 * each.mean()
        print(f"{name:14} mean error {mean:5.1f} %, bias {bias:+5.1f} %")
    for at in np.argsort(-np.abs(error), axis=None)[:FARTHEST]:
        i, j = np.unravel_index(at, error.shape)
        print(f"{programs[i]:14} on {names[j]:10} {100 * error[i, j]:+6.1f} %")


def plot(simulated: np.ndarray, true: np.ndarray, path: str, title: str) -> None:
    """Each program on each machine: cycles of a micro-op by gem5 and by tracekit."""
    fig, ax = figure(6.4, 4.4)
    low, high = true.min() * 0.8, true.max() * 1.25
    ends = np.array([low, high])
    ax.fill_between(ends, 0.9 * ends, 1.1 * ends, color="#dce6f2", label="within 10 %", lw=0)
    ax.plot(ends, ends, color="#7f8fa6", lw=0.8)
    ax.plot(
        true.ravel(),
        simulated.ravel(),
        ".",
        ms=3.2,
        color="#1f5fa8",
        alpha=0.45,
        mew=0,
        rasterized=True,
    )
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    ax.set_xlabel("gem5: cycles a micro-op")
    ax.set_ylabel("tracekit: cycles a micro-op")
    ticks = [t for t in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64) if low < t < high]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, labels=[f"{t:g}" for t in ticks])
        axis.set_ticks([], minor=True)
    ax.set_title(title, fontsize=10, loc="left")
    ax.legend(frameon=False, loc="lower right")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    fig.set_dpi(160)
    save(fig, path, force=True)


def main() -> None:
    """Measures, prints, draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", choices=("arm", "x86"), default="arm")
    parser.add_argument("--level", choices=("micro", "macro"), default="micro")
    parser.add_argument("--programs", type=int, help="only so many")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", help="picture: .png, .svg or .pdf")
    args = parser.parse_args()
    programs = sorted(p.stem for p in (folder(args.arch) / "exec").glob("*.xz"))
    programs = programs[: args.programs]
    simulated, true, seconds, work = measure(args.arch, args.level, programs, args.threads)
    show(programs, machine_names(args.arch), simulated / true - 1)
    error = np.abs(simulated / true - 1)
    mean, median = 100 * error.mean(), 100 * np.median(error)
    worst = 100 * error.mean(axis=1).max()
    print(f"{error.size:,} pairs: mean {mean:.2f} %, median {median:.2f} %, worst {worst:.1f} %")
    nanoseconds, rate = 1e9 * seconds / work, work / seconds / 1e6
    print(f"tracekit: {nanoseconds:.0f} ns of CPU a micro-op and machine, {rate:.1f} M/s a core")
    rates = gem5_rates()
    print(f"gem5, writing text: {min(rates) / 1e6:.3f} to {max(rates) / 1e6:.3f} M micro-ops/s")
    if args.plot:
        pairs = f"{len(true)} programs x {true.shape[1]} machines"
        title = f"{pairs}, nothing fitted: mean error {mean:.1f} %"
        plot(simulated, true, args.plot, title)


if __name__ == "__main__":
    main()
