"""What tracekit predict says beside its figures: of all threads and processes, and only if so."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.test_record import TIMEOUT, _why_not, started
from tracekit.cli.main import main
from tracekit.prediction import features_of, sample
from tracekit.prediction.program import _circumstances
from tracekit.record import RecordOptions
from tracekit.record.usage import Watch

pytestmark = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")

SOURCE = """
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int told(void) { struct pollfd p = {0, POLLIN, 0}; return poll(&p, 1, 0) == 1; }
static void *spin(void *arg) {
  volatile long x = 0;
  while (!told()) for (int i = 0; i < 10000000; i++) x += i;
  return 0;
}
int main(int argc, char **argv) {
  puts("ready");
  fflush(stdout);
  if (argv[1][0] == 't') {
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, spin, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  } else {
    for (int i = 0; i < 2; i++) if (fork() == 0) { spin(0); _exit(0); }
    while (wait(0) > 0) {}
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("busy")
    (folder / "busy.c").write_text(SOURCE)
    subprocess.run(
        ["gcc", "-w", "-O1", "-pthread", "-o", folder / "busy", folder / "busy.c"], check=True
    )
    return str(folder / "busy")


@pytest.fixture
def busy(program: str, request: pytest.FixtureRequest) -> Iterator[int]:
    child = started([program, request.param])
    # What it does until it waits for its threads or children must not be sampled.
    state = Path(f"/proc/{child.pid}/stat")
    while state.read_text().rpartition(")")[2].split()[0] != "S":
        time.sleep(0.01)
    yield child.pid
    child.communicate(timeout=TIMEOUT)


def predicted(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main(["predict", "--json", *args]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize("busy", ["threads"], indirect=True)
def test_a_main_thread_that_waits_for_busy_ones(
    busy: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sits in pthread_join: the program is busy all the same, and its threads are told of."""
    sampling = ("--epoch", "2000", "--period", "0.1", "--seconds", "3", "--seed", "1")
    result = predicted(capsys, *sampling, "--pid", str(busy))
    u = result["usage"]
    assert u["threads"] == 3 and u["processes"] == 1
    assert (u["user"] + u["system"] + u["queued"]) / u["wall"] > 1, u  # two want to run
    assert not [n for n in result["notes"] if "mostly waits" in n]
    assert [n for n in result["notes"] if "threads" in n and "in the figures" in n]


@pytest.mark.parametrize("busy", ["forks"], indirect=True)
def test_processes_have_their_shares(busy: int, capsys: pytest.CaptureFixture[str]) -> None:
    sampling = ("--epoch", "1000", "--period", "0", "--seconds", "600", "--count", "8")
    result = predicted(capsys, *sampling, "--follow-forks", "--seed", "1", "--pid", str(busy))
    shares = result["processes"]
    assert len(shares) == 2 and busy not in [p["pid"] for p in shares]
    assert sum(p["epochs"] for p in shares) == result["epochs"]
    for machine in result["machines"]:
        assert sum(p["share"][machine["name"]] for p in shares) == pytest.approx(1)
    assert [n for n in result["notes"] if "2 threads of 2 processes are predicted as one" in n]
    assert result["usage"]["processes"] == 3


def test_children_that_are_not_followed_are_told(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    work = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; "
    loop = f"{work} timeout 2 sh -c 'while :; do :; done'; while :; do :; done"
    result = predicted(
        capsys, *("--epoch", "500", "--period", "0.2", "--seconds", "4"), "--", "sh", "-c", loop
    )
    assert result["usage"]["children"] > 0.05, result["usage"]
    assert [n for n in result["notes"] if "child processes" in n and "--follow-forks" in n]


def test_stepping_is_not_the_programs_own_time(
    capsys: pytest.CaptureFixture[str], tiny: str
) -> None:
    result = predicted(capsys, "--full", "--", tiny)
    assert result["usage"]["system"] is None and result["usage"]["system_share"] is None
    assert not [n for n in result["notes"] if "the kernel's" in n]
    assert not [n for n in result["notes"] if "mostly waits" in n or n.startswith("0.0%")]
    assert not result["warnings"]  # all of it was walked


@pytest.mark.parametrize("busy", ["threads"], indirect=True)
def test_epochs_shorter_than_asked_are_told(busy: int, tmp_path: Path) -> None:
    wanted = RecordOptions(epoch=10**8, count=1, copy_seconds=0.05, lowest_priority=False)
    usage = sample(tmp_path / "x.tks", wanted, pid=busy)
    features_of(tmp_path / "x.tks", tmp_path / "x.zst")
    notes: list[str] = []
    with tracekit.open(tmp_path / "x.zst") as trace:
        _circumstances({}, notes, trace, usage)
    (note,) = [n for n in notes if "of the 100000000 instructions" in n]
    assert "1 x time" in note and "--seconds" in note


@pytest.mark.parametrize("busy", ["threads"], indirect=True)
def test_few_epochs_are_warned_of_before_the_table(
    busy: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.tks"
    args = ["predict", "--epoch", "1000", "--period", "0", "--count", "2", "--seconds", "600"]
    assert main([*args, "--record", str(file), "--pid", str(busy)]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = next(i for i, line in enumerate(lines) if line.startswith("machine "))
    (at,) = [i for i, line in enumerate(lines) if line.startswith("warning: 2 epochs of")]
    assert at < table and "Try --seconds" in lines[at] and "epochs" in lines[at]
    result = predicted(capsys, str(file))
    assert result["enough"]["epochs"] >= 4 and result["enough"]["seconds"] is None
    assert len(result["warnings"]) == 1


def test_epochs_that_are_enough_are_enough() -> None:
    """As many epochs as are asked for bring the interval to what is aimed at."""
    import numpy as np

    from tracekit.prediction import advice
    from tracekit.prediction.sampling import Estimate, interval

    rng = np.random.default_rng(3)

    def found(n: int) -> Estimate:
        rows = np.full(n, 1000.0)
        cycles = rows[:, None] * rng.uniform(0.5, 1.5, (n, 1)) * np.ones((1, 5))
        cpi, half = interval(cycles, rows, np.ones(n))
        return Estimate(cpi, half, np.zeros(5), np.ones(n), half)

    said, enough = advice.advice(found(5), 5000, None, sampled=True)
    assert len(said) == 1 and enough is not None and 5 < enough["epochs"] < 1000
    more = found(enough["epochs"])
    assert float(np.median(more.half / more.cpi)) < 1.6 * advice.AIM
    assert advice.advice(found(200), 200_000, None, sampled=True) == ([], None)
    (alone,), _ = advice.advice(found(1), 1000, None, sampled=True)
    assert "cannot be told" in alone
    much = found(40)
    cold = Estimate(much.cpi, 0.6 * much.cpi, np.zeros(5), np.ones(40), 0.02 * much.cpi)
    (said,), enough = advice.advice(cold, 40_000, None, sampled=True)
    assert enough is None and "longer epochs (--epoch)" in said and "Try" not in said


def test_times_of_ended_children_stay(program: str) -> None:
    child = subprocess.Popen(
        ["sh", "-c", "read go; timeout 0.5 sh -c 'while :; do :; done'; echo done; read end"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None and child.stdout is not None
    watch = Watch(child.pid, reaped=True)
    child.stdin.write(b"\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"done\n"
    watch.look()
    assert watch.times.user + watch.times.system > 0.02 and watch.children.user > 0.01
    child.communicate(b"\n", timeout=TIMEOUT)
