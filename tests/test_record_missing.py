"""Memory that a copy of a program lacks: the program itself is stepped then, and that is said."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.test_record import (
    RECORD,
    TIMEOUT,
    TOLD_TO_STOP,
    _why_not,
    options,
    read,
    started,
    wait_for,
)
from tracekit.analysis.hotspots import hot
from tracekit.cli.main import main
from tracekit.record import record_pid, recorder
from tracekit.record.missing import missing_memory

pytestmark = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")

HEAD = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
enum { N = 1 << 17 };
static volatile int reached;
static void crash_handler(int s) { reached = s; for (;;) {} }
static long *map(int flags) {
  struct sigaction on = {.sa_handler = crash_handler};
  sigaction(SIGSEGV, &on, 0);
  long *p = mmap(0, N * sizeof *p, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) exit(9);
  for (int i = 0; i < N; i++) p[i] = (long)&p[(i + 12345) % N];
  return p;
}
static void ready(void) { puts("ready"); fflush(stdout); }
"""
CHASE = """
  ready();
  while (!told_to_stop())
    for (int i = 0; i < 100000; i++) at = (long *)*at;
  return at && !reached ? 8 : 7;
}
"""
PROGRAMS = {
    "dontfork": """
int main(void) {
  long *volatile at = map(MAP_PRIVATE);
  if (madvise(at, N * sizeof *at, MADV_DONTFORK)) return 9;
"""
    + CHASE,
    "wipeonfork": """
int main(void) {
  long *volatile at = map(MAP_PRIVATE);
  if (madvise(at, N * sizeof *at, MADV_WIPEONFORK)) return 9;
"""
    + CHASE,
    "shared": """
int main(void) {
  long *volatile at = map(MAP_SHARED);
  pid_t parent = getpid();
  int written[2];  /* once by the child: until then the pages are this process's own */
  char c;
  if (pipe(written)) return 9;
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < N; i++) at[i] = at[i];
    if (write(written[1], "", 1) != 1) _exit(1);
    while (getppid() == parent) for (int i = 0; i < N; i++) at[i] = at[i];
    _exit(0);
  }
  if (read(written[0], &c, 1) != 1) return 9;
"""
    + CHASE,
    "plain": "int main(void) {\n  long *volatile at = map(MAP_PRIVATE);\n" + CHASE,
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("missing")
    for name, source in PROGRAMS.items():
        file = folder / f"{name}.c"
        file.write_text(f"#define _GNU_SOURCE\n{TOLD_TO_STOP}{HEAD}{source}")
        subprocess.run(["gcc", "-w", "-O1", "-o", folder / name, file], check=True)
    return {name: str(folder / name) for name in PROGRAMS}


@pytest.mark.parametrize("kind", ["dontfork", "wipeonfork", "shared", "plain"])
def test_what_a_copy_lacks_is_seen_and_stepped_in_place(
    programs: dict[str, str], tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "x.tks"
    child = started([programs[kind]])
    told: list[str] = []
    totals = record_pid(child.pid, out, options(epoch=300, count=3), progress=told.append)
    child.communicate(timeout=TIMEOUT)
    assert child.returncode == 8  # it never saw its handler
    _, epochs = read(out)
    assert len(epochs) == 3 and all(len(e.rows) == 300 for e in epochs)
    lacking = kind != "plain"
    assert [e.info["in_place"] for e in epochs] == [int(lacking)] * 3
    assert totals.in_place == 3 * lacking and set(totals.missing) == {kind} - {"plain"}
    assert not lacking or totals.missing[kind] >= 1 << 20
    assert sum("which a copy would not have" in t for t in told) == lacking
    parts = hot(out).parts
    assert f"{kind}:crash_handler" not in parts and parts[f"{kind}:main"] > 600, parts


def ticks(pid: int) -> int:
    """For how many of the clock's ticks it ran."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("kind", ["dontfork", "wipeonfork"])
def test_an_epoch_in_a_handler_that_the_program_did_not_reach_is_dropped(
    programs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The memory was marked after it was looked at: the copy enters its crash handler."""
    looks = 0

    def late(pid: int) -> dict[str, int]:
        nonlocal looks
        looks += 1
        return {} if looks == 1 else missing_memory(pid)

    monkeypatch.setattr(recorder, "missing_memory", late)
    out = tmp_path / "x.tks"
    child = started([programs[kind]])
    begin = ticks(child.pid)  # it says that it is ready a little before it reads its memory
    assert wait_for(lambda: ticks(child.pid) > begin + 1)
    totals = record_pid(child.pid, out, options(epoch=300, count=2))
    child.communicate(timeout=TIMEOUT)
    assert child.returncode == 8
    assert totals.skipped == {"lacks_memory": 1} and totals.epochs == totals.in_place == 2
    assert f"{kind}:crash_handler" not in hot(out).parts


def test_the_summary_says_so(programs: dict[str, str], tmp_path: Path) -> None:
    command = [*RECORD, "--count", "1", "--period", "0", "--epoch", "200", "--normal-priority"]
    for extra in ([], ["--json"]):
        child = started([programs["dontfork"]])
        done = subprocess.run(
            [*command, *extra, "-o", tmp_path / f"{len(extra)}.tks", "--pid", str(child.pid)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        child.communicate(timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        last = done.stderr.splitlines()[-1]
        if extra:
            totals = json.loads(last)
            assert totals["in_place"] == 1 and totals["missing_memory"]["dontfork"] > 0
        else:
            assert "1 epoch stepped in the program itself" in last and "MADV_DONTFORK" in last


@pytest.mark.parametrize("extra", [[], ["--in-place"]])
def test_predict_steps_in_place_too(
    programs: dict[str, str], capsys: pytest.CaptureFixture[str], extra: list[str]
) -> None:
    child = started([programs["plain" if extra else "dontfork"]])
    sampling = ["--count", "2", "--epoch", "500", "--period", "0", "--seconds", "600", "--json"]
    assert main(["predict", *extra, *sampling, "--pid", str(child.pid)]) == 0
    child.communicate(timeout=TIMEOUT)
    assert child.returncode == 8
    result = json.loads(capsys.readouterr().out)
    assert result["usage"]["in_place"] == result["usage"]["epochs"] == 2
    (note,) = [n for n in result["notes"] if "in the program itself" in n]
    assert ("MADV_DONTFORK" in note) == (not extra)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_node(tmp_path: Path) -> None:
    """V8 keeps its heap out of copies: an epoch is of the script, not of a crash handler."""
    script = tmp_path / "s.js"
    script.write_text(
        "process.stdin.on('data', () => {}).on('end', () => process.exit(6));\n"
        "const a = []; let s = 0;\n"
        "function work() {\n"
        "  for (let i = 0; i < 3e5; i++) { a[i % 999] = {v: i}; s += a[(i * 7) % 999]?.v ?? 0; }\n"
        "  setImmediate(work);\n"
        "}\n"
        "setTimeout(() => { process.stdout.write('ready\\n'); work(); }, 300);\n"
    )
    out = tmp_path / "x.tks"
    child = started(["node", str(script)])
    totals = record_pid(child.pid, out, options(epoch=1000, count=4, threads="main", wait=20.0))
    child.communicate(timeout=TIMEOUT)
    assert child.returncode == 6
    assert totals.in_place == totals.epochs == 4 and totals.missing.get("dontfork", 0) > 0
    _, epochs = read(out)
    assert [len(e.rows) for e in epochs] == [1000] * 4
    assert not [p for p in hot(out).parts if "sigaction" in p]
