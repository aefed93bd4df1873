"""Cuts the short traces of golden/cores from the shared ones: text, gem5's cycles, machines.

    PYTHONPATH=.:tests python tests/golden/make_cores.py

Each trace is the first rows of a program, so that caches and predictors are as cold as they were in
gem5.  ``NAME.ARCH.trace.xz`` is functional text; ``NAME.ARCH.cycles.xz`` are uint16
[machines, rows], cycles between retirements on gem5's CPU, of the machines that ``traces.json``
lists; ``machines.json`` has their parameters.
"""

from __future__ import annotations

import json
import lzma
from itertools import islice
from pathlib import Path

from gem5_exec import SHARED
from shared_cycles import commits, machine

#: Every predictor, prefetcher, memory and both orders that SHARED has.
ARM = [
    "ns_8w",
    "o3_small",
    "u000",
    "u001",
    "u003",
    "u005",
    "u007",
    "u008",
    "u011",
    "u012",
    "u016",
    "u017",
    "u024",
    "u034",
]
X86 = [
    "io_1w",
    "io_2w",
    "ns_8w",
    "o3_small",
    "u000",
    "u001",
    "u003",
    "u005",
    "u007",
    "u008",
    "u011",
    "u012",
]
ROWS = {
    "arm": {"zstd": 30_000, "hashjoin": 30_000},
    "x86": {"chase_big": 20_000, "sqlite_join": 20_000},
}


def main() -> None:
    out = Path(__file__).parent / "cores"
    traces, used = {}, set()
    for arch, programs in ROWS.items():
        names = ARM if arch == "arm" else X86
        used.update(names)
        for name, rows in programs.items():
            folder = SHARED / ("" if arch == "arm" else arch)
            with lzma.open(folder / "exec" / f"{name}.xz") as f:
                text = b"".join(islice(f, rows))
            cycles = commits(arch, name, names)[:, :rows]
            (out / f"{name}.{arch}.trace.xz").write_bytes(lzma.compress(text, preset=9))
            (out / f"{name}.{arch}.cycles.xz").write_bytes(
                lzma.compress(cycles.astype("<u2").tobytes(), preset=9)
            )
            traces[f"{name}.{arch}"] = {"rows": rows, "machines": names}
    machines = ",\n".join(json.dumps(machine(m)) for m in sorted(used))
    (out / "machines.json").write_text(f"[{machines}]\n")
    (out / "traces.json").write_text(json.dumps(traces, indent=1) + "\n")


if __name__ == "__main__":
    main()
