"""Rows under QEMU beside gem5's own of the same programs (the shared traces), and what works on
recordings of QEMU's."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tracekit
from tracekit.cli.main import main
from tracekit.record.qemu import QemuOptions, extract_qemu, record_qemu
from tracekit.record.qemu.launch import PLUGIN

pytestmark = pytest.mark.skipif(
    not PLUGIN.exists() or shutil.which("qemu-x86_64") is None, reason="needs qemu-user"
)

#: gem5's trace; the program and its arguments; the functions that are compared, the program's own:
#: what the C library does depends on the processor, and on where strings and the heap begin; rows.
SAME: dict[str, tuple[str, str, list[str], tuple[str, ...], int]] = {
    "arm, queens": ("exec/queens.xz", "elf/arm/kern", ["nq", "10"], ("main", "nqr"), 200_000),
    "arm, perm": ("exec/perm.xz", "elf/arm/kern2", ["perm", "8"], ("main", "perm"), 200_000),
    "x86, mm": ("x86/exec/mm.xz", "x86/elf/kern", ["mm", "40", "16"], ("main",), 240_000),
    "x86, huffman": (
        "x86/exec/huffman.xz", "x86/elf/kern2", ["huff", "9000"],
        ("main", "words", "huff"), 150_000,
    ),
    "riscv, strsort": (
        "text/strsort.riscv.8w.full.xz", "elf/riscv/kern2", ["strs", "150"], ("main",), 1000,
    ),
}  # fmt: skip
#: Functions of the X86 programs' own.
OWN = (
    *("main", "rmatch", "aes", "kmeans", "words", "huff", "crc", "b64", "wc", "nqr", "qs", "ms"),
    "perm",
)


def ranges(elf: Path, names: tuple[str, ...]) -> list[tuple[int, int]]:
    with_sizes = subprocess.run(["nm", "-S", elf], capture_output=True, text=True, check=True)
    words = [line.split() for line in with_sizes.stdout.splitlines()]
    return [
        (int(w[0], 16), int(w[0], 16) + int(w[1], 16))
        for w in words
        if len(w) == 4 and w[3] in names
    ]


def after_main(
    trace: tracekit.TraceFile, elf: Path, names: tuple[str, ...]
) -> npt.NDArray[np.int64]:
    """Rows that committed, from the program's main on, in these functions.  An instruction that
    faulted and ran again is one row of instructions, and two rows of micro-ops."""
    begin = ranges(elf, ("main",))[0][0]
    again = np.append(trace["pc"][1:] == trace["pc"][:-1], False)
    rows = np.flatnonzero(~(trace["fault"] & again))
    pcs = trace["pc"][rows]
    first = np.flatnonzero(pcs == begin)
    rows = rows[first[0] if len(first) else 0 :]
    pcs = trace["pc"][rows]
    inside = np.zeros(len(rows), bool)
    for a, b in ranges(elf, names):
        inside |= (pcs >= a) & (pcs < b)
    return rows[inside]


needs_nm = pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")


def compare(
    text: Path, elf: Path, arguments: list[str], names: tuple[str, ...], folder: Path, least: int
) -> None:
    """gem5's rows of these functions are QEMU's, but for where the stack and the heap lie."""
    if not elf.exists() or not text.exists():
        pytest.skip(f"needs {elf.name} and its trace")
    tracekit.extract(text, folder / "gem5.zst", level="macro")
    with tracekit.open(folder / "gem5.zst") as g:
        options = QemuOptions(insts=len(g) + 50_000)
        extract_qemu([str(elf), *arguments], folder / "qemu.zst", options)
        with tracekit.open(folder / "qemu.zst") as q:
            mine, theirs = after_main(q, elf, names), after_main(g, elf, names)
            # What gem5 skipped at the beginning is known by where its first rows are found.
            key = g["pc"][theirs[:64]]
            pcs = q["pc"][mine]
            begin = next(i for i in range(len(mine)) if np.array_equal(pcs[i : i + len(key)], key))
            mine = mine[begin : begin + len(theirs)]
            theirs = theirs[: len(mine)]
            assert len(mine) >= least
            for name in ("pc", "is_mem", "branch"):
                assert np.array_equal(q[name][mine], g[name][theirs]), name
            # What follows the last row is not in gem5's text.
            assert np.array_equal(q["taken"][mine[:-1]], g["taken"][theirs[:-1]])
            memory = g["is_mem"][theirs]
            apart = q["addr"][mine][memory].astype(np.int64) - g["addr"][theirs][memory].astype(
                np.int64
            )
            # The stack and the heap lie elsewhere, each as a whole.
            assert len(np.unique(apart)) <= 5, np.unique(apart, return_counts=True)


@needs_nm
@pytest.mark.parametrize("case", SAME)
def test_rows_are_gem5s(shared: Path, tmp_path: Path, case: str) -> None:
    text, program, arguments, names, least = SAME[case]
    isa = case.partition(",")[0]
    if (
        shutil.which({"arm": "qemu-aarch64", "riscv": "qemu-riscv64"}.get(isa, "qemu-x86_64"))
        is None
    ):
        pytest.skip(f"needs QEMU for {isa}")
    compare(shared / text, shared / program, arguments, names, tmp_path, least)


@needs_nm
@pytest.mark.slow
def test_rows_of_all_x86_programs_are_gem5s(shared: Path, tmp_path: Path) -> None:
    """33 programs; bytecode and sha spend their time in functions that the compiler named."""
    known = json.loads((shared / "x86" / "programs.json").read_text())
    done = 0
    for name, p in known.items():
        text = shared / "x86" / "exec" / f"{name}.xz"
        if p.get("elf") not in ("kern", "kern2") or not text.exists():
            continue
        folder = tmp_path / name
        folder.mkdir()
        compare(text, shared / "x86" / "elf" / p["elf"], p["args"], OWN, folder, 80)
        done += 1
    assert done >= 30


LOOP = """
#include <stdlib.h>
static int table[4096];
int sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += table[(i * 7) & 4095]++; return s; }
int main(int argc, char **argv) { return sum(20000) & 7; }
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """A recording, the features of the same program, and its command."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("qemu")
    (folder / "loop.c").write_text(LOOP)
    command = ["gcc", "-O1", "-static", "-no-pie", "-march=x86-64-v2"]
    subprocess.run([*command, "-o", folder / "loop", folder / "loop.c"], check=True)
    program = [str(folder / "loop")]
    record_qemu(program, folder / "loop.tks")
    tracekit.extract(folder / "loop.tks", folder / "loop.zst", threads="interleaved")
    return folder / "loop.tks", folder / "loop.zst", program


def said(capsys: Any, *arguments: object) -> Any:
    command, *rest = map(str, arguments)
    assert main([command, "--json", *rest]) == 0
    return json.loads(capsys.readouterr().out)


def test_other_commands_work_on_it(recorded: Any, tmp_path: Path, capsys: Any) -> None:
    tks, features, _ = recorded
    top = said(capsys, "hot", tks)
    assert "sum" in json.dumps(top)
    curves = [json.dumps(said(capsys, "mrc", f)).replace(str(f), "") for f in (tks, features)]
    assert curves[0] == curves[1]
    assert main(["export", str(tks), "--to", "champsim", "-o", str(tmp_path / "a.trace")]) == 0
    assert main(["export", str(features), "--to", "champsim", "-o", str(tmp_path / "b.trace")]) == 0
    capsys.readouterr()
    with tracekit.open(features) as t:
        for name in ("a.trace", "b.trace"):  # the recording keeps every access
            data = np.frombuffer((tmp_path / name).read_bytes(), "<u8").reshape(-1, 8)
            assert np.array_equal(data[:, 0], t["pc"])


def test_predictions_of_a_program_under_qemu(recorded: Any, capsys: Any) -> None:
    _, features, program = recorded
    plain = said(capsys, "predict", features, "--uarch", "u007", "io_1w")
    # The start-up of another run differs by a few instructions: addresses are drawn by chance.
    live = said(
        capsys, "predict", "-q", "--engine", "qemu", "--uarch", "u007", "io_1w", "--", *program
    )
    assert live["instructions"] == pytest.approx(plain["instructions"], rel=0.01)
    for a, b in zip(live["machines"], plain["machines"], strict=True):
        assert a["name"] == b["name"] and a["cpi"] == pytest.approx(b["cpi"], rel=0.1)
