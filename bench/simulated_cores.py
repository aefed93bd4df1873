"""Rows a second through the simulated cores, all machines of a model and one, on 24 shared traces.

``python bench/simulated_cores.py [--rounds 3] [--rows N] [--programs mm,lua_mix] [--kept FOLDER]``
prints for each trace the CPU time of opening it with what is known of its static instructions, of
one machine with that and the decoding of its rows, and of all machines of the shipped model; the
best of each, taken in turns, by one thread.  A row-core is one row on one machine.  ``--kept``
keeps the extracted traces for the next run.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tracekit
from tracekit.mixture.model import load_model
from tracekit.sim import KeptRows, totals

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from shared_cycles import folder

PROGRAMS = {
    "arm": "aes binsearch bunzip2 chase cjpeg_prog hashjoin lame lua_mix lu mm perm raytrace "
    "speedtest1 sqlite_cte stencil wordcount",
    "x86": "bytecode chase cjpeg lua_oop mm sqlite_join stencil zstd",
}
#: A row of gem5's traces is a micro-op; X86's are walked by instructions, too.
LEVELS = {"arm": ("micro",), "x86": ("micro", "macro")}


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds that it takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


@contextlib.contextmanager
def traces(kept: str | None) -> Iterator[Path]:
    """A folder for extracted traces."""
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def measured(
    path: Path, cores: Sequence[Mapping[str, Any]], rounds: int, rows: int | None
) -> tuple[int, list[float]]:
    """How many rows; the best CPU seconds of opening, of one machine from the file on, and of all
    machines on decoded rows."""
    found = []
    with tracekit.open(path) as trace:
        kept = KeptRows(trace, rows)
    n = len(kept)

    def opened() -> None:
        with tracekit.open(path) as trace:
            KeptRows(trace, 0)

    def one() -> None:
        with tracekit.open(path) as trace:
            totals(trace, cores[:1], [0, n], threads=1)

    for _ in range(rounds):
        found.append([cpu(opened), cpu(one), cpu(lambda: totals(kept, cores, threads=1))])
    return n, [min(times) for times in zip(*found, strict=True)]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of each trace, all unless given")
    parser.add_argument("--programs", help="only these, with commas between them")
    parser.add_argument("--kept", help="folder of the extracted traces")
    args = parser.parse_args()
    wanted = args.programs.split(",") if args.programs else None
    print(
        f"{'trace':24}{'rows':>10}{'opening, ms':>13}"
        f"{'one, M rows/s':>15}{'all, M row-cores/s':>20}"
    )
    with traces(args.kept) as work:
        for arch, level in ((a, level) for a in PROGRAMS for level in LEVELS[a]):
            cores, ones, rates = load_model(None, arch, level).cores, [], []
            for program in PROGRAMS[arch].split():
                if wanted is not None and program not in wanted:
                    continue
                path = work / f"{arch}.{level}.{program}.zst"
                if not path.exists():
                    source = folder(arch) / "exec" / f"{program}.xz"
                    tracekit.extract(source, path, level=level)
                n, (opening, one, every) = measured(path, cores, args.rounds, args.rows)
                ones.append(n / one / 1e6)
                rates.append(n * len(cores) / every / 1e6)
                print(
                    f"{f'{arch} {level} {program}':24}{n:>10,}{1e3 * opening:>13.1f}"
                    f"{ones[-1]:>15.2f}{rates[-1]:>20.2f}",
                    flush=True,
                )
            if rates:
                means = [math.exp(sum(map(math.log, v)) / len(v)) for v in (ones, rates)]
                print(
                    f"{arch} {level}, geometric mean: one machine {means[0]:.2f} M rows/s; "
                    f"{len(cores)} machines {means[1]:.2f} M row-cores/s, the least "
                    f"{min(rates):.2f}"
                )


if __name__ == "__main__":
    main()
