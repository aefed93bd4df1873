"""The field's terms (names.toml): old names are in no identifier, key, file name or heading."""

from __future__ import annotations

import fnmatch
import functools
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parent.parent
TABLE = tomllib.loads((ROOT / "tests" / "names.toml").read_text(encoding="utf-8"))
#: These hold old names because they read or look for them.
EXEMPT = {"tests/test_names.py", "tests/test_old_names.py", "tracekit/old_names.py"}
CPP = (".cpp", ".hpp", ".inc", ".def")
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*", re.S
)


def files() -> list[str]:
    """What git tracks; without git, all there is."""
    try:
        out = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files"], check=True, capture_output=True, text=True
        ).stdout
        return out.split("\n")[:-1]
    except (OSError, subprocess.CalledProcessError):
        folders = ("tracekit", "csrc", "tests", "bench", "docs")
        found = (p for f in folders for p in (ROOT / f).rglob("*") if p.is_file())
        return [p.relative_to(ROOT).as_posix() for p in found]


def python_names(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each identifier, and of each string that is a name and nothing else."""
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type == tokenize.NAME:
            yield t.start[0], t.string
        elif t.type == tokenize.STRING and (m := re.fullmatch(r"([\"'])([\w-]+)\1", t.string)):
            yield t.start[0], m[2]


def cpp_names(text: str) -> Iterator[tuple[int, str]]:
    """The same of C++; comments are prose."""
    for m in _TOKEN.finditer(text):
        name = m[0].strip('"')
        if m[0][0] not in "/'" and re.fullmatch(r"[\w-]+", name):
            yield text.count("\n", 0, m.start()) + 1, name


def concerns(entry: dict[str, Any], file: str) -> bool:
    return any(fnmatch.fnmatch(file, g) for g in entry.get("where", ["*"]))


def all_names(text: str, suffix: str) -> list[tuple[int, str]]:
    return list((python_names if suffix in (".py", ".pyi") else cpp_names)(text))


@functools.cache  # two tests read all files
def names_of(path: Path) -> list[tuple[int, str]]:
    return all_names(path.read_text(encoding="utf-8"), path.suffix)


def test_an_old_name_is_seen():
    assert all_names("x = margin  # margin\n'margin'\n'a margin'\n", ".py") == [
        *((1, "x"), (1, "margin"), (2, "margin")),
    ]
    assert all_names("// margin\nint margin; /* margin */\nf(\"margin\", 'm');\n", ".cpp") == [
        *((2, "int"), (2, "margin"), (3, "f"), (3, "margin")),
    ]


def test_no_identifier_or_key_has_an_old_name():
    found = []
    for file in files():
        path = ROOT / file
        if path.suffix not in (".py", ".pyi", *CPP) or not path.exists():
            continue
        if file in EXEMPT:
            continue
        names = {e["old"] for e in TABLE["name"] if concerns(e, file)}
        if names:
            found += [f"{file}:{n} {name}" for n, name in names_of(path) if name in names]
    assert not found, "\n".join(found)


def test_each_entry_concerns_a_file_and_its_new_name_is_there():
    every = files()
    seen: dict[str, set[str]] = {}
    for entry in TABLE["name"]:
        assert set(entry) <= {"old", "new", "where", "users"}, entry
        some = [f for f in every if concerns(entry, f) and f.endswith((".py", ".pyi", *CPP))]
        assert some, f"{entry['old']}: no file is concerned"
        for f in some:
            if f not in seen and (ROOT / f).exists():
                seen[f] = {name for _, name in names_of(ROOT / f)}
        assert any(entry["new"] in seen.get(f, ()) for f in some), f"{entry['new']} is nowhere"


def test_no_file_has_an_old_name():
    words = {e["old"] for e in TABLE["name"] if "where" not in e}
    found = [f for f in files() if Path(f).stem in words]
    assert not found, found


def test_no_heading_has_an_old_word():
    found = []
    for entry in TABLE["word"]:
        pattern = re.compile("|".join(rf"\b{re.escape(w)}s?\b" for w in entry["old"]), re.I)
        for file in files():
            if not concerns(entry, file):
                continue
            lines = (ROOT / file).read_text(encoding="utf-8").split("\n")
            found += [f"{file}: {h}" for h in lines if h.startswith("#") and pattern.search(h)]
    assert not found, "\n".join(found)
