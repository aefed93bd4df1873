"""Samples of a run under QEMU, its counts and the lines between them, against all of its rows."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest
from test_qemu import Row, build, pytestmark, rows_of

from tracekit.cli.main import main
from tracekit.errors import UsageError
from tracekit.record.qemu import QemuOptions, QemuSession, QemuTotals, record_qemu
from tracekit.record.qemu.traits import TOUCHED_PCS

__all__ = ["pytestmark"]

SOURCES = {
    "x86": """
        .globl _start
        .bss
        .balign 4096
buf:    .skip 65536
        .text
_start: mov $3000, %r8d
        lea buf(%rip), %rbx
1:      imul $2654435, %r8d, %eax
        and $0xffc0, %eax
        test $1, %al
        jnz 2f
        mov (%rbx,%rax), %edx
        test $64, %eax
        jz 2f
        add %edx, 8(%rbx,%rax)
2:      test $127, %r8d
        jnz 3f
        lea (%rbx,%rax), %rdi
        mov $300, %ecx
        rep stosb
3:      dec %r8d
        jnz 1b
        xor %edi, %edi
        mov $60, %eax
        syscall
""",
    "arm": """
        .globl _start
        .bss
        .balign 4096
buf:    .skip 65536
        .text
_start: mov w8, #3000
        adrp x1, buf
        mov w9, #40503
1:      mul w2, w8, w9
        and w2, w2, #0xffc0
        ldr w3, [x1, x2]
        tbz w2, #6, 2f
        str w3, [x1, x2]
2:      subs w8, w8, #1
        b.ne 1b
        mov w0, #0
        mov w8, #93
        svc #0
""",
}
LENGTH, EVERY, SKIP = 700, 4096, 100


def record(
    program: Path, out: Path, **options: object
) -> tuple[list[Row], QemuTotals, Counter[int]]:
    counts: Counter[int] = Counter()

    def done(session: QemuSession) -> None:
        for encoding, n in session.executed().items():
            counts[session.table[encoding][0]] += n

    totals = record_qemu([str(program)], out, QemuOptions(**options), done=done)  # type: ignore[arg-type]
    return rows_of(out), totals, counts


def lines_between(
    whole: list[Row], begin: int, end: int, pages: set[int]
) -> list[tuple[int, bool]]:
    """Lines by their last use in these rows, and whether they were written there; before that the
    first one of each page that is not among ``pages``, by its first use."""
    last: dict[int, int] = {}
    first: dict[int, tuple[int, int]] = {}  # page -> when, line
    written: set[int] = set()
    for at, (address, _, store) in enumerate(a for r in whole[begin:end] for a in r.accesses):
        line = address & ~63
        last[line] = at
        if address >> 12 not in pages:
            first.setdefault(address >> 12, (at, line))
        if store:
            written.add(line)
    out = [(at, line, line in written) for line, at in last.items()]
    out += [(at, line, False) for at, line in first.values() if last[line] != at]
    return [(line, store) for _, line, store in sorted(out)]


@pytest.mark.parametrize("isa", SOURCES)
def test_samples_are_parts_of_the_whole_run(tmp_path: Path, isa: str) -> None:
    program = build(isa, SOURCES[isa], tmp_path / "p")
    whole, _, _ = record(program, tmp_path / "whole.tks")
    rows, totals, counts = record(
        program, tmp_path / "s.tks", every=EVERY, insts=LENGTH, skip=SKIP, touched=True
    )
    assert totals.executed == len(whole)
    assert counts == Counter(r.pc for r in whole)
    at, pages = 0, set[int]()
    begins = range(SKIP, len(whole), EVERY)
    for number, begin in enumerate(begins):
        lines, code = [], []
        while rows[at].pc in TOUCHED_PCS:
            ((address, _, store),) = rows[at].accesses
            if rows[at].pc == TOUCHED_PCS[2]:
                code.append(address)
            else:
                assert store == TOUCHED_PCS.index(rows[at].pc)
                lines.append((address, bool(store)))
            at += 1
        # What the blocks did in which a sample begins and ends, before and behind it, is left out.
        before = begins[number - 1] + LENGTH if number else 0
        spans = itertools.product(
            range(before, before + 12), range(begin, max(before, begin - 12), -1)
        )
        assert any(lines == lines_between(whole, a, b, pages) for a, b in spans), number
        pages |= {line >> 12 for line, _ in lines}
        surely = {r.pc & ~63 for r in whole[before + 12 : begin - 12]}
        assert surely <= set(code) <= surely | {line + 64 for line in surely}, number
        sample = whole[begin : begin + LENGTH]
        got = rows[at : at + len(sample)]
        assert [r.pc for r in got] == [r.pc for r in sample], number
        assert [r.accesses for r in got[1:-1]] == [r.accesses for r in sample[1:-1]], number
        assert got[0].bits & 4
        at += len(sample)
    assert at == len(rows)


def test_counts_without_lines(tmp_path: Path) -> None:
    program = build("x86", SOURCES["x86"], tmp_path / "p")
    rows, totals, _ = record(program, tmp_path / "s.tks", every=EVERY, insts=LENGTH)
    assert not {r.pc for r in rows} & set(TOUCHED_PCS)
    assert totals.executed is not None
    assert json.loads(json.dumps(totals.as_dict()))["executed"] == totals.executed


@pytest.mark.parametrize("first", ["", "if (fork()) { wait(0); return 0; }"])
def test_a_run_that_is_killed_has_no_count(first: str, tmp_path: Path) -> None:
    """A program that dies, and one whose child does: what was counted then is not the run."""
    source = "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint main(void) {"
    source += first + "for (volatile int i = 0; i < 9000; i++) ; abort(); }"
    program = build("x86", source, tmp_path / "p", "-static")
    rows, totals, _ = record(program, tmp_path / "s.tks", every=EVERY, insts=LENGTH)
    assert rows and totals.executed is None


def test_a_program_that_ends_before_its_first_sample(tmp_path: Path, capsys) -> None:
    """It is predicted whole, also where the recording is kept."""
    program = build("x86", SOURCES["x86"], tmp_path / "p")
    sampling = ["--engine", "qemu", "--every", "1000000000", "--insts", "700", "--seed", "1"]
    kept = ["--record", str(tmp_path / "s.tks")]
    words = ["predict", "-q", "--uarch", "u007", *sampling, *kept, "--", str(program)]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "recorded whole" in err and "epochs, all of it" in out
    assert len(rows_of(tmp_path / "s.tks")) > 20_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every": 1000}, "--every is at least"),
        ({"every": 1000, "insts": 900}, "--every is at least"),
        ({"every": 10000, "insts": 900, "marks": True}, "no --marks"),
        ({"touched": True}, "--touched belongs to samples"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        QemuOptions(**options).check()  # type: ignore[arg-type]
