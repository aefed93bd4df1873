"""Mutants: sources with one constant, comparison or operator changed (tests/mutate.py).

Left out is what no result can show: annotations, decorators and what is asserted at compile time,
and the passages of mutants.toml, each with its reason (hash functions, sizes of chunks, estimates
that choose between two ways to the same numbers).
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


#: Folders of each area (all of their .cpp, .hpp and .py), and how many of 300 mutants it gets.
AREAS: dict[str, tuple[tuple[str, ...], int]] = {
    "cores": (("csrc/sim", "tracekit/sim"), 180),
    "features": (("csrc/features", "tracekit/features"), 60),
    "parsers": (("csrc/formats",), 60),
}
#: One round of the order in which they run, so that the first of them are a fair sample.
ROUND = ("cores", "cores", "features", "cores", "parsers")

_SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+",
    "*": "/", "/": "*", "%": "/", "//": "*", "&&": "||", "||": "&&", "&": "|", "|": "&",
    "<<": ">>", ">>": "<<", "^": "|", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "*=": "/=",
    "std::max": "std::min", "std::min": "std::max", "max": "min", "min": "max",
    "true": "false", "false": "true", "True": "False", "False": "True", "and": "or", "or": "and",
}  # fmt: skip
_SKIPPED = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'(?!\w)'
    r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|static_assert\([^;]*;|\btemplate\b[^\n]*|\busing\b[^;]*;",
    re.S | re.M,
)
#: Operators stand between blanks, brackets of templates and pointers' stars do not (clang-format).
_CPP = re.compile(
    r"(?<=[ (])std::(?:max|min)(?=\(|<|\{)|\b(?:true|false)\b"
    r"|(?<= )(?:<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|\|=|&=|[-+*/%<>&|^])(?= )"
    r"|(?<![\w.'])(?:0x[0-9a-fA-F']+|\d[\d']*\.\d+|\d[\d']*)(?=[uUlLfz]*(?![\w.']))"
)


class Mutant(NamedTuple):
    path: str
    line: int  # from 1
    column: int  # from 0
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column + 1} {self.before} -> {self.after}"

    def applied(self, text: str) -> str:
        """The source with the change."""
        lines = text.split("\n")
        row = lines[self.line - 1]
        end = self.column + len(self.before)
        assert row[self.column : end] == self.before
        lines[self.line - 1] = row[: self.column] + self.after + row[end:]
        return "\n".join(lines)


def changed_number(text: str) -> str:
    """Another constant: the next integer, a float half as large again."""
    if text.lower().startswith("0x"):
        return hex(int(text.replace("'", ""), 16) ^ 1)
    if "." in text:
        value = float(text.replace("'", ""))
        return repr(value * 1.5 if value else 1.0)
    return str(int(text.replace("'", "").replace("_", "")) + 1)


def _other(token: str) -> str | None:
    return changed_number(token) if token[0].isdigit() else _SWAPS.get(token)


def cpp_mutants(path: str, text: str) -> Iterator[Mutant]:
    """All of a C++ source, comments, strings and the preprocessor's lines apart."""
    plain = _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    for number, line in enumerate(plain.split("\n"), 1):
        if line.lstrip().startswith("for (") and "reserve" in line:
            continue
        for m in _CPP.finditer(line):
            if m[0] in "*&" and re.match(r"(?:const )?[\w:]+ $", line[: m.start()].lstrip()):
                continue  # a declaration
            after = _other(m[0])
            if after is not None:
                yield Mutant(path, number, m.start(), m[0], after)


def _unseen(text: str) -> set[tuple[int, int]]:
    """(line, column) of all that stands in annotations and decorators."""
    tree, out = ast.parse(text), set()
    lines = text.split("\n")
    for node in ast.walk(tree):
        parts = [*getattr(node, "decorator_list", ()), getattr(node, "annotation", None),
                 getattr(node, "returns", None)]  # fmt: skip
        for part in filter(None, parts):
            for line in range(part.lineno, part.end_lineno + 1):
                begin = part.col_offset if line == part.lineno else 0
                end = part.end_col_offset if line == part.end_lineno else len(lines[line - 1])
                out |= {(line, column) for column in range(begin, end)}
    return out


def python_mutants(path: str, text: str) -> Iterator[Mutant]:
    """All of a Python source: numbers, operators, and, or, True, False, min, max."""
    unseen = _unseen(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.NUMBER, tokenize.OP, tokenize.NAME):
            continue
        if token.start in unseen:
            continue
        if token.type == tokenize.NUMBER and not re.fullmatch(r"\d+(\.\d+)?|0x[\da-fA-F]+",
                                                              token.string):  # fmt: skip
            continue
        before = token.line[: token.start[1]].rstrip()[-1:]
        if token.string in ("*", "-") and not (before.isalnum() or before in ("_", ")", "]")):
            continue  # unpacking, keyword-only arguments, signs
        after = _other(token.string)
        if after is not None:
            yield Mutant(path, token.start[0], token.start[1], token.string, after)


def passages(root: Path) -> list[dict[str, str]]:
    """The passages of mutants.toml: file, text, perhaps `to`, reason."""
    data: dict[str, Any] = tomllib.loads((root / "tests/mutants.toml").read_text(encoding="utf-8"))
    entries: list[dict[str, str]] = data["passage"]
    return entries


def span(text: str, passage: dict[str, str]) -> tuple[int, int]:
    """Where a passage stands in a file's text: `text`, or from it to the end of `to`."""
    found = text.count(passage["text"])
    if found != 1:
        raise ValueError(f"{passage['file']}: {passage['text']!r} stands there {found} times")
    begin = text.index(passage["text"])
    end = begin + len(passage["text"])
    if "to" in passage:
        end = text.index(passage["to"], end) + len(passage["to"])
    return begin, end


def _shown(text: str, found: Iterator[Mutant], left_out: list[dict[str, str]]) -> list[Mutant]:
    """Those outside of the passages."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    spans = [span(text, p) for p in left_out]
    place = [(m, starts[m.line - 1] + m.column) for m in found]
    return [m for m, at in place if not any(b <= at < e for b, e in spans)]


def candidates(root: Path, area: str) -> list[Mutant]:
    """Every mutant of an area, in the order of its files."""
    out: list[Mutant] = []
    left_out = passages(root)
    names = subprocess.check_output(["git", "ls-files", "-z", *AREAS[area][0]], cwd=root).decode()
    for name in sorted(filter(None, names.split("\0"))):
        path = root / name
        make = {".cpp": cpp_mutants, ".hpp": cpp_mutants, ".py": python_mutants}.get(path.suffix)
        if make is None or not path.exists() or path.name == "__init__.py":
            continue
        text = path.read_text(encoding="utf-8")
        out += _shown(text, make(name, text), [p for p in left_out if p["file"] == name])
    return out


def slots(count: int) -> list[tuple[str, int]]:
    """(area, number within the area) of the first ``count`` mutants."""
    numbers = dict.fromkeys(AREAS, 0)
    out = []
    for k in range(count):
        area = ROUND[k % len(ROUND)]
        out.append((area, numbers[area]))
        numbers[area] += 1
    return out


def _keys(root: Path, found: list[Mutant], seed: str) -> list[bytes]:
    """A random number of each mutant, by its line's text: it stays when other lines change."""
    times: Counter[str] = Counter()
    lines: dict[str, list[str]] = {}
    out = []
    for m in found:
        text = lines.setdefault(m.path, (root / m.path).read_text(encoding="utf-8").split("\n"))
        line = text[m.line - 1]
        column = m.column - (len(line) - len(line.lstrip()))
        name = f"{seed} {m.path} {line.strip()} {column} {m.before}"
        times[name] += 1
        out.append(hashlib.blake2b(f"{name} {times[name]}".encode(), digest_size=16).digest())
    return out


def drawn(root: Path, area: str, seed: int) -> list[list[Mutant]]:
    """The mutants of each slot of an area, best first: the next one stands in where one does not
    compile."""
    found = candidates(root, area)
    keys = _keys(root, found, f"{seed} {area}")
    found = [m for _, m in sorted(zip(keys, found, strict=True))]
    n = AREAS[area][1]
    return [found[k::n] for k in range(n)]
