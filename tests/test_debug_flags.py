"""What a gem5 text was written without is named, and counts do not depend on it."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

import tracekit
from tracekit.cli.main import main
from tracekit.store.debug_flags import WITHOUT
from tracekit.store.summary import summary

GOLDEN = Path(__file__).parent / "golden"
LEFT_OUT = {
    "ExecEffAddr": rb" A=0x[0-9a-f]*",
    "ExecFetchSeq": rb"  FetchSeq=[0-9]*",
    "ExecFlags": rb"  flags=\(.*\)$",
}


@pytest.fixture(scope="module", params=["x86", "arm"])
def text(request) -> bytes:
    return lzma.decompress((GOLDEN / f"lua.{request.param}.trace.xz").read_bytes())


@pytest.mark.parametrize("flag", LEFT_OUT)
def test_a_flag_that_was_left_out_is_named(text, tmp_path, capsys, flag):
    (tmp_path / "whole.txt").write_bytes(text)
    (tmp_path / "less.txt").write_bytes(re.sub(LEFT_OUT[flag], b"", text, flags=re.M))
    for name in ("whole", "less"):
        assert main(["extract", str(tmp_path / f"{name}.txt"), "-o", str(tmp_path / name)]) == 0
        told = capsys.readouterr().err
        assert (f"--debug-flags={flag}," in told) == (name == "less")
        with tracekit.open(tmp_path / name) as trace:
            missing = trace.index["source"].get("missing_debug_flags", [])
            assert missing == ([flag] if name == "less" else [])
    whole, less = (summary(tmp_path / name)["instructions"] for name in ("whole", "less"))
    # Without flags no micro-op is known to be the last: nor that one after it is missing.
    tracekit.extract(tmp_path / "whole.txt", tmp_path / "macro", level="macro")
    with tracekit.open(tmp_path / "macro") as trace:
        unfinished = trace.index["source"]["unfinished"]
        assert whole == len(trace)
    assert less == whole + (unfinished if flag == "ExecFlags" else 0)
    assert main(["simulate", "-q", str(tmp_path / "less"), "-m", "u007"]) == 0
    assert f"{tmp_path}/less: {WITHOUT[flag]}" in capsys.readouterr().err
    assert main(["info", str(tmp_path / "less")]) == 0
    assert f"lacks      {WITHOUT[flag]}" in capsys.readouterr().out


def test_blocks_alone_have_no_exec_lines(text, tmp_path, capsys):
    lines = [x for x in text.splitlines() if x.startswith(b"O3PipeView")]
    (tmp_path / "t.txt").write_bytes(b"\n".join([*lines, b""]))
    assert main(["extract", str(tmp_path / "t.txt"), "-o", str(tmp_path / "f")]) == 0
    assert WITHOUT["ExecEnable"] in capsys.readouterr().err
