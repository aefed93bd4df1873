"""A machine as one object: typed, validated, and named.

The fields of `Machine` and the keys of `Changes` are the parameters of sim/parameters.py, whose
table has each one's unit, range and meaning (``tracekit machines --parameters`` prints it); a test
keeps the three equal.
"""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from tracekit.entry_points import EntryPointWarning
from tracekit.errors import FormatError, UsageError
from tracekit.sim.gem5_config import gem5_machine
from tracekit.sim.machine import load_machine
from tracekit.sim.other_machines import other_machines
from tracekit.sim.parameters import MACHINE_PARAMETERS, joined, machine_errors, suggestion
from tracekit.text import html_table

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from tracekit.store.reader import TraceFile

_NAMES = "`tracekit machines` lists the names; real processors are machines of another kind"

__all__ = [
    "Changes",
    "Machine",
    "MachineLike",
    "is_machine_name",
    "machine_list",
    "machines",
    "one_machine",
    "summary_of",
]


class Changes(TypedDict, total=False):
    """Parameters that `Machine.replace` takes."""

    name: str
    cpu: str
    clock_ghz: float
    width: int
    issue_width: int
    rob: int
    iq: int
    lq: int
    sq: int
    phys_int: int
    phys_float: int
    phys_vec: int
    fetch_buffer: int
    fetch_queue: int
    front_delay: int
    decode_to_rename: int
    rename_to_iew: int
    issue_to_exec: int
    int_alu: int
    int_mul: int
    int_mul_lat: int
    int_div_lat: int
    fp: int
    fp_add_lat: int
    fp_mul_lat: int
    fp_div_lat: int
    fp_misc_lat: int
    simd: int
    load_ports: int
    store_ports: int
    agu_lat: int
    bp: str
    btb: int
    ras: int
    l1i_kb: int
    l1i_assoc: int
    l1i_lat: int
    l1d_kb: int
    l1d_assoc: int
    l1d_lat: int
    l1d_mshrs: int
    l1d_targets: int
    l1d_response: int
    l1d_pf: str
    l2_kb: int
    l2_assoc: int
    l2_lat: int
    l2_mshrs: int
    l2_response: int
    l2_pf: str
    l3_kb: int
    l3_assoc: int
    l3_lat: int
    l3_response: int
    taken_redirects: int
    tso: int
    mem: str
    l1d_replacement: str
    l2_replacement: str
    l3_replacement: str
    ideal_branches: int
    ideal_l1i: int
    ideal_l1d: int
    ideal_l2: int
    ideal_memory_latency: int
    ideal_memory_bandwidth: int
    ideal_memory_order: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Machine:
    """One machine that tracekit can simulate: a core, its caches and its memory.

    Each attribute is a parameter of gem5's O3 or Minor CPU, with gem5's meaning; the page
    docs/machine-parameters.md lists each with unit, range and gem5's name.  ``phys_float`` may
    be None for machines that no X86 trace is to run on; ``decode_to_rename``, ``rename_to_iew``,
    ``fp_misc_lat``, ``l1d_targets``, ``l1d_response``, ``l2_response``, ``l3_response``,
    ``taken_redirects`` and ``tso`` follow from the trace's instruction set where they are None.
    A machine cannot be changed: `replace` makes another.

    Raises `UsageError`, which names everything that is wrong, where a value is out of range.

    >>> from tracekit import Machine
    >>> machine = Machine.load("u007")
    >>> machine
    u007: 4-wide, ROB 192, 3.5 GHz, DDR4
    >>> machine.replace(name="large", rob=512).rob
    512
    """

    name: str = "machine"
    cpu: str = "o3"
    clock_ghz: float
    width: int
    issue_width: int
    rob: int
    iq: int
    lq: int
    sq: int
    phys_int: int
    phys_float: int | None = None
    phys_vec: int
    fetch_buffer: int
    fetch_queue: int
    front_delay: int
    decode_to_rename: int | None = None
    rename_to_iew: int | None = None
    issue_to_exec: int
    int_alu: int
    int_mul: int
    int_mul_lat: int
    int_div_lat: int
    fp: int
    fp_add_lat: int
    fp_mul_lat: int
    fp_div_lat: int
    fp_misc_lat: int | None = None
    simd: int
    load_ports: int
    store_ports: int
    agu_lat: int
    bp: str
    btb: int
    ras: int = 16
    l1i_kb: int
    l1i_assoc: int
    l1i_lat: int
    l1d_kb: int
    l1d_assoc: int
    l1d_lat: int
    l1d_mshrs: int
    l1d_targets: int | None = None
    l1d_response: int | None = None
    l1d_pf: str
    l2_kb: int
    l2_assoc: int
    l2_lat: int
    l2_mshrs: int
    l2_response: int | None = None
    l2_pf: str
    l3_kb: int
    l3_assoc: int
    l3_lat: int
    l3_response: int | None = None
    taken_redirects: int | None = None
    tso: int | None = None
    mem: str
    l1d_replacement: str = "lru"
    l2_replacement: str = "lru"
    l3_replacement: str = "lru"
    ideal_branches: int = 0
    ideal_l1i: int = 0
    ideal_l1d: int = 0
    ideal_l2: int = 0
    ideal_memory_latency: int = 0
    ideal_memory_bandwidth: int = 0
    ideal_memory_order: int = 0

    def __post_init__(self) -> None:
        given = self.to_dict()
        if errors := machine_errors(given):
            raise UsageError(f"{self.name}: {joined(errors)}")
        for p in MACHINE_PARAMETERS:
            if p.type is not str and p.name in given:  # 64.0 is 64
                object.__setattr__(self, p.name, p.type(given[p.name]))

    @classmethod
    def load(cls, what: str | os.PathLike[str]) -> Self:
        """The machine of that name (one of `tracekit.machines`), or from a file: a machine's JSON,
        or the config.ini or config.json of a gem5 run.  A file comes before a name that another
        package brings.

        Raises `UsageError` where there is neither, and `FormatError` with all that is wrong with
        the file.

        >>> from tracekit import Machine
        >>> Machine.load("ns_rob").rob
        384
        """
        if isinstance(what, str) and (known := _table().get(what)) is not None:
            return cls.from_dict(known)
        if not Path(what).exists():
            name = os.fspath(what)
            others, failed = other_machines()
            if name in others:
                return cls.from_dict(others[name])
            raise UsageError(
                f"{name}: no machine has this name, and no file"
                f"{suggestion(name, {**_table(), **others})}",
                hint="; ".join([_NAMES, *map(str, failed)]),
            )
        return cls.from_dict(load_machine(Path(what)))

    @classmethod
    def from_gem5(
        cls,
        path: str | os.PathLike[str],
        *,
        cpu: str | None = None,
        notes: list[str] | None = None,
    ) -> Self:
        """The machine that a gem5 run simulated.

        Args:
            path: the run's config.ini or config.json, under any name.
            cpu: one of several CPUs, by its path in gem5, as ``system.cpu1``; the first unless
                given.
            notes: gets a line for each parameter of the run that has no counterpart here, or that
                is simulated by another value.

        Raises:
            FormatError: no such file, no O3 or Minor CPU with classic caches, or values out of
                range, all of them.
        """
        parameters, told = gem5_machine(Path(path), cpu)
        if notes is not None:
            notes += told
        if errors := machine_errors(parameters):
            raise FormatError(joined(errors), path=str(path))
        return cls.from_dict(parameters)

    @classmethod
    def of(cls, trace: TraceFile) -> Self | None:
        """The machine that a trace was made on, where it says so: traces of the gem5 plug-in do.

        Raises `FormatError` where what it says is no machine, `UsageError` where ``trace`` is no
        open trace.
        """
        if not isinstance(getattr(trace, "index", None), dict):
            raise UsageError(
                f"{trace!r:.60} is no open trace",
                hint="Machine.load reads a name or a file",
            )
        known = trace.index["source"].get("machine")
        if known is None:
            return None
        if not isinstance(known, dict) or (errors := machine_errors(known)):
            what = joined(errors) if isinstance(known, dict) else "no object"
            raise FormatError(f"the machine of the trace: {what}", path=trace.path)
        return cls.from_dict(known)

    @classmethod
    def from_dict(cls, parameters: Mapping[str, object]) -> Self:
        """The machine with these parameters, as `to_dict` gives them.

        Raises `UsageError` that names all that are missing, unknown or out of range.
        """
        if errors := machine_errors(dict(parameters)):
            raise UsageError(f"{parameters.get('name', 'machine')}: {joined(errors)}")
        return cls(**parameters)  # type: ignore[arg-type]  # checked by the table

    def replace(self, **changes: Unpack[Changes]) -> Self:
        """The same machine with other values of some parameters.

        Raises `UsageError` for a parameter that there is not, or a value out of range.

        >>> from tracekit import Machine
        >>> Machine.load("u007").replace(clock_ghz=2.0, name="slower")
        slower: 4-wide, ROB 192, 2 GHz, DDR4
        """
        return self.from_dict({**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, int | float | str]:
        """Every parameter by its name, as a machine's JSON file holds them."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: v for k, v in values.items() if v is not None}

    @property
    def summary(self) -> str:
        """What a core is known by: width, reorder buffer, clock and memory."""
        return summary_of(self.to_dict())

    @property
    def period_ps(self) -> int:
        """The clock's period in picoseconds, rounded as gem5 rounds it."""
        return round(1000 / self.clock_ghz)

    def __repr__(self) -> str:
        name = self.name if self.name.isprintable() else ascii(self.name)[1:-1]
        return f"{name}: {self.summary}"

    def _repr_html_(self) -> str:
        """For notebooks: a table of the parameters."""
        values = self.to_dict()
        rows = [
            (p.name, f"{values[p.name]} {p.unit}", p.meaning)
            for p in MACHINE_PARAMETERS
            if p.name in values and p.name != "name"
        ]
        return html_table(repr(self), rows)


def summary_of(parameters: Mapping[str, object]) -> str:
    """`Machine.summary` of what is known of a machine; "" where it is not enough."""
    p = parameters
    if any(k not in p for k in ("width", "rob", "clock_ghz", "mem")):
        return ""
    kind = f"ROB {p['rob']}" if p.get("cpu", "o3") == "o3" else "in order"
    memory = str(p["mem"]).split("_")[0]
    return f"{p['width']}-wide, {kind}, {p['clock_ghz']:g} GHz, {memory}"


#: What names or describes a machine: itself, a known name, or a JSON file.
MachineLike = Machine | str | os.PathLike[str]


def one_machine(what: MachineLike) -> Machine:
    """The machine that ``what`` is, names, or has the file of."""
    return what if isinstance(what, Machine) else Machine.load(what)


def is_machine_name(what: object) -> bool:
    """Whether it is the name of a machine that comes with tracekit: `Machine.load` takes no file
    for it."""
    return isinstance(what, str) and what in _table()


def machine_list(given: Any, kinds: tuple[type, ...] = (Machine,)) -> list[Any]:
    """One machine or several as a list: of these ``kinds``, names and files.

    Raises `UsageError` for what is none, such as a mapping of parameters, whose keys are no names.
    """
    one = (*kinds, str, os.PathLike)
    several = isinstance(given, Iterable) and not isinstance(given, (Mapping, *one))
    out = list(given) if several else [given]
    for m in out:
        if not isinstance(m, one):
            raise UsageError(
                f"machines: {m!r:.60} is no machine, name or file",
                hint="Machine.from_dict makes a machine of all parameters, "
                "Machine.load(NAME).replace of some",
            )
    return out


@functools.cache
def _table() -> dict[str, dict[str, int | float | str]]:
    """Parameters by name.  known_machines.json has those of the shipped models' cards."""
    data = json.loads((Path(__file__).parent / "known_machines.json").read_text("utf-8"))
    return {str(m["name"]): m for m in data}


def named_or_file(what: str, folder: Path) -> dict[str, Any]:
    """The parameters of the machine in a file, by its path from ``folder``, or else of that name.

    Raises `FormatError` with all that is wrong with the file, `UsageError` where there is neither.
    """
    file = folder / what
    return load_machine(file) if file.exists() else dict(Machine.load(what).to_dict())


def machines() -> dict[str, Machine]:
    """The machines that are known by name, in the order of their names.

    They are those that the shipped models were trained on, simulated by gem5; a name means the
    same machine for every instruction set.  Those of other packages (docs/entry-points.md) come
    last; a package whose machines cannot be used is an `EntryPointWarning`.

    >>> import tracekit
    >>> tracekit.machines()["o3_small"]
    o3_small: 2-wide, ROB 40, 1.5 GHz, LPDDR3
    """
    others, failed = other_machines()
    for error in failed:
        warnings.warn(str(error), EntryPointWarning, stacklevel=2)
    known = {**dict(sorted(_table().items())), **others}
    return {name: Machine.from_dict(m) for name, m in known.items()}
