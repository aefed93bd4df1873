"""What other packages add, by the example package that docs/entry-points.md shows; and packages
that are broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tracekit
from tracekit import entry_points, features
from tracekit.cli.main import main
from tracekit.errors import FormatError, UsageError
from tracekit.features import sets

EXAMPLE = Path(__file__).parent / "example_package"
#: An AArch64 loop: ldr x1, [x0]; add x1, x1, #1; b back.
CODE = {0x1000: "f9400001", 0x1004: "91000421", 0x1008: "17fffffe"}


def install(folder: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    """The metadata that an installer writes."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    text = "".join(
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items())
        for group, entries in groups.items()
    )
    (info / "entry_points.txt").write_text(text)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs a package with these groups and this source."""
    folder = tmp_path / "site"
    monkeypatch.setattr(sets, "_sets", dict(sets._sets))
    monkeypatch.syspath_prepend(str(folder))

    def add(name: str, groups: dict[str, dict[str, str]], source: str) -> None:
        install(folder, name, groups)
        (folder / f"{name.replace('-', '_')}.py").write_text(source)

    yield add
    for name, module in list(sys.modules.items()):
        if str(folder) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]


@pytest.fixture
def example(installed):
    text = (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    groups: dict[str, dict[str, str]] = {}
    for group, body in re.findall(r'\[project\.entry-points\."(.*?)"\]\n((?:.+ = .+\n)+)', text):
        groups[group] = dict(re.findall(r'(\S+) = "(.*)"', body))
    assert set(groups) == set(entry_points.GROUPS.values())
    source = (EXAMPLE / "tracekit_example.py").read_text(encoding="utf-8")
    installed("tracekit-example", groups, source)


def csv(path: Path, loops: int = 400) -> Path:
    lines = ["pc,code,address"]
    for k in range(loops):
        lines += [f"{pc:x},{code},{0x8000 + 8 * k:x}" for pc, code in list(CODE.items())[:1]]
        lines += [f"{pc:x},{code}," for pc, code in list(CODE.items())[1:]]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_example_does_all_three(example, tmp_path):
    out = tmp_path / "out.zst"
    tracekit.extract(csv(tmp_path / "in.csv"), out, level="macro")
    with tracekit.open(out) as trace:
        assert len(trace) == 1200 and trace.arch == "arm"
        assert trace["addr"][::3].tolist() == [0x8000 + 8 * k for k in range(400)]
        assert trace.index["source"]["format"] == "example-csv"
        x = trace.features("example-memory")
        assert np.array_equal(x[:, 0], trace["access_size"])
        assert np.array_equal(x[:, 1], trace["data_distance"].astype(np.float32))
        found = tracekit.simulate(trace, ["example-small", "example-large"])
    assert [m.rob for m in found.machines] == [64, 512]
    assert list(tracekit.machines())[-2:] == ["example-large", "example-small"]
    assert "example-memory" in features.names()


def test_commands_know_the_machines(example, tmp_path, capsys, golden):
    assert main(["machines"]) == 0
    assert "example-large 4-wide, ROB 512" in capsys.readouterr().out
    tracekit.extract(golden / "lua.arm.trace.xz", tmp_path / "lua.zst", count=500)
    assert main(["why", str(tmp_path / "lua.zst"), "--machine", "example-small"]) == 0
    assert "example-small" in capsys.readouterr().out


def test_the_example_is_typed(tmp_path):
    api = pytest.importorskip("mypy.api")
    shutil.copy(EXAMPLE / "tracekit_example.py", tmp_path)
    arguments = ["--strict", "--cache-dir", str(tmp_path), "--config-file", ""]
    said, _, code = api.run([*arguments, str(tmp_path / "tracekit_example.py")])
    assert code == 0, said


BROKEN = "import nowhere_to_be_found\n"


def test_a_broken_package_is_named(installed, tmp_path):
    groups = {g: {"broken": "broken_one:it"} for g in entry_points.GROUPS.values()}
    installed("broken-one", groups, BROKEN)
    why = r"of the package broken-one 1\.0 cannot be used: ModuleNotFoundError: No module named"
    with pytest.raises(UsageError, match=f"feature set 'broken' {why}"):
        features.get("broken")
    with pytest.raises(UsageError, match=f"no machine has this name, .*machines 'broken' {why}"):
        tracekit.Machine.load("of-nobody")
    with pytest.warns(entry_points.EntryPointWarning, match=f"machines 'broken' {why}"):
        assert "u007" in tracekit.machines()
    (tmp_path / "x").write_text("of no format\n" * 9)
    with pytest.raises(FormatError, match=f"input format 'broken' {why}"):
        tracekit.extract(tmp_path / "x", tmp_path / "o.zst")
    # What does not need it does not notice.
    assert features.get("perfvec").name == "perfvec"
    assert tracekit.Machine.load("u007").name == "u007"
    assert main(["machines", "u007"]) == 0
    run = subprocess.run(
        [sys.executable, "-m", "tracekit", "machines"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "u007" in run.stdout and run.stderr.startswith("tracekit: machines 'broken' of the pack")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        ("tracekit.features", "it = 3\n", "gives no FeatureSet of that name, but 3"),
        ("tracekit.features", "def it(): return 1 / 0\n", "ZeroDivisionError"),
        ("tracekit.features", "", "AttributeError"),
        ("tracekit.machines", "import sys; sys.exit(3)\n", "SystemExit: 3"),
        ("tracekit.machines", "it = [1]\n", "no mapping of names"),
        ("tracekit.machines", "it = {'a': {'roob': 3}}\n", "a: .*roob"),
        ("tracekit.machines", "def it(): raise ValueError('no licence')\n", "no licence"),
        ("tracekit.inputs", "it = 3\n", "no function of an input's head and path"),
        ("tracekit.inputs", "def it(head, path): return head[0]\n", "source has no feed"),
        ("tracekit.inputs", "def it(head): return None\n", "TypeError"),
    ],
)
def test_what_is_not_what_it_says(installed, tmp_path, kind, source, message):
    installed("odd-one", {kind: {"odd": "odd_one:it"}}, source)
    (tmp_path / "x").write_text("of no format\n" * 9)
    with pytest.raises(
        tracekit.TracekitError, match=f"odd-one 1.0 cannot be used: .*{message}.*odd_one:it"
    ):
        if kind == "tracekit.features":
            features.get("odd")
        elif kind == "tracekit.machines":
            tracekit.Machine.load("of-nobody")
        else:
            tracekit.extract(tmp_path / "x", tmp_path / "o.zst")


def test_two_packages_with_one_name(installed):
    for name in ("one-a", "one-b"):
        groups = {
            "tracekit.features": {"same": f"{name.replace('-', '_')}:it"},
            "tracekit.machines": {"same": f"{name.replace('-', '_')}:machines"},
        }
        source = "import tracekit\nit = None\n"
        installed(
            name, groups, source + "machines = {'m': tracekit.Machine.load('u007').to_dict()}"
        )
    with pytest.raises(UsageError, match=r"two packages have a feature set 'same': one-a .*one-b"):
        features.get("same")
    with pytest.raises(UsageError, match=r"one-b 1.0 cannot be used: m is a machine of one-a 1.0"):
        tracekit.Machine.load("of-nobody")


def test_a_translation_that_fails_is_the_formats_error(example, tmp_path):
    (tmp_path / "in.csv").write_text("pc,code,address\n1000,f9400001\n")
    with pytest.raises(
        FormatError,
        match=r"in\.csv:byte 0: as example-csv of the package tracekit-example 1\.0: ValueError",
    ):
        tracekit.extract(tmp_path / "in.csv", tmp_path / "o.zst", level="macro")
    assert not (tmp_path / "o.zst").exists()
    with pytest.raises(UsageError, match="--level macro"):
        tracekit.extract(csv(tmp_path / "ok.csv"), tmp_path / "o.zst", level="micro")
