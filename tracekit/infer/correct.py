"""What a narrow format adds to each layer's mean, taken off again: corrections of biases.

Rounded weights and activations shift the mean of every output a little, always to the same side,
and a total adds that up.  With W the weights and x the inputs, and V and z both in the narrow
format, a layer's shift is V E[z] - W E[x].  That is taken off its bias (Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction", 2019, section 4.2, with measured
means).  An LSTM feeds its own shift back, in the calibration too: there z are the exact inputs in
the narrow format, so that what is taken off is what arises in the layer itself.

Where totals are products with summed representations, only the representation's shift is taken off,
the median of those of the programs: biases of layers did no better there, and means of all rows
worse than nothing (PerfVec's paper model after three passes).  Nothing is kept that does not help
programs that it was not made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.infer.blocks import UNIT, Block
from tracekit.infer.chain import Chain, ResidualRunner
from tracekit.infer.emit import WHOLE
from tracekit.infer.engine import REPRESENTATION, ROWS, STEPS, Engine
from tracekit.infer.heads import TwoWayRunner
from tracekit.infer.linear import LinearPlan, LinearRunner
from tracekit.infer.lstm import BiLstmRunner, LstmPlan, LstmRunner
from tracekit.infer.pack import round_bf16
from tracekit.infer.recurrences import ConvRunner

__all__ = ["corrections"]

Array = NDArray[Any]
ROUNDS = 3  # a layer's correction changes what the next one reads
WARM = 64  # steps of each part of the rows that are not counted
LONGEST = 2048


def corrections(
    exact: Engine, narrow: Callable[[Mapping[str, Array]], Engine], features: Array, edges: Array
) -> tuple[dict[str, Array], float]:
    """What a narrow format needs added to bias tensors, by name, or to the representation where
    totals are products with it, so that means are those of the engine ``exact``; nothing where that
    does not bring the totals of programs left out nearer.  And the share by which these then move,
    median over programs.  ``narrow`` makes the engine in the narrow format with given corrections;
    program i is rows edges[i] to edges[i + 1]."""
    names = [head.name for head in exact.spec.heads if head.compositional]
    if names:
        want, plain = (e.sum_representations(features, edges) for e in (exact, narrow({})))
        counts = np.diff(edges)[:, None]
        shifts = (want - plain) / counts
        # medians: a few programs go their own way in a narrow format, and take a mean with them
        others = [np.median(np.delete(shifts, i, axis=0), axis=0) for i in range(len(shifts))]
        cases = plain, plain + counts * np.array(others)
        table = exact.apply_table(want, names[0])
        moves = [median_move([table], [exact.apply_table(c, names[0])]) for c in cases]
        added = {REPRESENTATION: np.median(shifts, axis=0).astype(np.float32)}
    else:
        outputs = [head.name for head in exact.spec.heads] or [REPRESENTATION]

        def totals(engine: Engine) -> list[Array]:
            return list(engine.sum(features, edges, outputs).values())

        truth, bare = totals(exact), totals(narrow({}))
        odd = np.arange(len(edges) - 1) % 2 == 1
        in_odd = np.repeat(odd, np.diff(edges))
        half, other = (
            totals(narrow(of_layers(exact, narrow, np.ascontiguousarray(features[rows]))))
            for rows in (in_odd, ~in_odd)
        )
        left_out = [np.where(odd[:, None], b, a) for a, b in zip(half, other, strict=True)]
        moves = [median_move(truth, found) for found in (bare, left_out)]
        added = of_layers(exact, narrow, features)
    return (added, moves[1]) if moves[1] < moves[0] else ({}, moves[0])


def median_move(want: Sequence[Array], found: Sequence[Array]) -> float:
    """By how much of their size programs' totals [programs, outputs] of some heads move: all
    outputs of a head together, for one may be near 0; mean of the heads, median of the programs."""
    moves = []
    for a, b in zip(want, found, strict=True):
        size = np.abs(a).sum(axis=1)
        moves.append(np.abs(b - a).sum(axis=1) / np.where(size > 0, size, 1.0))
    return float(np.median(np.mean(moves, axis=0)))


def of_layers(
    exact: Engine, narrow: Callable[[Mapping[str, Array]], Engine], features: Array
) -> dict[str, Array]:
    """What to add to bias tensors so that each layer's mean over these raw rows is exact."""
    plain = narrow({})
    wanted, own = mean_products(exact, features), mean_products(exact, features, plain)
    rounding = {name for plan in plans_of(plain) if narrows(plan) for name, _ in plan.biases}
    wanted = {name: mean for name, mean in wanted.items() if name in rounding}
    recurrent = {name for name, (_, is_lstm) in wanted.items() if is_lstm}
    out = {name: (wanted[name][0] - own[name][0]).astype(np.float32) for name in recurrent}
    for _ in range(ROUNDS):
        found = mean_products(narrow(out), features)
        for name in wanted.keys() - recurrent:
            out[name] = (wanted[name][0] - found[name][0]).astype(np.float32)
    return out


def mean_products(
    engine: Engine, features: Array, narrow: Engine | None = None
) -> dict[str, tuple[Array, bool]]:
    """For each bias by name: the mean of weights times inputs of its layer, float64 without the
    bias, and whether it is an LSTM's.  In the engine's format; or, with ``narrow``, of the engine's
    inputs and states in the format and with the weights that ``narrow`` has."""
    sums: dict[int, list[Array]] = {}
    counted, plans = 0, plans_of(narrow or engine)
    for count, values in read_in_parts(engine, features, narrow):
        counted += count
        for k, read in enumerate(values):
            new = [v.sum(axis=(0, 1)) for v in read]
            sums[k] = [a + b for a, b in zip(sums.get(k, np.zeros(len(new))), new, strict=True)]
    out: dict[str, tuple[Array, bool]] = {}
    for k, plan in enumerate(plans):
        pairs = zip(plan.values, sums[k], strict=True)
        product = np.sum([w.astype(np.float64) @ (v / counted) for w, v in pairs], axis=0)
        product = product + getattr(plan, "shift", 0.0)
        at = 0
        for name, size in plan.biases:
            out[name] = product[at : at + size], isinstance(plan, LstmPlan)
            at += size
    return out


def lstm_moments(engine: Engine, features: Array) -> dict[str, Array]:
    """For each LSTM by the name of its first bias: E[z zᵀ] of its states and inputs z side by side
    as the engine has them, float64, over these raw rows."""
    sums: dict[str, Array] = {}
    counted, plans = 0, plans_of(engine)
    for count, values in read_in_parts(engine, features):
        counted += count
        for plan, read in zip(plans, values, strict=True):
            if isinstance(plan, LstmPlan):
                z = np.concatenate(read, axis=-1).reshape(count, -1)
                name = plan.biases[0][0]
                sums[name] = sums.get(name, 0.0) + z.T @ z
    return {name: total / counted for name, total in sums.items()}


def read_in_parts(
    engine: Engine, features: Array, narrow: Engine | None = None
) -> Iterator[tuple[int, list[list[Array]]]]:
    """A few steps at a time of many parts of these rows: how many rows, and for each of the plans
    with biases what its matrices are multiplied with (``read_by``)."""
    parts = min(ROWS, max(1, len(features) // (4 * WARM)))
    length = min(len(features) // parts, LONGEST)
    first = np.arange(parts, dtype=np.int64) * (len(features) // parts)
    warm = min(WARM, length // 4)
    block = length if engine.lookahead else STEPS
    inputs, layers, heads, _ = engine.chains(block, parts)
    runners = [r for chain in (layers, *heads) for r in walk(chain)]
    plans = [r.plan for r in runners] if narrow is None else plans_of(narrow)
    rows = np.resize(first, inputs.output.array.shape[1])  # what fills the tile runs again
    for step in range(0, length, block):
        steps = min(block, length - step)
        inputs.run(features, rows + step, steps)
        layers.run(steps)
        for head in heads:
            head.run(steps)
        skip = max(0, warm - step)
        if skip < steps:
            read = [read_by(r, plan) for r, plan in zip(runners, plans, strict=True)]
            kept = [[v[skip:steps, :parts] for v in values] for values in read]
            yield (steps - skip) * parts, kept


def plans_of(engine: Engine) -> list[LinearPlan | LstmPlan]:
    """The plans with biases, in the order of ``walk`` over layers and heads."""
    _, layers, heads, _ = engine.chains(1, 1)
    return [r.plan for chain in (layers, *heads) for r in walk(chain)]


def narrows(plan: LinearPlan | LstmPlan) -> bool:
    """Whether the layer rounds anything itself."""
    return isinstance(plan, LstmPlan) or plan.wants != "f32"


def walk(chain: Chain) -> Iterator[LinearRunner | LstmRunner]:
    """All runners of a chain that multiply with weights and have a bias."""
    for runner in chain.runners:
        yield from _inside(runner)


def _inside(runner: Any) -> Iterator[LinearRunner | LstmRunner]:
    if isinstance(runner, ResidualRunner):
        yield from walk(runner.chain)
    elif isinstance(runner, BiLstmRunner):
        yield from runner.parts
    elif isinstance(runner, ConvRunner | TwoWayRunner):
        yield from _inside(runner.linear)
    elif isinstance(runner, LinearRunner | LstmRunner) and runner.plan.biases:
        yield runner


def read_by(runner: LinearRunner | LstmRunner, plan: LinearPlan | LstmPlan) -> Sequence[Array]:
    """The values [steps, rows, width] that each of the plan's matrices is multiplied with."""
    x = decode(runner.source)
    if isinstance(runner, LinearRunner) or isinstance(plan, LinearPlan):
        return [rounded(x, plan.wants, plan.scale)]
    exact, apart = runner.source.format == "f32", []
    if plan.columns is not None and exact:
        x = (x - plan.columns.center) / plan.columns.step
    if plan.columns is not None and len(plan.columns.apart):
        wide = runner.source.apart
        apart = [decode(wide) if wide else rounded(x[..., plan.columns.apart], plan.apart, 1.0)]
    # rounded to whole numbers, an LSTM's h keeps its mean
    h = decode(runner.own)
    h = h if plan.stored in WHOLE else rounded(h, plan.stored, UNIT)
    x = x if plan.wants in WHOLE and plan.scale == UNIT else rounded(x, plan.wants, plan.scale)
    return [h, x, *apart]


def decode(block: Block) -> Array:
    """A block's values in float64."""
    values = block.array[..., : block.width]
    if block.format == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if block.format in WHOLE:
        zero = 128.0 if block.format == "u8" else 0.0
        return (values.astype(np.float64) - zero) * block.scale
    return values.astype(np.float64)


def rounded(values: Array, format: str, scale: float) -> Array:
    """What a format makes of values; they stay as they are if they are in it already."""
    if format == "f32":
        return values
    if format in ("bf16", "f32bf16"):
        return round_bf16(values.astype(np.float32)).astype(np.float64)
    out: Array = np.rint(values / scale).clip(-127, 127) * scale
    return out
