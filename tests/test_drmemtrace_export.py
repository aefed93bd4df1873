"""A recording written as DynamoRIO's traces, and read again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.tks_blocks import code_block, epoch_block

import tracekit
from tracekit import _core
from tracekit.cli.main import main
from tracekit.errors import TracekitError, UsageError
from tracekit.exporting import export
from tracekit.exporting.drmemtrace import RECORD, write_drmemtrace
from tracekit.inputs.archives import chunks
from tracekit.inputs.drmemtrace import Drmemtrace
from tracekit.inputs.tks import TksWriter

TAKEN, KNOWN, RESTART = 1, 2, 4
#: Code that lies one behind another: nop, jne +2, nop, movups, call *rax, ret, a nop of ten bytes.
CODE = [
    (0x1000, b"\x90"),
    (0x1001, b"\x75\x02"),
    (0x1003, b"\x90"),
    (0x1004, b"\x90"),
    (0x1005, b"\x0f\x10\x07"),
    (0x1008, b"\xff\xd0"),
    (0x100A, b"\xc3"),
    (0x100B, b"\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"),
    (0x1000, b"\xc3"),  # written over the first one
]
BRANCHES = (1, 5, 6, 8)


def fields(pid: int, tid: int, start: int) -> list[int]:
    out = [0] * len(_core.EPOCH_FIELDS)
    for name, value in (("pid", pid), ("tid", tid), ("start_ns", start)):
        out[_core.EPOCH_FIELDS.index(name)] = value
    return out


def write(path: Path, epochs: list[tuple[list[int], list[Any]]]) -> Path:
    writer = TksWriter(path, arch="x86", meta={"command": ["x"]}, force=True)
    writer.block(code_block(0, CODE))
    for head, rows in epochs:
        writer.block(epoch_block(head, rows))
    writer.close({"epochs": len(epochs)})
    return path


access = st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 64), st.integers(0, 1))


@st.composite
def epochs(draw: Any) -> list[tuple[int, list[Any]]]:
    """(thread, rows); restarts wherever a row does not follow, as a recorder says."""
    out = []
    for _ in range(draw(st.integers(1, 4))):
        rows: list[Any] = []
        for k in draw(st.lists(st.integers(0, len(CODE) - 1), min_size=1, max_size=12)):
            bits = RESTART
            if rows:
                before = rows[-1][0]
                pc, code = CODE[before]
                falls = CODE[k][0] == pc + len(code)
                if falls or before in BRANCHES:
                    bits = 0
                if before == 1 and not bits:
                    rows[-1][1] |= KNOWN | (0 if falls else TAKEN)
            rows.append([k, bits, draw(st.lists(access, max_size=3))])
        out.append((draw(st.sampled_from([7, 8])), rows))
    return out


@settings(max_examples=60)
@given(epochs())
def test_rows_come_back(tmp_path_factory: pytest.TempPathFactory, drawn: Any) -> None:
    folder = tmp_path_factory.mktemp("export")
    heads = [(fields(5, tid, 1000 * k), rows) for k, (tid, rows) in enumerate(drawn)]
    written = write_drmemtrace(write(folder / "a.tks", heads), folder / "out")
    assert written.instructions == sum(len(rows) for _, rows in drawn)
    trace = Drmemtrace(folder / "out")
    assert trace.arch == "x86" and trace.version == 5
    assert written.threads == len(trace.threads) == len({tid for tid, _ in drawn})
    for thread in trace.threads:
        want = [
            row for tid, rows in drawn if tid == int(thread.path.name.split(".")[2]) for row in rows
        ]
        got = []
        for b, _ in thread.batches():
            first = [*b.first_access.tolist(), len(b.address)]
            for i in range(len(b)):
                pc, length, known, raw = thread.table[int(b.encoding[i])]
                assert known
                flat = [
                    (int(b.address[a]), int(b.access_size[a]), int(b.is_store[a]))
                    for a in range(first[i], first[i + 1])
                ]
                got.append(((pc, raw[:length]), int(b.bits[i]), flat))
        assert [g[0] for g in got] == [CODE[w[0]] for w in want]
        assert [g[2] for g in got] == [w[2] for w in want]
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            assert (g[1] & RESTART) == (w[1] & RESTART) or k == 0, k
            if w[0] == 1 and w[1] & KNOWN:
                assert g[1] & 3 == w[1] & 3, k
        assert not thread.parser.anomalies


def test_records_are_those_of_the_format(tmp_path: Path) -> None:
    """By hand: an indirect call with its target, code of ten bytes, code that changes."""
    rows = [
        [5, 0, [(0x2000, 8, 1)]],
        [7, 0, []],
        [0, RESTART, []],
        [8, RESTART, []],
        [0, RESTART, []],
    ]
    write_drmemtrace(write(tmp_path / "a.tks", [(fields(5, 7, 2000), rows)]), tmp_path / "out")
    data = b"".join(chunks(tmp_path / "out" / "drmemtrace.5.7.trace.gz"))
    got = [tuple(map(int, r)) for r in np.frombuffer(data, RECORD)]
    time = 11_644_473_600_000_000 + 2
    long = CODE[7][1]
    assert got == [
        *[(25, 0, 5), (28, 12, 5), (28, 9, 0x240), (22, 4, 7), (24, 4, 5)],
        *[(28, 10, 64), (28, 18, 4096), (28, 14, 0), (28, 2, time), (28, 3, 0)],
        *[(47, 2, 0xD0FF), (28, 29, 0x100B), (15, 2, 0x1008), (1, 8, 0x2000)],
        (47, 8, int.from_bytes(long[:8], "little")),
        *[(47, 2, int.from_bytes(long[8:], "little")), (10, 10, 0x100B)],
        *[(28, 14, 1), (47, 1, 0x90), (10, 1, 0x1000)],
        *[(28, 14, 2), (47, 1, 0xC3), (16, 1, 0x1000)],
        *[(28, 14, 3), (47, 1, 0x90), (10, 1, 0x1000)],
        *[(23, 4, 7), (26, 0, 0)],
    ]


def test_features_are_the_recordings(tmp_path: Path) -> None:
    if shutil.which("qemu-x86_64") is None or shutil.which("gcc") is None:
        pytest.skip("needs qemu-user and gcc")
    import subprocess

    from tracekit.record.qemu import record_qemu

    (tmp_path / "p.c").write_text(
        "#include <string.h>\nstatic char a[5000], b[5000];\n"
        "int main(void) { long s = 0; for (int i = 0; i < 5000; i++) a[i] = i * 7, s += a[i] & 4;\n"
        "memcpy(b, a, s & 4095); return b[s & 1023] & 7; }\n"
    )
    subprocess.run(["gcc", "-O1", "-static", "-o", tmp_path / "p", tmp_path / "p.c"], check=True)
    record_qemu([str(tmp_path / "p")], tmp_path / "a.tks")
    assert (
        main(["export", str(tmp_path / "a.tks"), "--to", "drmemtrace", "-o", str(tmp_path / "d")])
        == 0
    )
    tracekit.extract(tmp_path / "a.tks", tmp_path / "a.zst")
    tracekit.extract(tmp_path / "d", tmp_path / "d.zst")
    with tracekit.open(tmp_path / "a.zst") as a, tracekit.open(tmp_path / "d.zst") as d:
        assert len(a) == len(d) > 20_000
        for name in (
            "pc",
            "addr",
            "is_mem",
            "taken",
            "op",
            "branch",
            "load_distance",
            "data_reuse",
        ):
            assert np.array_equal(a[name], d[name]), name


def test_what_cannot_be_written(tmp_path: Path, golden: Path) -> None:
    tks = write(tmp_path / "a.tks", [(fields(1, 1, 0), [[0, 0, []]])])
    tracekit.extract(golden / "lua.arm.trace.xz", tmp_path / "f.zst")
    with pytest.raises(UsageError, match="give a recording"):
        write_drmemtrace(tmp_path / "f.zst", tmp_path / "x")
    with pytest.raises(UsageError, match="no place for"):
        export(tks, tmp_path / "x", to="drmemtrace", disassembly=True)
    assert not (tmp_path / "x").exists()
    export(tks, tmp_path / "x", to="drmemtrace")
    with pytest.raises(TracekitError, match="exists"):
        write_drmemtrace(tks, tmp_path / "x")
    write_drmemtrace(tks, tmp_path / "x", force=True)
    (tmp_path / "x" / "mine").write_text("kept")
    with pytest.raises(TracekitError, match="holds mine"):
        write_drmemtrace(tks, tmp_path / "x", force=True)
    assert (tmp_path / "x" / "mine").read_text() == "kept"


def test_many_random_rows_at_once(tmp_path: Path) -> None:
    """As many rows as an epoch has: counts are those of what was written."""
    rng = random.Random(5)
    rows = [
        [rng.randrange(8), RESTART, [(rng.randrange(1 << 48), 8, k & 1)]] for k in range(30_000)
    ]
    written = write_drmemtrace(
        write(tmp_path / "a.tks", [(fields(1, 1, 0), rows)]), tmp_path / "out"
    )
    assert written == (1, 30_000, 30_000)
    trace = Drmemtrace(tmp_path / "out")
    for t in trace.threads:
        for _ in t.batches():
            pass
    counts = trace.counts()
    assert (counts["instructions"], counts["loads"], counts["stores"]) == (30_000, 15_000, 15_000)
