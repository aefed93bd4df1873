"""The model of the preset ``default``: simulated cores and a non-negative table."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError
from tracekit.io.json_types import Json
from tracekit.mixture.residuals import RESIDUALS, Residuals
from tracekit.mixture.survivors import Survivors
from tracekit.model import Card, ModelSpec, load_card, load_tensors, save_model
from tracekit.sim import check_known, check_machines, totals
from tracekit.sim.clock import period
from tracekit.sim.description import summary_of
from tracekit.sim.parameters import joined, machine_errors, suggestion
from tracekit.store.instruction_set import check_arch
from tracekit.store.reader import TraceFile
from tracekit.text import counted, html_table

__all__ = ["FEATURE_SET", "Mixture", "default_model_path", "load_model"]

#: Name of the columns' schema in the card; the number changes when a core counts
#: differently.
FEATURE_SET = "simulated-cores-6"
F64 = npt.NDArray[np.float64]


@dataclass(repr=False)
class Mixture:
    """A learned mixture over simulated cores, which predicts times on machines.

    ``cores``: the parameters of each core (one number of the representation each);
    ``machines``: what is known of each machine, name first; ``table`` float64 [machines, cores], >=
    0.  ``residuals``: what model intervals are made of; None where the folder has none.
    ``survivors``: of tuned machines of unknown parameters (survivors.py)."""

    cores: list[dict[str, Json]]
    machines: list[dict[str, Json]]
    table: F64
    training: dict[str, Json]
    arch: str = ""
    level: str = "micro"
    residuals: Residuals | None = None
    survivors: dict[str, Survivors] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.table.shape != (len(self.machines), len(self.cores)):
            raise UsageError(
                f"table is {self.table.shape} for {len(self.machines)} machines and "
                f"{len(self.cores)} cores"
            )
        if not np.isfinite(self.table).all() or (self.table < 0).any():
            raise UsageError("the table has an entry that is negative or not a number")

    def __repr__(self) -> str:
        arch = self.arch or "any ISA"
        return (
            f"mixture for {arch} ({self.level}): {counted(len(self.machines), 'machine')}, "
            f"{counted(len(self.cores), 'simulated core')}"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the machines."""
        rows = [(str(m["name"]), summary_of(m)) for m in self.machines]
        return html_table(repr(self), rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The machines' names."""
        return tuple(str(m["name"]) for m in self.machines)

    def index(self, names: Sequence[str]) -> list[int]:
        """Rows of the table by machine; UsageError names one that is not known."""
        if not names:
            raise UsageError("no machine is named", hint=f"known: {', '.join(self.names)}")
        if isinstance(names, str):  # its letters would be the names
            raise UsageError(f"machines is {names!r}; a list of names", hint=f"[{names!r}]")
        if strange := [n for n in names if not isinstance(n, str)]:
            raise UsageError(f"machines are names of the model's, not {strange[0]!r:.80}")
        known = {n: i for i, n in enumerate(self.names)}
        if missing := [n for n in names if n not in known]:
            wrong = [f"{m}{suggestion(m, known)}" for m in missing]
            raise UsageError(
                f"machine {', '.join(wrong)} is not in the model",
                hint=f"known: {', '.join(self.names)}; tracekit tune learns a new one",
            )
        return [known[n] for n in names]

    def only(self, names: Sequence[str]) -> Mixture:
        """The model of these machines alone, with the cores that they use."""
        rows = self.index(names)
        table = self.table[rows]
        survivors = {n: s for n, s in self.survivors.items() if n in names}
        surviving = {c for s in survivors.values() for c in s}
        of_these = [str(c["name"]) in surviving for c in self.cores]
        used = np.flatnonzero(table.any(axis=0) | np.array(of_these, np.bool_))
        if not len(used):
            used = np.arange(1)
        return Mixture(
            [self.cores[i] for i in used],
            [self.machines[i] for i in rows],
            table[:, used],
            self.training,
            self.arch,
            self.level,
            self.residuals,
            survivors,
        )

    def with_machine(self, machine: Mapping[str, Json]) -> Mixture:
        """The model with one machine more, whose parameters are known: its cycles are those of one
        more simulated core, nothing is fitted.

        machine: its parameters, as `Machine.to_dict` gives them.

        Raises `UsageError` where they are none, or the model has a machine of that name.
        """
        if errors := machine_errors(machine, self.arch):
            raise UsageError(f"{machine.get('name', 'machine')}: {joined(errors)}")
        if (name := str(machine.get("name", "machine"))) in self.names:
            raise UsageError(f"the model already knows a machine {name}")
        n, k = self.table.shape
        table = np.zeros((n + 1, k + 1))
        table[:n, :k], table[n, k] = self.table, 1.0
        return replace(
            self,
            cores=[*self.cores, dict(machine)],
            machines=[*self.machines, dict(machine)],
            table=table,
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
        sums.

        representation: cycles of the model's cores, [cores] or [ranges, cores].

        Raises `UsageError` for another shape.
        """
        shape = np.shape(representation)
        if not 1 <= len(shape) <= 2 or shape[-1] != len(self.cores):
            count = len(self.cores)
            raise UsageError(f"a representation of shape {shape}; the model has {count} cores")
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
        extra = {"simulated_cores": self.cores, "arch": self.arch}
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


def check_trace(model: Mixture, trace: TraceFile) -> None:
    """Features of another instruction set, or of another level, are refused."""
    check_arch(model.arch, trace)
    level = trace.level
    if model.arch == "x86" and level != model.level:
        raise UsageError(
            f"the features are of the {level} level, the model of the {model.level} level",
            path=trace.path,
            hint=_extraction(trace, model.level),
        )


def _extraction(trace: TraceFile, level: str) -> str:
    """The command that makes features of the other level: of micro-ops, from the features."""
    source = trace.path if level == "macro" else str(trace.index["input"]["path"])
    output = Path(trace.path).name.removesuffix(".zst") + f".{level}.zst"
    return f"tracekit extract {shlex.quote(source)} --level {level} -o {shlex.quote(output)}"


_SHIPPED = {"arm": "default_arm", "x86": "default_x86", "riscv": "default_riscv"}


def default_model_path(arch: str = "arm", level: str = "macro") -> Path:
    """The folder of the model that ships with the package for an instruction set.

    level: of the rows; X86 has a model of instructions ("macro") and one of micro-ops ("micro"),
        the others have one of both.

    Raises `UsageError` for others."""
    if arch not in _SHIPPED:
        raise UsageError(
            f"no model of {arch or 'an unknown instruction set'} ships with tracekit",
            hint="give --model; tracekit train makes one",
        )
    if level not in ("macro", "micro"):
        raise UsageError(f"level is {level!r}; macro or micro")
    micro = "_micro" if (arch, level) == ("x86", "micro") else ""
    return Path(__file__).parent / (_SHIPPED[arch] + micro)


def load_model(
    folder: str | os.PathLike[str] | None = None, arch: str = "arm", level: str = "macro"
) -> Mixture:
    """Load a mixture from its folder, checked by its golden rows.

    folder: as ``tracekit train`` or `Mixture.save` wrote it; the one that ships for ``arch``
        ("arm", "x86" or "riscv") and ``level`` unless given (`default_model_path`).

    Raises `UsageError` where no model ships for ``arch`` or the folder has another kind of model,
    and `FormatError` with the file for one that is damaged.

    >>> import tracekit
    >>> tracekit.load_model()
    mixture for arm (micro): 46 machines, 46 simulated cores
    """
    folder = default_model_path(arch, level) if folder is None else Path(folder)
    card = load_card(folder)
    if card.feature_set != FEATURE_SET:
        raise UsageError(
            f"the model's features are {card.feature_set!r}, not {FEATURE_SET!r}",
            path=str(folder),
            hint=_reader_of(card),
        )
    cores = card.extra.get("simulated_cores")
    if not isinstance(cores, list) or not all(isinstance(c, dict) for c in cores):
        raise FormatError("simulated_cores is not a list of machines", path=str(folder))
    names = tuple(str(c.get("name")) for c in cores)
    for i, (column, name) in enumerate(zip(card.columns, names, strict=False)):
        if column != name:
            raise FormatError(f"column {i} is {column!r}, its core is {name!r}", path=str(folder))
    if len(names) != len(card.columns):
        raise FormatError(f"{len(card.columns)} columns, {len(names)} cores", path=str(folder))
    # Every parameter is checked before the first trace is read.
    check_machines(cores, Path(folder) / "card.json", str(card.extra.get("arch", "")))
    machines = [
        {**(m.get("parameters") or {}), "name": str(m.get("name"))} for m in card.microarchitectures
    ]
    check_known(machines, Path(folder) / "card.json")
    if card.level not in ("", "micro", "macro"):
        raise FormatError(f"features.level is {card.level!r}; micro or macro", path=str(folder))
    tensors = load_tensors(folder, card)
    if tensors.keys() != {"table.weight"}:
        raise FormatError("its architecture is no table of machines", path=str(folder))
    model = Mixture(
        cores,
        machines,
        tensors["table.weight"].astype(np.float64),
        card.training,
        str(card.extra.get("arch", "")),
        card.level or "micro",
        Residuals.load(place) if (place := Path(folder) / RESIDUALS).exists() else None,
    )
    _check_golden(folder, card, model)
    return model


def _reader_of(card: Card) -> str:
    """What a model that is no mixture of this version is for."""
    if card.feature_set.startswith("simulated-cores-"):
        return "train it again"
    if any(h.name == "cycles" for h in card.spec.heads):
        return "of single instructions: tracekit.neuroscalar.CycleModel reads it"
    return "a network: tracekit.infer.load and tracekit evaluate read it"


def _check_golden(folder: Path, card: Card, model: Mixture) -> None:
    from tracekit.model.card import load_file

    if "golden.safetensors" not in card.files:
        return
    golden = load_file(folder, card, "golden.safetensors")
    given, wanted = (golden.get(n, np.zeros(0)) for n in ("input", "head.time"))
    shapes = [(*given.shape[:1], len(w)) for w in (model.cores, model.machines)]
    if given.ndim != 2 or [given.shape, wanted.shape] != shapes:
        raise FormatError("the model's golden rows do not fit it", path=str(folder))
    found = model.cycles(given.astype(np.float64))
    if not np.allclose(found, wanted, rtol=1e-4, atol=1e-3):
        raise FormatError("the model does not give its golden outputs", path=str(folder))
