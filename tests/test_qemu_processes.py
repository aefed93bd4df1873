"""Programs that fork or execute others under QEMU: whose code it was.  Recordings of nothing, and
what is told."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import pytest
from test_qemu import (
    RECORD,
    TIMEOUT,
    build,
    pytestmark,  # noqa: F401  # what these need
    recorded_there,
    stand_in,
)

import tracekit
from tracekit.analysis import hot
from tracekit.cli.main import main
from tracekit.errors import TracekitError
from tracekit.inputs.tks import format_summary, summary
from tracekit.prediction.program import _program_of
from tracekit.record.qemu import QemuOptions, record_qemu
from tracekit.record.qemu.launch import why_untraced
from tracekit.record.qemu.session import QemuSession
from tracekit.record.totals import ending

WORK = "__attribute__((noinline)) int {0}(int n) {{ int s = 0; for (int i = 0; i < n; i++) {{ "
WORK += '__asm__ volatile("" : "+r"(s)); s += i; }} return s; }}\n'


def names(path: Path) -> dict[str, int]:
    return dict(hot(path).parts)


def test_a_forked_child_has_its_parent_s_names(tmp_path: Path) -> None:
    source = "#include <sys/wait.h>\n#include <unistd.h>\n" + WORK.format("work")
    source += "int main(void) { if (!fork()) _exit(work(20000) == 1); wait(0); return 0; }"
    program = build("x86", source, tmp_path / "forks", "-O1", "-pie", "-fPIE")
    record_qemu([str(program)], tmp_path / "f.tks")
    found = names(tmp_path / "f.tks")
    assert found["forks:work"] > 50_000 and found.get("?", 0) < 1_000, found


def test_a_program_that_another_one_replaces(tmp_path: Path) -> None:
    pie = ("-O1", "-pie", "-fPIE")
    second = build("x86", WORK.format("late") + "int main(void) { return late(9999) == 1; }",
                   tmp_path / "second", *pie)  # fmt: skip
    source = "#include <unistd.h>\n" + WORK.format("early")
    source += f'int main(void) {{ early(30000); execl("{second}", "second", (char*)0); return 1; }}'
    first = build("x86", source, tmp_path / "first", *pie)
    record_qemu([str(first)], tmp_path / "e.tks")
    found = names(tmp_path / "e.tks")
    assert found["first:early"] > 80_000 and 20_000 < found["second:late"] < 60_000, found
    (feats,) = tracekit.extract(tmp_path / "e.tks", tmp_path / "e.zst").outputs
    of_feats = hot(feats.path)
    if "first:early" not in of_feats.parts:  # they lay at the same addresses, and it is said
        assert "lay at the same addresses later" in of_feats.problems[str(first)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (QemuOptions(skip=10**9), "the program ended before --skip 1000000000"),
        (QemuOptions(start="0x1"), "the program never came to --start 0x1"),
        (QemuOptions(marks=True), "the program met no mark"),
        (QemuOptions(cpu="nosuch"), "it ended with exit status 1 before its first instruction"),
    ],
)
def test_a_recording_of_nothing_replaces_none(options: QemuOptions, why: str, tmp_path) -> None:
    program = build("x86", "int main(void) { return 3; }", tmp_path / "p", "-O1")
    kept = tmp_path / "kept.tks"
    record_qemu([str(program)], kept)
    before = kept.read_bytes()
    with pytest.raises(TracekitError, match=f"nothing was recorded: .*{why}"):
        record_qemu([str(program)], kept, options, force=True)
    assert kept.read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_info_tells_nothing_of_copies_under_qemu(tmp_path: Path, capsys) -> None:
    program = build("x86", "int main(void) { return 3; }", tmp_path / "p", "-O1")
    record_qemu([str(program)], tmp_path / "r.tks")
    assert main(["info", str(tmp_path / "r.tks")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("recording of x86 instructions under QEMU: ")
    assert not any(word in text for word in ("copy", "stepped", "pause", "None"))
    assert main(["info", str(tmp_path / "r.tks"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "qemu"


def test_a_program_that_another_one_replaces_stays_one_process(tmp_path: Path) -> None:
    program = build("x86", "int main(void) { return 3; }", tmp_path / "p", "-O1")
    totals = record_qemu(["sh", "-c", f"exec {program}"], tmp_path / "one.tks")
    assert (totals.processes, totals.threads, totals.exit_status) == (1, 1, 3 << 8)
    totals = record_qemu(["sh", "-c", f"{program}; true"], tmp_path / "two.tks")
    assert (totals.processes, totals.threads) == (2, 2)


@pytest.mark.parametrize("straight", [False, True])
def test_what_predict_says_of_processes(
    straight: bool, tmp_path: Path, capsys, monkeypatch
) -> None:
    """They are named after their programs, not after the dynamic linker or a library, which run
    before; accesses that are missing are told in front."""
    work = WORK.format("work") + "int main(void) { return work(9999) == 1; }"
    program = build("x86", work, tmp_path / "worker", "-O1", "-pie", "-fPIE")
    (tmp_path / "link").symlink_to(program)
    command = ["sh", "-c", "./link; true"]
    recording = str(tmp_path / "r.tks")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(QemuSession, "silent", lambda self: {"fbstp": 7})
    monkeypatch.setattr(QemuSession, "anomalies", lambda self: {"an access of no instruction": 2})
    if straight:
        words = ["--engine", "qemu", "--", *command]
    else:
        record_qemu(command, recording)
        words = [recording]
    assert main(["predict", "-q", "--by", "process", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    shell = Path(os.path.realpath(shutil.which("sh") or "sh")).name
    names = {p["name"].partition(" ")[2] for p in found["processes"]}
    assert names == {shell, "worker"} == {p["name"].partition(" ")[2] for p in found["parts"]}
    assert found["warnings"][-2:] == [
        "the accesses of 7 x fbstp are missing: QEMU does not show them",
        "left out, since nobody knows whose they were: 2 x an access of no instruction",
    ]


@pytest.mark.parametrize(
    ("files", "own"),
    [
        ([(1, 2, "/bin/a"), (5, 6, "/lib/libc.so.6"), (8, 9, "/lib/ld-linux-x86-64.so.2")], "a"),
        ([(5, 6, "/lib/ld-2.31.so"), (7, 8, "/lib/libc.so.6"), (1, 2, "/bin/a")], "a"),
        ([(5, 6, "/lib/ld-musl-aarch64.so.1"), (1, 2, "/bin/ld")], "ld"),
        ([(1, 3, "/bin/a"), (2, 4, "/bin/b"), (2, 9, "/bin/c")], "c"),
        ([(1, 3, ""), (3, 4, "[vdso]")], None),
    ],
)
def test_which_file_is_the_program(files: list[tuple[int, int, str]], own: str | None) -> None:
    found = _program_of([[begin, end, 0, path, None] for begin, end, path in files])
    assert found == (own and f"/bin/{own}")


def test_accesses_that_qemu_does_not_show_are_told(tmp_path: Path, capsys) -> None:
    """In info, with the reason that this engine has; of the features, too."""
    recorded_there(tmp_path, stand_in(tmp_path, 1, "-DARM"), 183)
    recording = str(tmp_path / "o.tks")
    why = "the accesses of 1000 x dc zva are missing: QEMU does not show them"
    assert main(["info", recording]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == why
    features = str(tmp_path / "o.zst")
    assert main(["extract", recording, "-o", features, "-q"]) == main(["info", features]) == 0
    assert f"lacks      {why.replace(' are missing', '')}\n" in capsys.readouterr().out
    with tracekit.open(features) as trace:
        assert trace.index["source"]["without_accesses"] == {"dc zva": 1000}
        assert trace.index["source"]["unrecorded_accesses"] == 1000


def test_what_info_says_of_a_summary_under_qemu(tmp_path: Path) -> None:
    program = build("x86", "int main(void) { return 3; }", tmp_path / "p", "-O1")
    record_qemu([str(program)], tmp_path / "r.tks")
    found = summary(tmp_path / "r.tks")
    kinds = {"anomalies": {"an access of no instruction": 2}}
    text = format_summary({**found, "totals": {**found["totals"], **kinds}})
    assert text.splitlines()[-1] == "2 x an access of no instruction"
    cut = format_summary({**found, "totals": None, "unrecorded_accesses": 4})
    assert "the accesses of 4 instructions are missing: QEMU does not show them" in cut


def test_statuses_in_words() -> None:
    """Not as waitpid gives them."""
    assert ending(256) == "exit status 1" and ending(17920) == "exit status 70"
    assert ending(7) == "signal 7 (SIGBUS)" and ending(35 | 0x80) == "signal 35"


def test_the_line_that_a_recording_ends_with(tmp_path: Path, capsys) -> None:
    program = build("x86", "int main(void) { return 3; }", tmp_path / "p", "-O1")
    output = tmp_path / "a\nb.tks"
    assert main(["record", "--engine", "qemu", "-o", str(output), "--", str(program)]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert r"a\nb.tks: " in line and "accesses of 1 process and 1 thread in" in line


@pytest.mark.parametrize("program", [[], ["--", "true"]])
def test_the_engine_joins_no_running_process(program: list[str], capsys) -> None:
    assert main(["record", "--engine", "qemu", "--pid", "1", *program]) == 2
    told = capsys.readouterr().err
    assert "it cannot join --pid" in told and "means nothing" not in told
    assert main(["record", "--engine", "qemu"]) == 2
    assert "give a program to start, after --\n" in capsys.readouterr().err


def test_why_a_program_runs_without_being_recorded(tmp_path: Path) -> None:
    other = tmp_path / "other"
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HH", 2, 183)
    other.write_bytes(head + bytes(80))
    other.chmod(0o755)
    told: list[str] = []
    record_qemu(["sh", "-c", f"{other}; true"], tmp_path / "r.tks", progress=told.append)
    why = "runs without being recorded: it is for arm, and this is a recording of x86"
    assert f"{other} {why}" in told
    assert why_untraced("0", "x86").startswith("it is set-user-id")


def test_a_limit_of_a_file_s_size_is_told(tmp_path: Path) -> None:
    program = build("x86", "int main(void) { return 3; }", tmp_path / "p", "-static")
    record = shlex.join([*RECORD, "-q", "-o", str(tmp_path / "o.tks"), "--", str(program)])
    words = ["bash", "-c", f"trap '' XFSZ; ulimit -f 200; exec {record}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
    first, last = done.stderr.splitlines()
    assert "by the limit of a file's size (ulimit -f): File too large" in first
    assert "it ended with exit status 70" in last


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_waits_is_ended_with_the_recorder(tmp_path: Path, number: int) -> None:
    """What it did until then is in the file, though no buffer was full; its status is passed on."""
    source = WORK.format("work") + "#include <stdio.h>\n#include <unistd.h>\n"
    source += 'int main(void) { work(2000); puts("!"); fflush(stdout); for (;;) pause(); }'
    program = build("x86", source, tmp_path / "p", "-static", "-O1")
    command = [*RECORD, "-q", "-o", str(tmp_path / "o.tks"), "--", str(program)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as recorder:
        assert recorder.stdout is not None and recorder.stdout.read(1) == b"!"
        recorder.send_signal(number)
        _, told = recorder.communicate(timeout=TIMEOUT)
    assert recorder.returncode == 128 + number, told
    (line,) = told.decode().splitlines()  # -q: the summary alone
    assert "accesses of 1 process and 1 thread in" in line
    assert hot(tmp_path / "o.tks").parts["p:work"] > 6_000
    said = summary(tmp_path / "o.tks")
    assert said["complete"] and said["totals"]["end"] == "user"
    assert said["totals"]["exit_status"] == number


def test_a_program_whose_name_has_a_line_end(tmp_path: Path) -> None:
    source = WORK.format("work") + "int main(void) { return work(2000) == 1; }"
    program = build("x86", source, tmp_path / "a\nb", "-O1")
    record_qemu([str(program)], tmp_path / "o.tks")
    assert hot(tmp_path / "o.tks").parts[r"a\nb:work"] > 6_000
