"""GRU, minGRU and causal convolutions, whose products are linear layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.infer import loops
from tracekit.infer.blocks import Block, Runner
from tracekit.infer.linear import LinearPlan

__all__ = ["ConvPlan", "ConvRunner", "GruPlan", "MinGruPlan"]


class GruPlan:
    """One GRU layer in float32: the input's product for a block, the state's step by step."""

    wants = "f32"

    def __init__(self, direct: LinearPlan, recurrent: LinearPlan) -> None:
        self.direct, self.recurrent, self.hidden = direct, recurrent, recurrent.out // 3

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return GruRunner(self, source, steps, rows)


class GruRunner:
    """Runs a GruPlan in one thread, and keeps its state between blocks."""

    def __init__(self, plan: GruPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows = plan, rows
        self.direct = plan.direct.runner(source, steps, rows)
        self.state = Block.make(1, rows, plan.hidden)
        self.products = Block.make(1, rows, 3 * plan.hidden, pad=plan.recurrent.target.lanes)
        self.output = Block.make(steps, rows, plan.hidden)

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        self.direct.run(steps)
        h, u, x = self.state, self.products, self.direct.output.array
        for t in range(steps):
            self.plan.recurrent.apply(self.rows, h, u)
            width, out = self.plan.hidden, self.output.array[t]
            loops.gru_step(x[t], u.array[0], self.rows, width, h.array[0], out)

    def reset(self, rows: Sequence[int]) -> None:
        """These rows begin again."""
        self.state.array[0, rows] = 0


class MinGruPlan:
    """minGRU: one product for a block, then a scan."""

    wants = "f32"

    def __init__(self, linear: LinearPlan) -> None:
        self.linear = linear

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return MinGruRunner(self, source, steps, rows)


class MinGruRunner:
    """Runs a MinGruPlan in one thread, and keeps its state between blocks."""

    def __init__(self, plan: MinGruPlan, source: Block, steps: int, rows: int) -> None:
        self.rows, self.hidden = rows, plan.linear.out // 2
        self.linear = plan.linear.runner(source, steps, rows)
        self.state = np.zeros((rows, self.hidden), np.float32)
        self.output = Block.make(steps, rows, self.hidden)

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        self.linear.run(steps)
        source, out = self.linear.output.array, self.output.array
        loops.mingru_scan(source, steps, self.rows, self.hidden, self.state, out)

    def reset(self, rows: Sequence[int]) -> None:
        """These rows begin again."""
        self.state[rows] = 0


class ConvPlan:
    """Causal convolution: a linear layer over the taps side by side, in the format it wants."""

    def __init__(self, linear: LinearPlan, kernel: int, dilation: int) -> None:
        self.linear, self.kernel, self.dilation = linear, kernel, dilation
        self.wants = linear.wants

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return ConvRunner(self, source, steps, rows)


class ConvRunner:
    """A thread's convolution, with the rows that it looks back on."""

    def __init__(self, plan: ConvPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows, self.source = plan, rows, source
        self.before = (plan.kernel - 1) * plan.dilation
        dtype = source.array.dtype
        self.history = np.zeros((self.before + steps, rows, source.width), dtype)
        self.taps = Block.make(steps, rows, plan.kernel * source.width, source.format)
        self.linear = plan.linear.runner(self.taps, steps, rows)
        self.output = self.linear.output

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        history, width, before = self.history, self.source.width, self.before
        loops.copy_block(self.source.array, steps, self.rows, width, history[before:])
        kernel, dilation = self.plan.kernel, self.plan.dilation
        loops.gather_taps(history, steps, self.rows, width, kernel, dilation, self.taps.array)
        self.linear.run(steps)
        history[:before] = history[steps : steps + before].copy()

    def reset(self, rows: Sequence[int]) -> None:
        """These rows begin again."""
        self.history[: self.before, rows] = 0
