"""Programs that fork or execute others under QEMU: whose code it was.  Recordings of nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_qemu import build, pytestmark  # noqa: F401  # what these need

import tracekit
from tracekit.analysis import hot
from tracekit.cli.main import main
from tracekit.errors import TracekitError
from tracekit.record.qemu import QemuOptions, record_qemu

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
        (QemuOptions(cpu="nosuch"), "before its first instruction"),
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
