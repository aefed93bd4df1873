"""What a recording says of itself: why nothing could be recorded, and what a killed one leaves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.test_record import RECORD, TIMEOUT, _why_not, options, programs, running, started
from tracekit.cli.main import main
from tracekit.errors import RecordError
from tracekit.inputs.tks import summary
from tracekit.record import Totals, permission, procfs, record_command, record_pid

pytestmark = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")
__all__ = ["programs", "running"]  # fixtures

ROOT = os.geteuid() == 0
NOBODY: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if ROOT else {}
SECONDS = 60  # by then a recorder that says nothing has been stuck


@pytest.fixture
def anyones() -> Iterator[Path]:
    """A folder that another user may write to, too."""
    with tempfile.TemporaryDirectory(prefix="tracekit-test-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


# Python itself may lie where another user cannot read: everything is imported first.
AS_NOBODY = """
import os, sys
import pwd, tracekit.cli.main, tracekit.cli.cmd_record, tracekit.record.operands
from tracekit.record import record_pid
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(tracekit.cli.main.main(sys.argv[1:]))
"""


def refused(pid: int, folder: Path) -> str:
    """What ``record --pid`` says, as a user who may not."""
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, "record", "-o", f"{folder}/x.tks", "--pid", str(pid)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, done
    assert not list(folder.iterdir())
    return done.stderr


def test_another_users_process(anyones: Path) -> None:
    if ROOT:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            told = refused(child.pid, anyones)
            assert child.stdin is not None
            child.stdin.write(b"\n")
    else:
        told = refused(1, anyones)
    assert "may not be traced: it runs as user root (0), and tracekit as" in told, told


def test_a_process_that_is_not_dumpable(anyones: Path) -> None:
    source, program = anyones / "hides.c", anyones / "hides"
    source.write_text(
        "#include <stdio.h>\n#include <sys/prctl.h>\n"
        'int main(void) { prctl(PR_SET_DUMPABLE, 0); puts("ready"); fflush(stdout); getchar(); }'
    )
    subprocess.run(["gcc", "-o", program, source], check=True)
    child = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", **NOBODY
    )
    source.unlink()
    program.unlink()
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    try:
        assert "not dumpable" in refused(child.pid, anyones)
    finally:
        child.communicate(b"\n")


def test_a_kernel_thread(tmp_path: Path) -> None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[6]) & 0x200000:
                with pytest.raises(RecordError, match="kernel thread"):
                    record_pid(int(entry.name), tmp_path / "x.tks")
                assert not list(tmp_path.iterdir())
                return
    pytest.skip("no kernel thread is to be seen from here")


def test_a_process_that_has_ended(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(RecordError, match="has ended"):
        record_pid(child.pid, tmp_path / "x.tks")
    child.wait()


@pytest.mark.parametrize(("scope", "says"), [(1, "own parent"), (2, "only root"), (3, "nobody")])
def test_yama_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: int, says: str
) -> None:
    setting = tmp_path / "ptrace_scope"
    setting.write_text(f"{scope}\n")
    monkeypatch.setattr(permission, "_YAMA", setting)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 1000)
    monkeypatch.setattr(Path, "stat", lambda self: os.stat_result((0, 0, 0, 0, 1000, *[0] * 5)))
    ours = {"Uid": "1000\t1000\t1000\t1000", "Gid": "1000\t1000\t1000\t1000"}
    reason, hint = permission._reason(4711, ours)
    assert f"is {scope}" in reason and says in reason and "sysctl" in hint


def test_three_seconds_with_the_defaults_have_epochs(tmp_path: Path) -> None:
    out = tmp_path / "x.tks"
    busy = "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    done = subprocess.run(
        [*RECORD, "-o", str(out), "--", sys.executable, "-c", busy],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    s = summary(out)
    assert s["epochs"] >= 1 and s["instructions"] > 0 and "no epoch" not in done.stderr


def test_no_epoch_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.tks"
    assert main(["record", "-q", "-o", str(out), "--period", "600", "--", "true"]) == 0
    told = capsys.readouterr().err
    assert told.splitlines()[-1].startswith(f"tracekit: {out}: 0 epochs, 0 instructions")
    assert "warning: no epoch was recorded" in told and "--full" in told and "--period" in told
    assert summary(out)["epochs"] == 0


def test_epochs_shorter_than_asked_are_told(
    running: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy that hardly gets to run ends with few instructions: said, with what would help."""
    args = ["record", "-o", str(tmp_path / "x.tks"), "--pid", str(running.pid)]
    args += ["--normal-priority", "--count", "1", "--period", "0", "--force"]
    assert main([*args, "--epoch", "200000000", "--copy-seconds", "0.05"]) == 0
    *_, warning, _ = capsys.readouterr().err.splitlines()
    assert warning.startswith("tracekit: warning: epochs have ")
    assert "of the 200000000 instructions that were asked for" in warning
    assert "1 x time" in warning and "--copy-seconds" in warning
    assert main([*args, "--epoch", "100"]) == 0
    assert "asked for" not in capsys.readouterr().err


def test_half_of_the_instructions_are_enough() -> None:
    def told(lengths: list[int], **ended: int) -> str | None:
        return Totals(asked=1000, lengths=lengths, ended=Counter(ended)).shortfall({"time": "wait"})

    assert told([1000, 500, 3], length=1, system_call=2) is None
    assert told([1000, 499, 128], length=1, time=2) == (
        "epochs have 499 of the 1000 instructions that were asked for (median; they ended early "
        "by: 2 x time); wait"
    )
    assert str(told([5, 6, 7], exec=2, time=1)).endswith(
        "(median; they ended early by: 2 x exec, 1 x time)"
    )
    assert told([]) is None
    assert Totals(lengths=[3], ended=Counter(exited=1)).shortfall({}) is None  # all was recorded


def test_quiet_is_the_summary_alone(tmp_path: Path) -> None:
    """Lines of epochs come before it; with --json the totals take its place."""
    command = [*RECORD, "-o", str(tmp_path / "x.tks"), "--period", "0", "--epoch", "300"]
    busy = "for _ in range(10**7): pass"
    said = {}
    for words in ((), ("-q",), ("-q", "--json")):
        done = subprocess.run(
            [*command, "--force", "--count", "3", *words, "--", sys.executable, "-c", busy],
            capture_output=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done.stderr
        said[words] = done.stderr.decode().splitlines()
    assert len(said[()]) >= 2 and "the program lost" in said[()][-1]
    (line,) = said["-q",]
    assert "the program lost" in line
    (line,) = said["-q", "--json"]
    assert json.loads(line)["epochs"] >= 1


@pytest.mark.parametrize(("period", "epochs"), [("600", 0), ("0", 2)])
def test_a_killed_recorder_leaves_what_it_has(
    programs: dict[str, str],
    tmp_path: Path,
    period: str,
    epochs: int,
) -> None:
    command = [*RECORD, "-o", str(tmp_path / "x.tks"), "--period", period, "--epoch", "300"]
    recorder = subprocess.Popen(
        [*command, "--normal-priority", "--", programs["work"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert recorder.stdout is not None and recorder.stderr is not None
    assert recorder.stdout.readline() == b"ready\n"
    for _ in range(epochs):
        assert b" epoch " in recorder.stderr.readline()
    recorder.kill()
    (left,) = tmp_path.iterdir()
    s = summary(left)
    assert s["epochs"] >= epochs and not s["complete"]
    assert s["command"] == [programs["work"]]
    recorder.communicate(timeout=TIMEOUT)  # ends the program, which reads our pipe


def test_what_started_is_still_there(programs: dict[str, str]) -> None:
    """The other user's refusal is no accident of this machine: we may trace what is ours."""
    child = started([programs["work"]])
    permission.check_traceable(child.pid)
    child.communicate(timeout=TIMEOUT)
    permission.check_traceable(child.pid)  # nobody is there: nothing to say


def processors() -> dict[int, set[str]]:
    """Of each thread of this process, where it may run."""
    found: dict[int, set[str]] = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            text = (task / "status").read_text().partition("Cpus_allowed_list:\t")[2]
            found[int(task.name)] = {text.partition("\n")[0]}
    return found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_who_steps_stays_with_the_copy(running: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """On one processor, and may run wherever it could before when the epoch is over."""
    mine = os.sched_getaffinity(0)
    one = {str(cpu) for cpu in mine}
    after: list[set[int]] = []

    def take() -> None:
        file = tmp_path / "x.tks"
        record_pid(running.pid, file, options(count=1, epoch=5000), force=True)
        after.append(os.sched_getaffinity(0))

    seen: set[str] = set()
    until = time.monotonic() + SECONDS
    while not one & seen and time.monotonic() < until:  # an epoch may pass between two looks
        thread = threading.Thread(target=take)
        thread.start()
        while thread.is_alive():
            seen |= processors().get(thread.native_id or 0, set())
        thread.join()
        assert after.pop() == mine
    assert one & seen


def test_sigterm_ends_the_program_too(programs: dict[str, str], tmp_path: Path) -> None:
    command = [*RECORD, "-o", str(tmp_path / "x.tks"), "--period", "0", "--epoch", "300"]
    words = [*command, "--normal-priority", "--", programs["work"]]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as recorder:
        assert recorder.stderr is not None and b" epoch 0: " in recorder.stderr.readline()
        recorder.terminate()
        recorder.wait(TIMEOUT)  # while the program's input has no end
    assert recorder.returncode == 128 + signal.SIGTERM
    assert summary(tmp_path / "x.tks")["complete"]


def test_sigterm_leaves_a_process_that_ran_before(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    command = [*RECORD, "-o", str(tmp_path / "x.tks"), "--period", "0", "--epoch", "300"]
    words = [*command, "--normal-priority", "--pid", str(running.pid)]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as recorder:
        assert recorder.stderr is not None and b" epoch 0: " in recorder.stderr.readline()
        recorder.terminate()
        recorder.communicate(timeout=TIMEOUT)
    assert recorder.returncode == 128 + signal.SIGTERM and running.poll() is None
    assert summary(tmp_path / "x.tks")["complete"]


def test_names_of_files_in_the_memory_of_a_process(tmp_path: Path) -> None:
    """The kernel writes the end of a line as \\012, and no other character."""
    (tmp_path / "a\nb").touch()
    (tmp_path / r"c\012d").touch()
    text = b"".join(
        b"%x000-%x000 r-xp 00000000 fe:00 7  %s\n" % (k, k + 1, os.fsencode(tmp_path / name))
        for k, name in enumerate((r"a\012b", r"c\012d", "e\u2028f"), 1)
    )
    maps = procfs.code_maps(text)
    assert [Path(m.path).name for m in maps] == ["a\nb", r"c\012d", "e\u2028f"]


@pytest.mark.parametrize("full", [True, False])
def test_names_and_words_that_are_no_utf_8(
    programs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """A program's name, which the kernel shows in /proc/PID/stat, its arguments, its environment
    and the folder."""
    folder = tmp_path / os.fsdecode(b"f\xfe")
    folder.mkdir()
    name = str(folder / os.fsdecode(b"n\xff"))
    Path(name).symlink_to(programs["work"])
    monkeypatch.setenv("TRACEKIT_TEST", os.fsdecode(b"\xff"))
    out = tmp_path / "x.tks"
    if full:
        record_command([name, os.fsdecode(b"\xfd")], out, options(full=True, count=1))
    else:
        child = started([name, os.fsdecode(b"\xfd")])
        record_pid(child.pid, out, options(count=1))
        child.communicate(timeout=TIMEOUT)
    assert os.fsencode(summary(out)["command"][0]) == os.fsencode(name)
    assert summary(out)["epochs"] == 1
