"""Many traces on workers of this computer: speed beside one process, what the scheduler costs, and
a worker's memory.

``python bench/many_traces.py TRACES [--rounds N] [--small N] [--long ROWS]``: TRACES is a folder of
traces (.xz), of which 64 are taken, some again.  It prints a line each, as JSON:

- ``speed``: seconds of the 64 traces in one process as ``tracekit extract`` does them, in one
  process of one thread, and by two workers (starting them not counted, then counted), the best of
  N interleaved rounds; and processor seconds, which neighbours of the computer disturb less.
- ``scheduler``: N small traces by two workers: processor seconds of the process with the scheduler,
  as a share of all.
- ``memory``: the peak of a worker before anything, after a short trace, and after a long one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import time
from pathlib import Path
from typing import Any

from repeat_trace import Repeater

import tracekit
from tracekit.cluster import Run, extract_many
from tracekit.io.output import scratch


def processor() -> float:
    """Seconds of this process and of its children that have ended."""
    own, children = (
        resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(u.ru_utime + u.ru_stime for u in (own, children))


def status(name: str) -> int:
    """A number of this process's in bytes: of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise KeyError(name)


def one_process(inputs: list[str], folder: Path, overlap: bool | None) -> dict[str, float]:
    begin, used = time.perf_counter(), processor()
    for k, path in enumerate(inputs):
        tracekit.extract(path, folder / f"{k}.zst", force=True, overlap=overlap)
    return {"wall": time.perf_counter() - begin, "processor": processor() - used}


def workers(inputs: list[str], folder: Path, count: int) -> dict[str, float]:
    before, used = time.perf_counter(), processor()
    with Run(f"local:{count}") as run:
        begin = time.perf_counter()
        outputs = [str(folder / f"{k}.zst") for k in range(len(inputs))]
        found = extract_many(run, inputs, outputs, {}, force=True)
        wall = time.perf_counter() - begin
        tasks = sum(o.seconds for o in found)
        own = resource.getrusage(resource.RUSAGE_SELF)
    assert all(o.error is None for o in found)
    return {
        "wall": wall,
        "with start": time.perf_counter() - before,
        "processor": processor() - used,
        "tasks": tasks,
        "driver": own.ru_utime + own.ru_stime,
    }


def speed(traces: Path, rounds: int) -> dict[str, Any]:
    inputs = [str(p) for p in sorted(traces.glob("*.xz"))]
    inputs = (inputs * (1 + 64 // len(inputs)))[:64]
    best: dict[str, dict[str, float]] = {}
    with scratch() as folder:
        for _ in range(rounds):
            for name, call in {
                "one process": lambda: one_process(inputs, folder, None),
                "one thread": lambda: one_process(inputs, folder, False),
                "local:2": lambda: workers(inputs, folder, 2),
            }.items():
                found = call()
                known = best.setdefault(name, found)
                best[name] = {k: min(v, known[k]) for k, v in found.items()}
    two = best["local:2"]
    return {
        "traces": len(inputs),
        "best": best,
        "x one process": best["one process"]["wall"] / two["wall"],
        "x one thread": best["one thread"]["wall"] / two["wall"],
        "x one thread, with start": best["one thread"]["wall"] / two["with start"],
    }


def scheduler(count: int) -> dict[str, Any]:
    with scratch() as folder:
        text = b"".join(Repeater().pieces(300))
        (folder / "in").mkdir()
        for k in range(count):
            (folder / "in" / f"{k:05d}.out").write_bytes(text)
        (folder / "out").mkdir()
        own = resource.getrusage(resource.RUSAGE_SELF)
        before = own.ru_utime + own.ru_stime
        found = workers([str(p) for p in sorted((folder / "in").iterdir())], folder / "out", 2)
    driver = found["driver"] - before
    return {
        "traces": count,
        "wall": found["wall"],
        "tasks": found["tasks"],
        "driver": driver,
        "share": driver / (driver + found["tasks"]),
    }


def memory(rows: int) -> dict[str, Any]:
    out: dict[str, Any] = {"rows": rows}
    with scratch() as folder:
        short, long = folder / "short.out", folder / "long.out.gz"
        short.write_bytes(b"".join(Repeater().pieces(100_000)))
        with gzip.open(long, "wb", 1) as f:
            for piece in Repeater().pieces(rows):
                f.write(piece)
        with Run("local:1") as run:
            client = run.executor._client  # type: ignore[attr-defined]
            for name, path in (("start", None), ("short", short), ("long", long)):
                if path is not None:
                    (done,) = extract_many(run, [str(path)], [str(folder / f"{name}.zst")], {})
                    assert done.error is None, done.error
                    out[f"{name} rows"] = done.value["rows"]
                (peak,) = client.run(status, "VmHWM").values()
                out[name] = peak
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("traces", type=Path)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--small", type=int, default=10_000)
    p.add_argument("--long", type=int, default=10_000_000)
    a = p.parse_args()
    for name, value in (
        ("memory", lambda: memory(a.long)),
        ("scheduler", lambda: scheduler(a.small)),
        ("speed", lambda: speed(a.traces, a.rounds)),
    ):
        print(json.dumps({name: value()}), flush=True)


if __name__ == "__main__":
    main()
