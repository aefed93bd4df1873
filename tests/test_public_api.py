"""What `import tracekit` offers: typed without Any, documented with examples that run, fast."""

from __future__ import annotations

import ast
import copy
import dataclasses
import doctest
import importlib
import inspect
import json
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tracekit
from tracekit.hardware import HARDWARE_PARAMETERS
from tracekit.sim import simulate as simulate_gem5
from tracekit.sim.description import Changes
from tracekit.sim.parameters import MACHINE_PARAMETERS

ROOT = Path(__file__).resolve().parent.parent
#: Numbers and texts have no signature.
NAMES = [n for n in tracekit.__all__ if not isinstance(getattr(tracekit, n), int | str)]


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    source = ROOT / "tests" / "golden" / "lua.arm.trace.xz"
    (folder / "trace.out.xz").write_bytes(source.read_bytes())
    tracekit.extract(source, folder / "feats.zst")
    return folder


def tree_of(thing: object) -> tuple[ast.AST, dict[str, ast.expr]]:
    """The definition of a public name, and its module's type aliases."""
    module = importlib.import_module(thing.__module__)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    aliases = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            aliases[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            aliases[node.target.id] = node.value
    found = [n for n in tree.body if getattr(n, "name", None) == thing.__name__]
    assert found, thing
    return found[-1], aliases


def annotations(node: ast.AST) -> list[ast.expr]:
    """All annotations of a function, or of a class's public methods and attributes."""
    out: list[ast.expr] = []
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            name = getattr(inner, "name", "")
            if name == "__init__" or not name.startswith("_") or name.startswith("__"):
                out += annotations(inner)
            if name == "__init__":
                out += [
                    a.annotation
                    for a in ast.walk(inner)
                    if isinstance(a, ast.AnnAssign)
                    and isinstance(a.target, ast.Attribute)
                    and not a.target.attr.startswith("_")
                ]
        out += [
            a.annotation
            for a in ast.walk(node)
            if isinstance(a, ast.AnnAssign)
            and isinstance(a.target, ast.Attribute)
            and not a.target.attr.startswith("_")
        ]
    elif isinstance(node, ast.FunctionDef):
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        for a in (*given, node.args.vararg, node.args.kwarg):
            if a is not None and a.arg not in ("self", "cls"):
                assert a.annotation is not None, f"{node.name}: {a.arg} has no type"
                out.append(a.annotation)
        if node.name != "__init__":
            assert node.returns is not None, f"{node.name} says not what it returns"
        if node.returns is not None:
            out.append(node.returns)
    elif isinstance(node, ast.AnnAssign):
        out.append(node.annotation)
    return out


def says_any(annotation: ast.AST, aliases: dict[str, ast.expr], seen: frozenset[str]) -> bool:
    for n in ast.walk(annotation):
        if isinstance(n, ast.Name):
            if n.id == "Any":
                return True
            known = n.id in aliases and n.id not in seen
            if known and says_any(aliases[n.id], aliases, seen | {n.id}):
                return True
        elif isinstance(n, ast.Constant) and isinstance(n.value, str) and "Any" in n.value:
            return True
    return False


def test_the_check_finds_any():
    node = ast.parse("def f(x: Array) -> int: ...").body[0]
    alias = {"Array": ast.parse("npt.NDArray[Any]", mode="eval").body}
    assert any(says_any(a, alias, frozenset()) for a in annotations(node))
    assert not any(says_any(a, {}, frozenset()) for a in annotations(node))


@pytest.mark.parametrize("name", NAMES)
def test_no_any_in_signatures_and_attributes(name):
    thing = getattr(tracekit, name)
    node, aliases = tree_of(thing)
    wrong = [ast.unparse(a) for a in annotations(node) if says_any(a, aliases, frozenset())]
    assert not wrong


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_named_and_documented(name):
    thing = getattr(tracekit, name)
    doc = inspect.getdoc(thing)
    assert doc, name
    if not inspect.isfunction(thing):
        return
    assert doc.count(">>>"), f"{name} has no example"
    for p in inspect.signature(thing).parameters.values():
        assert p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL), f"{name}: **{p.name}"
        assert p.name in doc, f"{name} does not say what {p.name} is"


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name, traces, monkeypatch):
    monkeypatch.chdir(traces)
    thing = getattr(tracekit, name)
    finder = doctest.DocTestFinder(exclude_empty=True, recurse=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    out: list[str] = []
    for test in finder.find(thing, name, globs={"tracekit": tracekit, "np": np}):
        runner.run(test, out=out.append)
    assert runner.failures == 0, "".join(out)


@pytest.mark.parametrize("name", [n for n in NAMES if inspect.isclass(getattr(tracekit, n))])
def test_public_methods_are_documented(name):
    for key, value in vars(getattr(tracekit, name)).items():
        if not key.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert inspect.getdoc(value), f"{name}.{key}"


def test_all_names_are_there_and_no_others():
    assert set(tracekit._LAZY) | {"__version__"} == set(tracekit.__all__)
    assert set(tracekit.__all__) <= set(dir(tracekit))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tracekit.nothing


def test_import_takes_less_than_100_ms_and_no_numpy():
    """Of a processor: others on it take none of them."""
    code = "import time; t = time.process_time(); import tracekit; import sys\n" + textwrap.dedent(
        """
        print(time.process_time() - t)
        print([m for m in ("numpy", "typing", "tqdm", "tracekit._core") if m in sys.modules])
        """
    )
    where = str(Path(tracekit.__file__).parent.parent)  # in place, or installed
    runs = [
        subprocess.run(
            [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {where!r})\n{code}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(5)
    ]
    assert min(float(r[0]) for r in runs) < 0.1
    assert "numpy" not in runs[0][1] and "_core" not in runs[0][1]


def test_a_dependent_project_passes_strict_mypy(tmp_path):
    """tests/dependent_project.py uses the package as a typed project would."""
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent",
         "--cache-dir", str(tmp_path / "cache"), str(ROOT / "tests" / "dependent_project.py")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dependent_project_runs(traces, monkeypatch):
    import dependent_project

    monkeypatch.chdir(traces)
    assert dependent_project.report(Path("feats.zst"))


def test_representations_are_one_line(traces):
    model = tracekit.load_model()
    trace = tracekit.open(traces / "feats.zst")
    result = tracekit.simulate(trace, "u007")
    found = tracekit.predict(trace, model, machines=["u007"])
    for thing in (model, trace, result, found, tracekit.Machine.load("u007")):
        assert "\n" not in repr(thing) and 10 < len(repr(thing)) < 200, repr(thing)


# ---- machines


def test_fields_of_a_machine_are_the_parameters():
    table = {p.name: p for p in MACHINE_PARAMETERS}
    fields = {f.name: f for f in dataclasses.fields(tracekit.Machine)}
    assert list(fields) == list(table)
    assert Changes.__annotations__.keys() == table.keys()
    for name, p in table.items():
        given = fields[name].default
        assert (None if given is dataclasses.MISSING else given) == p.default, name
        kind = "int | None" if p.only or p.follows else p.type.__name__
        assert fields[name].type == kind, name


def test_machines_by_name_are_those_of_the_shipped_models():
    known = tracekit.machines()
    for arch in ("arm", "x86", "riscv"):
        for m in tracekit.load_model(arch=arch).machines:
            own = known[m["name"]].to_dict()
            # RISC-V's have every parameter: the factory completes them.
            assert {
                k: v for k, v in m.items() if k in own or arch != "riscv"
            }.items() <= own.items()
    assert len(known) == 48


def test_a_machine_is_validated(tmp_path):
    base = tracekit.Machine.load("u007")
    assert base.replace(rob=512).rob == 512 and base.rob == 192
    with pytest.raises(tracekit.UsageError, match=r"'robb' is no parameter \(did you mean rob\?\)"):
        base.replace(robb=5)
    with pytest.raises(tracekit.UsageError, match="rob is 0; from 1"):
        base.replace(rob=0)
    with pytest.raises(tracekit.UsageError, match="did you mean u007"):
        tracekit.Machine.load("u0007")
    with pytest.raises(dataclasses.FrozenInstanceError):
        base.rob = 3
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(base.replace(name="mine", rob=96).to_dict()))
    assert tracekit.Machine.load(file).rob == 96
    assert repr(tracekit.Machine.load(file)) == "mine: 4-wide, ROB 96, 3.5 GHz, DDR4"
    assert "<td>rob</td><td>96 entries</td>" in tracekit.Machine.load(file)._repr_html_()
    assert hash(base) == hash(tracekit.Machine.load("u007"))


def test_machines_go_to_other_processes(traces):
    chosen = (tracekit.Machine.load("u007"), tracekit.HardwareMachine.load("zen4"))
    for machine in chosen:
        for other in (pickle.loads(pickle.dumps(machine)), copy.deepcopy(machine)):
            assert other == machine and hash(other) == hash(machine)
            assert type(other) is type(machine)


def test_machines_of_a_model_are_names_that_it_has(traces):
    for wrong, words in (
        ([], "no machine is named"),
        ([tracekit.Machine.load("u007")], "machines are names of the model's, not u007"),
        (["u0077"], r"u0077 \(did you mean u007\?\) is not in the model"),
    ):
        with pytest.raises(tracekit.UsageError, match=words):
            tracekit.predict(traces / "feats.zst", machines=wrong)
    model, mine = tracekit.load_model(), tracekit.Machine.load("u007").to_dict()
    with pytest.raises(tracekit.UsageError, match=r"'u007'; a list of names \(\['u007'\]\)"):
        model.only("u007")
    with pytest.raises(tracekit.UsageError, match="already knows a machine u007"):
        model.with_machine(mine)
    with pytest.raises(tracekit.UsageError, match="rob is -1"):
        model.with_machine({**mine, "name": "mine", "rob": -1})


def test_a_sweep_by_numpy_s_numbers_makes_machines():
    base, real = tracekit.Machine.load("u007"), tracekit.HardwareMachine.load("zen4")
    for machine in (base, real):
        large = machine.replace(rob=np.int64(300))
        assert type(large.rob) is int and large == machine.replace(rob=300)
        json.dumps(large.to_dict())
        for wrong in (np.int64(-1), np.bool_(True), np.float64(64.5), np.float32("nan")):
            with pytest.raises(tracekit.UsageError, match="rob is"):
                machine.replace(rob=wrong)
    assert type(base.replace(clock_ghz=np.float32(2.5)).clock_ghz) is float


# ---- simulate


def test_what_is_no_machine_is_told(traces):
    """Parameters in place of a machine: their names are no machines' names."""
    for wrong in ({"width": 4}, [{"width": 4}], [7], 7, [None]):
        with pytest.raises(tracekit.UsageError, match="is no machine, name or file") as e:
            tracekit.simulate(traces / "feats.zst", wrong)
        assert "Machine.from_dict" in str(e.value)
    with pytest.raises(tracekit.UsageError, match="is no machine"):
        simulate_gem5(traces / "feats.zst", ["u007", {"width": 4}])


def test_simulated_ranges_and_rows_add_up(traces, tmp_path):
    with tracekit.open(traces / "feats.zst") as trace:
        result = tracekit.simulate(trace, ["u007", "o3_small"], ranges=7, rows=True)
        n = len(trace)
        from tracekit import sim

        plain = sim.totals(trace, [m.to_dict() for m in result.machines])[0]
    assert (result.cycles == plain).all()
    assert result.cycles_by_range.shape == (7, 2) and result.cycles_by_row.shape == (n, 2)
    assert (result.cycles_by_range.sum(axis=0) == plain).all()
    for k in range(7):
        a, b = result.breaks[k : k + 2]
        own = result.cycles_by_row[a:b].sum(axis=0, dtype=float)
        assert (own == result.cycles_by_range[k]).all()
    out = tmp_path / "rows.npy"
    again = tracekit.simulate(
        traces / "feats.zst", ["u007", "o3_small"], ranges=[0, 100], output=out
    )
    assert (np.load(out) == result.cycles_by_row).all() and again.cycles_by_row is None
    assert again.breaks.tolist() == [0, 100, n]
    assert (again.cycles_by_range[0] == result.cycles_by_row[:100].sum(axis=0, dtype=float)).all()
    assert (result.seconds == result.cycles * np.array([286e-12, 667e-12])).all()
    assert str(result).splitlines()[2].startswith("u007")
    stacked = tracekit.simulate(traces / "feats.zst", ["u007", "io_1w"], causes=True)
    assert (stacked.causes.sum(axis=1) == stacked.cycles).all()
    assert stacked.causes.shape == (2, len(stacked.cause_names)) and result.causes is None
    with pytest.raises(tracekit.TracekitError, match="exists"):
        tracekit.simulate(traces / "feats.zst", "u007", output=out)


@pytest.mark.parametrize("ranges", [0, [], [5], [0, 3, 3], [0, 10**9], -2])
def test_ranges_that_are_none(traces, ranges):
    with pytest.raises(tracekit.UsageError, match="ranges"):
        tracekit.simulate(traces / "feats.zst", "u007", ranges=ranges)


@pytest.mark.parametrize("threads", [0, -1, True, "2", 2.0])
@pytest.mark.parametrize("function", [tracekit.simulate, tracekit.predict])
def test_threads_that_are_no_number_of_them(traces, function, threads):
    with pytest.raises(tracekit.UsageError, match=r"threads is .*; a whole number from 1"):
        function(traces / "feats.zst", machines=["u007"], threads=threads)


# ---- commands


def tracekit_says(*args: object) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_simulate_command(traces, tmp_path):
    rows = tmp_path / "rows.npy"
    args = ("simulate", traces / "feats.zst", "-m", "u007", "o3_small", "--by-range", 3, "--causes")
    code, text, error = tracekit_says(*args, "-o", rows)
    assert (code, error) == (0, "")
    assert "u007" in text and "4-wide, ROB 192" in text and "cycles by cause" in text
    code, text, _ = tracekit_says(*args, "--json")
    (found,) = json.loads(text)
    result = tracekit.simulate(traces / "feats.zst", ["u007", "o3_small"], ranges=3, causes=True)
    assert {**result.to_dict(), **found} == {**found, "path": found["path"]}
    assert np.load(rows).shape == (result.rows, 2)
    assert [len(r["cycles"]) for r in found["ranges"]] == [2, 2, 2]
    assert sum(found["machines"][0]["causes"].values()) == found["machines"][0]["cycles"]
    code, _, error = tracekit_says("simulate", traces / "feats.zst", "-m", "u07")
    assert code == 2 and "did you mean u0" in error and error.count("\n") == 1


def test_machines_of_one_name_are_told_apart(traces, tmp_path):
    """A copy of a known machine keeps its name: it is called as the command line gave it."""
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps({**tracekit.Machine.load("u007").to_dict(), "width": 2}))
    for command in (["simulate", "-q"], ["report", "-o", tmp_path / "r.html", "--quiet"]):
        args = [command[0], traces / "feats.zst", *command[1:], "--json"]
        code, text, error = tracekit_says(*args, "-m", "u007", "o3_small", "-m", "u007")
        assert (code, text) == (2, "") and error == "tracekit: u007 is given twice\n"
        code, text, error = tracekit_says(*args, "-m", "u007", copy, "o3_small")
        assert code == 0, error
        found = json.loads(text)
        machines = (found[0] if command[0] == "simulate" else found)["machines"]
        assert [m["name"] for m in machines] == ["u007", str(copy), "o3_small"]


def test_machines_command(tmp_path):
    code, text, _ = tracekit_says("machines")
    assert code == 0 and "u007        4-wide, ROB 192, 3.5 GHz, DDR4" in text.splitlines()
    code, text, _ = tracekit_says("machines", "u007", "--json")
    (tmp_path / "m.json").write_text(text)
    assert tracekit.Machine.load(tmp_path / "m.json") == tracekit.Machine.load("u007")
    code, text, _ = tracekit_says("machines", "u007", "io_1w", "--json")
    assert [m["cpu"] for m in json.loads(text)] == ["o3", "minor"]
    code, text, _ = tracekit_says("machines", "--parameters", "--json")
    told = json.loads(text)
    gem5 = {p["name"] for p in told if "kind" not in p}
    assert gem5 | {"name"} == {p.name for p in MACHINE_PARAMETERS}
    real = {p["name"] for p in told if p.get("kind") == "hardware"}
    assert real == {p.name for p in HARDWARE_PARAMETERS}
    code, text, _ = tracekit_says("machines", "zen5", "--json")
    (tmp_path / "zen5.json").write_text(text)
    assert tracekit.HardwareMachine.load(tmp_path / "zen5.json").name == "zen5"
    code, text, _ = tracekit_says("machines", "--parameters")
    assert "rob: reorder buffer" in text and "gem5: numROBEntries" in text
