"""What the packages are called, hold, and say where they cannot be built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tracekit.cli.main import main
from tracekit.extras import DISTRIBUTION, EXTRAS, needed
from tracekit.plugin import plugin_folder, plugin_sources

ROOT = Path(__file__).resolve().parent.parent
SOURCES = pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="no sources beside the tests")
TOOLS = ("setuptools", "Cython", "pybind11")


def project() -> dict[str, list[str] | str]:
    """pyproject.toml's name and its extras with what they need."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (name,) = re.findall(r'^name = "([^"]+)"', text, re.M)
    part = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    lines = re.findall(r"^(\w+) = \[(.*?)\]", part, re.M | re.S)
    return {"name": name, **{extra: re.findall(r'"([\w-]+)', wants) for extra, wants in lines}}


@SOURCES
def test_every_hint_names_the_distribution_and_an_extra_that_brings_the_package() -> None:
    found = project()
    assert found.pop("name") == DISTRIBUTION
    packages = {"elftools": "pyelftools", "llvmlite": "numba", "sklearn": "scikit-learn"}
    for module, extra in EXTRAS.items():
        assert packages.get(module, module) in found[extra], module
        error = needed(module)
        assert error is not None and f"'{DISTRIBUTION}[{extra}]'" in str(error.hint)


@SOURCES
def test_no_page_nor_hint_installs_the_other_project() -> None:
    pages = [
        p for f in ("docs", "bench", "tracekit", "gem5_patches") for p in (ROOT / f).rglob("*")
    ]
    wrong = []
    for path in [*ROOT.glob("*.md"), *pages]:
        if path.suffix in (".md", ".py", ".ipynb", ".toml"):
            for line in path.read_text("utf-8").splitlines():
                for name in re.findall(r"pip install [^`#&]*?\b(tracekit[\w-]*)", line):
                    if name != DISTRIBUTION:
                        wrong.append(f"{path.relative_to(ROOT)}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


def test_the_plugin_is_written_whole_and_not_replaced_unasked(tmp_path: Path, capsys) -> None:
    target = tmp_path / "plugin"
    assert main(["plugin", "-o", str(target)]) == 0
    assert f"EXTRAS={target}/gem5_patches" in capsys.readouterr().out
    written = {p.relative_to(target) for p in target.rglob("*") if p.is_file()}
    assert written == set(plugin_sources())
    assert {p.parts[0] for p in written} == {"csrc", "gem5_patches"}
    for path in written:
        assert (target / path).read_bytes() == (plugin_folder() / path).read_bytes()
        for name in re.findall(
            r'^#include "((?:core|formats)/[^"]+)"', (target / path).read_text("utf-8"), re.M
        ):
            assert (target / "csrc" / name).is_file(), f"{path} includes {name}"
    assert main(["plugin", "-o", str(target)]) == 1
    assert "exists already" in capsys.readouterr().err


def backend(call: str, tree: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A function of setuptools' build backend in ``tree``, as pip would call it."""
    code = f"from setuptools import build_meta as b; print(b.{call})"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree, capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def copied(target: Path) -> Path:
    """The tree without what was built in it."""
    ignore = shutil.ignore_patterns(
        *(".git", "build", "dist", "*.so", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"),
        *("shared", ".nox", ".venv*", "wheelhouse"),
    )
    shutil.copytree(ROOT, target, ignore=ignore, symlinks=True)
    if (ROOT / "build" / "cython").is_dir():  # seconds less
        shutil.copytree(ROOT / "build" / "cython", target / "build" / "cython")
    return target


@SOURCES
def test_without_a_compiler_one_line_says_what_to_install(tmp_path: Path) -> None:
    for tool in TOOLS:
        pytest.importorskip(tool)
    tree = copied(tmp_path / "tree")
    for compiler in ("/nowhere/g++", "false"):
        done = backend("build_wheel('.')", tree, CC=compiler, CXX=compiler)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        last = done.stderr.rstrip().splitlines()[-1]
        for word in ("C++20", "apt-get install g++", "dnf install gcc-c++", "xcode-select"):
            assert word in last
        assert f"Here: {compiler}: " in last


@SOURCES
def test_the_sdist_has_what_builds_and_tests(tmp_path: Path) -> None:
    for tool in TOOLS:
        pytest.importorskip(tool)
    tree = copied(tmp_path / "tree")
    done = backend(f"build_sdist({str(tmp_path)!r})", tree)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as tar:
        held = {m.name.partition("/")[2] for m in tar.getmembers() if m.isfile()}
    here = {p.relative_to(tree).as_posix() for p in tree.rglob("*") if p.is_file()}
    roots = ("csrc", "tests", "bench", "docs", "gem5_patches", "tracekit", ".ci", "setup.py")
    made = re.compile(r"(^|/)(build|__pycache__)/|\.(so|o|pyc|log)$")
    wanted = {n for n in here if n.split("/")[0] in roots and not made.search(n)}
    cythons = {n for n in here | held if re.match(r"tracekit/.*\.(c|cpp)$", n)}  # of old builds
    assert wanted - cythons <= held, sorted(wanted - cythons - held)
    assert not cythons & held and not [n for n in held if made.search(n)]


@SOURCES
@pytest.mark.slow
def test_the_wheel_has_no_sources_but_the_plugins(tmp_path: Path) -> None:
    for tool in TOOLS:
        pytest.importorskip(tool)
    tree = copied(tmp_path / "tree")
    done = backend(f"build_wheel({str(tmp_path)!r})", tree)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (metadata,) = [wheel.read(n).decode() for n in names if n.endswith("/METADATA")]
    assert path.name.startswith(DISTRIBUTION.replace("-", "_") + "-")
    for line in (f"Name: {DISTRIBUTION}", "License-Expression: MIT", "Requires-Python: >=3.10"):
        assert line in metadata.splitlines()
    plugin = {n.removeprefix("tracekit/gem5_plugin/") for n in names if "/gem5_plugin/" in n}
    assert {p.as_posix() for p in plugin_sources()} <= plugin
    rest = {n for n in names if "/gem5_plugin/" not in n}
    assert not [n for n in rest if re.search(r"\.(cpp|hpp|c|pyx|inc|def)$", n)]
    assert {"tracekit/py.typed", "tracekit/_core.pyi"} <= names
    data = {p.relative_to(tree).as_posix() for p in (tree / "tracekit").rglob("*.json")}
    assert "tracekit/hardware/tables/znver5.json" in data and data <= names


def test_sources_that_are_not_built_say_so(tmp_path: Path) -> None:
    """Python started in a clone's root imports the sources, not what is installed."""
    for path in (ROOT / "tracekit").rglob("*.py"):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path)
    done = subprocess.run(
        [sys.executable, "-c", "import tracekit"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {tmp_path}/tracekit holds"), done.stderr
    assert "another folder" in last and "pip install -e" in last
