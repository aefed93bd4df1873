"""Where a program's file lies in its memory, and the frames of all other pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_qemu import build
from test_qemu import pytestmark as needs_qemu
from test_sim import cycles, extract, line
from test_sim_memory import LOAD, STORE

import tracekit
from tracekit.errors import FormatError
from tracekit.inputs.tks import MAPS, TksReader, TksWriter
from tracekit.record.qemu import QemuOptions, QemuSession, extract_qemu, record_qemu
from tracekit.record.qemu.image import program_image
from tracekit.sim import trace_walk
from tracekit.store import program_image as stored

#: Prints addresses: of its code, of its data, of the heap, of a mapping, of the stack.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
char data[100000];
int main(int count, char** words) {
  int local;
  CHILD
  printf("%p %p %p %p %p %p", (void*)main, data, data + sizeof data - 1, malloc(10),
         malloc(1 << 20), (void*)&local);
  return 0;
}
"""


def test_pages_outside_the_image_have_frames_in_the_order_of_their_first_touch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in test_pages_have_frames_in_the_order_in_which_they_are_touched, where nothing traps."""
    page, base = 4096, 0x7000000

    def loop(order: list[int], image: tuple[int, int]) -> float:
        rows = []
        for k, p in enumerate(order):
            at = base + page * p
            rows.append(line(k, "str   x1, [x2]", "MemWrite", STORE, at, 0x400000 + 4 * k))
        for _ in range(20):
            for at in range(base, base + 5 * page, 64):
                rows.append(line(0, "ldr   x3, [x3]", "MemRead", LOAD, at, 0x401000))
                rows.append(line(0, "add   x7, x7, #1", pc=0x401004))
        monkeypatch.setattr(trace_walk, "program_image", lambda trace: image)
        return cycles(extract(tmp_path, "".join(rows)), l1d_kb=32, l1d_assoc=2)

    after, turns = list(range(10)), [p for k in range(5) for p in (k, 5 + k)]
    code = (0x400000, 0x402000)
    lines = 5 * page // 64
    assert loop(turns, code) > loop(after, code) + 19 * lines * 3 / 5 * 8
    for image in ((0x400000, base + 10 * page), stored.UNKNOWN):  # addresses stand for themselves
        assert abs(loop(turns, image) - loop(after, image)) < lines


@needs_qemu
@pytest.mark.parametrize(
    ("isa", "flags"), [("x86", "-static"), ("x86", "-pie"), ("arm", "-static"), ("arm", "-pie")]
)
def test_the_image_holds_code_and_data_and_no_more(
    isa: str, flags: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = build(isa, SOURCE.replace("CHILD", ""), tmp_path / "p", flags)
    record_qemu([str(program)], tmp_path / "p.tks")
    main, first, last, heap, mapped, local = (int(w, 0) for w in capfd.readouterr().out.split())
    tracekit.extract(tmp_path / "p.tks", tmp_path / "p.zst")
    with tracekit.open(tmp_path / "p.zst") as trace:
        begin, end = stored.program_image(trace)
        assert main in trace.statics.pc
    assert begin % 4096 == 0 and all(begin <= at < end for at in (main, first, last))
    assert not any(begin <= at < end for at in (heap, mapped, local))
    extract_qemu([str(program)], tmp_path / "q.zst", QemuOptions(drop_output=True))
    with tracekit.open(tmp_path / "q.zst") as trace:
        assert stored.program_image(trace)[1] - stored.program_image(trace)[0] == end - begin
    tracekit.extract(tmp_path / "p.tks", tmp_path / "late.zst", start=1000)
    with tracekit.open(tmp_path / "late.zst") as trace:
        assert stored.program_image(trace) == stored.UNKNOWN


@needs_qemu
@pytest.mark.parametrize(
    ("child", "options", "known"),
    [
        ("", {}, True),
        ("", {"insts": 20000}, True),
        ("", {"skip": 1000}, False),
        ("", {"start": "main"}, False),
        ("", {"every": 10000, "insts": 1000}, False),
        ("", {"every": 10000, "insts": 1000, "skip": 500, "touched": True}, True),
        ("if (fork() == 0) return 0; wait(0);", {}, False),
        ('execl("/bin/true", "true", (char*)0);', {}, False),
        ("if (count == 1) execl(*words, *words, *words, (char*)0);", {}, False),
        ("unlink(*words);", {}, True),
    ],
)
def test_the_image_is_known_where_all_memory_of_one_program_is(
    child: str, options: dict[str, Any], known: bool, tmp_path: Path
) -> None:
    program = build("x86", SOURCE.replace("CHILD", child), tmp_path / "p", "-static")
    with QemuSession([str(program)], QemuOptions(drop_output=True, **options)) as session:
        assert program_image(session) is None
        list(session.pieces())
        assert (program_image(session) is not None) == known
    program = build("x86", SOURCE.replace("CHILD", child), tmp_path / "p", "-static")
    record_qemu([str(program)], tmp_path / "p.tks", QemuOptions(drop_output=True, **options))
    with TksReader(tmp_path / "p.tks") as reader:
        list(reader.epochs())
        assert (reader.image is not None) == known


@pytest.mark.parametrize("bad", [[], [1], [2, 1], [1, 1], ["1", 2], [1, 1 << 64], {}, 5, True])
def test_damaged_images_are_told(bad: Any, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="program's file"):
        stored.parse_image(bad, "x.tks")
    with TksWriter(tmp_path / "x.tks", arch="x86", meta={}) as w:
        w.text(MAPS, {"pid": 1, "maps": [], "image": bad})
        w.close({})
    with TksReader(tmp_path / "x.tks") as reader, pytest.raises(FormatError, match=r"x\.tks"):
        list(reader.epochs())
