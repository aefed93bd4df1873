"""The model of the preset ``default``: reference cores and a non-negative table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError
from tracekit.model import Card, ModelSpec, load_card, load_tensors, save_model
from tracekit.reference import core_row, totals
from tracekit.store.reader import TraceFile

__all__ = ["FEATURE_SET", "PerfVec", "default_model_path", "load_model"]

#: Name of the columns' schema in the card; the number changes when a reference core counts
#: differently.
FEATURE_SET = "reference-cores-3"
F64 = npt.NDArray[np.float64]


@dataclass
class PerfVec:
    """``cores``: the parameters of each reference core (one number of the representation each);
    ``machines``: what is known of each machine, name first; ``table`` float64 [machines, cores], >=
    0."""

    cores: list[dict[str, Any]]
    machines: list[dict[str, Any]]
    table: F64
    training: dict[str, Any]
    arch: str = ""
    level: str = "micro"

    def __post_init__(self) -> None:
        if self.table.shape != (len(self.machines), len(self.cores)):
            raise UsageError(
                f"table is {self.table.shape} for {len(self.machines)} machines and "
                f"{len(self.cores)} cores"
            )
        if not np.isfinite(self.table).all() or (self.table < 0).any():
            raise UsageError("the table has an entry that is negative or not a number")

    @property
    def names(self) -> tuple[str, ...]:
        """The machines' names."""
        return tuple(str(m["name"]) for m in self.machines)

    def index(self, names: Sequence[str]) -> list[int]:
        """Rows of the table by machine; UsageError names one that is not known."""
        known = {n: i for i, n in enumerate(self.names)}
        if missing := [n for n in names if n not in known]:
            raise UsageError(
                f"machine {', '.join(missing)} is not in the model",
                hint=f"known: {', '.join(self.names)}; tracekit tune learns a new one",
            )
        return [known[n] for n in names]

    def only(self, names: Sequence[str]) -> PerfVec:
        """The model of these machines alone, with the cores that they use."""
        rows = self.index(names)
        table = self.table[rows]
        used = np.flatnonzero(table.any(axis=0))
        if not len(used):
            used = np.arange(1)
        return PerfVec(
            [self.cores[i] for i in used],
            [self.machines[i] for i in rows],
            table[:, used],
            self.training,
            self.arch,
            self.level,
        )

    def represent(
        self,
        trace: TraceFile,
        breaks: npt.NDArray[np.int64] | None = None,
        threads: int | None = None,
    ) -> F64:
        """Representations of the ranges between ``breaks``: float64 [ranges, cores], summed over
        rows."""
        check_trace(self, trace)
        return totals(trace, self.cores, breaks, threads)

    def cycles(self, representation: F64) -> F64:
        """Predicted cycles, [ranges, machines]: one product, since everything is linear in the
        sums."""
        return np.asarray(representation @ self.table.T)

    def seconds(self, representation: F64) -> F64:
        """Predicted seconds, NaN for machines whose clock is not known."""
        periods = np.array([period(m) for m in self.machines])
        return np.asarray(self.cycles(representation) * periods)

    def card(self, name: str, preset: str = "default") -> Card:
        """What is written beside the table; the engine of tracekit.infer runs it too."""
        columns = tuple(str(c["name"]) for c in self.cores)
        spec = ModelSpec.parse(
            {
                "inputs": [{"column": c, "transform": "value"} for c in columns],
                "layers": [],
                "heads": [
                    {
                        "name": "time",
                        "targets": True,
                        "layers": [
                            {
                                "type": "linear",
                                "name": "table",
                                "out": len(self.machines),
                                "bias": False,
                            }
                        ],
                    }
                ],
            }
        )
        machines = [{"name": m["name"], "parameters": m} for m in self.machines]
        extra = {"reference_cores": self.cores, "arch": self.arch}
        return Card(
            name=name,
            spec=spec,
            columns=columns,
            feature_set=FEATURE_SET,
            level=self.level,
            preset=preset,
            microarchitectures=machines,
            training=self.training,
            extra=extra,
        )

    def save(self, folder: str | Path, name: str, golden: F64 | None = None) -> None:
        """Write the folder; ``golden``: rows of the representation to check the model by on
        loading."""
        rows = np.eye(len(self.cores)) if golden is None else golden
        held = rows.astype(np.float32)
        table = self.table.astype(np.float32)
        save_model(
            folder,
            self.card(name),
            {"table.weight": table},
            {"input": held, "representation": held, "head.time": held @ table.T},
        )


def period(machine: Mapping[str, Any]) -> float:
    """Seconds of a clock period, NaN where the clock is not known.  gem5 rounds it to
    picoseconds."""
    clock = machine.get("clock_ghz")
    return (
        round(1000 / clock) * 1e-12
        if isinstance(clock, int | float) and clock > 0
        else float("nan")
    )


def check_arch(arch: str, trace: TraceFile) -> None:
    """A model of another instruction set is refused."""
    found = str(trace.index.get("arch", ""))
    if arch and found and arch != found:
        raise UsageError(
            f"the features are of {found}, the model of {arch}",
            path=trace.path,
            hint="give --model",
        )


def check_trace(model: PerfVec, trace: TraceFile) -> None:
    """Features of another instruction set, or of another level, are refused."""
    check_arch(model.arch, trace)
    level = str(trace.index.get("level", "micro"))
    if model.arch == "x86" and level != model.level:
        raise UsageError(
            f"the features are of the {level} level, the model of the {model.level} level",
            path=trace.path,
            hint=f"extract with --level {model.level}",
        )


_SHIPPED = {"arm": "default_arm", "x86": "default_x86"}


def default_model_path(arch: str = "arm") -> Path:
    """The folder of the model that ships with the package for an instruction set."""
    if arch not in _SHIPPED:
        raise UsageError(
            f"no model of {arch or 'an unknown instruction set'} ships with tracekit",
            hint="give --model; tracekit train makes one",
        )
    return Path(__file__).parent / _SHIPPED[arch]


def load_model(folder: str | Path | None = None, arch: str = "arm") -> PerfVec:
    """Load a model folder (the shipped one of ``arch`` unless given), checked by its golden
    rows."""
    folder = default_model_path(arch) if folder is None else Path(folder)
    card = load_card(folder)
    if card.feature_set != FEATURE_SET:
        raise UsageError(
            f"the model's features are {card.feature_set!r}, not {FEATURE_SET!r}",
            path=str(folder),
            hint="models of other presets run with tracekit.infer",
        )
    cores = card.extra.get("reference_cores")
    if not isinstance(cores, list) or not all(isinstance(c, dict) for c in cores):
        raise FormatError("reference_cores is not a list of machines", path=str(folder))
    names = tuple(str(c.get("name")) for c in cores)
    for i, (column, name) in enumerate(zip(card.columns, names, strict=False)):
        if column != name:
            raise FormatError(f"column {i} is {column!r}, its core is {name!r}", path=str(folder))
    if len(names) != len(card.columns):
        raise FormatError(f"{len(card.columns)} columns, {len(names)} cores", path=str(folder))
    for core in cores:
        core_row(
            core, str(card.extra.get("arch", ""))
        )  # every parameter is checked before the first trace is read
    machines = [
        {**(m.get("parameters") or {}), "name": str(m.get("name"))} for m in card.microarchitectures
    ]
    tensors = load_tensors(folder, card)
    model = PerfVec(
        cores,
        machines,
        tensors["table.weight"].astype(np.float64),
        card.training,
        str(card.extra.get("arch", "")),
        card.level or "micro",
    )
    _check_golden(folder, card, model)
    return model


def _check_golden(folder: Path, card: Card, model: PerfVec) -> None:
    from tracekit.model.card import load_file

    if "golden.safetensors" not in card.files:
        return
    golden = load_file(folder, card, "golden.safetensors")
    found = model.cycles(golden["input"].astype(np.float64))
    if not np.allclose(found, golden["head.time"], rtol=1e-4, atol=1e-3):
        raise FormatError("the model does not give its golden outputs", path=str(folder))
