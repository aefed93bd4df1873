"""The manifest of a dataset: JSON or TOML.

    {"machines": {"u000": "machines/u000.json"},          name -> file, known name, or null
     "programs": [{"name": "lua_mix", "family": "lua", "data": "lua_mix.data.zst"}],
     "validation": ["lua"],                                families that choose between fits
     "test": ["sqlite"]}                                   families that training does not see

Paths are relative to the manifest; ``data`` is a file that ``tracekit join`` wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.dataset.file import Dataset
from tracekit.errors import FormatError, UsageError, values_of_a_file
from tracekit.io.files import read_json, read_toml
from tracekit.sim.description import named_or_file
from tracekit.sim.parameters import suggestion

__all__ = ["Manifest", "Program", "load_manifest"]

_TOP = {"machines", "programs", "validation", "test"}
_PROGRAM = {"name", "family", "data"}
#: Of a program's name: files of what is computed once are called by it, and by what it hangs on.
LONGEST_NAME = 150


@dataclass(frozen=True)
class Program:
    """One program: its features and targets are one file."""

    name: str
    family: str
    data: Path

    def open(self) -> Dataset:
        """Its file."""
        return Dataset(self.data)

    def data_digest(self) -> str:
        """SHA-256 of its file's bytes: 64 hexadecimal digits."""
        with self.open() as data:
            return data.trace.digest()


@dataclass(frozen=True)
class Manifest:
    """What ``load_manifest`` read; ``machines`` has the parameters of each machine, {} where not
    known."""

    path: Path
    programs: tuple[Program, ...]
    machines: dict[str, dict[str, Any]]
    validation: frozenset[str] = field(default_factory=frozenset)
    test: frozenset[str] = field(default_factory=frozenset)

    @property
    def families(self) -> tuple[str, ...]:
        """Every family, in the order of the programs."""
        return tuple(dict.fromkeys(p.family for p in self.programs))

    def select(self, names: Iterable[str]) -> tuple[Program, ...]:
        """Programs by name, in the given order."""
        known = {p.name: p for p in self.programs}
        wanted = list(names)
        if missing := [n for n in wanted if n not in known]:
            raise UsageError(
                f"no program {', '.join(missing)} in the manifest", path=str(self.path)
            )
        return tuple(known[n] for n in wanted)

    def chosen(self, machines: Sequence[str], known: Sequence[str]) -> list[str]:
        """The machines that were asked for.  Raises UsageError for one that is not among the
        ``known``, or is there twice."""
        for i, m in enumerate(machines):
            if m not in known:
                why = f"no program has times on machine {m}{suggestion(m, known)}"
                raise UsageError(why, path=str(self.path), hint=f"known: {', '.join(known)}")
            if m in machines[:i]:
                raise UsageError(f"machine {m} is named twice")
        return list(machines)

    def common_machines(self) -> tuple[str, ...]:
        """The machines that every program has targets on, each file opened and checked: one level
        and one instruction set for all, and every machine known to the manifest."""
        first: tuple[str, ...] = ()
        kind: tuple[str, str] | None = None
        for p in self.programs:
            with p.open() as data:
                found, index = data.machines, data.trace.index
            kind = kind or (index["level"], index["arch"])
            if kind != (index["level"], index["arch"]):
                raise UsageError(
                    f"{p.name} is of {index['level']} level and {index['arch']}, "
                    f"{self.programs[0].name} of {kind[0]} level and {kind[1]}",
                    path=str(p.data),
                )
            first = first or found
            if missing := sorted(set(first) ^ set(found)):
                raise UsageError(
                    f"{p.name} and {self.programs[0].name} do not have the same machines: "
                    f"{', '.join(missing)}",
                    path=str(p.data),
                )
        if unknown := [m for m in first if self.machines and m not in self.machines]:
            raise UsageError(
                f"machine {', '.join(unknown)} is not in machines",
                path=str(self.path),
                hint="name its parameters' file, or null",
            )
        return first


def load_manifest(path: str | Path) -> Manifest:
    """Read and check a manifest; FormatError says which entry is wrong."""
    path = Path(path)
    data = _read(path)

    def bad(why: str, hint: str | None = None) -> FormatError:
        return FormatError(why, path=str(path), hint=hint)

    if not isinstance(data, dict):
        raise bad("a manifest is an object")
    if unknown := data.keys() - _TOP:
        raise bad(f"unknown {', '.join(sorted(unknown))}", f"known: {', '.join(sorted(_TOP))}")
    machines: dict[str, dict[str, Any]] = {}
    entries = data.get("machines", {})
    if not isinstance(entries, dict):
        raise bad("machines: an object of names and files")
    for name, file in entries.items():
        if file is not None and not isinstance(file, str):
            raise bad(f"machines.{name}: a machine's name, a file's path, or null")
        with values_of_a_file(path, f"machines.{name}"):
            machines[name] = {} if file is None else named_or_file(file, path.parent)
    listed = data.get("programs")
    if not isinstance(listed, list) or not listed:
        raise bad("programs: a list of at least one program")
    programs = [_program(e, i, path, bad) for i, e in enumerate(listed)]
    names = [p.name for p in programs]
    if twice := {n for n in names if names.count(n) > 1}:
        raise bad(f"program {', '.join(sorted(twice))} is there twice")
    if not all(n.isprintable() for p in programs for n in (p.name, p.family)) or not all(
        m.isprintable() for m in machines
    ):
        raise bad("a name has characters that cannot be printed")
    families = {p.family for p in programs}
    held = {}
    for key in ("validation", "test"):
        held[key] = frozenset(_names(data.get(key, []), key, bad))
        if missing := sorted(held[key] - families):
            raise bad(f"{key}: no program is of family {', '.join(missing)}")
    if both := held["validation"] & held["test"]:
        raise bad(f"family {', '.join(sorted(both))} is in validation and in test")
    return Manifest(path, tuple(programs), machines, held["validation"], held["test"])


def _read(path: Path) -> Any:
    return read_toml(path) if path.suffix == ".toml" else read_json(path)


def _names(value: Any, where: str, bad: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise bad(f"{where}: a list of names")
    if len(set(value)) != len(value):
        raise bad(f"{where} has a name twice")
    return tuple(value)


def _program(entry: Any, i: int, path: Path, bad: Any) -> Program:
    where = f"programs[{i}]"
    if not isinstance(entry, Mapping):
        raise bad(f"{where} is no object")
    if unknown := entry.keys() - _PROGRAM:
        hint = "tracekit join makes one file of features and targets: data"
        raise bad(f"{where}: unknown {', '.join(sorted(unknown))}", hint)
    for key in ("name", "data"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise bad(f"{where}: {key} is missing")
    if len(os.fsencode(entry["name"])) > LONGEST_NAME:
        raise bad(f"{where}: the name has more than {LONGEST_NAME} bytes")
    family = entry.get("family", entry["name"])
    if not isinstance(family, str):
        raise bad(f"{where}: family is a name")
    return Program(entry["name"], family, path.parent / entry["data"])
