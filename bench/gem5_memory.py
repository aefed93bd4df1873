"""The simulated cores against gem5 where main memory is all that counts: small loops over arrays
that no cache holds.

``python bench/gem5_memory.py WORK --gem5 gem5.opt`` compiles them (aarch64-linux-gnu-gcc), runs
each in gem5 on two ARM machines for each memory of the catalogue, and prints how far the cores are
off.  What is in WORK is not run again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import tracekit
from tracekit.dataset.arrays import read_cycles
from tracekit.factory.gem5_run import RunOptions, functional_run, timed_run
from tracekit.sim import completed, totals

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from shared_cycles import machine

LOOPS = {
    "zero": "for (int k = 0; k < 4; k++) memset((char *)p, 0, n);",
    "write": "for (int k = 0; k < 4; k++) for (long i = 0; i < n; i += 64) p[i] = i;",
    "read": "for (int k = 0; k < 4; k++) for (long i = 0; i < n; i += 64) s += p[i];",
    "copy": "for (int k = 0; k < 4; k++) memcpy((char *)q, (char *)p, n);",
    "gather": "for (int k = 0; k < 1 << 17; k++) s += p[next() % (n / 64) * 64];",
    "increment": "for (int k = 0; k < 1 << 17; k++) p[next() % (n / 64) * 64]++;",
    "chase and write": "for (long i = 0; i < n / 256; i++) q[n - 256 * i - 1] = i,"
    " s += p[256 * i + s];",
}
SOURCE = """
#include <stdlib.h>
#include <string.h>
#define next() (x ^= x << 13, x ^= x >> 17, x ^= x << 5)
int main(int argc, char **argv) {{
  const long n = 1 << 24;
  unsigned x = 1;
  volatile char *p = malloc(n), *q = malloc(n);
  long s = 0;
  switch (atoi(argv[1])) {{ {cases} }}
  return s + p[n / 2] + q[n / 2] == 1;
}}
"""
#: Two for each memory, of other clocks and caches.
MACHINES = (
    *("u001", "u025", "u026", "u039", "ns_8w", "u032", "u009", "u036", "o3_small", "u033"),
    *("u005", "u019", "u016", "u034"),
)
WINDOW = RunOptions(arguments=(), skip=20_000, warm=0, instructions=200_000)


def compiled(work: Path) -> Path:
    cases = " ".join(f"case {k}: {loop} break;" for k, loop in enumerate(LOOPS.values()))
    (work / "loops.c").write_text(SOURCE.format(cases=cases))
    binary = work / "loops"
    subprocess.run(
        ["aarch64-linux-gnu-gcc", "-O2", "-static", work / "loops.c", "-o", binary], check=True
    )
    return binary


def errors(gem5: str, binary: Path, k: int, name: str, work: Path) -> list[float]:
    """Of the cores with the machines' parameters, over one loop's window."""
    window = replace(WINDOW, arguments=(str(k),))
    features = work / f"{name}.zst"
    if not features.exists():
        functional_run(gem5, str(binary), (), None, window, str(features))
    off = []
    with tracekit.open(features) as trace:
        for m in MACHINES:
            described = completed(machine(m), "arm")
            cycles = work / f"{name}.{m}.npy.zst"
            if not cycles.exists():
                args = (described, str(features), str(binary), (), None, window, str(cycles))
                timed_run(gem5, *args)
            gem5_cycles = int(read_cycles(cycles, (m,), len(trace)).sum(dtype=np.int64))
            off.append(float(totals(trace, [described])[0][0]) / gem5_cycles - 1)
    return off


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--gem5", required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    binary = compiled(args.work)
    memories = [machine(m)["mem"] for m in MACHINES]
    print("| loop |", " | ".join(dict.fromkeys(memories)), "| mean |")
    print("|---" * (2 + len(dict.fromkeys(memories))) + "|")
    every = []
    for k, name in enumerate(LOOPS):
        off = errors(args.gem5, binary, k, name.replace(" ", "_"), args.work)
        every.append(np.abs(off).mean())
        shown = [
            ", ".join(f"{e:+.1%}" for e, of in zip(off, memories, strict=True) if of == mem)
            for mem in dict.fromkeys(memories)
        ]
        print(f"| {name} |", " | ".join(shown), f"| {every[-1]:.1%} |", flush=True)
    print(f"\nmean of all: {np.mean(every):.1%}")


if __name__ == "__main__":
    main()
