"""Mutants: sources with one constant, comparison or operator changed (tests/mutate.py)."""

from __future__ import annotations

import io
import random
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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


def python_mutants(path: str, text: str) -> Iterator[Mutant]:
    """All of a Python source: numbers, operators, and, or, True, False, min, max."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.NUMBER, tokenize.OP, tokenize.NAME):
            continue
        if token.type == tokenize.NUMBER and not re.fullmatch(r"\d+(\.\d+)?|0x[\da-fA-F]+",
                                                              token.string):  # fmt: skip
            continue
        before = token.line[: token.start[1]].rstrip()[-1:]
        mark = token.string in ("*", "-") and not (before.isalnum() or before in ("_", ")", "]"))
        if mark or (token.string == "|" and "->" in token.line):
            continue  # unpacking, keyword-only arguments, signs, unions of types
        after = _other(token.string)
        if after is not None:
            yield Mutant(path, token.start[0], token.start[1], token.string, after)


def candidates(root: Path, area: str) -> list[Mutant]:
    """Every mutant of an area, in the order of its files."""
    out: list[Mutant] = []
    names = subprocess.check_output(["git", "ls-files", "-z", *AREAS[area][0]], cwd=root).decode()
    for name in sorted(filter(None, names.split("\0"))):
        path = root / name
        if not path.exists() or path.name == "__init__.py":
            continue
        if path.suffix in (".cpp", ".hpp"):
            out += cpp_mutants(name, path.read_text(encoding="utf-8"))
        elif path.suffix == ".py":
            out += python_mutants(name, path.read_text(encoding="utf-8"))
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


def drawn(root: Path, area: str, seed: int) -> list[list[Mutant]]:
    """The mutants of each slot of an area, best first: the next one stands in where one does not
    compile."""
    found = candidates(root, area)
    random.Random(f"{seed} {area}").shuffle(found)
    n = AREAS[area][1]
    return [found[k::n] for k in range(n)]
