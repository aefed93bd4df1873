"""tracekit/_core.pyi names everything that the extension has, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tracekit import _core

STUB = Path(__file__).parent.parent / "tracekit" / "_core.pyi"


def stubbed() -> dict[str, set[str] | None]:
    """Name -> members of a class, None for anything else; TypedDicts are the stub's own."""
    out: dict[str, set[str] | None] = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ClassDef):
            if not any(ast.unparse(b) == "TypedDict" for b in node.bases):
                members = (n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AnnAssign)))
                names = {
                    n.name if isinstance(n, ast.FunctionDef) else ast.unparse(n.target)
                    for n in members
                }
                out[node.name] = {n for n in names if not n.startswith("_")}
        elif isinstance(node, ast.FunctionDef):
            out[node.name] = None
        elif isinstance(node, ast.AnnAssign):
            out[ast.unparse(node.target)] = None
    return out


def test_names():
    assert set(stubbed()) == {n for n in dir(_core) if not n.startswith("_")}


@pytest.mark.parametrize(
    "name", sorted(n for n, members in stubbed().items() if members is not None)
)
def test_members(name):
    there = getattr(_core, name)
    if isinstance(there, type) and issubclass(there, BaseException):
        return
    assert stubbed()[name] == {n for n in dir(there) if not n.startswith("_")}
