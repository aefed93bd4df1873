"""Programs for ``tracekit factory``: the kernels of bench/hardware, static, and a plan of them.

``python bench/factory_programs.py DIR [--compiler riscv64-linux-gnu-gcc]`` compiles each file of
bench/hardware/kernels and writes DIR/plan.toml: 42 programs of 16 families on 16 of the machines
that the shipped models know, half a million instructions each.  ``--kernels N`` takes the first N
of each family, ``--without N`` the others.  ``--in-order N`` takes N drawn in-order machines and
the two known ones instead.  ``tracekit factory DIR/plan.toml --gem5 PATH -o DATASET`` runs it.

Sizes are small, so that gem5 is soon past what a program sets up, and rounds are more than any
window has.  The windows were written before anything was run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

KERNELS = Path(__file__).resolve().parent / "hardware" / "kernels"
#: Fourteen machines out of order, two in order.
MACHINES = (
    *("ns_4w_mem", "ns_6w_ls", "ns_8w", "ns_lsq", "ns_rob", "o3_small", "io_1w", "io_2w"),
    *("u000", "u001", "u002", "u003", "u004", "u005", "u006", "u007"),
)
IN_ORDER = ("io_1w", "io_2w")
#: Of the machines that are drawn.
SEED = 29
SKIP, INSTRUCTIONS = 1_000_000, 500_000
#: More rounds than a window has, of every kernel.
ROUNDS = 1_000_000_000
#: Program -> its kernels and their sizes.
PROGRAMS: dict[str, dict[str, int]] = {
    "sort": {"quick": 2000, "heap": 2000, "merge": 2000, "radix": 2000},
    "hash": {"chained": 1024, "linear": 1024, "words": 400},
    "parsing": {"json": 200, "expressions": 100},
    "image": {"blur": 64, "median": 64, "cosine": 64},
    "audio": {"fir": 2048, "biquads": 2048, "fft": 1024, "adpcm": 2048},
    "crypto": {"sha256": 64, "chacha": 512, "tables": 512},
    "graph": {"breadth": 512, "rank": 512, "shortest": 512},
    "pointers": {"chase": 1024, "tree": 1024},
    "strings": {"library": 4000, "horspool": 4000},
    "dynamic": {"subsequence": 300, "knapsack": 1000},
    "numeric": {"bodies": 30, "fractal": 40},
    "bignum": {"multiply": 64, "primes": 200},
    "search": {"queens": 7, "life": 64},
    "interpreter": {"switch": 1, "calls": 1},
    "bits": {"crc_table": 4096, "huffman": 1024},
    "linear": {"ijk": 48, "tiled16": 48, "lu": 48, "stencil": 64},
}
#: What is longer under way before its first round.
LONG_STARTS = {"parsing-json": 4_000_000}


def compile_all(folder: Path, compiler: str) -> None:
    """Each program of PROGRAMS, static, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        source, out = KERNELS / f"{name}.c", folder / name
        subprocess.run([compiler, "-O2", "-static", str(source), "-o", str(out), "-lm"], check=True)


def plan(most: int | None = None, in_order: int = 0, without: int = 0) -> str:
    """plan.toml, for programs in ``bin`` beside it; of each family ``most`` kernels, without the
    first ``without``.  ``in_order``: machines that are drawn; 0: the known ones."""
    lines = ["[machines]", f"use = {json.dumps(IN_ORDER if in_order else MACHINES)}"]
    if in_order:
        lines = [f"seed = {SEED}", *lines, f"in_order = {in_order}"]
    lines += ["", "[window]", f"skip = {SKIP}", f"instructions = {INSTRUCTIONS}"]
    for program, kernels in PROGRAMS.items():
        for kernel, size in list(kernels.items())[without:most]:
            name = f"{program}-{kernel}"
            lines += ["", "[[programs]]", f'name = "{name}"', f'family = "{program}"']
            lines += [f'binary = "bin/{program}"']
            lines += [f"arguments = {json.dumps([kernel, str(ROUNDS), str(size)])}"]
            if name in LONG_STARTS:
                lines += [f"skip = {LONG_STARTS[name]}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compiles, writes the plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compiler", default="riscv64-linux-gnu-gcc")
    parser.add_argument("--kernels", type=int, metavar="N", help="of each family (all)")
    parser.add_argument(
        "--without", type=int, default=0, metavar="N", help="the first of each (none)"
    )
    parser.add_argument(
        "--in-order", type=int, default=0, metavar="N", help="drawn machines (none)"
    )
    args = parser.parse_args()
    try:
        compile_all(args.folder / "bin", args.compiler)
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"{args.compiler}: {e}")
    text = plan(args.kernels, args.in_order, args.without)
    (args.folder / "plan.toml").write_text(text, encoding="utf-8")
    print(args.folder / "plan.toml")


if __name__ == "__main__":
    main()
