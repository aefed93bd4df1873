"""What benches and examples import of tracekit, or take from its modules, is there.  They run for
minutes or need gem5, so that no test runs them all."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = [p for f in ("bench", "examples") for p in sorted((ROOT / f).rglob("*.py"))]


def module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as e:  # an extra is not installed
        if (e.name or "").startswith("tracekit"):
            raise
        pytest.skip(f"{name}: {e}")


def missing(tree: ast.AST) -> Iterator[str]:
    """Line and name of each that is not there."""
    modules: dict[str, ModuleType] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tracekit":
            whole = module(str(node.module))
            for a in node.names:
                try:
                    if not hasattr(whole, a.name):
                        module(f"{node.module}.{a.name}")  # which is then there
                    found = getattr(whole, a.name)
                except ModuleNotFoundError:
                    yield f"{node.lineno}: {node.module}.{a.name}"
                    continue
                if isinstance(found, ModuleType):
                    modules[a.asname or a.name] = found
        elif isinstance(node, ast.Import):
            for a in node.names:
                if a.name.split(".")[0] == "tracekit":
                    found = module(a.name)
                    modules[a.asname or "tracekit"] = found if a.asname else module("tracekit")
    annotations = {
        id(n)
        for node in ast.walk(tree)
        for field in ("annotation", "returns")
        if (said := getattr(node, field, None)) is not None
        for n in ast.walk(said)  # nothing evaluates them
    }
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of = modules.get(node.value.id)
            if of is not None and not hasattr(of, node.attr):
                yield f"{node.lineno}: {of.__name__}.{node.attr}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_names_of_tracekit_are_there(path: Path) -> None:
    assert [*missing(ast.parse(path.read_text(encoding="utf-8")))] == []


def test_a_missing_name_is_found() -> None:
    text = "from tracekit.calibration import search\nfrom tracekit import nothing\nsearch._gone()\n"
    found = [*missing(ast.parse(text))]
    assert found == ["2: tracekit.nothing", "3: tracekit.calibration.search._gone"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_benches_start_the_python_that_runs_them(path: Path) -> None:
    """Another one in PATH may have another tracekit, or none."""
    assert not re.search(r"""\[\s*["']python3?["']""", path.read_text("utf-8"))
