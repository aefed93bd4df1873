"""A trained model folder at work: traces in, cycles of each instruction out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import features
from tracekit.errors import FormatError, UsageError
from tracekit.extras import install_command
from tracekit.model import Card, load_card
from tracekit.model.card import load_file
from tracekit.neuroscalar import history, instructions
from tracekit.neuroscalar.readout import apply_mean_map
from tracekit.sim import TIMING, check_machines
from tracekit.store.instruction_set import check_arch
from tracekit.store.reader import TraceFile

__all__ = ["CYCLES", "MEAN", "TABLES", "CycleModel", "is_cycle_model"]

#: The two readouts: the most likely number of cycles of an instruction (its median), and the
#: expected one, which adds up to totals.
CYCLES, MEAN = "cycles", "mean"
TABLES = "history.safetensors"
BLOCK = 1 << 16
F32 = npt.NDArray[np.float32]


def is_cycle_model(folder: str | Path) -> bool:
    """Whether a model folder is one of ``tracekit train neuroscalar``."""
    card = load_card(folder)
    return any(h.name == CYCLES for h in card.spec.heads)


class CycleModel:
    """A model of ``tracekit train neuroscalar``, from its ``folder``.

    ``device``: cpu (Numba), cuda, torch (torch on the CPU), or auto: a GPU where torch finds
    one.  ``dtype`` as the engine has it; ``use_history=False`` leaves the training programs'
    tables alone.  ``machines``: the names of the columns of predictions.

    Raises `UsageError` for another kind of model and for a device that is none, `FormatError` for a
    damaged folder.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        threads: int | None = None,
        use_history: bool = True,
    ) -> None:
        self.folder = Path(folder)
        self.card: Card = load_card(folder)
        self.threads = threads
        self.machines = tuple(str(m.get("name")) for m in self.card.microarchitectures)
        heads = {h.name for h in self.card.spec.heads}
        if CYCLES not in heads or not self.machines:
            raise UsageError(
                "not a model of single instructions", path=str(folder), hint="train neuroscalar"
            )
        self._mapped = self.card.extra.get("mean_map") if MEAN not in heads else None
        if MEAN not in heads and self._mapped is None:
            raise FormatError("the card has no readout of the mean", path=str(folder))
        self._cores = self._simulated_cores()
        share = self.card.extra.get("core_share", 0.0)
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise FormatError("core_share is not a share", path=str(folder))
        self._share = float(share)
        self._tables: history.Tables | None = None
        if self.card.extra.get("history"):
            tensors = load_file(folder, self.card, TABLES)
            place = str(self.folder / TABLES)
            self._tables = history.Tables.of(tensors, len(self.machines), place)
        self._use_history = use_history
        self.engine = self._load(device, dtype)

    def _simulated_cores(self) -> list[dict[str, Any]]:
        card = self.card
        if card.feature_set != instructions.FEATURE_SET:
            features.get(card.feature_set)  # an error where it is not known
            return []
        cores = card.extra.get("simulated_cores")
        if not isinstance(cores, list) or not all(isinstance(c, dict) for c in cores):
            raise FormatError("simulated_cores is not a list of machines", path=str(self.folder))
        check_machines(cores, self.folder / "card.json")
        names = [str(c.get("name")) for c in cores]
        if tuple(names) != self.machines:  # in another order they would swap their numbers
            raise FormatError(
                "microarchitectures are not the simulated cores in their order",
                path=str(self.folder),
            )
        wanted = instructions.columns(names)
        if card.extra.get("history"):
            wanted += history.columns(names)
        if wanted != card.columns:
            raise FormatError("the columns are not those of the cores", path=str(self.folder))
        return cores

    def _load(self, device: str, dtype: str) -> Any:
        if device == "auto":
            device = "cuda" if _has_gpu() else "cpu"
        if device == "cpu":
            try:
                from tracekit.infer import load
            except ModuleNotFoundError as e:
                raise UsageError(f"{e.name} is needed", hint=install_command("infer")) from None
            return load(self.folder, dtype, self.threads)
        from tracekit.infer_torch.engine import load_torch

        return load_torch(self.folder, "cpu" if device == "torch" else device, dtype)

    def index(self, machine: str) -> int:
        """The column of a machine; UsageError names one that is not known."""
        if machine not in self.machines:
            raise UsageError(
                f"machine {machine} is not in the model", hint=f"known: {', '.join(self.machines)}"
            )
        return self.machines.index(machine)

    def rows(self, trace: TraceFile) -> Iterator[F32]:
        """The trace's instructions as the model's columns, block after block."""
        self._check_rows(trace)
        if not self._cores:
            for begin in range(0, len(trace), BLOCK):
                end = min(begin + BLOCK, len(trace))
                yield trace.features(self.card.feature_set, (begin, end))
            return
        past = history.History(self._tables) if self._tables else None
        for block in instructions.blocks(trace, self._cores, self.threads):
            if past is None:
                yield block.values
            elif self._use_history:
                more = past.of(block.key, block.values[:, 0])
                yield np.hstack([block.values, more])
            else:
                yield self.without_history(block.values)

    def _check_rows(self, trace: TraceFile) -> None:
        check_arch(str(self.card.extra.get("arch", "")), trace)
        if not self._cores and trace.level != "macro":
            raise UsageError(
                "the model is of instructions; these rows are micro-ops",
                path=trace.path,
                hint="tracekit extract --level macro",
            )

    def without_history(self, values: F32) -> F32:
        """Columns with an empty history, where the model has one."""
        more = len(self.card.columns) - values.shape[1]
        return np.hstack([values, np.zeros((len(values), more), np.float32)]) if more else values

    def look_up(self, values: F32, keys: Sequence[npt.NDArray[np.uint64]]) -> F32:
        """Columns with the history of these keys (tracekit.neuroscalar.history.Keys)."""
        if self._tables is None or not self._use_history:
            return self.without_history(values)
        return np.hstack([values, self._tables.look_up(keys)])

    def feed(
        self, blocks: Iterable[F32], outputs: Sequence[str] = (CYCLES, MEAN)
    ) -> Iterator[dict[str, F32]]:
        """Predictions of columns that come in blocks: float32 [rows, machines] by output."""
        self.card.check_outputs(outputs)
        asked = list(dict.fromkeys(CYCLES if self._mapped and o == MEAN else o for o in outputs))
        cores = _Kept(self._core_columns())
        for found in self._stream(cores.keep(blocks), asked):
            own = cores.take(len(found[asked[0]]))
            yield {o: self._readout(o, found, own) for o in outputs}

    def _stream(self, blocks: Iterable[F32], outputs: Sequence[str]) -> Iterator[dict[str, F32]]:
        if hasattr(self.engine, "feed"):  # torch's
            return self.engine.feed(blocks, outputs)  # type: ignore[no-any-return]
        from tracekit.infer import Stream

        return Stream(self.engine, outputs).feed(blocks)

    def _core_columns(self) -> list[int]:
        """The columns of the cores' cycles, where the mean has a share of them."""
        if not self._share:
            return []
        return [self.card.columns.index(f"{m}.{TIMING[0]}") for m in self.machines]

    def _readout(self, output: str, found: dict[str, F32], core: F32) -> F32:
        if output == MEAN and self._mapped:
            return apply_mean_map(self._mapped, found[CYCLES]).astype(np.float32)
        if output == MEAN and self._share:
            return (1 - self._share) * found[MEAN] + self._share * core
        return found[output]

    def predict(self, trace: TraceFile, outputs: Sequence[str] = (CYCLES, MEAN)) -> dict[str, F32]:
        """Predictions of a whole trace: float32 [instructions, machines] by output.

        outputs: ``CYCLES``, the median of each instruction, and ``MEAN``, the expected cycles,
            whose sums are totals.
        """
        parts = list(self.feed(self.rows(trace), outputs))
        empty = np.zeros((0, len(self.machines)), np.float32)
        return {o: np.concatenate([empty, *(p[o] for p in parts)]) for o in outputs}

    @property
    def cut(self) -> bool:
        """Whether ranges of a trace's rows can be predicted apart: not where columns are those of
        simulated cores, which carry their state from row to row."""
        return not self._cores and hasattr(self.engine, "run_range")

    def predict_range(self, trace: TraceFile, piece: tuple[int, int], output: str) -> F32:
        """What `predict` has of a range of the rows, which begins on the engine's grid."""
        low, high = piece
        engine = self.engine
        first = max(0, low - engine.warmup)
        end = min(len(trace), high + engine.lookahead)
        self._check_rows(trace)
        x = trace.features(self.card.feature_set, (first, end))
        asked = CYCLES if self._mapped and output == MEAN else output
        found = {asked: np.empty((high - low, engine.width(asked)), np.float32)}
        engine.run_range(x, first, low, high, engine.grid(None), found, None)
        return self._readout(output, found, np.zeros((0, 0), np.float32))


class _Kept:
    """Columns of blocks that go by, for as long as the engine is behind."""

    def __init__(self, columns: Sequence[int]) -> None:
        self._columns = list(columns)
        self._rows = np.zeros((0, len(self._columns)), np.float32)

    def keep(self, blocks: Iterable[F32]) -> Iterator[F32]:
        for block in blocks:
            self._rows = np.concatenate([self._rows, block[:, self._columns]])
            yield block

    def take(self, count: int) -> F32:
        out, self._rows = self._rows[:count], self._rows[count:]
        return out


def _has_gpu() -> bool:
    """Asks torch only where it is there already or a GPU's device file is."""
    import sys

    if "torch" not in sys.modules and not Path("/dev/nvidiactl").exists():
        return False
    try:
        import torch
    except ModuleNotFoundError:
        return False
    return bool(torch.cuda.is_available())
