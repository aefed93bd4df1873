"""Recording: the program's pause beside a bare clone, stepping beside a bare loop, overhead.

``python bench/bench_record.py`` prints medians of interleaved short runs (``--json`` for machines);
``--sizes`` are resident megabytes in 4 KB pages, ``--overhead SECONDS`` adds the A/B of whole
processes.  The pause is given as the recorder sees it (stop requested to let go) and as the program
feels it (the longest gap between two looks at the clock).  A bare clone is the program's own, of
the same kind: shared file table, no exit signal, a child that ends at once.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from table import done

from tracekit import _core
from tracekit.record import available

PROGRAM = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static uint64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static uint64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }
static uint64_t cpu_time(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
static volatile uint64_t sink;
int main(int argc, char **argv) {
  size_t n = strtoul(argv[1], 0, 10) << 20;
  char *p = mmap(0, n, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(p, n, MADV_NOHUGEPAGE);
  memset(p, 1, n);
  if (argc > 2) {  /* a fixed amount of work within its caches */
    uint64_t rounds = strtoull(argv[2], 0, 10), x = 1, wall = now(), cpu = cpu_time();
    for (uint64_t i = 0; i < rounds; i++) { x = x * 6364136223846793005ull + p[x >> 44]; sink = x; }
    wall = now() - wall;
    printf("%llu %llu\n", (unsigned long long)wall, (unsigned long long)(cpu_time() - cpu));
    return 0;
  }
  uint64_t longest = 0, last = now();
  puts("ready");
  fflush(stdout);
  for (;;) {
    for (int i = 0; i < 1000; i++) {
      uint64_t t = now();
      if (t - last > longest) longest = t - last;
      last = t;
    }
    struct pollfd in = {0, POLLIN, 0};
    char c;
    if (poll(&in, 1, 0) && read(0, &c, 1) != 1) return 0;
    if (!in.revents) continue;
    if (c == 'c') {
      uint64_t t = now();
      long child = syscall(SYS_clone, CLONE_FILES, 0, 0, 0, 0);
      if (child == 0) syscall(SYS_exit_group, 0);
      t = now() - t;
      waitpid(child, 0, __WALL);
      printf("%llu\n", (unsigned long long)t);
    } else {
      printf("%llu\n", (unsigned long long)longest);
    }
    fflush(stdout);
    longest = 0;
    last = now();
  }
}
"""


def _build(folder: Path) -> str:
    source, binary = folder / "resident.c", folder / "resident"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-w", "-o", binary, source], check=True)
    return str(binary)


@contextmanager
def _program(binary: str, megabytes: int) -> Iterator[tuple[int, Any]]:
    child = subprocess.Popen(
        [binary, str(megabytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    assert child.stdout.readline() == "ready\n"

    def ask(what: str) -> int:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(what)
        child.stdin.flush()
        return int(child.stdout.readline())

    try:
        yield child.pid, ask
    finally:
        child.communicate()


def _recorder() -> _core.Recorder:
    from tracekit.record.operands import decode

    return _core.Recorder(decode)


def _epoch(recorder: _core.Recorder, pid: int, instructions: int) -> _core.EpochResult:
    result = recorder.epoch(
        _core.EpochRequest(
            tid=pid, tgid=pid, number=0, instructions=instructions, time_ns=1 << 62, wait_ns=10**9,
            accesses=1 << 24, pidfd=-1, lowest_priority=False, follow_exec=False,
        )
    )  # fmt: skip
    assert result["outcome"] == "taken"
    return result


def pauses(binary: str, megabytes: int, rounds: int) -> dict[str, float]:
    """Milliseconds, medians of interleaved rounds; the ratio is of medians."""
    recorder = _recorder()
    ours: list[float] = []
    felt: list[float] = []
    bare: list[float] = []
    with _program(binary, megabytes) as (pid, ask):
        for _ in range(rounds):
            bare.append(ask("c") / 1e6)
            result = _epoch(recorder, pid, 1)
            ours.append(result["info"]["pause_ns"] / 1e6)
            felt.append(ask("g") / 1e6)
    m = statistics.median
    return {
        "megabytes": megabytes,
        "bare_clone_ms": m(bare),
        "pause_ms": m(ours),
        "felt_ms": m(felt),
        "ratio": m(ours) / m(bare),
        "best_ratio": min(ours) / min(bare),
    }


def stepping(binary: str, rounds: int, steps: int = 3000) -> dict[str, float]:
    """Microseconds a step; ``share`` is our rate by that of the bare loop."""
    recorder = _recorder()
    ours: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    with _program(binary, 1) as (pid, _):
        _epoch(recorder, pid, 100)  # decodes
        for _ in range(rounds):
            wall, cpu = _core.bare_step_ns(steps)
            bare.append((wall / 1e3, cpu / 1e3))
            short, info = _epoch(recorder, pid, 1)["info"], {"steps": 0}
            while info["steps"] != steps + 1:  # else it came to a system call
                info = _epoch(recorder, pid, steps + 1)["info"]
            # Without what a snapshot costs anyway.
            ours.append(
                tuple((info[k] - short[k]) / steps / 1e3 for k in ("step_ns", "cpu_ns"))  # type: ignore[arg-type]
            )
    wall_us, cpu_us = (statistics.median(x[i] for x in ours) for i in (0, 1))
    bare_wall, bare_cpu = (statistics.median(x[i] for x in bare) for i in (0, 1))
    return {
        "wall_us": wall_us,
        "cpu_us": cpu_us,
        "bare_wall_us": bare_wall,
        "bare_cpu_us": bare_cpu,
        "share_cpu": bare_cpu / cpu_us,
        "share_wall": bare_wall / wall_us,
    }


ARMS: dict[str, dict[str, Any] | None] = {
    "alone": None,
    "every 10 s": {"period": 10.0},
    "at most 0.5 %": {"max_overhead": 0.005},
}


def overhead(
    binary: str, seconds: float, rounds: int, lowest_priority: bool, megabytes: int = 200
) -> dict[str, Any]:
    """Whole processes alone and recorded, interleaved: seconds of the program's own work by its own
    clocks (its processor time is without its copies'), and what the recorder said of itself."""
    from dataclasses import asdict

    from tracekit.record import RecordOptions

    wall, _ = _work(binary, megabytes, 10**7, None)
    work = int(1e7 * seconds / wall)
    out: dict[str, Any] = {arm: {"wall_s": [], "cpu_s": [], "totals": []} for arm in ARMS}
    for _ in range(rounds):
        for arm, given in ARMS.items():
            options = given and asdict(RecordOptions(**given, lowest_priority=lowest_priority))
            (wall, cpu), totals = _work_recorded(binary, megabytes, work, options)
            out[arm]["wall_s"].append(wall)
            out[arm]["cpu_s"].append(cpu)
            if totals:
                out[arm]["totals"].append(totals)
    return out


_RECORDER = """
import json, sys
from tracekit.record import RecordOptions, record_pid
totals = record_pid(int(sys.argv[1]), sys.argv[2], RecordOptions(**json.loads(sys.argv[3])))
print(json.dumps(totals.as_dict()))
"""


def _work(binary: str, megabytes: int, work: int, recorder: Any) -> tuple[float, float]:
    with subprocess.Popen(
        [binary, str(megabytes), str(work)], stdout=subprocess.PIPE, text=True
    ) as child:
        if recorder is not None:
            recorder(child.pid)
        assert child.stdout is not None
        wall, cpu = (int(v) / 1e9 for v in child.stdout.read().split())
        return wall, cpu


def _work_recorded(
    binary: str, megabytes: int, work: int, options: dict[str, Any] | None
) -> tuple[tuple[float, float], dict[str, Any] | None]:
    if options is None:
        return _work(binary, megabytes, work, None), None
    with tempfile.TemporaryDirectory() as folder:
        recorders: list[subprocess.Popen[str]] = []

        def record(pid: int) -> None:
            args = [sys.executable, "-c", _RECORDER, str(pid), f"{folder}/x", json.dumps(options)]
            recorders.append(subprocess.Popen(args, stdout=subprocess.PIPE, text=True))

        times = _work(binary, megabytes, work, record)
        return times, json.loads(recorders[0].communicate()[0])


def _overhead_text(o: dict[str, Any]) -> Iterator[str]:
    m = statistics.median
    plain = o["alone"]
    for arm, found in o.items():
        line = f"{arm:>14}: wall {m(found['wall_s']):.3f} s, processor {m(found['cpu_s']):.3f} s"
        for t in found["totals"][:1]:
            line += "".join(
                f", {key[:-2]} {100 * (m(found[key]) / m(plain[key]) - 1):+.2f} %"
                for key in ("wall_s", "cpu_s")
            )
            said = m(x["overhead"] for x in found["totals"])
            epochs, period = m(x["epochs"] for x in found["totals"]), t["period"]
            line += f"; the recorder says {100 * said:.3f} %, {epochs:g} epochs"
            line += f", period {period} s" if period is not None else ""
        yield line


pytestmark = pytest.mark.skipif(
    available() is not None or shutil.which("gcc") is None, reason=available() or "needs gcc"
)


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _build(tmp_path_factory.mktemp("record"))


def test_snapshot(binary: str, benchmark: Any) -> None:
    """An epoch of one instruction: 10 MB of a program copied, stepped once, let go."""
    recorder = _recorder()
    benchmark.group = "record, snapshots"
    with _program(binary, 10) as (pid, _):
        result = benchmark(_epoch, recorder, pid, 1)
        assert result["instructions"] == 1
    done(benchmark, 1, "snapshots")


def test_floor_snapshot(binary: str, benchmark: Any) -> None:
    """The program's own bare clone, as it times it."""
    benchmark.group = "record, snapshots"
    with _program(binary, 10) as (_, ask):
        assert benchmark(ask, "c") > 0
    done(benchmark, 1, "snapshots")


STEPS = 2000


def test_stepping(binary: str, benchmark: Any) -> None:
    recorder = _recorder()
    benchmark.group = "record, steps"
    with _program(binary, 1) as (pid, _):
        result = benchmark.pedantic(_epoch, args=(recorder, pid, STEPS), rounds=1)
        steps = result["info"]["steps"]
        assert result["instructions"] == steps > 0
    done(benchmark, steps, "steps")


def test_floor_stepping(benchmark: Any) -> None:
    """A loop of bare PTRACE_SINGLESTEP."""
    benchmark.group = "record, steps"
    wall, _ = benchmark.pedantic(_core.bare_step_ns, args=(STEPS,), rounds=1)
    assert wall > 0
    done(benchmark, STEPS, "steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 200, 2000])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--overhead", type=float, metavar="SECONDS", help="length of one process")
    parser.add_argument("--overhead-rounds", type=int, default=3)
    parser.add_argument(
        "--normal-priority", action="store_true", help="of copies in the A/B, where all is busy"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        binary = _build(Path(folder))
        out: dict[str, Any] = {
            "pauses": [pauses(binary, size, args.rounds) for size in args.sizes],
            "stepping": stepping(binary, args.rounds) if args.rounds else None,
        }
        if args.overhead:
            out["overhead"] = overhead(
                binary, args.overhead, args.overhead_rounds, not args.normal_priority
            )
    if args.json:
        print(json.dumps(out, indent=1))
        return
    for p in out["pauses"]:
        print(
            f"{p['megabytes']:5} MB: bare clone {p['bare_clone_ms']:.3f} ms, "
            f"pause {p['pause_ms']:.3f} ms ({p['ratio']:.2f} x; best {p['best_ratio']:.2f} x), "
            f"felt {p['felt_ms']:.3f} ms"
        )
    if s := out["stepping"]:
        print(
            f"stepping: {s['cpu_us']:.1f} µs of processor time a step, bare "
            f"{s['bare_cpu_us']:.1f}: {100 * s['share_cpu']:.0f} %; wall {s['wall_us']:.1f} and "
            f"{s['bare_wall_us']:.1f} µs: {100 * s['share_wall']:.0f} %"
        )
    if args.overhead:
        print("\n".join(_overhead_text(out["overhead"])))


if __name__ == "__main__":
    main()
