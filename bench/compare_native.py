"""The same programs in gem5 and on this machine: do rows and features agree?

    python bench/compare_native.py TRACES [PROGRAM…] [--json FILE]

TRACES is a folder with programs.json, elf/ and exec/ (functional text of gem5's X86, one program
each).  Each program is recorded natively from its first instruction to its last, extracted at the
macro level from the row on where gem5's text begins, and compared by `tracekit diff`.  What would
make the two runs different is made equal first:

- addresses: no ASLR; the environment is padded until the stack lies as in gem5, modulo a line, and
  the path of the program (of which glibc makes a copy) until the heap does;
- the processor: glibc chooses functions by CPUID, so GLIBC_TUNABLES takes away what gem5's does
  not have (it offers SSSE3, and no AVX);
- the start: gem5's text begins somewhere in the program, with cold features: so do ours.

What remains is told by column, with the instructions that differ most.  The shipped model predicts
both over the same window, on every machine: the time of the recording against gem5's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tracekit
from tracekit.analysis.alignment import align
from tracekit.analysis.trace_diff import Diff, diff_files
from tracekit.mixture import load_model
from tracekit.mixture.model import Mixture
from tracekit.record import RecordOptions, record_command
from tracekit.sim import walk
from tracekit.symbols import AddressMap

#: What glibc 2.36 asks CPUID for, or prefers on this processor, and not on gem5's.
_WITHOUT: Final = (
    *("AVX", "AVX2", "AVX512F", "AVX512VL", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512ER"),
    *("AVX512PF", "BMI1", "BMI2", "ERMS", "FMA", "FMA4", "FSRM", "LZCNT", "MOVBE", "OSXSAVE"),
    *("POPCNT", "RTM", "SSE4_1", "SSE4_2", "XSAVE", "XSAVEC", "F16C"),
    *("AVX_Fast_Unaligned_Load", "Fast_Unaligned_Copy", "Fast_Unaligned_Load"),
    *("Fast_Copy_Backward", "Fast_Rep_String", "Prefer_PMINUB_for_stringop"),
)
_STACK: Final = 0x7FF0_0000_0000
"""Addresses from here on are the stack's, in both."""
_LINE: Final = 64
_NEAR: Final = 1024
"""Bytes: the heap begins at the same address in both, and cannot lie further off."""
_LONGER: Final = 1.04
"""What may take longer natively than in gem5: hash tables with other seeds."""
_LONG: Final = 256
"""Rows of a block that tells where one ends in the other."""
_BEGINNING: Final = 20_000
"""Rows by which the start is told..."""
_DRIFT: Final = 1_500
"""...and within which they may drift apart there: the vdso, hash tables."""
_SLACK: Final = 60_000
"""Instructions that the native start may take longer than gem5's."""


def environment(padding: int) -> dict[str, str]:
    """Nothing but what makes the runs equal; ``padding`` bytes move the stack down."""
    tunables = "glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in _WITHOUT)
    return {"GLIBC_TUNABLES": tunables + ",-" + "X" * padding}  # an unknown name is passed over


def record(command: list[str], folder: Path, padding: int, instructions: int) -> Path:
    """Records the beginning of ``command``, and extracts it."""
    options = RecordOptions(full=True, aslr=False, epoch=instructions, count=1)
    record_command(command, folder / "x.tks", options, env=environment(padding))
    out = folder / "native.feats"
    tracekit.extract(folder / "x.tks", out, level="macro", force=True)
    return out


def predicted(model: Mixture, a: Path, b: Path) -> dict[str, Any]:
    """Times of b over a's from the first row that both have to the last of a long block.

    ``total`` by machine, ``matched`` those of the rows that both have, ``apart`` the shares of the
    time of the others.
    """
    with tracekit.open(a) as x, tracekit.open(b) as y:
        blocks = align(x["pc"], y["pc"])
        long = _long(blocks)
        sums = np.zeros((2, 2, len(model.cores)))  # trace, matched
        rows = []
        for k, trace in enumerate((x, y)):
            first, last = int(blocks[0, k]), int(long[-1, k] + long[-1, 2])
            rows.append(last - first)
            matched = np.zeros(last, bool)
            for at, n in blocks[:, [k, 2]].tolist():
                matched[at : at + n] = True
            for part in walk(trace, model.cores, rows=last):
                of = matched[part.begin : part.begin + len(part.cycles)]
                inside = np.arange(part.begin, part.begin + len(of)) >= first
                for m in (0, 1):
                    sums[k, m] += part.cycles[inside & (of == m)].sum(axis=0, dtype=np.float64)
    time = np.stack([model.cycles(s) for s in sums])
    whole = time.sum(axis=1)
    return {
        "instructions": rows,
        "total": dict(zip(model.names, (whole[1] / whole[0]).tolist(), strict=True)),
        "matched": dict(zip(model.names, (time[1, 1] / time[0, 1]).tolist(), strict=True)),
        "apart": (time[:, 0] / whole).mean(axis=1).tolist(),
    }


def compare(
    model: Mixture, name: str, spec: dict[str, Any], traces: Path, folder: Path
) -> dict[str, Any]:
    """One program: its `Diff` by column, and what was done to make the runs equal."""
    begin = time.monotonic()
    gem5 = folder / "gem5.feats"
    rows = tracekit.extract(traces / "exec" / f"{name}.xz", gem5, level="macro", force=True).rows
    near = int(spec["skipped_instructions"]) + _SLACK
    binary = str(traces / "elf" / spec["elf"])
    command = [f"./{spec['elf']}", *spec["args"]]
    padding = name_padding = 0
    whole = False  # the beginning tells how far memory is off, and the whole whether it was right
    for attempt in range(6):
        home = folder / ("elf" + "_" * name_padding)
        shutil.copytree(traces / "elf", home, dirs_exist_ok=True)
        os.chdir(home)
        native = record(command, folder, padding, near + (rows if whole else 0))
        stack, heap = _moves(gem5, native)
        right = not stack % _LINE and not heap % _LINE
        if whole and right:
            break
        whole |= right or attempt >= 2
        padding += stack % _LINE  # what lies too high comes down by as much
        name_padding += -heap % _LINE
    start = _start(gem5, native, int(spec["skipped_instructions"]))
    window: dict[str, Any] = {"start": start, "cold": True, "count": int(_LONGER * rows)}
    tracekit.extract(folder / "x.tks", native, level="macro", force=True, **window)
    d = diff_files(gem5, native, binary=binary)
    sets = {
        f: diff_files(gem5, native, features_of=f, binary=binary, examples=1)
        for f in ("perfvec", "neuroscalar")
    }
    return {
        "program": name,
        "padding": [padding, name_padding],
        "start": start,
        "stack_moved": stack,
        "heap_moved": heap,
        "seconds": round(time.monotonic() - begin, 1),
        "functions": _functions_of_gaps(d, gem5, native, binary),
        **d.as_dict(),
        "predicted": predicted(model, gem5, native),
        "features": {f: {k: c.share for k, c in s.columns.items()} for f, s in sets.items()},
    }


def _start(a: Path, b: Path, least: int) -> int:
    """The row of b at which a begins, at least ``least``.  Its first rows may be matched with an
    earlier round of a loop: then what follows lies further off than the starts differ by."""
    with tracekit.open(a) as x, tracekit.open(b) as y:
        blocks = align(x["pc"], y["pc"][least:])
    near = blocks[blocks[:, 0] < blocks[0, 0] + _BEGINNING]
    offsets = near[:, 1] - near[:, 0]
    middle = np.median(np.repeat(offsets, near[:, 2]))
    first = int(np.argmax(np.abs(offsets - middle) < _DRIFT))
    return max(0, least + int(offsets[first]))


def _long(blocks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    out: npt.NDArray[np.int64] = blocks[blocks[:, 2] >= min(_LONG, blocks[:, 2].max())]
    return out


def _moves(a: Path, b: Path) -> tuple[int, int]:
    """How much higher the stack and the heap lie in ``b``: the commonest differences."""
    stack: Counter[int] = Counter()
    heap: Counter[int] = Counter()
    with tracekit.open(a) as x, tracekit.open(b) as y:
        addr_a, addr_b = x["addr"], y["addr"]
        for i, j, n in align(x["pc"], y["pc"]).tolist():
            here, there = addr_a[i : i + n].astype("i8"), addr_b[j : j + n].astype("i8")
            for high, moves in ((True, stack), (False, heap)):
                inside = ((here >= _STACK) == high) & ((there >= _STACK) == high) & (here > 0)
                if not high:  # but for the program's own data, and what it mapped
                    inside &= (here != there) & (abs(there - here) < _NEAR)
                moves.update((there - here)[inside].tolist())
    first = [m.most_common(1)[0][0] if m else 0 for m in (stack, heap)]
    return first[0], first[1]


def _functions_of_gaps(d: Diff, a: Path, b: Path, binary: str) -> dict[str, list[list[Any]]]:
    """Unmatched rows by function, of each trace."""
    names = AddressMap.of_binary(binary)
    out: dict[str, list[list[Any]]] = {}
    for which, path in (("a", a), ("b", b)):
        counts: Counter[str] = Counter()
        with tracekit.open(path) as f:
            pc = f["pc"]
            for gap in d.gaps:
                begin, end = getattr(gap, which)
                counts.update(names.name(p) for p in pc[begin:end].tolist())
        out[which] = [[k, n] for k, n in counts.most_common(8)]
    return out


def table(results: list[dict[str, Any]]) -> str:
    """Over all programs: rows weighted alike."""
    lines = [
        "program            gem5 rows    matched   only gem5 / native   all columns of perfvec"
        "   time native/gem5: mean, most, of matched rows"
    ]
    for r in results:
        inside = [end - begin - r["matched"] for begin, end in (r["span_a"], r["span_b"])]
        shares = r["features"]["perfvec"].values()
        lines.append(
            f"{r['program']:<16}{r['rows_a']:>12,}{100 * r['matched'] / r['rows_a']:>10.3f} %"
            f"{inside[0]:>10,} /{inside[1]:>8,}{100 * min(shares):>12.3f} % worst"
            + _times(r["predicted"])
        )
    matched, rows = (sum(r[k] for r in results) for k in ("matched", "rows_a"))
    lines.append(f"all: {matched:,} of gem5's {rows:,} rows matched, {100 * matched / rows:.3f} %")
    lines.append(f"\n{'column':<24}{'of all rows':>12}{'median':>12}{'worst program':>16}")
    for kind in ("columns", "perfvec", "neuroscalar"):
        if kind != "columns":
            lines.append(f"\nfeature set {kind}")
        named = results[0]["columns"] if kind == "columns" else results[0]["features"][kind]
        for name in named:
            if kind == "columns":
                found = [(r["columns"][name]["equal"], r["columns"][name]["rows"]) for r in results]
            else:
                found = [(r["features"][kind][name] * r["matched"], r["matched"]) for r in results]
            shares = [e / n if n else 1.0 for e, n in found]
            whole = sum(e for e, _ in found) / max(1, sum(n for _, n in found))
            worst = min(range(len(shares)), key=shares.__getitem__)
            lines.append(
                f"{name:<24}{100 * whole:>11.4f}%{100 * statistics.median(shares):>11.4f}%"
                f"{100 * shares[worst]:>10.3f}% {results[worst]['program']}"
            )
    return "\n".join(lines)


def _times(p: dict[str, Any]) -> str:
    total, matched = (np.array(list(p[k].values())) - 1 for k in ("total", "matched"))
    return (
        f"{100 * total.mean():>+18.2f} %{100 * total[np.abs(total).argmax()]:>+9.2f} %"
        f"{100 * matched.mean():>+9.2f} %"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", type=Path)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--json", type=Path, help="all of it, one line a program, added to it")
    parser.add_argument("--table", action="store_true", help="only of what is in --json already")
    args = parser.parse_args()
    known = json.loads((args.traces / "programs.json").read_text())
    results = []
    if args.json and args.json.exists():
        results = [json.loads(line) for line in args.json.read_text().splitlines()]
    done = {r["program"] for r in results}
    traces, home = args.traces.resolve(), Path.cwd()
    model = load_model(arch="x86")
    for name in () if args.table else args.programs or known:
        if name in done:
            continue
        with tempfile.TemporaryDirectory() as folder:
            result = compare(model, name, known[name], traces, Path(folder))
            os.chdir(home)
        results.append(result)
        sys.stderr.write(f"{name}: {result['matched']} of {result['rows_a']}\n")
        if args.json:
            with args.json.open("a") as f:
                f.write(json.dumps(result) + "\n")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
