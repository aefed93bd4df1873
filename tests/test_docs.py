"""The pages: they build without a warning, guides' commands parse, prose is short lines in the
present."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs_page import ROOT, commands, run_in
from tracekit.cli.commands import COMMANDS
from tracekit.cli.main import create_parser

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")
#: Prose on these pages, and README's, is checked; the benches' results have a history of their own.
CHECKED = [*PAGES, ROOT / "README.md"]
#: Words of a laboratory notebook.
HISTORY = re.compile(
    r"\b(now|no longer|formerly|previously|used to be|a version ago|until commit|of then)\b", re.I
)
COMMIT = re.compile(r"`[0-9a-f]{7,40}`|\bcommit [0-9a-f]{7,40}\b")
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")


def toctree(caption: str) -> list[str]:
    """The pages of one part of the navigation."""
    block = re.search(rf"^:caption: {caption}\n(.*?)^```", INDEX, re.S | re.M)
    assert block is not None, caption
    return [f"{name}.md" for name in block[1].split() if not name.startswith(":")]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines outside fences and tables."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith("|"):
            yield number, line


def anchors(path: Path) -> set[str]:
    """Headings as GitHub and MyST name them."""
    found = set()
    for _, line in prose(path):
        if (heading := re.match(r"#+ (.*)", line)) is not None:
            text = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(text.strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("path", CHECKED, ids=lambda p: p.name)
def test_lines_of_prose_are_short(path: Path) -> None:
    assert [number for number, line in prose(path) if len(line) > 120] == []


@pytest.mark.parametrize("path", CHECKED, ids=lambda p: p.name)
def test_prose_has_no_history(path: Path) -> None:
    lines = ((n, re.sub(r"`[^`]*`", "", line)) for n, line in prose(path))
    assert [(n, m[0]) for n, line in lines for m in HISTORY.finditer(line)] == []


@pytest.mark.parametrize("path", CHECKED, ids=lambda p: p.name)
def test_commits_stand_in_validation_alone(path: Path) -> None:
    if path.name != "validation.md":
        assert [line for _, line in prose(path) if COMMIT.search(line)] == []


@pytest.mark.parametrize("path", CHECKED, ids=lambda p: p.name)
def test_internal_links_resolve(path: Path) -> None:
    wrong = []
    for number, line in prose(path):
        for target in LINK.findall(line):
            if re.match(r"\w+:", target):
                continue
            name, _, anchor = target.partition("#")
            page = path if not name else path.parent / name
            if not page.exists() or (anchor and anchor not in anchors(page)):
                wrong.append(f"{number}: {target}")
    assert wrong == []


def test_each_page_is_in_the_navigation_once() -> None:
    parts = ("Start", "Guides", "Concepts", "Reference", "Validation", "Internals")
    listed = [page for part in parts for page in toctree(part)]
    assert sorted(listed) == sorted({p.name for p in PAGES} - {"index.md"})


def written_commands(page: str) -> Iterator[list[str]]:
    """``tracekit`` command lines of a page's sh and console blocks, as words."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```$", text, re.S | re.M):
        block = re.sub(r"<<'END'.*?^END$", "", block, flags=re.S | re.M).replace("\\\n", " ")
        for line in block.splitlines():
            line = line.removeprefix("$ ") if kind == "console" and line.startswith("$ ") else line
            line = re.sub(r"^(for .*; do|do) +", "", line.strip())
            if not line.startswith("tracekit "):
                continue
            words = shlex.split(line, comments=True)
            yield words[
                1 : next((i for i, w in enumerate(words) if w in {">", "<", "|", ";"}), None)
            ]


GUIDES = [*toctree("Start"), *toctree("Guides"), "streams.md", "validation.md"]


@pytest.mark.parametrize("page", GUIDES)
def test_commands_of_guides_parse(page: str) -> None:
    wrong = []
    for words in written_commands(page):
        assert words[0] in COMMANDS, words
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                create_parser(words[0]).parse_args(words)
        except SystemExit:
            wrong.append(f"{shlex.join(words)}: {said.getvalue().splitlines()[-1:]}")
    assert wrong == []


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_the_start_runs(tmp_path: Path) -> None:
    (tmp_path / "lua.arm.trace.xz").symlink_to(ROOT / "tests/golden/lua.arm.trace.xz")
    out = run_in(tmp_path, *commands("start.md"))
    for said in ("6,134 rows", "o3_small", "1. ", "(6134, 51)"):
        assert said in out
    assert (tmp_path / "designs.png").stat().st_size > 10_000


def test_the_guide_from_gem5_runs(tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    out = run_in(tmp_path, *commands("gem5.md"))
    assert "macro" in out and (tmp_path / "part.json").stat().st_size > 0


def test_pages_that_sources_cite_exist() -> None:
    wrong = []
    for folder in ("tracekit", "csrc", "tests", "bench", "gem5_patches"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".pyi", ".pyx", ".hpp", ".cc", ".md", ".def"}:
                text = path.read_text(encoding="utf-8")
                cited = re.findall(r"(?<![\w/])docs/([\w-]+\.md)", text)
                wrong += [f"{path}: {name}" for name in cited if not (DOCS / name).exists()]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="needs the extra docs")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        assert (tmp_path / "site" / page.with_suffix(".html").name).exists()
    built = (tmp_path / "site" / "commands.html").read_text(encoding="utf-8")
    assert all(f"tracekit {name}" in built for name in COMMANDS)


NOTEBOOKS = sorted((DOCS / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_s_outputs_are_those_of_its_code(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    fresh = nbformat.from_dict(stored)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    client = nbclient.NotebookClient(
        fresh,
        timeout=200,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zmq and asyncio, not ours
        client.execute()
    pictures = 0
    for then, now in zip(stored.cells, fresh.cells, strict=True):
        if then.cell_type != "code":
            continue
        assert _texts(then.outputs) == _texts(now.outputs), then.source
        pictures += sum("image/png" in o.get("data", {}) for o in now.outputs)
    assert pictures >= 1


def _texts(outputs: list[Any]) -> list[str]:
    """What outputs say; on a busy computer a stream comes in several pieces."""
    out: list[str] = []
    for stream, some in itertools.groupby(outputs, lambda o: o.get("name")):
        if stream:
            out.append("".join(o["text"] for o in some))
        else:
            out += [o.get("data", {}).get("text/plain") for o in some]
    return out


def test_pieces_of_a_stream_are_one_text():
    pieces = [{"name": "stdout", "text": "a\n"}, {"name": "stdout", "text": "b\n"}]
    result = {"data": {"text/plain": "c"}}
    assert _texts([*pieces, result]) == ["a\nb\n", "c"]
