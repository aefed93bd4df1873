"""The streaming engine: a trace in chunks side by side, each warmed up on the rows before it.

The trace is cut on a fixed grid.  Each chunk is run from zero state over ``warmup`` earlier rows
first (the first one from the true start), in groups of chunks that share every load of the weights;
each thread takes whole groups.  No row's arithmetic depends on the rows beside it, so a result is a
function of the trace and the grid alone, bit for bit: not of threads, nor of how the trace came.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.cpus import thread_count
from tracekit.errors import UsageError
from tracekit.infer import cpu, loops
from tracekit.infer.blocks import Block, Columns, Formats, wanted_by
from tracekit.infer.chain import Chain
from tracekit.infer.inputs import InputPlan, InputRunner
from tracekit.infer.kernels import TARGETS
from tracekit.infer.lstm import BiLstmPlan, LstmPlan, Quantised
from tracekit.infer.pack import round_up
from tracekit.infer.plans import plan_head, plan_layers
from tracekit.model import Card
from tracekit.model.spec import Layer

__all__ = ["REPRESENTATION", "Engine"]

Array = NDArray[Any]
REPRESENTATION = "representation"
CHUNK, WARMUP = 8192, 256
ROWS = 48  # chunks side by side: weights come from memory once for all of them
# A model that looks ahead keeps whole chunks in memory: shorter and fewer ones.
WINDOW, WINDOW_ROWS = 1024, 12
STEPS = 64  # instructions of a chunk that one layer does before the next one takes over
FAR = -(1 << 60)  # the place of a row that is only there to fill a tile


@dataclass
class Sums:
    """What a run adds up: pieces of ranges, none of which crosses a chunk's edge."""

    bounds: Array  # int64 [pieces + 1]
    values: dict[str, Array]  # float64 [pieces, width] by output


class Engine:
    """A loaded model, see ``load``.  Safe to share between threads once made, and to hand to other
    processes, forked or not."""

    def __init__(
        self,
        card: Card,
        tensors: Mapping[str, Array],
        quantised: Mapping[str, Quantised] | None = None,
        corrections: Mapping[str, Mapping[str, Array]] | None = None,
        *,
        dtype: str = "auto",
        threads: int | None = None,
        chunk: int | None = None,
        warmup: int = WARMUP,
        lookahead: int | None = None,
    ) -> None:
        for name, value, least, most in (
            ("chunk", 1 if chunk is None else chunk, 1, 1 << 30),
            ("warmup", warmup, 0, 1 << 20),
        ):
            if not isinstance(value, int | np.integer) or not least <= value <= most:
                raise UsageError(f"{name} is {value}; a whole number from {least} to {most}")
        self.card, self.spec = card, card.spec
        self.lookahead = card.lookahead(lookahead)
        self.isa, self.threads = cpu.active_isa(), thread_count(threads)
        self.chunk, self.warmup = chunk, warmup
        self.dtype = choose_dtype(dtype, self.isa, bool(quantised))
        self.formats = Formats(self.isa, self.dtype)
        self._made_of = card, tensors, quantised, corrections
        added = (corrections or {}).get(self.dtype, {})
        self._added = added.get(REPRESENTATION)
        biases = {name: v for name, v in added.items() if name != REPRESENTATION}
        tensors = {**tensors, **{name: tensors[name] + v for name, v in biases.items()}}
        self._inputs = InputPlan(self.spec.inputs, card.columns, tensors, self.isa)
        self._layers = plan_layers(
            self.spec.layers, tensors, self.formats, quantised or {}, True, self._inputs.raw()
        )
        self._heads = {
            head.name: plan_head(head, tensors, self.formats, self.spec.layers, self._added)
            for head in self.spec.heads
        }
        self._tables = {
            head.name: tensors[f"{head.layers[0].name}.weight"].astype(np.float64)
            for head in self.spec.heads
            if head.compositional
        }
        self._pool: tuple[int, ThreadPoolExecutor] | None = None  # with the process that has it

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is made of: packed weights are bound to the addresses where they lie."""
        again = functools.partial(
            Engine,
            dtype=self.dtype,
            threads=self.threads,
            chunk=self.chunk,
            warmup=self.warmup,
            lookahead=self.lookahead or None,
        )
        return again, self._made_of

    def _executor(self) -> ThreadPoolExecutor:
        """This process's threads: a fork leaves its parent's behind."""
        process = os.getpid()
        if self._pool is None or self._pool[0] != process:
            self._pool = process, ThreadPoolExecutor(self.threads)
        return self._pool[1]

    def predict(self, features: Array, head: str | None = None) -> Array:
        """Predictions of one head (the first) for each row: float32 [rows, out].

        ``features`` is float32 [rows, columns of the card], raw, C-contiguous.
        """
        name = self.spec.head(head).name
        return self.run(features, [name])[name]

    def represent(self, features: Array) -> Array:
        """The last layer's output for each row: float32 [rows, R]."""
        return self.run(features, [REPRESENTATION])[REPRESENTATION]

    def sum_representations(self, features: Array, breaks: Sequence[int] | Array) -> Array:
        """Sums over ranges of rows: float64 [len(breaks) - 1, R].

        Range i is rows breaks[i] to breaks[i + 1]; breaks do not decrease and lie within the trace.
        """
        return self.sum(features, breaks, [REPRESENTATION])[REPRESENTATION]

    def totals(
        self, features: Array, breaks: Sequence[int] | Array, head: str | None = None
    ) -> Array:
        """A head's predictions summed over ranges: float64 [len(breaks) - 1, out].

        For a linear head without bias this is one product with the summed representations.
        """
        name = self.spec.head(head).name
        if name in self._tables:
            return self.apply_table(self.sum_representations(features, breaks), name)
        return self.sum(features, breaks, [name])[name]

    def apply_table(self, sums: Array, head: str | None = None) -> Array:
        """Totals from summed representations [ranges, R], for a compositional head: float64
        [ranges, out]."""
        name = self.spec.head(head).name
        if name not in self._tables:
            raise UsageError(f"head {name!r} is not one linear layer without bias")
        if sums.shape[-1:] != (self.spec.width,):
            raise UsageError(f"sums of shape {sums.shape}; a representation has {self.spec.width}")
        out: Array = sums @ self._tables[name].T
        return out

    def run(self, features: Array, outputs: Sequence[str]) -> dict[str, Array]:
        """Several outputs ("representation" or heads' names) in one pass."""
        self.card.check_outputs(outputs)
        self.check(features)
        n = len(features)
        out = {name: np.empty((n, self.width(name)), np.float32) for name in outputs}
        self.run_range(features, 0, 0, n, self.grid(n), out, None)
        return out

    def sum(
        self, features: Array, breaks: Sequence[int] | Array, outputs: Sequence[str]
    ) -> dict[str, Array]:
        """Sums of several outputs over ranges, in float64, in one pass."""
        self.card.check_outputs(outputs)
        self.check(features)
        n = len(features)
        edges = check_breaks(breaks, n)
        chunk = self.grid(n)
        sums = self.pieces(edges, 0, n, chunk, outputs)
        self.run_range(features, 0, 0, n, chunk, {}, sums)
        totals = {name: np.zeros((len(edges) - 1, self.width(name))) for name in outputs}
        add_pieces(sums, edges, totals)
        return totals

    def range_sums(
        self, features: Array, base: int, piece: tuple[int, int], rows: int, head: str | None = None
    ) -> Array:
        """What a range of the rows of a trace of ``rows`` adds to `totals`, by chunk: float64
        [chunks, width], for `totals_of`.

        The range begins on the grid.  ``features`` start at the trace's row ``base``; ``warmup``
        rows before the range and ``lookahead`` behind it must be there, or the trace's ends.
        """
        self.check(features)
        name = self.spec.head(head).name
        name = REPRESENTATION if name in self._tables else name
        chunk = self.grid(rows)
        if piece[0] % chunk:
            raise UsageError(f"row {piece[0]} is not on the grid of {chunk} rows")
        sums = self.pieces(np.array(piece, np.int64), *piece, chunk, [name])
        self.run_range(features, base, *piece, chunk, {}, sums)
        return sums.values[name]

    def totals_of(self, sums: Array, head: str | None = None) -> Array:
        """A whole trace's totals from `range_sums` of all of its ranges, in their order: float64
        [out], as `totals` has them."""
        total = np.zeros((1, sums.shape[1]))
        np.add.at(total, np.zeros(len(sums), np.int64), sums)
        name = self.spec.head(head).name
        out: Array = (self.apply_table(total, name) if name in self._tables else total)[0]
        return out

    @property
    def raw_columns(self) -> Columns | None:
        """The inputs as they are in the file, where that can be left to a first layer's weights."""
        return self._inputs.raw()

    def grid(self, rows: int | None) -> int:
        """The chunk that is used for a trace of so many rows: short ones fill the tiles too."""
        if self.chunk is not None:
            return self.chunk
        longest = WINDOW if self.lookahead else CHUNK
        if rows is None:
            return longest
        return min(longest, max(WARMUP, round_up(-(-rows // ROWS), 64)))

    def width(self, output: str) -> int:
        """Width of an output; raises UsageError where there is none of that name."""
        return self.spec.width if output == REPRESENTATION else self.spec.head(output).width_out

    def check(self, features: Array, first: int = 0) -> None:
        """Raise UsageError unless these are features that the card describes, and finite.

        first: the trace's row that they begin with.
        """
        self.card.check_features(features)
        self.card.check_finite(features, first)
        if not features.flags.c_contiguous:
            raise UsageError("features is not C-contiguous", hint="numpy.ascontiguousarray")

    def chains(
        self, steps: int, rows: int, names: Sequence[str] | None = None
    ) -> tuple[InputRunner, Chain, list[Chain], dict[str, Block]]:
        """Room and state for so many steps at a time of so many chunks side by side: the inputs,
        the layers, the heads on these, and the outputs of such names (all unless given)."""
        rows = round_up(rows, TARGETS[self.isa].rows)
        inputs = self._inputs.runner(steps, rows)
        first = self._layers[0] if self._layers else None
        if self._inputs.plain and isinstance(first, LstmPlan | BiLstmPlan) and first.scale == 1.0:
            inputs.emit(first.wants, first.columns, self.formats.rounded)
        wanted = [REPRESENTATION, *self._heads] if names is None else names
        heads = [name for name in wanted if name != REPRESENTATION]
        # what all heads read in one format comes in that
        formats = {wanted_by(plan) for name in heads for plan in self._heads[name][:1]}
        last = formats.pop() if len(formats) == 1 and len(heads) == len(wanted) else ("f32", 1.0)
        layers = Chain(self._layers, inputs.output, steps, rows, last)
        chains, blocks = self._head_chains(heads, layers.output, steps, rows)
        if REPRESENTATION in wanted:
            blocks[REPRESENTATION] = layers.output
        return inputs, layers, chains, blocks

    def _head_chains(
        self, names: Sequence[str], source: Block, steps: int, rows: int
    ) -> tuple[list[Chain], dict[str, Block]]:
        """Heads in the order in which they run, and their outputs.  Readouts of one distribution
        share what comes before them."""
        shared: dict[tuple[Layer, ...], Chain] = {}
        order, blocks = [], {}
        for name in names:
            head, plans, before = self.spec.head(name), self._heads[name], source
            if head.type == "distribution":
                if head.layers not in shared:
                    shared[head.layers] = Chain(plans[:-1], source, steps, rows)
                    order.append(shared[head.layers])
                plans, before = plans[-1:], shared[head.layers].output
            order.append(Chain(plans, before, steps, rows))
            blocks[name] = order[-1].output
        return order, blocks

    def pieces(self, edges: Array, low: int, high: int, chunk: int, outputs: Sequence[str]) -> Sums:
        """Room for the sums of rows low to high, cut at the ranges' and at the chunks' edges."""
        begin, end = max(low, int(edges[0])), min(high, int(edges[-1]))
        cuts = np.array([begin, max(begin, end)], np.int64)
        inside = edges[(edges > begin) & (edges < end)]
        grid = np.arange(begin // chunk * chunk, end, chunk, dtype=np.int64)
        bounds = np.unique(np.concatenate([cuts, inside, grid[grid > begin]]))
        values = {name: np.zeros((len(bounds) - 1, self.width(name))) for name in outputs}
        return Sums(bounds, values)

    def run_range(
        self,
        features: Array,
        base: int,
        low: int,
        high: int,
        chunk: int,
        out: Mapping[str, Array],
        sums: Sums | None,
    ) -> None:
        """Rows low (on the grid) to high of the trace; ``features`` start at its row ``base``.

        Rows low - warmup to high + lookahead must be there, or the trace's start and end.  A row's
        results go to out[name][row - low].
        """
        starts = np.arange(low, high, chunk, dtype=np.int64)
        if not len(starts):
            return
        groups: list[Array] = []
        if self.lookahead:  # windows that meet an end of the trace have a length of their own
            reach = np.minimum(starts + chunk, high) + self.lookahead
            whole = (starts >= self.warmup) & (starts + chunk <= high)
            whole &= reach <= base + len(features)
            groups, starts = [starts[[k]] for k in np.flatnonzero(~whole)], starts[whole]
        count = -(-len(starts) // (WINDOW_ROWS if self.lookahead else ROWS))
        count = min(round_up(count, self.threads), len(starts))
        groups += [g for g in np.array_split(starts, max(count, 1)) if len(g)]

        def work(group: Array) -> None:
            self._group(features, base, low, high, chunk, group, out, sums)

        if self.threads == 1 or len(groups) == 1:
            for group in groups:
                work(group)
        else:
            for _ in self._executor().map(work, groups):
                pass
        if self._added is not None and REPRESENTATION in out:
            out[REPRESENTATION][...] += self._added
        if self._added is not None and sums is not None and REPRESENTATION in sums.values:
            counts = np.diff(sums.bounds)[:, None]
            sums.values[REPRESENTATION] += counts * self._added.astype(np.float64)

    def _group(
        self,
        features: Array,
        base: int,
        low: int,
        high: int,
        chunk: int,
        starts: Array,
        out: Mapping[str, Array],
        sums: Sums | None,
    ) -> None:
        """Chunks side by side through all layers: a few steps at a time, or, where the model looks
        ahead, each chunk's window at once."""
        rows = round_up(len(starts), TARGETS[self.isa].rows)
        warm = int(min(self.warmup, starts.max()))
        stop = int(np.minimum(chunk, high - starts).max())
        ahead, block_steps = 0, STEPS
        if self.lookahead:
            ahead = min(self.lookahead, base + len(features) - int(starts.max()) - stop)
            block_steps = warm + stop + ahead
        names = sorted({*out, *(sums.values if sums else ())})
        inputs, layers, heads, blocks = self.chains(block_steps, rows, names)
        begin = np.full(rows, FAR, np.int64)
        begin[: len(starts)] = starts
        end = begin.copy()
        end[: len(starts)] = np.minimum(starts + chunk, high)
        place = np.zeros(rows, np.int64)
        if sums is not None:
            place[:] = np.searchsorted(sums.bounds, begin, side="right") - 1
            place = np.clip(place, 0, max(0, len(sums.bounds) - 2))
        places = {name: place.copy() for name in (sums.values if sums else ())}
        # a block ends where the warm-up does, and where a row comes to the start of the trace
        early = {-int(s): i for i, s in enumerate(starts) if s < warm}
        edges = () if self.lookahead else (0, *early)
        step = -warm
        layers.seek(step)
        while step < stop:
            if step in early:
                layers.reset([early[step]])
            cuts = [cut for cut in edges if cut > step]
            steps = min([block_steps, stop + ahead - step, *(cut - step for cut in cuts)])
            first = begin + step
            inputs.run(features, first - base, steps)
            layers.run(steps)
            if step >= 0 or self.lookahead:
                for head in heads:
                    head.run(steps)
                for name, result in out.items():
                    block = blocks[name].array
                    loops.scatter(block, first, begin, end, steps, result, low)
                if sums is not None:
                    for name, total in sums.values.items():
                        block, bounds = blocks[name].array, sums.bounds
                        loops.add_to_sums(
                            block, first, begin, end, steps, bounds, places[name], total
                        )
            step += steps


def choose_dtype(dtype: str, isa: str, quantised: bool) -> str:
    """By default int8 where the model is quantised and the CPU has VNNI, then bf16, then f32."""
    if dtype == "auto":
        if isa == "avx512" and quantised and cpu.has("avx512vnni"):
            return "int8"
        return "bf16" if isa == "avx512" and cpu.has("avx512bf16") else "f32"
    if dtype not in cpu.DTYPES:
        raise UsageError(f"dtype is {dtype!r}; auto or one of {', '.join(cpu.DTYPES)}")
    if dtype == "int8" and not quantised:
        raise UsageError("the model has no int8 weights", hint="tracekit.infer.quantize")
    return dtype


def check_breaks(breaks: Sequence[int] | Array, rows: int) -> Array:
    """Breaks as int64; raises UsageError."""
    edges = np.asarray(breaks)
    if edges.ndim != 1 or len(edges) < 1 or (edges.dtype.kind not in "iu" and len(edges)):
        raise UsageError("breaks is not a list of row numbers")
    edges = edges.astype(np.int64)
    if (np.diff(edges) < 0).any() or edges[0] < 0:
        raise UsageError("breaks decrease, or begin below 0")
    if edges[-1] > rows:
        raise UsageError(f"breaks leave the trace of {rows} rows")
    return edges


def add_pieces(sums: Sums, edges: Array, totals: Mapping[str, Array]) -> None:
    """Add pieces to the ranges they belong to, in the order of the trace."""
    pieces = np.searchsorted(edges, sums.bounds[:-1], side="right") - 1
    for name, values in sums.values.items():
        np.add.at(totals[name], pieces, values)
