"""Names in traces, programs, cards and manifests: one line each, and no command to a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from oracles.tks_blocks import code_block, epoch_block
from test_isa_elf import BASE, build
from test_other_programs import CODE, SEED, machine_code

import tracekit
from tracekit import _core
from tracekit.analysis.hotspots import hot
from tracekit.cli.main import main
from tracekit.errors import FormatError, TracekitError
from tracekit.inputs.tks import MAPS, TksWriter
from tracekit.mixture import load_model
from tracekit.mixture.model import default_model_path

EVIL = "x\x1b[2J\nforged: all is well"


def clean(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, with no line and no control that a name brought."""
    got = capsys.readouterr()
    for text in (got.out, got.err):
        assert "\x1b" not in text
        assert not any(line.startswith("forged") for line in text.splitlines())
    return got.out + got.err


def recording(path: Path) -> Path:
    """One instruction in a file of that name, by a command of that name."""
    meta: Any = {"command": [EVIL, "\x07"]}
    with TksWriter(path, arch="x86", meta=meta) as w:
        fields = [0] * len(_core.EPOCH_FIELDS)
        fields[1] = fields[2] = 7
        one = [BASE, BASE + 4096, 0, f"/nowhere/{EVIL}", None]
        w.text(MAPS, {"pid": 7, "maps": [one]})
        w.block(code_block(0, [(BASE, b"\x90")]))
        w.block(epoch_block(fields, [(0, 4, [])] * 5))
        w.close({})
    return path


def test_a_recordings_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tks = recording(tmp_path / "r.tks")
    assert main(["info", str(tks)]) == 0
    assert "\\x1b[2J\\nforged" in clean(capsys)
    for by in ("symbol", "function", "line", "file"):
        assert main(["hot", str(tks), "--by", by]) == 0
        assert clean(capsys).count("forged") == 2  # the part, and why it has no names
    feats = tmp_path / "f.zst"
    assert main(["extract", str(tks), "-o", str(feats), "--level", "macro"]) == 0
    assert main(["info", str(feats)]) == main(["hot", str(feats)]) == 0
    clean(capsys)
    assert main(["hot", str(feats), "--json"]) == 0  # as it is: JSON has its own escapes
    assert "\\nforged" in capsys.readouterr().out


def test_a_programs_symbols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t").write_text(synthetic.text(SEED, 500))
    tracekit.extract(tmp_path / "t", tmp_path / "t.zst")
    (tmp_path / "p").write_bytes(build("arm", machine_code(), {EVIL: (0, 4 * len(CODE) * 4)}))
    assert set(hot(tmp_path / "t.zst", "symbol", str(tmp_path / "p")).parts) == {
        "p:x\\x1b[2J\\nforged: all is well"
    }
    assert main(["hot", str(tmp_path / "t.zst"), "--binary", str(tmp_path / "p")]) == 0
    assert "forged" in clean(capsys)


def machine() -> dict[str, Any]:
    return dict(load_model().cores[0])


def card_with(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], object]:
    def load(folder: Path) -> object:
        for file in default_model_path("arm").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        card = json.loads((folder / "card.json").read_text())
        change(card)
        (folder / "card.json").write_text(json.dumps(card))
        return load_model(folder)

    return load


def file_with(value: object, load: Callable[[Path], object]) -> Callable[[Path], object]:
    def made(folder: Path) -> object:
        (folder / "f.json").write_text(json.dumps(value))
        return load(folder / "f.json")

    return made


def named(path: Path) -> object:
    from tracekit.sim.machine import load_machine

    return load_machine(path)


def manifest(path: Path) -> object:
    from tracekit.dataset import load_manifest

    return load_manifest(path)


def natives(path: Path) -> object:
    from tracekit.calibration.host import load_natives

    return load_natives(path)


PROGRAMS = [{"name": "p", "data": "d", "family": EVIL}]
LOADERS = {
    "card's name": card_with(lambda c: c.update(name=EVIL)),
    "card's machine": card_with(lambda c: c["microarchitectures"][0].update(name=EVIL)),
    "card's column": card_with(lambda c: c["features"]["columns"].__setitem__(0, EVIL)),
    "machine": lambda folder: file_with({**machine(), "name": EVIL}, named)(folder),
    "family": file_with({"programs": PROGRAMS}, manifest),
    "program": file_with({"programs": [{"name": EVIL, "data": "d"}]}, manifest),
    "manifest's machine": file_with(
        {"machines": {EVIL: None}, "programs": [{"name": "p", "data": "d"}]}, manifest
    ),
    "native": file_with(
        {"programs": [{"name": n, "command": ["x"]} for n in ("a", "b", EVIL)]}, natives
    ),
}


@pytest.mark.parametrize("where", LOADERS)
def test_names_that_cannot_be_printed_are_refused(where: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"print|plain name"):
        LOADERS[where](tmp_path)


def test_a_deep_toml(tmp_path: Path) -> None:
    for text in ("a = " + "[" * 100_000, "a" + ".a" * 100_000 + " = 1", "[" + "a." * 50_000 + "b]"):
        (tmp_path / "m.toml").write_text(text)
        with pytest.raises(TracekitError):
            manifest(tmp_path / "m.toml")


def test_a_word_that_a_shell_completed(capsys) -> None:
    """An argument that no command has, as the name of somebody's file may be one."""
    tune = ["tune", "x", "--name", "n", "-o", "y"]
    option = f"--{EVIL}".replace(" ", "_")  # with a space it would be a file
    for words in ([*tune, option], ["export", "x", "--to", EVIL]):
        with pytest.raises(SystemExit):
            main(words)
        assert "x1b[2J" in clean(capsys)
    assert main(["tune", f"--{EVIL}", "--name", "n", "-o", "y"]) == 1
    assert "x1b[2J" in clean(capsys)
