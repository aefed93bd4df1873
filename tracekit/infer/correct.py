"""What a narrow format adds to each layer's mean, taken off again: corrections of biases.

Rounded weights and activations shift the mean of every output a little, always to the same side,
and a total adds that up.  With W the weights and x the inputs, and V and z both in the narrow
format, a layer's shift is V E[z] - W E[x].  That is taken off its bias (Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction", 2019, section 4.2, with measured
means).  An LSTM feeds its own shift back, in the calibration too: there z are the exact inputs in
the narrow format, so that what is taken off is what arises in the layer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.infer.engine import REPRESENTATION, ROWS, STEPS, Engine
from tracekit.infer.pack import round_bf16
from tracekit.infer.stages import (
    UNIT,
    BiLstmRunner,
    Block,
    Chain,
    ConvRunner,
    LinearPlan,
    LinearRunner,
    LstmPlan,
    LstmRunner,
    ResidualRunner,
    TwoWayRunner,
)

__all__ = ["corrections"]

Array = NDArray[Any]
ROUNDS = 3  # a layer's correction changes what the next one reads
WARM = 64  # steps of each part of the rows that are not counted
LONGEST = 2048
PARTS = 16


def corrections(
    exact: Engine, narrow: Callable[[Mapping[str, Array]], Engine], features: Array
) -> dict[str, Array]:
    """What to add to bias tensors, by name, so that each layer's mean over these raw rows is the
    one that the engine ``exact`` has; and to the representation, where totals are products with it.
    ``narrow`` makes the engine in the narrow format with given corrections."""
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
    names = [head.name for head in exact.spec.heads if head.compositional]
    if not names:
        return out
    # Totals are products with the representation: its mean is corrected, too.  The layers' own are
    # kept where that leaves less of the parts' totals; feedback can make them do harm.
    edges = np.linspace(0, len(features), PARTS + 1).astype(np.int64)
    want, cases = exact.sum_representations(features, edges), []
    for layers in (out, {}):
        left = want - narrow(layers).sum_representations(features, edges)
        mean = (left.sum(axis=0) / len(features)).astype(np.float32)
        left -= np.diff(edges)[:, None] * mean
        cases.append((np.abs(exact.apply_table(left, names[0])).sum(), mean, layers))
    _, mean, layers = min(cases, key=lambda case: case[0])
    return {**layers, REPRESENTATION: mean}


def mean_products(
    engine: Engine, features: Array, narrow: Engine | None = None
) -> dict[str, tuple[Array, bool]]:
    """For each bias by name: the mean of weights times inputs of its layer, float64 without the
    bias, and whether it is an LSTM's.  In the engine's format; or, with ``narrow``, of the engine's
    inputs and states in the format and with the weights that ``narrow`` has."""
    parts = min(ROWS, max(1, len(features) // (4 * WARM)))
    length = min(len(features) // parts, LONGEST)
    first = np.arange(parts, dtype=np.int64) * (len(features) // parts)
    warm = min(WARM, length // 4)
    block = length if engine.lookahead else STEPS
    inputs, layers, heads, _ = engine.chains(block, parts)
    runners = [r for chain in (layers, *heads) for r in walk(chain)]
    plans = [r.plan for r in runners] if narrow is None else plans_of(narrow)
    rows = np.resize(first, inputs.output.array.shape[1])  # what fills the tile runs again
    sums: list[list[Array]] = [[] for _ in runners]
    counted = 0
    for step in range(0, length, block):
        steps = min(block, length - step)
        inputs.run(features, rows + step, steps)
        layers.run(steps)
        for head in heads:
            head.run(steps)
        skip = max(0, warm - step)
        if skip >= steps:
            continue
        counted += (steps - skip) * parts
        for runner, plan, old in zip(runners, plans, sums, strict=True):
            new = [v[skip:steps, :parts].sum(axis=(0, 1)) for v in read_by(runner, plan)]
            old[:] = [a + b for a, b in zip(old or np.zeros(len(new)), new, strict=True)]
    out: dict[str, tuple[Array, bool]] = {}
    for plan, own in zip(plans, sums, strict=True):
        pairs = zip(plan.values, own, strict=True)
        product = np.sum([w.astype(np.float64) @ (v / counted) for w, v in pairs], axis=0)
        product = product + getattr(plan, "shift", 0.0)
        at = 0
        for name, size in plan.biases:
            out[name] = product[at : at + size], isinstance(plan, LstmPlan)
            at += size
    return out


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
    h = rounded(decode(runner.own), plan.stored, UNIT)
    return [h, rounded(x, plan.wants, plan.scale), *apart]


def decode(block: Block) -> Array:
    """A block's values in float64."""
    values = block.array[..., : block.width]
    if block.format == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if block.format in ("u8", "i16", "f32int8"):
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
