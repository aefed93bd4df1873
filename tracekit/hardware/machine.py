"""A real processor as one object: typed, validated, and named."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tracekit.errors import FormatError, UsageError
from tracekit.hardware.parameters import HARDWARE_PARAMETERS, hardware_errors
from tracekit.hardware.table_errors import table_errors
from tracekit.io.files import read_json
from tracekit.sim import Machine
from tracekit.text import html_table

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "HardwareMachine",
    "Scheduler",
    "hardware_machines",
    "is_hardware_file",
    "is_hardware_name",
    "machine_of_dict",
]


@dataclass(frozen=True)
class Scheduler:
    """One of a core's schedulers: ``entries`` micro-ops wait in it for one of ``ports``, which are
    names of the instruction table's ports or patterns of them (``alu*``)."""

    entries: int
    ports: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class HardwareMachine:
    """One real processor: what each instruction costs, a core, its caches and its memory.

    Each number is a parameter of `HARDWARE_PARAMETERS`, which has its unit, range and meaning
    (``tracekit machines --parameters``).  ``table`` names the instruction table; ``measured`` has
    forms whose latency and reciprocal throughput (cycles) were measured on this computer, and
    replace the table's.  ``calibration``: every value that ``tracekit calibrate`` measured, those
    that are no parameters, too, or None.  ``fitted``: what ``tracekit validate --fit`` made of a
    few programs' times, whose ``factor`` multiplies all cycles, or None.  ``checked``: what
    ``tracekit validate`` found on the processor itself, or None.  ``sources``: where the numbers
    are from.

    Raises `UsageError`, which names everything that is wrong.

    >>> from tracekit.hardware import HardwareMachine
    >>> HardwareMachine.load("zen5").rob
    448
    """

    name: str
    isa: str
    table: str
    predictor: str
    schedulers: tuple[Scheduler, ...]
    cpu: str = ""
    clock_ghz: float
    fetch_bytes: int
    decode_width: int
    op_cache_ops: int
    op_cache_width: int
    op_cache_entry: int = 8
    op_cache_more: float = 0
    op_cache_entry_cycles: float = 0
    next_line_cycles: float = 0.5
    op_queue: int
    fetch_ahead: int
    taken_per_cycle: float = 1.0
    microcode_stall: int = 2
    mispredict_penalty: float
    decode_resteer: float
    btb_l1: int
    btb_l2: int = 0
    btb_l2_penalty: float = 0
    return_stack: int
    indirect_entries: int
    indirect_history: int = 54
    indirect_penalty: float = 0
    indirect_cycles: float = 0
    return_penalty: float = 0
    width: int
    retire_width: int
    rob: int
    load_queue: int
    store_queue: int
    int_registers: int
    vector_registers: int
    wakeup_cycles: float = 0
    add_forward: float = 0
    store_commits: int = 1
    store_lines: int = 1
    store_block: int = 64
    load_latency: float
    vector_load_latency: float
    indexed_latency: float = 0
    scaled_latency: float = 0
    forward_latency: float
    vector_forward_latency: float
    forward_fail: float
    memory_renaming: int = 0
    rename_stores: int = 16
    rename_loads: int = 0
    order_clear: float
    line_split: float = 1
    page_split: float
    store_split: float = 1
    alias_penalty: float = 0
    rep_bytes: float = 32
    rep_startup: float = 20
    locked_latency: float = 18
    l1i_kb: int
    l1i_ways: int
    l1d_kb: int
    l1d_ways: int
    l1d_misses: int
    l2_kb: int
    l2_ways: int
    l2_latency: float
    l2_bytes: float
    l2_misses: int
    l3_kb: int
    l3_ways: int = 16
    l3_latency: float = 50
    l3_bytes: float = 16
    l3_victim: int = 0
    memory_ns: float
    memory_gb_s: float
    itlb: int = 64
    dtlb: int
    tlb_l2: int
    tlb_l2_latency: float
    page_walk: float
    page_walkers: int = 1
    page_kb: int = 4
    l1_next_line: int = 0
    l1_stream: int = 0
    l1_stride: int = 0
    l1_region: int = 0
    l2_next_line: int = 0
    l2_stream: int = 0
    prefetch_page_cross: int = 0
    measured: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    calibration: Mapping[str, float] | None = None
    fitted: Mapping[str, object] | None = None
    checked: Mapping[str, object] | None = None
    sources: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = self.to_dict()
        if errors := hardware_errors(given):
            raise UsageError(f"{self.name}: {_joined(errors)}")
        for p in HARDWARE_PARAMETERS:
            object.__setattr__(self, p.name, p.type(getattr(self, p.name)))
        object.__setattr__(self, "measured", MappingProxyType(dict(self.measured)))
        object.__setattr__(self, "notes", tuple(self.notes))

    def __reduce__(self) -> tuple[Callable[[dict[str, object]], HardwareMachine], tuple[object]]:
        return type(self).from_dict, (self.to_dict(),)

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    @classmethod
    def load(cls, what: str | os.PathLike[str]) -> Self:
        """The machine of that name (one of `hardware_machines`), or of a JSON file.

        Raises `UsageError` where there is neither, and `FormatError` with all that is wrong with
        the file, by itself and beside the instruction table that it names.
        """
        if isinstance(what, str) and (known := _table().get(what)) is not None:
            return cls._made(known)
        if not Path(what).exists():
            raise UsageError(
                f"{os.fspath(what)}: no real processor has this name, and no file",
                hint=f"one of {', '.join(_table())}, or a file of `tracekit calibrate`",
            )
        data = read_json(Path(what))
        if not isinstance(data, dict):
            raise FormatError("a machine is a JSON object", path=os.fspath(what))
        data = {"name": Path(what).stem, **data}
        data.pop("schema", None)  # of what `tracekit machines NAME --json` printed
        if errors := _errors(data):
            raise FormatError(_joined(errors), path=os.fspath(what))
        return cls._made(data)

    @classmethod
    def from_dict(cls, parameters: Mapping[str, object]) -> Self:
        """The machine that `to_dict` gave.  Raises `UsageError` that names all that is wrong, by
        itself and beside the instruction table that it names."""
        if errors := _errors(parameters):
            raise UsageError(f"{parameters.get('name', 'machine')}: {_joined(errors)}")
        return cls._made(parameters)

    @classmethod
    def _made(cls, parameters: Mapping[str, object]) -> Self:
        """The machine of what was checked, or is ours."""
        given: dict[str, Any] = {k: v for k, v in parameters.items() if k != "kind"}
        given["schedulers"] = tuple(
            Scheduler(s["entries"], tuple(s["ports"])) for s in given["schedulers"]
        )
        return cls(**given)

    def replace(self, **changes: object) -> Self:
        """The same machine with other values of some parameters.

        Raises `UsageError` for a parameter that there is not, or a value out of range.
        """
        return self.from_dict({**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, object]:
        """Everything, as a machine's JSON file holds it."""
        out: dict[str, object] = {"kind": "hardware"}
        for f in fields(self):
            value: Any = getattr(self, f.name)
            if f.name == "schedulers":
                value = [{"entries": s.entries, "ports": list(s.ports)} for s in value]
            elif f.name in ("measured", "calibration", "fitted", "checked") and value is not None:
                value = dict(value)
            elif f.name == "notes":
                value = list(value)
            out[f.name] = value
        return out

    @property
    def summary(self) -> str:
        """What a core is known by: width, reorder buffer, clock, caches."""
        third = f", L3 {round(self.l3_kb / 1024, 2):g} MB" if self.l3_kb else ""
        return (
            f"{self.width}-wide, ROB {self.rob}, {self.clock_ghz:.3g} GHz, L1D {self.l1d_kb} kB, "
            f"L2 {self.l2_kb} kB{third}"
        )

    @property
    def period_ps(self) -> float:
        """The clock's period in picoseconds."""
        return 1000 / self.clock_ghz

    @property
    def factor(self) -> float:
        """What cycles are multiplied by: 1 where nothing was fitted."""
        return 1.0 if self.fitted is None else float(str(self.fitted["factor"]))

    @property
    def checked_on_hardware(self) -> str:
        """``yes, within 12 %`` (the mean error that ``tracekit validate`` found), or ``never``."""
        error = None if self.checked is None else self.checked.get("mean")
        return "never" if error is None else f"yes, within {100 * float(str(error)):.0f} %"

    def __repr__(self) -> str:
        name = self.name if self.name.isprintable() else ascii(self.name)[1:-1]
        return f"{name}: {self.summary}"

    def _repr_html_(self) -> str:
        """For notebooks: a table of the parameters."""
        rows = [
            (p.name, f"{getattr(self, p.name)} {p.unit}", p.meaning) for p in HARDWARE_PARAMETERS
        ]
        return html_table(repr(self), rows)


def _errors(parameters: Mapping[str, Any]) -> list[str]:
    """All that is wrong with a machine by itself, else beside its instruction table."""
    if errors := hardware_errors(parameters):
        return errors
    patterns = [p for s in parameters["schedulers"] for p in s["ports"]]
    measured = parameters.get("measured", {})
    return table_errors(parameters["table"], parameters["isa"], patterns, measured)


def _joined(errors: list[str]) -> str:
    return "; ".join(errors[:60])


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    data = json.loads((Path(__file__).parent / "known_machines.json").read_text("utf-8"))
    return {str(m["name"]): m for m in data}


def hardware_machines() -> dict[str, HardwareMachine]:
    """The real processors that are known by name, in the order of their names: published
    parameters, with their sources."""
    return {name: HardwareMachine._made(m) for name, m in sorted(_table().items())}


def machine_of_dict(parameters: Mapping[str, object]) -> Machine | HardwareMachine:
    """The machine of either kind that ``to_dict`` gave."""
    if parameters.get("kind") == "hardware":
        return HardwareMachine.from_dict(parameters)
    return Machine.from_dict(parameters)


def is_hardware_name(what: object) -> bool:
    """Whether it is the name of one of `hardware_machines`."""
    return isinstance(what, str) and what in _table()


def is_hardware_file(path: str | os.PathLike[str]) -> bool:
    """Whether this file's JSON says that it is a real processor's."""
    if not Path(path).is_file():
        return False
    try:
        data = read_json(Path(path))
    except FormatError:
        return False
    return isinstance(data, dict) and data.get("kind") == "hardware"
