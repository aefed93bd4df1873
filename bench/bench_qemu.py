"""Whole programs under QEMU: what the plug-in costs, and what a recording and features cost.

    python bench/bench_qemu.py --millions 300 --rounds 3

One run, interleaved: the floor is QEMU without a plug-in; the peers are Valgrind's lackey (every
access as text, to a pipe that is read and dropped) and single steps (20,000 of its
instructions).  The program sorts, hashes and copies; times are of the whole command with its
children,
wall clock and processor, so that the recorder's side is in them.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tracekit.extraction import extract
from tracekit.record import RecordOptions, available, record_command
from tracekit.record.qemu import QemuOptions, extract_qemu, record_qemu
from tracekit.record.qemu.launch import PLUGIN

PROGRAM = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static uint64_t table[1 << 14];
static int less(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}
int main(int argc, char **argv) {
  uint64_t seed = 1, sum = 0;
  for (long round = atol(argv[1]); round > 0; round--) {
    for (int i = 0; i < 1 << 12; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      table[seed >> 50] += i;
      table[i] ^= seed;
    }
    qsort(table, 1 << 9, 8, less);
    memcpy(table + (1 << 13), table, 1 << 15);
    for (int i = 0; i < 1 << 12; i++) sum += table[(sum ^ table[i]) & 0x3fff] & 1 ? 3 : 5;
  }
  return (int)(sum & 63);
}
"""
PER_ROUND = 210_000  # instructions, about; the recording counts them


def build(folder: Path) -> Path:
    out = folder / "work"
    (folder / "work.c").write_text(PROGRAM)
    command = ["gcc", "-O2", "-static", "-march=x86-64-v2", "-o", str(out), str(folder / "work.c")]
    subprocess.run(command, check=True)
    return out


def measured(run: Callable[[], object]) -> tuple[float, float]:
    """Wall clock and processor seconds, children included."""

    def spent() -> float:
        own, theirs = (
            resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        return sum(u.ru_utime + u.ru_stime for u in (own, theirs))

    before, begin = spent(), time.monotonic()
    run()
    return time.monotonic() - begin, spent() - before


def ways(program: Path, rounds: int, folder: Path) -> dict[str, Callable[[], object]]:
    """What is measured, by name: each runs the whole program."""
    argv = [str(program), str(rounds)]

    def discard() -> None:
        command = [shutil.which("qemu-x86_64") or "", "-plugin", f"{PLUGIN},discard=on", *argv]
        subprocess.run(command)

    def lackey() -> None:
        command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=3", *argv]
        with subprocess.Popen(["sh", "-c", '"$@" 3>&1 | cat > /dev/null', "sh", *command]) as p:
            p.wait()

    out: dict[str, Callable[[], object]] = {
        "natively": lambda: subprocess.run(argv),
        "QEMU without plug-in (floor)": lambda: subprocess.run(["qemu-x86_64", *argv]),
        "plug-in, events discarded": discard,
        "to .tks": lambda: record_qemu(argv, folder / "w.tks", QemuOptions(), force=True),
        ".tks to features": lambda: extract(
            folder / "w.tks", folder / "w.zst", level="macro", threads="interleaved", force=True
        ),
        "straight to features": lambda: extract_qemu(argv, folder / "d.zst", force=True),
    }
    if shutil.which("valgrind"):
        out["Valgrind lackey, dropped"] = lackey
    return out


def steps(program: Path, folder: Path) -> float:
    """Instructions a second of single steps."""
    options = RecordOptions(full=True, epoch=20_000, count=1)
    begin = time.monotonic()
    totals = record_command([str(program), "1"], folder / "s.tks", options, force=True)
    return totals.instructions / (time.monotonic() - begin)


@pytest.mark.skipif(
    not PLUGIN.exists() or not shutil.which("qemu-x86_64") or not shutil.which("gcc"),
    reason="needs qemu-user, gcc and the plug-in",
)
def test_ways_agree(tmp_path: Path) -> None:
    program = build(tmp_path)
    native = subprocess.run([str(program), "1"]).returncode
    totals = record_qemu([str(program), "1"], tmp_path / "w.tks")
    result, session = extract_qemu([str(program), "1"], tmp_path / "d.zst")
    assert totals.exit_status == session.status == native << 8
    assert totals.instructions == result.rows


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--millions", type=int, default=100, help="of instructions (100)")
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        loops = max(1, args.millions * 1_000_000 // PER_ROUND)
        n = record_qemu([str(program), str(loops)], folder / "w.tks").instructions
        best: dict[str, tuple[float, float]] = {}
        for _ in range(args.rounds):
            for way, run in ways(program, loops, folder).items():
                wall, cpu = measured(run)
                kept = best.get(way, (wall, cpu))
                best[way] = min(kept[0], wall), min(kept[1], cpu)
        print(f"{n:,} instructions, {os.cpu_count()} processors, best of {args.rounds}")
        for way, (wall, cpu) in best.items():
            print(f"{way:<32}{n / wall / 1e6:>10.1f} M/s{n / cpu / 1e6:>10.1f} M/s of one core")
        if available() is None:
            print(f"{'single steps':<32}{steps(program, folder) / 1e6:>10.3f} M/s")
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"largest resident size of the recorder: {own / 1024:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())
