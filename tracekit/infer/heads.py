"""Heads that are more than layers: NeuroScalar's choice of two, and a distribution's readout."""

from __future__ import annotations

import numpy as np

from tracekit.infer import loops
from tracekit.infer.blocks import Block, Formats, Runner, Stateless, Tensors
from tracekit.infer.linear import LinearPlan
from tracekit.model.spec import READOUTS, Head

__all__ = ["DistributionPlan", "TwoWayPlan", "TwoWayRunner"]


class TwoWayPlan:
    """NeuroScalar's head: all its linear layers as one, in float32 (rounded weights would move each
    total by some tenths of a percent), then the choice."""

    def __init__(self, formats: Formats, head: Head, tensors: Tensors) -> None:
        fc1, fc2 = head.classifier
        names = (fc1, head.short, head.long)
        weight = np.concatenate([tensors[f"{n}.weight"] for n in names])
        parts = [(f"{n}.bias", tensors[f"{n}.bias"]) for n in names]
        bias = np.concatenate([values for _, values in parts])
        sizes = [(name, len(values)) for name, values in parts]
        self.linear = LinearPlan(formats, weight, bias, biases=sizes)
        self.wants = self.linear.wants
        logits, self.count = tensors[f"{fc2}.weight"], head.width_out
        self.weight = np.ascontiguousarray(logits[1] - logits[0])
        self.bias = np.float32(tensors[f"{fc2}.bias"][1] - tensors[f"{fc2}.bias"][0])
        self.hidden, self.cap = head.hidden, np.float32(head.cap)

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return TwoWayRunner(self, source, steps, rows)


class TwoWayRunner(Stateless):
    """A thread's choice of two."""

    def __init__(self, plan: TwoWayPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows = plan, rows
        self.linear = plan.linear.runner(source, steps, rows)
        self.output = Block.make(steps, rows, plan.count)

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        self.linear.run(steps)
        p, block, out = self.plan, self.linear.output.array, self.output.array
        loops.choose_head(block, steps, self.rows, p.hidden, p.weight, p.bias, p.cap, p.count, out)


class DistributionPlan:
    """Cycles from a distribution over numbers of cycles."""

    wants = "f32"

    def __init__(self, head: Head) -> None:
        self.exact, self.kind = head.exact, READOUTS.index(head.readout)
        self.scale, self.cap = np.array(head.scale, np.float32), np.float32(head.cap)

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return DistributionRunner(self, source, steps, rows)


class DistributionRunner(Stateless):
    """Runs a DistributionPlan in one thread."""

    def __init__(self, plan: DistributionPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows, self.source = plan, rows, source
        self.output = Block.make(steps, rows, len(plan.scale))

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        p, out = self.plan, self.output.array
        loops.read_distribution(
            self.source.array, steps, self.rows, p.exact, p.scale, p.cap, p.kind, out
        )
