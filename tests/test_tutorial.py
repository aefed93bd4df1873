"""The commands of docs/tutorial.md, as they stand there."""

from __future__ import annotations

from pathlib import Path

from tests.docs_page import ROOT, commands, run_in


def test_the_tutorial_runs(tmp_path: Path) -> None:
    blocks = commands("tutorial.md")
    assert len(blocks) == 6
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    out = run_in(tmp_path, *blocks)
    for file in ("lua.data.zst", "model/card.json", "mine.json", "lua.npy"):
        assert (tmp_path / file).exists()
    for said in ("2 machines", "by phase, on", "both programs:", "constant CPI", "1. l1d_kb"):
        assert said in out
    assert "nan" not in out  # two programs: all seen ones are tuned on
    line = next(x for x in out.splitlines() if x.strip().startswith("parameters not known"))
    assert line.split()[3:4] == ["\N{EN DASH}"] and "%" in line
