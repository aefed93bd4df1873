"""An ELF file that is not the program that was traced: told, with what is wrong with it."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic
from test_isa_elf import BASE, build
from test_symbols import functions, program, recording

import tracekit
from tracekit.analysis.hotspots import hot
from tracekit.analysis.trace_diff import diff_files
from tracekit.cli.main import main
from tracekit.errors import UsageError
from tracekit.symbols import AddressMap, build_id

__all__ = ["program"]  # a fixture

#: ARM's machine code of the synthetic traces' instructions.
CODE = {
    "alu": 0x8B030041,
    "load": 0xF9400041,
    "float_load": 0xFD400041,
    "store": 0xF9000041,
    "branch": 0x54000001,
    "jump": 0x14000000,
    "micro": 0xF8010FE1,  # str x1, [sp, #16]!
}
SEED = 5


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    (tmp_path / "t").write_text(synthetic.text(SEED, 2000))
    tracekit.extract(tmp_path / "t", tmp_path / "t.zst")
    return tmp_path / "t.zst"


def machine_code() -> bytes:
    insts = synthetic.program(random.Random(SEED), 24)
    return b"".join(struct.pack("<I", CODE[parts[0].kind]) for parts in insts)


def ways(trace: Path, elf: Path) -> dict[str, Callable[[], object]]:
    """Everything that takes a trace and its program."""
    text = trace.with_name("t")

    def predict() -> None:
        assert main(["predict", str(trace), "--by", "symbol", "--binary", str(elf)]) == 0

    out: dict[str, Callable[[], object]] = {
        "hot": lambda: hot(trace, "symbol", str(elf)),
        "diff": lambda: diff_files(trace, trace, binary=str(elf)),
        "predict": predict,
        "map": lambda: AddressMap.of(tracekit.open(trace), str(elf)),
        "extract": lambda: tracekit.extract(
            text, trace.with_name("o.zst"), binary=str(elf), force=True
        ),
    }
    return out


#: Damage to the program, and what is said of it.
OTHERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "architecture": (lambda: build("x86", machine_code()), "is a program for x86, .* of arm"),
    "elsewhere": (
        lambda: build("arm", machine_code()).replace(
            struct.pack("<Q", BASE), struct.pack("<Q", BASE << 4)
        ),
        "none of the trace's 2. addresses|lie in this file",
    ),
    "shifted": (lambda: build("arm", machine_code()[4:] + machine_code()[:4]), "no such instr"),
    "inside": (lambda: build("arm", machine_code()[2:] + machine_code()[:2]), "no such instr"),
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("way", ["hot", "diff", "predict", "map", "extract"])
def test_another_program(
    traced: Path, tmp_path: Path, what: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, said = OTHERS[what]
    elf = tmp_path / "prog"
    elf.write_bytes(make())
    call = ways(traced, elf)[way]
    if way == "predict":
        with pytest.raises(AssertionError):
            call()
        told = capsys.readouterr().err
        assert told.startswith(f"tracekit: {elf}: ") and told.count("\n") == 1
    else:
        with pytest.raises(UsageError) as e:
            call()
        told = str(e.value)
    assert str(elf) in told
    assert re.search(said, told), told


def test_the_program_itself(traced: Path, tmp_path: Path) -> None:
    elf = tmp_path / "prog"
    elf.write_bytes(build("arm", machine_code(), {"main": (0, 48), "rest": (48, 48)}))
    for call in ways(traced, elf).values():
        call()
    names = hot(traced, "symbol", str(elf)).parts
    assert set(names) == {"prog:main", "prog:rest"}
    with tracekit.open(tmp_path / "o.zst") as f:  # its machine code is in the trace
        assert all(f.statics.bytes)
    elf.write_bytes(build("arm", machine_code()[:-4] + b"\x1f\x20\x03\xd5"))  # one of 24: changed
    hot(traced, "symbol", str(elf))
    (tmp_path / "o").write_bytes(build("arm", machine_code()[::-1]))
    with pytest.raises(UsageError, match="no such instruction"):
        hot(tmp_path / "o.zst", "symbol", str(tmp_path / "o"))


def test_a_recordings_file(program: Path, tmp_path: Path) -> None:
    """The file that was mapped, wherever it is; no other one."""
    at = [functions(program)["busy"][0], functions(program)["main"][0]]
    tks = recording(tmp_path / "x.tks", program, at)
    feats = tmp_path / "x.feats"
    arguments = ["extract", str(tks), "-o", str(feats), "--level", "macro", "--cpu", "7.7"]
    assert main(arguments) == 0
    moved = tmp_path / "moved"
    moved.write_bytes(program.read_bytes())
    other = tmp_path / "other"
    raw = bytearray(program.read_bytes())
    own = bytes.fromhex(str(build_id(str(program))))
    raw[raw.index(own)] ^= 1
    other.write_bytes(raw)
    arm = tmp_path / "arm"
    arm.write_bytes(build("arm", machine_code()))
    for trace in (tks, feats):
        found = hot(trace, "symbol", str(moved)).parts
        assert found["moved:busy"] == found["moved:main"] == 1
        with pytest.raises(UsageError, match=rf"build-id.*\(p {own.hex()[:12]}\)"):
            hot(trace, "symbol", str(other))
        with pytest.raises(UsageError, match="is a program for arm, the trace is of x86"):
            hot(trace, "symbol", str(arm))
