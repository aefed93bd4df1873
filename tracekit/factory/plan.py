"""A plan: which programs are to run on which machines, as TOML or JSON (docs/factory.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.errors import FormatError, values_of_a_file
from tracekit.factory.drawing import DRAWINGS, WIDEST, draw_machines
from tracekit.io.files import first_bytes, read_json, read_toml
from tracekit.sim import (
    Machine,
    completed,
    gem5_machine,
    is_gem5_config,
    joined,
    machine_errors,
    machine_notes,
    suggestion,
)
from tracekit.text import shown

__all__ = ["Plan", "PlannedProgram", "load_plan"]

_TOP = ("seed", "machines", "window", "programs", "validation", "test")
_MACHINES = ("out_of_order", "in_order", "drawing", "same", "use")
_WINDOW = ("skip", "warm", "instructions")
_PROGRAM = ("name", "family", "binary", "arguments", "stdin", "files", *_WINDOW)
_STATIC = "gem5's syscall emulation runs static programs"
#: ELF's numbers of instruction sets.
_ELF_MACHINES = {62: "x86", 183: "arm", 243: "riscv"}
#: Machines and instructions of a plan at most: a slip of the pen must not fill a disk.
MOST_MACHINES, MOST_INSTRUCTIONS = 10_000, 1_000_000_000_000


@dataclass(frozen=True)
class PlannedProgram:
    """A program, and which of its instructions: ``skip`` run first on a CPU without caches,
    ``warm`` on the machine itself, ``instructions`` are traced.  ``files`` lie in the folder that
    it runs in, by their names."""

    name: str
    family: str
    binary: Path
    arguments: tuple[str, ...] = ()
    stdin: Path | None = None
    files: tuple[Path, ...] = ()
    skip: int = 0
    warm: int = 0
    instructions: int = 500_000


@dataclass(frozen=True)
class Plan:
    """What `load_plan` read.  ``machines``: the parameters of each, in order; ``notes``: machine ->
    what of gem5's configuration they do not say; ``arch``: the programs' instruction set."""

    path: Path
    arch: str
    machines: tuple[dict[str, Any], ...]
    programs: tuple[PlannedProgram, ...]
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    notes: Mapping[str, list[str]] = field(default_factory=dict)


class _Reader:
    """Checks as it goes; ``errors`` are told all at once."""

    def __init__(self, path: Path) -> None:
        self.path, self.errors = path, list[str]()

    def known(self, where: str, table: Mapping[str, Any], names: tuple[str, ...]) -> None:
        for key in table:
            if key not in names:
                self.errors.append(f"{where}{shown(key)}: unknown{suggestion(key, names)}")

    def table(self, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = table.get(key, {})
        if isinstance(value, Mapping):
            return value
        self.errors.append(f"{key}: a table")
        return {}

    def count(self, where: str, table: Mapping[str, Any], key: str, usual: int, most: int) -> int:
        value = table.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            self.errors.append(f"{where}{key}: a whole number from 0 to {most:,}")
            return usual
        return value

    def names(self, where: str, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(v, str) and "\0" not in v for v in value):
            return tuple(value)
        self.errors.append(f"{where}{key}: a list of texts")
        return ()

    def text(self, where: str, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key)
        if isinstance(value, str) and value.isprintable() and value:
            return value
        self.errors.append(f"{where}{key}: a name")
        return ""

    def raise_errors(self) -> None:
        if self.errors:
            raise FormatError(joined(self.errors), path=str(self.path))


def load_plan(path: str | Path) -> Plan:
    """Read and check a plan; paths in it are relative to it.  FormatError tells all that is wrong
    with it at once; where a program or machine file cannot be read, its own error comes."""
    path = Path(path)
    data = read_toml(path) if path.suffix == ".toml" else read_json(path)
    if not isinstance(data, dict):
        raise FormatError("a plan is a table", path=str(path))
    r = _Reader(path)
    r.known("", data, _TOP)
    window = r.table(data, "window")
    r.known("window.", window, _WINDOW)
    usual = {"skip": 0, "warm": 0, "instructions": 500_000}
    usual = {k: r.count("window.", window, k, v, MOST_INSTRUCTIONS) for k, v in usual.items()}
    programs = _programs(r, data.get("programs"), usual)
    held = [r.names("", data, k) for k in ("validation", "test")]
    families = {p.family for p in programs}
    for key, some in zip(("validation", "test"), held, strict=True):
        if missing := sorted(set(some) - families):
            r.errors.append(f"{key}: no program is of family {', '.join(missing)}")
    if both := sorted(set(held[0]) & set(held[1])):
        r.errors.append(f"family {', '.join(both)} is in validation and in test")
    section = r.table(data, "machines")
    r.known("machines.", section, _MACHINES)
    seed = r.count("", data, "seed", 0, 2**63 - 1)
    r.raise_errors()
    arch = _arch(programs)
    machines, notes = _machines(r, section, seed, arch)
    r.raise_errors()
    return Plan(path, arch, machines, programs, held[0], held[1], notes)


def _programs(r: _Reader, listed: Any, usual: Mapping[str, int]) -> tuple[PlannedProgram, ...]:
    if not isinstance(listed, list) or not listed:
        r.errors.append("programs: a list of at least one program")
        return ()
    out = []
    for i, entry in enumerate(listed):
        where = f"programs[{i}]."
        if not isinstance(entry, Mapping):
            r.errors.append(f"programs[{i}]: a table")
            continue
        r.known(where, entry, _PROGRAM)
        name = r.text(where, entry, "name")
        if "/" in name or name.startswith("."):
            r.errors.append(f"{where}name: {name} names no file")
        counts = {k: r.count(where, entry, k, v, MOST_INSTRUCTIONS) for k, v in usual.items()}
        if not counts["instructions"]:
            r.errors.append(f"{where}instructions: at least one")
        binary = r.path.parent / r.text(where, entry, "binary")
        if not binary.is_file():
            r.errors.append(f"{where}binary: {binary}: no such file")
        stdin = r.path.parent / r.text(where, entry, "stdin") if "stdin" in entry else None
        out.append(
            PlannedProgram(
                name,
                r.text(where, entry, "family") if "family" in entry else name,
                binary,
                r.names(where, entry, "arguments"),
                stdin,
                _files(r, where, entry),
                **counts,
            )
        )
    names = [p.name for p in out]
    if twice := sorted({n for n in names if n and names.count(n) > 1}):
        r.errors.append(f"program {', '.join(twice)} is there twice")
    return tuple(out)


def _files(r: _Reader, where: str, entry: Mapping[str, Any]) -> tuple[Path, ...]:
    files = tuple(r.path.parent / f for f in r.names(where, entry, "files"))
    if len({f.name for f in files}) != len(files):
        r.errors.append(f"{where}files: two of one name")
    return files


def _arch(programs: tuple[PlannedProgram, ...]) -> str:
    """The instruction set of all programs."""
    found = {p.name: _elf_arch(p.binary) for p in programs}
    first = programs[0]
    for p in programs:
        if found[p.name] != found[first.name]:
            raise FormatError(
                f"is for {found[p.name]}, {first.name} for {found[first.name]}: "
                "a dataset is of one instruction set",
                path=str(p.binary),
            )
    return found[first.name]


def _elf_arch(path: Path) -> str:
    """The instruction set of a program."""
    head = first_bytes(path, 4096)
    arch = _ELF_MACHINES.get(int.from_bytes(head[18:20], "little"))
    if head[:6] != b"\x7fELF\x02\x01" or arch is None:
        raise FormatError(
            "is no 64-bit ELF file of ARM, X86 or RISC-V",
            path=str(path),
            hint=_STATIC,
        )
    if _interpreted(head):
        raise FormatError("is linked dynamically", path=str(path), hint=_STATIC)
    return arch


def _interpreted(head: bytes) -> bool:
    """Whether a program header names an interpreter (PT_INTERP), which loads shared libraries."""
    at = int.from_bytes(head[0x20:0x28], "little")
    size, count = (int.from_bytes(head[k : k + 2], "little") for k in (0x36, 0x38))
    headers = (head[at + i * size : at + i * size + 4] for i in range(count))
    return any(int.from_bytes(h, "little") == 3 for h in headers)


def _machines(
    r: _Reader, section: Mapping[str, Any], seed: int, arch: str
) -> tuple[tuple[dict[str, Any], ...], dict[str, list[str]]]:
    counts = [
        r.count("machines.", section, k, 0, MOST_MACHINES) for k in ("out_of_order", "in_order")
    ]
    how = section.get("drawing", DRAWINGS[0])
    if how not in DRAWINGS:
        r.errors.append(f"machines.drawing: one of {', '.join(DRAWINGS)}")
    same = r.table(section, "same")
    use = r.names("machines.", section, "use")
    r.raise_errors()
    with values_of_a_file(r.path, "machines.same"):
        machines = draw_machines(counts[0], counts[1], seed, how=str(how), same=same)
    notes: dict[str, list[str]] = {}
    for what in use:
        file = r.path.parent / what
        if file.exists() and is_gem5_config(file):
            machine, told = gem5_machine(file)
            notes[str(machine["name"])] = told
        else:
            with values_of_a_file(r.path, "machines.use"):
                machine = Machine.load(file if file.exists() else what).to_dict()
        machines.append(dict(machine))
    names = [str(m["name"]) for m in machines]
    if not names:
        r.errors.append("machines: out_of_order, in_order or use says which")
    if twice := sorted({n for n in names if names.count(n) > 1}):
        r.errors.append(f"machine {', '.join(twice)} is there twice")
    r.errors += [f"machine {m['name']}: {e}" for m in machines for e in runnable_errors(m, arch)]
    r.raise_errors()
    return tuple(completed(m, arch) for m in machines), notes


def runnable_errors(machine: Mapping[str, Any], arch: str) -> list[str]:
    """Why gem5 cannot be such a machine; everything at once."""
    if errors := machine_errors(machine, arch):
        return errors
    out = [*machine_notes(machine, arch)]
    name = str(machine["name"])
    if "/" in name or name.startswith("."):
        out.append(f"{name} names no file")
    for key, value in machine.items():
        if key.startswith("ideal_") and value:
            out.append(f"{key}: gem5 has no counterpart")
        if isinstance(value, str) and value.startswith("plugin:"):
            out.append(f"{key} is {value}: gem5 has no counterpart")
    if machine.get("taken_redirects", arch == "x86") != (arch == "x86"):
        out.append("taken_redirects: gem5 has no such parameter; it is 1 on X86 and 0 elsewhere")
    if machine["issue_width"] > WIDEST or machine["width"] > WIDEST:
        out.append(f"gem5's stages are at most {WIDEST} wide")
    return out
