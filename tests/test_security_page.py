"""docs/security.md gives each limit as the code has it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
LIMITS = re.findall(r"^\| .* \| ([\d,]+) \| `([\w.]+)` \|$", PAGE, re.M)


def test_the_table_is_found() -> None:
    assert len(LIMITS) == PAGE.count("| `tracekit.") >= 15


@pytest.mark.parametrize(("shown", "name"), LIMITS)
def test_a_limit_is_the_code_s(shown: str, name: str) -> None:
    path, _, attribute = name.rpartition(".")
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as e:  # a room of an extra
        if str(e.name).startswith("tracekit"):
            raise
        pytest.skip(f"needs {e.name}")
    assert int(shown.replace(",", "")) == getattr(module, attribute)


def test_the_limit_of_accesses_is_the_code_s() -> None:
    shown, name, file = re.findall(r"([\d,]+) \| `(max_accesses)`, (\S+) \|", PAGE)[0]
    value = re.search(rf"{name} = std::size_t\{{1\}} << (\d+);", (ROOT / file).read_text())
    assert value is not None
    assert int(shown.replace(",", "")) == 1 << int(value[1])
