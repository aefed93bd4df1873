"""The rooms (docs/architecture.md): what each may import, and what no module may be called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import tracekit

ROOT = Path(__file__).resolve().parent.parent

#: Everybody may import these.
BASE = frozenset(
    {
        "_core",
        "_version",
        "cpus",
        "entry_points",
        "errors",
        "extras",
        "io",
        "old_names",
        "pipeline",
        "progress",
        "schema",
        "text",
    }
)
#: A room of tracekit/ (a package, or a module that stands alone) -> the rooms that it may import
#: besides BASE.
PYTHON: dict[str, str] = {
    # what all others stand on
    "_version": "",
    "_core": "",
    "entry_points": "",
    "errors": "",
    "extras": "",
    "old_names": "",
    "cpus": "",
    "pipeline": "",
    "progress": "",
    "schema": "",
    "text": "",
    "io": "",
    "plugin": "",
    "plotting": "",
    "training_events": "",
    # instructions, files, inputs
    "isa": "",
    "features": "",
    "store": "extras features",
    "symbols": "isa store",
    "inputs": "isa sim store symbols",
    "exporting": "causes features inputs isa opening sim store",
    "extraction": "extraction_types inputs isa store",
    "extraction_types": "store",
    "opening": "extraction inputs store",
    "record": "extraction extraction_types inputs isa symbols",
    # what a trace shows; the simulator; datasets
    "analysis": "features inputs isa opening store symbols",
    "phases": "",
    "sim": "estimation isa phases store",
    "hardware": "isa plotting sim store",
    "causes": "sim store symbols text",
    "view": "sim store text",
    "simpoint": "extraction inputs opening phases store",
    "report": "analysis causes estimation mixture prediction sim store symbols view",
    "dataset": "features sim store",
    "factory": "dataset extraction extraction_types plugin sim store",
    # networks
    "model": "",
    "infer": "model",
    "infer_torch": "model",
    # the mixture over simulated cores
    "mixture": "dataset model sim store training_events",
    "prediction": "analysis estimation extraction hardware inputs mixture opening record sim store "
    "symbols",
    "calibration": "inputs mixture opening prediction record sim store",
    "evaluation": "calibration dataset infer mixture model prediction sim store",
    "exploration": "mixture plotting prediction sim store",
    "validation": "analysis evaluation extraction extraction_types hardware inputs mixture "
    "plotting record store",
    # many traces
    "cluster": "calibration dataset evaluation extraction extraction_types factory hardware "
    "mixture model neuroscalar opening plugin prediction sim store",
    # papers' own networks
    "perfvec": "features model",
    "neuroscalar": "dataset evaluation features infer infer_torch mixture model plotting sim store",
    "train": "dataset features infer_torch mixture model neuroscalar perfvec sim training_events",
    # computers in use
    "agent": "estimation extraction fleet isa mixture model opening prediction record repository "
    "store",
    "estimation": "",
    "fleet": "",
    "repository": "features mixture model sim",
    "hub": "analysis estimation fleet mixture sim store opening",
    "cli": "*",
    "__main__": "cli",
}
#: A folder of csrc/ -> those that it may include.
CPP: dict[str, str] = {
    "core": "",
    "isa": "core",
    "order": "core",
    "features": "core isa",
    "macro": "core features isa",
    "encode": "core features isa",
    "warm": "core",
    "sim": "core warm",
    "hardware": "core sim warm",
    "formats/common": "core",
    "formats/native_rows": "core formats/champsim formats/common",
    "formats/champsim": "core formats/common",
    "formats/drmemtrace": "core formats/common",
    "formats/gem5_text": "core formats/common isa order",
    "formats/perfvec_text": "core formats/common",
    "formats/text_streams": "core formats/common",
    "formats/tks": "formats/common",
    "formats/tkt": "core formats/common isa",
    "record": "core formats/common formats/tks",
    "bench": "features",
    "bind": "*",
    "fuzz": "*",
}
#: Functions that are public, or that the next version offers beside those of tracekit.__all__.
FUNCTIONS = {
    *("extract", "open", "simulate", "machines", "predict", "load_model", "stack_distance"),
    *("export", "evaluate", "explore", "join", "hot", "epochs", "tune", "quantize", "verify"),
    *(n for n in tracekit.__all__ if n.islower() and not n.startswith("_")),
}
EXTENSIONS = {
    "tracekit._core",
    *(
        ".".join(p.relative_to(ROOT).with_suffix("").parts)
        for p in (ROOT / "tracekit").rglob("*.pyx")
    ),
}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    out = {}
    for path in sorted((ROOT / "tracekit").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def imports_of(path: Path, known: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Line and module of every import of this package, also those inside functions."""
    known = set(known)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            full = [f"{node.module}.{a.name}" for a in node.names]
            names = [f if f in known or f in EXTENSIONS else node.module for f in full]
        else:
            continue
        yield from ((node.lineno, n) for n in names if n.split(".")[0] == "tracekit")


def loops(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Every set of more than one node that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = [n for n in graph.get(todo.pop(), ()) if n not in seen]
            seen.update(new)
            todo += new
        return seen

    reach = {n: reached(n) for n in graph}
    found = {frozenset({n, *(m for m in reach[n] if n in reach.get(m, ()))}) for n in graph}
    return sorted(sorted(s) for s in found if len(s) > 1)


def test_a_loop_is_found():
    assert loops({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == [["a", "b", "c"]]
    assert loops({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def test_rooms_import_what_the_table_says():
    wrong = []
    everything = modules()
    for name, path in everything.items():
        if name == "tracekit":
            continue  # the public names of the rooms
        room = name.split(".")[1]
        assert room in PYTHON, f"{path}: a room that the table of {__file__} does not have"
        allowed = BASE | {room} | set(PYTHON[room].split())
        for line, target in imports_of(path, everything):
            to = target.split(".")[1] if "." in target else target
            if to not in allowed and "*" not in allowed:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


#: Modules that commands import though they are no room's front: nobody else is to need them.
INTERNAL = {
    *("causes.changes", "causes.explain", "causes.names", "causes.places", "causes.stacks"),
    *("causes.what_if", "causes.why"),
    *("analysis.mrc", "infer.accuracy", "inputs.tks", "record.qemu", "store.summary"),
    "store.debug_flags",
    *("infer.neutrino", "neuroscalar.ab", "report.collect", "report.page", "view.kanata"),
    *("analysis.gem5_statistics", "sim.description", "sim.gem5_config", "sim.other_machines"),
    "view.perfetto",
    *("agent.overview", "agent.policy", "agent.running", "agent.state", "agent.unit"),
    *("train.neuroscalar", "train.neuroscalar_options", "train.perfvec"),
}


def test_commands_use_the_public_names_or_a_rooms_front():
    everything = modules()
    wrong = []
    for name, path in everything.items():
        if not name.startswith("tracekit.cli."):
            continue
        for line, target in imports_of(path, everything):
            _, _, inside = target.partition(".")
            room, point, _ = inside.partition(".")
            if point and room not in BASE | {"cli"} and inside not in INTERNAL:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_rooms_that_the_table_names_exist():
    rooms = {n.split(".")[1] for n in modules() if "." in n} | {"_core"}
    assert set(PYTHON) == rooms
    assert {t for v in PYTHON.values() for t in v.split()} <= rooms | {"*"}


def test_no_loops_between_rooms_nor_modules():
    table = {a: [] if b == "*" else b.split() for a, b in PYTHON.items()}
    assert loops(table) == []
    everything = modules()
    graph = {n: {t for _, t in imports_of(p, everything)} for n, p in everything.items()}
    packages = {n for n, p in everything.items() if p.name == "__init__.py"}
    # a package's own __init__ offers what its modules have; they do not import it
    for name in packages:
        inside = [m for m in graph if m.startswith(name + ".") and name in graph[m]]
        assert name == "tracekit" or not inside, f"{inside} import their own package {name}"
        graph.pop(name)
    assert loops(graph) == []


def test_no_module_has_the_name_of_a_public_function():
    same = [n for n in modules() if n.rpartition(".")[2] in FUNCTIONS]
    assert not same, same


def folder_of(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "formats" else parts[0]


def test_folders_include_what_the_table_says():
    wrong, graph = [], {}
    for path in sorted((ROOT / "csrc").rglob("*")):
        if path.suffix not in (".cpp", ".hpp", ".inc"):
            continue
        folder = folder_of(path.relative_to(ROOT / "csrc").as_posix())
        assert folder in CPP, f"{path}: a folder that the table of {__file__} does not have"
        allowed = {folder, *CPP[folder].split()}
        text = path.read_text(encoding="utf-8")
        for include in re.findall(r'^#include "([^"]+)"', text, re.M):
            if (ROOT / "tracekit" / "include" / include).is_file():
                continue  # what plug-ins include, too
            assert (ROOT / "csrc" / include).is_file(), f"{path} includes {include}"
            graph.setdefault(folder, set()).add(folder_of(include))
            if folder_of(include) not in allowed and "*" not in allowed:
                wrong.append(f"{path.relative_to(ROOT)} includes {include}")
    assert not wrong, "\n".join(wrong)
    assert loops({a: b - {a} for a, b in graph.items()}) == []


@pytest.mark.parametrize("table", [PYTHON, CPP], ids=["python", "cpp"])
def test_the_page_names_every_room(table):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    missing = [r for r in table if not r.startswith("_") and f"`{r}`" not in page]
    assert not missing, missing
