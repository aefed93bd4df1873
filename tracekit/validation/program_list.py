"""The list of programs: how each is built and run, of which family it is, and in which half."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

from tracekit.errors import FormatError
from tracekit.io.files import read_json

__all__ = ["FITTING", "HALVES", "Group", "ListedProgram", "ProgramList", "draw", "load_list"]

HALVES: Final = ("development", "test")
#: What programs are of that are in neither half: what calibration leaves is fitted on them.
FITTING: Final = "fitting"
_FITTED: Final = 5


@dataclass(frozen=True)
class ListedProgram:
    """``command`` with its places still in it; ``input``: what its standard input is, or None.
    ``work``: how much work a run does, in units that the versions of a group share.
    ``judged``: it counts by itself, and not only in its group."""

    name: str
    family: str
    half: str
    command: tuple[str, ...]
    input: str | None
    work: float
    judged: bool


@dataclass(frozen=True)
class Group:
    """Versions of the same work: names of programs."""

    name: str
    versions: tuple[str, ...]


@dataclass(frozen=True)
class ProgramList:
    """``builds`` and ``inputs``: name → the command that makes it.  ``environment``: of native runs
    and of those under QEMU, whose processor is ``cpu``."""

    path: str
    seed: int
    environment: Mapping[str, str]
    cpu: str | None
    builds: Mapping[str, tuple[str, ...]]
    inputs: Mapping[str, tuple[str, ...]]
    programs: tuple[ListedProgram, ...]
    groups: tuple[Group, ...]

    def filled(self, command: Sequence[str], work: Path, output: Path | None = None) -> list[str]:
        """A command with its places filled: ``{list}`` is the list's folder, ``{build:NAME}`` and
        ``{input:NAME}`` files in the folder ``work``, ``{out}`` what a build makes."""
        places = {
            "{list}": str(Path(self.path).resolve().parent),
            "{python}": sys.executable,
            **{f"{{build:{n}}}": str(work / f"build-{n}") for n in self.builds},
            **{f"{{input:{n}}}": str(work / f"input-{n}") for n in self.inputs},
        }
        if output is not None:
            places["{out}"] = str(output)
        out = []
        for word in command:
            for place, value in places.items():
                word = word.replace(place, value)
            out.append(word)
        return out

    def needed(self, programs: Sequence[ListedProgram]) -> list[tuple[str, str, tuple[str, ...]]]:
        """Kind ("input" or "build"), name and command of what programs need."""
        words = [w for p in programs for w in p.command]
        words += [f"{{input:{p.input}}}" for p in programs if p.input]
        made = [("input", n, c) for n, c in self.inputs.items()]
        made += [("build", n, c) for n, c in self.builds.items()]
        return [m for m in made if any(f"{{{m[0]}:{m[1]}}}" in w for w in words)]


def draw(families: Sequence[str], seed: int) -> dict[str, str]:
    """Family → half: half of the families, drawn by the seed, are for development."""
    names = sorted(set(families))
    chosen = set(random.Random(seed).sample(names, (len(names) + 1) // 2))
    return {n: HALVES[0] if n in chosen else HALVES[1] for n in names}


def load_list(path: str | Path) -> ProgramList:
    """Reads and checks a list (docs/hardware.md has its keys).

    Raises `FormatError` for what is missing or of another type, for a name that is used twice or
    nowhere defined, and where a family lies in another half than the seed draws.
    """
    where = str(path)
    data = read_json(path)

    def wrong(what: str) -> FormatError:
        return FormatError(what, path=where)

    if not isinstance(data, dict) or not isinstance(data.get("programs"), list):
        raise wrong("a list has programs: a list of objects")
    unknown = set(data) - {"seed", "environment", "cpu", "builds", "inputs", "programs", "groups"}
    unknown -= {FITTING}
    if unknown:
        raise wrong(f"unknown keys: {', '.join(sorted(unknown))}")
    seed = data.get("seed")
    if not isinstance(seed, int):
        raise wrong("seed: a whole number")
    if not isinstance(data.get("cpu"), str | None):
        raise wrong("cpu: the name of a processor of QEMU")
    programs = tuple(_program(p, i, wrong) for i, p in enumerate(data["programs"]))
    names = [p.name for p in programs]
    if not programs or len(set(names)) < len(names):
        raise wrong("programs: none, or two of one name")
    drawn = draw([p.family for p in programs if p.half != FITTING], seed)
    _check_fitting(data.get(FITTING), programs, drawn, wrong)
    for p in programs:
        if p.half != FITTING and drawn[p.family] != p.half:
            raise wrong(f"{p.name}: seed {seed} draws {p.family} for {drawn[p.family]}")
    groups = []
    if not isinstance(data.get("groups", []), list):
        raise wrong("groups: a list")
    for g in data.get("groups", []):
        if not isinstance(g, dict) or not isinstance(g.get("name"), str):
            raise wrong("groups: objects with a name and versions")
        versions = _words(g.get("versions"), f"{g['name']}: versions", wrong)
        if missing := set(versions) - set(names):
            raise wrong(f"{g['name']}: no program {sorted(missing)[0]!r}")
        groups.append(Group(g["name"], versions))
    out = ProgramList(
        where,
        seed,
        _texts(data.get("environment", {}), "environment", wrong),
        data.get("cpu"),
        _commands(data.get("builds", {}), "builds", wrong),
        _commands(data.get("inputs", {}), "inputs", wrong),
        programs,
        tuple(groups),
    )
    for p in programs:
        for word in (*p.command, *([f"{{input:{p.input}}}"] if p.input else [])):
            for kind, there in (("build", out.builds), ("input", out.inputs)):
                for part in word.split(f"{{{kind}:")[1:]:
                    if part.partition("}")[0] not in there:
                        raise wrong(f"{p.name}: no {kind} {part.partition('}')[0]!r}")
    return out


def _check_fitting(
    told: Any, programs: Sequence[ListedProgram], drawn: Mapping[str, str], wrong: Any
) -> None:
    """The programs to fit on are five of the candidates, drawn by a seed, of families that are in
    neither half."""
    given = [p for p in programs if p.half == FITTING]
    if told is None and not given:
        return
    if not isinstance(told, dict) or set(told) != {"seed", "candidates"}:
        raise wrong(f"{FITTING}: an object of seed and candidates")
    if isinstance(told["seed"], bool) or not isinstance(told["seed"], int):
        raise wrong(f"{FITTING}: seed: a whole number")
    candidates = sorted(set(_words(told["candidates"], f"{FITTING}: candidates", wrong)))
    if len(candidates) < _FITTED:
        raise wrong(f"{FITTING}: {len(candidates)} candidates; at least {_FITTED}")
    chosen = set(random.Random(told["seed"]).sample(candidates, _FITTED))
    if {p.name for p in given} != chosen:
        raise wrong(f"{FITTING}: seed {told['seed']} draws {', '.join(sorted(chosen))}")
    if both := {p.family for p in given} & drawn.keys():
        raise wrong(f"{FITTING}: family {min(both)} is in a half, too")


def _program(entry: Any, index: int, wrong: Any) -> ListedProgram:
    given = entry if isinstance(entry, dict) else {}
    name = given.get("name")
    if not _plain(name):
        raise wrong(f"programs[{index}]: name: a plain name")
    known = {"name", "family", "half", "command", "input", "work", "judged"}
    if unknown := set(given) - known:
        raise wrong(f"{name}: unknown keys: {', '.join(sorted(unknown))}")
    family, half = given.get("family"), given.get("half")
    if not isinstance(family, str) or half not in (*HALVES, FITTING):
        raise wrong(f"{name}: family: a name; half: development, test or fitting")
    work = given.get("work", 1)
    if isinstance(work, bool) or not isinstance(work, int | float) or not work > 0:
        raise wrong(f"{name}: work: a positive number")
    told = given.get("input")
    if told is not None and not isinstance(told, str):
        raise wrong(f"{name}: input: the name of an input")
    command = _words(given.get("command"), f"{name}: command", wrong)
    judged = given.get("judged", True)
    if not isinstance(judged, bool):
        raise wrong(f"{name}: judged: true or false")
    return ListedProgram(name, family, half, command, told, float(work), judged)


def _plain(name: Any) -> TypeGuard[str]:
    """Whether a file of this name lies in the folder."""
    if not isinstance(name, str) or not name.isprintable():
        return False
    return name != "" and "/" not in name and not name.startswith(".")


def _words(value: Any, what: str, wrong: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(w, str) for w in value):
        raise wrong(f"{what}: a list of words")
    return tuple(value)


def _texts(value: Any, what: str, wrong: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise wrong(f"{what}: an object of texts")
    return dict(value)


def _commands(value: Any, what: str, wrong: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise wrong(f"{what}: an object of commands")
    if other := [n for n in value if not _plain(n)]:
        raise wrong(f"{what}: {other[0]!r} is no plain name")
    return {k: _words(v, f"{what}.{k}", wrong) for k, v in value.items()}
