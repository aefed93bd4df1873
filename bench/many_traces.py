"""Many traces on workers of this computer: speed beside one process, what the scheduler costs, and
a worker's memory.

``python bench/many_traces.py TRACES [--rounds N] [--small N] [--long ROWS] [--only PART]``: TRACES
is a folder of traces (.xz), of which 64 are taken, some again.  It prints a line each, as JSON:

- ``speed``: seconds of the 64 traces in one process as ``tracekit extract`` does them (it reads,
  parses and writes in threads of its own), in one process of one thread, and by two workers
  (starting them not counted, then counted), the best of N interleaved rounds; and processor
  seconds, which neighbours of the computer disturb less.
- ``scheduler``: N small traces by two workers: processor seconds of the process with the scheduler
  and of the workers; the former as a share of both, and of the time by the clock; ``idle``: the
  share of the workers' time in which they had no task.
- ``pieces``: seconds of one long trace on 46 machines in one thread, in as many threads as there
  are processors, and by two workers in pieces of some machines each; how many pieces, and the
  longest.  The cycles are the same.
- ``joins``: seconds of one long join, of 32 traces, in one process and by two workers in pieces
  of rows (starting them not counted).  The bytes are the same.
- ``memory``: the peak of a worker before anything, after a short trace, and after a long one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import time
from pathlib import Path
from typing import Any

from repeat_trace import Repeater, feats

import tracekit
from tracekit.cluster import Run, extract_many, join_many, simulate_many, state_of
from tracekit.dataset import join
from tracekit.io.output import scratch
from tracekit.sim import Machine


def processor() -> float:
    """Processor seconds of this process, threads and all."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


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
    """By so many workers; ``processor`` is theirs, ``scheduler`` this process's."""
    before = time.perf_counter()
    with Run(f"local:{count}") as run:
        client = run.executor._client  # type: ignore[attr-defined]

        def used() -> float:
            return sum(client.run(processor).values())

        theirs, own, begin = used(), processor(), time.perf_counter()
        outputs = [str(folder / f"{k}.zst") for k in range(len(inputs))]
        found = extract_many(run, inputs, outputs, {}, force=True)
        wall = time.perf_counter() - begin
        own, theirs = processor() - own, used() - theirs
        tasks = sum(o.seconds for o in found)
    assert all(o.error is None for o in found)
    return {
        "wall": wall,
        "with start": time.perf_counter() - before,
        "processor": theirs,
        "scheduler": own,
        "tasks": tasks,
        "rows": sum(o.value["rows"] for o in found),
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
        "rows": two["rows"],
        "best": best,
        "x one process": best["one process"]["wall"] / two["wall"],
        "x one thread": best["one thread"]["wall"] / two["wall"],
        "x one thread, with start": best["one thread"]["wall"] / two["with start"],
    }


def scheduler(count: int) -> dict[str, Any]:
    with scratch() as folder:
        text = b"".join(Repeater().pieces(300))
        (folder / "in").mkdir()
        (folder / "trace").write_bytes(text)
        for k in range(count):  # names of one file: it is read from memory
            (folder / "in" / f"{k:05d}.out").hardlink_to(folder / "trace")
        (folder / "out").mkdir()
        found = workers([str(p) for p in sorted((folder / "in").iterdir())], folder / "out", 2)
    return {
        "traces": count,
        **found,
        "share": found["scheduler"] / (found["scheduler"] + found["processor"]),
        "of wall": found["scheduler"] / found["wall"],
        "idle": 1 - found["tasks"] / (2 * found["wall"]),
    }


def pieces(rows: int, rounds: int) -> dict[str, Any]:
    machines = [m for m in tracekit.machines().values() if isinstance(m, Machine)][:46]
    best: dict[str, float] = {}
    with scratch() as folder:
        text, path = folder / "long.out", str(folder / "long.zst")
        with text.open("wb") as f:
            f.writelines(Repeater().pieces(rows))
        rows = tracekit.extract(text, path).rows
        for _ in range(rounds):
            times, cycles = {}, []
            for name, threads in (("one thread", 1), ("one process", None)):
                begin = time.perf_counter()
                cycles.append(tracekit.simulate(path, machines, threads=threads).cycles)
                times[name] = time.perf_counter() - begin
            with Run("local:2", folder / "run") as run:
                begin = time.perf_counter()
                (found,) = simulate_many(run, [path], machines)
                times["local:2"] = time.perf_counter() - begin
            assert not isinstance(found, Exception)
            assert all((c == found.cycles).all() for c in cycles)
            tasks = [r.seconds for r in state_of(folder / "run").done]
            shutil.rmtree(folder / "run")
            best = {k: min(v, best.get(k, v)) for k, v in times.items()}
    return {
        "rows": rows,
        "machines": len(machines),
        "best": best,
        "pieces": len(tasks),
        "longest": max(tasks),
        "x one thread": best["one thread"] / best["local:2"],
        "x one process": best["one process"] / best["local:2"],
    }


def joins(rows: int, rounds: int) -> dict[str, Any]:
    best: dict[str, float] = {}
    with scratch() as folder:
        x = feats(folder, rows)
        for k in range(32):
            (folder / f"t{k}.zst").hardlink_to(x)
        targets = [f"m{k}={folder}/t{k}.zst" for k in range(32)]
        for _ in range(rounds):
            begin = time.perf_counter()
            rows = join(str(x), targets, str(folder / "one.zst"), force=True)["rows"]
            times = {"one process": time.perf_counter() - begin}
            (folder / "out").mkdir()
            with Run("local:2") as run:
                begin = time.perf_counter()
                (found,) = join_many(run, [str(x)], targets, str(folder / "out"))
                times["local:2"] = time.perf_counter() - begin
            assert found.error is None, found.error
            assert (folder / "out" / x.name).read_bytes() == (folder / "one.zst").read_bytes()
            shutil.rmtree(folder / "out")
            best = {k: min(v, best.get(k, v)) for k, v in times.items()}
    return {"rows": rows, "best": best, "x one process": best["one process"] / best["local:2"]}


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
    p.add_argument("--long", type=int, default=4_000_000)
    p.add_argument("--only", choices=("joins", "memory", "pieces", "scheduler", "speed"))
    a = p.parse_args()
    for name, value in (
        ("memory", lambda: memory(a.long)),
        ("joins", lambda: joins(a.long, a.rounds)),
        ("pieces", lambda: pieces(a.long, a.rounds)),
        ("scheduler", lambda: scheduler(a.small)),
        ("speed", lambda: speed(a.traces, a.rounds)),
    ):
        if a.only in (None, name):
            print(json.dumps({name: value()}), flush=True)


if __name__ == "__main__":
    main()
