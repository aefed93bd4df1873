"""What each instruction costs on a processor: µops, latency, ports.

    table = InstructionTable.load("zen4")
    table["add r64, m64"]                    # Entry(uops=1, latency=1.0, uses=((15, 1.0),))
    ops = table.rows(trace.statics, "x86")   # arrays for the simulated core
    table.coverage(trace.statics, "x86")     # what share has an entry, and what has none

A table is a file of ``tables/`` made from one of LLVM's scheduling models (llvm_tables.py), under
the entries of ``own_entries.json``, which LLVM has not or has wrongly.  What `calibrate` measures
goes over both (`InstructionTable.override`); ``measured_znver5.json`` is such a measurement, since
LLVM 19 has no model of Zen 5.

The file has ``ports`` (names; bit i of a set of ports is the i-th), ``memory`` (which of them loads
and stores use, and how many bytes one moves) and ``classes``: slots, latency from registers, a list
of (set of ports, cycles that one of them is occupied), and the forms for which that holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from tracekit.errors import FormatError, UsageError
from tracekit.hardware.entries import Entry, Measured, MemoryPorts
from tracekit.hardware.hardware_ops import Coverage, HardwareOps, coverage, hardware_ops
from tracekit.hardware.measured_entries import measured_entries
from tracekit.hardware.nearest_form import nearest_form
from tracekit.io.files import read_json
from tracekit.text import shown

__all__ = ["Entry", "InstructionTable", "Measured", "MemoryPorts", "sampled_forms", "table_names"]

_FOLDER: Final = Path(__file__).parent / "tables"
_FORMAT: Final = 1
_MOST_PORTS: Final = 32


def table_names() -> list[str]:
    """The tables that ship."""
    names = (p.stem for p in _FOLDER.glob("*.json"))
    return sorted(n for n in names if not n.startswith(("samples_", "measured_")))


def sampled_forms(isa: str) -> list[str]:
    """Forms of this instruction set of which there is machine code, in a table or not."""
    return list(read_json(_FOLDER / f"samples_{isa}.json"))


@dataclass(frozen=True)
class InstructionTable:
    """A processor's instructions; see the module.

    ``width``: slots that renaming takes a cycle; ``entries``: form -> `Entry`; ``measured``: forms
    whose entry calibration has replaced.
    """

    name: str
    isa: str
    family: str
    source: str
    width: int
    ports: tuple[str, ...]
    memory: MemoryPorts
    entries: Mapping[str, Entry] = field(repr=False)
    measured: frozenset[str] = frozenset()

    @classmethod
    def load(cls, name: str) -> InstructionTable:
        """The table of that name; `UsageError` for another."""
        names = table_names()
        if name not in names:
            raise UsageError(
                f"no instruction table {shown(name)}", hint=f"one of {', '.join(names)}"
            )
        return _load(name)

    def __getitem__(self, form: str) -> Entry:
        return self.entries[form]

    def __contains__(self, form: object) -> bool:
        return form in self.entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def throughput(self, form: str) -> float:
        """Cycles that an instruction of this form takes of the ports at least, if it is repeated
        and nothing depends on anything (loads and stores included, slots not)."""
        entry = self.entries[form]
        cycles = [c / mask.bit_count() for mask, c in entry.uses]
        return max(cycles, default=0.0)

    def override(self, measured: Mapping[str, Measured]) -> InstructionTable:
        """A table with measured latencies and throughputs in place of its own.

        A form that the table has not gets the ports of its nearest.  Ports stay; how long one is
        occupied follows from the throughput, on fewer ports where it says that fewer take it.
        Forms that were not measured, but have the entry of some that were, change with these where
        they agree (`tracekit.hardware.measured_entries`).
        """
        nearest = {f: nearest_form(f, self.entries, self.isa) for f in measured}
        entries = measured_entries(self, nearest, measured)
        return replace(self, entries=entries, measured=self.measured | frozenset(measured))

    def rows(self, statics: Any, isa: str) -> HardwareOps:
        """What the simulated core needs of each static instruction (`HardwareOps`)."""
        return hardware_ops(self, statics, isa)

    def coverage(self, statics: Any, isa: str) -> Coverage:
        """Which share of the executed instructions has an entry of its own (`Coverage`)."""
        return coverage(self, statics, isa)


@cache
def _load(name: str) -> InstructionTable:
    path = _FOLDER / f"{name}.json"
    data = read_json(path)
    if data["format"] != _FORMAT:
        raise FormatError(f"format {data['format']}, not {_FORMAT}", path=str(path))
    ports: tuple[str, ...] = tuple(data["ports"])
    if len(ports) > _MOST_PORTS:
        raise FormatError(f"more than {_MOST_PORTS} ports", path=str(path))
    entries: dict[str, Entry] = {}
    for uops, latency, uses, forms in data["classes"]:
        entry = Entry(uops, latency, tuple((m, c) for m, c in uses))
        entries.update(dict.fromkeys(forms.split("; "), entry))
    entries.update(_own_entries(data["family"], data["isa"], ports, entries))
    memory = {
        k: v if isinstance(v, int) else sum(1 << ports.index(p) for p in v)
        for k, v in data["memory"].items()
    }
    table = InstructionTable(
        name,
        data["isa"],
        data["family"],
        data["source"],
        data["width"],
        ports,
        MemoryPorts(**memory),
        entries,
    )
    path = _FOLDER / f"measured_{name}.json"
    if not path.exists():
        return table
    data = read_json(path)
    found = {f: Measured(latency, throughput) for f, (latency, throughput) in data["forms"].items()}
    return replace(table.override(found), source=f"{table.source}; {data['source']}")


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))))


def _own_entries(
    family: str, isa: str, ports: tuple[str, ...], entries: Mapping[str, Entry]
) -> dict[str, Entry]:
    """Entries of our own for this family: those that name a form, and those whose pattern fits one
    that the table or the samples have; the first that fits holds."""
    own: dict[str, Entry] = {}
    samples = read_json(_FOLDER / f"samples_{isa}.json")
    for item in read_json(_FOLDER.parent / "own_entries.json"):
        if item["isa"] != isa or not any(_pattern(f).fullmatch(family) for f in item["families"]):
            continue
        uses = tuple(
            (
                sum(
                    1 << i
                    for i, p in enumerate(ports)
                    if any(_pattern(g).fullmatch(p) for g in names.split())
                ),
                c,
            )
            for names, c in item["uses"]
        )
        entry = Entry(item["uops"], item["latency"], tuple(u for u in uses if u[0]))
        for text in item["forms"]:
            if "*" not in text:
                own.setdefault(text, entry)
                continue
            pattern = _pattern(text)
            for form in (*entries, *samples):
                if pattern.fullmatch(form):
                    own.setdefault(form, entry)
    return own
