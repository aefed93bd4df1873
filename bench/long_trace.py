"""Commands on long traces: peak memory, processor time, rows a second, and whether they say how
long still.

``python bench/long_trace.py TRACE.zst --rows 100000000 1000000000`` makes files of so many rows of
TRACE's chunks, again and again (of the shipped sample's, unless TRACE is given), and runs each
command on each of them; ``--binary ELF`` is the program, which `hot` needs.  ``--work FOLDER`` has
the files and what was measured: run again, the command goes on where it was stopped.  ``--only``
names commands.

Two floors stand beside them: ``read`` reads the file's bytes, ``decode`` makes the three columns
that a simulated core needs, beside which all others stand in processor time.  Files have 1 to 2
bytes a row, and are removed at the end unless ``--keep``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# What wait4 tells of a child begins with the peak of its parent, so that this process stays small:
# whatever needs tracekit or NumPy runs in a child.
HERE = Path(__file__).parent
CHILD = (sys.executable, str(HERE / "long_trace_parts.py"))
TRACEKIT = (sys.executable, "-m", "tracekit")
SAMPLES = ("--samples", "200", "--seed", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "read": (*CHILD, "read", "FILE"),
    "decode": (*CHILD, "decode", "FILE"),
    "info": (*TRACEKIT, "info", "FILE"),
    "hot": (*TRACEKIT, "hot", "FILE", "--binary", "ELF"),
    "mrc": (*TRACEKIT, "mrc", "FILE"),
    "simulate": (*TRACEKIT, "simulate", "FILE", "-m", "o3_small"),
    "simulate samples": (*TRACEKIT, "simulate", "FILE", "-m", "o3_small", *SAMPLES),
    "predict samples": (*TRACEKIT, "predict", "FILE", "--uarch", "o3_small", *SAMPLES),
}
FLOORS = ("read", "decode")
#: Seconds after which a command has to have said how long still; it does every ten.
SILENT = 15.0


def measured(command: tuple[str, ...]) -> dict[str, Any]:
    """A command's peak resident bytes, processor and clock seconds, and what it said."""
    with tempfile.TemporaryFile() as said:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        said.seek(0)
        lines = said.read().decode().splitlines()
    if process.returncode:
        raise SystemExit("\n".join([" ".join(command), *lines[-3:]]))
    left = [line for line in lines if line.endswith(" left")]
    return {
        "bytes": usage.ru_maxrss * 1024,
        "processor": usage.ru_utime + usage.ru_stime,
        "wall": wall,
        "progress": len(left),
        "silent": wall > SILENT and not left,
        "said": left[-1] if left else "",
    }


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """Markdown: a line for each command and number of rows."""
    out = [
        "| rows | command | peak, MB | processor, s | ns a row | M rows/s | over decode | told |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key, f in found.items():
        rows, _, name = key.partition(" ")
        n, used = int(rows), f["processor"]
        floor = found.get(f"{rows} decode")
        times = f"{used / floor['processor']:.1f}" if floor else ""
        said = "nothing" if f["silent"] else str(f["progress"])
        if name in FLOORS:
            said = ""
        out.append(
            f"| {n:,} | {name} | {f['bytes'] / 1e6:.0f} | {used:.1f} | {1e9 * used / n:.1f} | "
            f"{n / used / 1e6:.1f} | {times} | {said} |"
        )
    return out


def results(path: Path) -> dict[str, dict[str, Any]]:
    """What was measured before; a line that a stop cut is left out."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one.pop("key")] = one
    return found


def run(args: argparse.Namespace, work: Path) -> None:
    log = work / "results.jsonl"
    for rows in args.rows:
        file = work / f"{rows}.zst"
        for name in args.only or COMMANDS:
            command, key = COMMANDS[name], f"{rows} {name}"
            if key in results(log) or ("ELF" in command and args.binary is None):
                continue
            if not file.exists():
                subprocess.run([*CHILD, "make", file, str(rows), *args.trace], check=True)
            given = {"FILE": str(file), "ELF": str(args.binary)}
            one = measured(tuple(given.get(part, part) for part in command))
            with log.open("a") as f:
                f.write(json.dumps({"key": key, **one}) + "\n")
            print(f"{rows:,} rows, {name}: {one['wall']:.0f} s {one['said']}", flush=True)
        if not args.keep:
            file.unlink(missing_ok=True)
    print("\n".join(table(results(log))))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("trace", nargs="*", help="a feats.zst")
    p.add_argument("--rows", type=int, nargs="+", default=[1_000_000_000])
    p.add_argument("--only", nargs="+", choices=COMMANDS)
    p.add_argument("--binary", metavar="ELF")
    p.add_argument("--work", type=Path)
    p.add_argument("--keep", action="store_true", help="the long files")
    args = p.parse_args()
    if args.work is not None:
        args.work.mkdir(parents=True, exist_ok=True)
        run(args, args.work)
        return
    with tempfile.TemporaryDirectory() as name:
        run(args, Path(name))


if __name__ == "__main__":
    main()
