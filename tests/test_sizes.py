"""Functions and files that one can read: hand-written functions have at most 80 lines (lists of
bindings 150), files 500, tests 800.  What is longer stands here by name, with the size that it has:
it may only shrink."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FUNCTION, BINDINGS, FILE, TESTS = 80, 150, 500, 800

#: Files that are longer, and the lines that they have.
LONG_FILES: dict[str, int] = {}
#: Functions that are longer: file and name, and the lines that they have.
LONG_FUNCTIONS: dict[str, int] = {}

_LITERAL = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S
)
#: What stands before the brace of a function's body: its parameters, and what may follow them.
_HEAD = re.compile(
    r"([\w:~<>]*(?:operator[^\s(]+|\w))\s*\([^;{}]*\)\s*"
    r"(?:(?:const|noexcept|override|final|mutable|try)\b\s*|requires[^;{}]*|->[^;{}()]*)*"
    r"(?::(?:[^;{}]|\{[^;{}]*\})*)?\s*$"
)
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype"}


def sources() -> dict[str, Path]:
    """Every source that people write, by its place in the repository."""
    found = [
        p
        for folder in ("tracekit", "csrc", "tests", "bench", "gem5_patches")
        for p in sorted((ROOT / folder).rglob("*"))
        if p.suffix in (".py", ".cpp", ".hpp", ".inc")
        and not p.with_suffix(".pyx").exists()  # which Cython made it of
    ]
    return {p.relative_to(ROOT).as_posix(): p for p in found}


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and lines of each function; those inside others count for both."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def cpp_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and lines of each function's body: what stands in braces behind parameters, outside any
    other function."""
    text = _LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    text = re.sub(
        r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M
    )
    braces: list[bool] = []  # whether each open one is a member's initial value
    inside, begin, last, name = None, 0, 0, ""
    for m in re.finditer(r"[{};]", text):
        value = False
        if m[0] == "{":
            value = not text[m.start() - 1].isspace()
            head = None if value or inside is not None else _HEAD.search(text, last, m.start())
            if head and head[1].rpartition("::")[2] not in _NOT_FUNCTIONS:
                inside, name = len(braces), head[1]
                begin = text.count("\n", 0, head.start(1))
            braces.append(value)
        elif m[0] == "}":
            value = braces.pop()
            if inside == len(braces):
                yield name, text.count("\n", 0, m.end()) - begin + 1
                inside = None
        if inside is None and not value:
            last = m.end()


def functions(name: str, path: Path) -> Iterator[tuple[str, int]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from python_functions(text)
    else:
        yield from cpp_functions(text)


def limit_of(file: str, function: str) -> int:
    """A register_* is a list of bindings."""
    bindings = file.startswith("csrc/bind/") and function.startswith("register_")
    return BINDINGS if bindings else FUNCTION


def test_functions_are_found():
    text = """namespace a {
struct B {
  B(int x) : x_{x}, y_(x) {}
  int f() const {
    if (x_) { return 1; }
    return 2;
  }
  int h() const override { return 3; }
  int x_{};
};
template <class T>
typename C<T>::At C<T>::g(const Row& row, std::function<int(int)> h) {  // }
  auto s = "}";
  for (;;) {
  }
}
}
"""
    assert dict(cpp_functions(text)) == {"B": 1, "f": 4, "h": 1, "C<T>::g": 5}
    assert dict(python_functions("def f():\n    def g():\n        pass\n")) == {"f": 3, "g": 2}
    assert len(list(cpp_functions((ROOT / "csrc/record/stepper.cpp").read_text()))) > 5


def test_files_are_short():
    found = {}
    for name, path in sources().items():
        lines = path.read_text(encoding="utf-8").count("\n")
        limit = LONG_FILES.get(name, TESTS if name.startswith("tests/") else FILE)
        if lines > limit:
            found[name] = lines
    assert not found, found


def test_functions_are_short():
    found = {}
    for file, path in sources().items():
        for name, lines in functions(file, path):
            if lines > LONG_FUNCTIONS.get(f"{file}:{name}", limit_of(file, name)):
                found[f"{file}:{name}"] = lines
    assert not found, found


@pytest.mark.parametrize("name", [*LONG_FILES, *LONG_FUNCTIONS])
def test_exceptions_are_needed(name: str):
    """What is within the limits needs no exception."""
    file, _, function = name.partition(":")
    path = ROOT / file
    if not function:
        lines = path.read_text(encoding="utf-8").count("\n")
        limit = TESTS if file.startswith("tests/") else FILE
        assert limit < lines <= LONG_FILES[name], f"{name} has {lines} lines"
        return
    lines = max(n for f, n in functions(file, path) if f == function)
    assert limit_of(file, function) < lines <= LONG_FUNCTIONS[name], f"{name} has {lines} lines"
