"""Layers one after another for one thread, and those that hold others or work on each number."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.infer import loops
from tracekit.infer.blocks import UNIT, Array, Block, Convert, Plan, Runner, Stateless, wanted_by
from tracekit.infer.functions import apply_activation
from tracekit.infer.linear import LinearRunner
from tracekit.infer.lstm import BiLstmRunner, LstmRunner
from tracekit.model.spec import ACTIVATIONS

__all__ = ["ActivationPlan", "Chain", "ConcatPlan", "NormPlan", "ResidualPlan", "ResidualRunner"]


class NormPlan:
    """Layer normalisation."""

    wants = "f32"

    def __init__(self, weight: Array, bias: Array, eps: float) -> None:
        self.weight, self.bias, self.eps = weight, bias, eps

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return NormRunner(self, source, steps, rows)


class NormRunner(Stateless):
    """Runs a NormPlan in one thread."""

    def __init__(self, plan: NormPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows, self.source = plan, rows, source
        self.output = Block.make(steps, rows, source.width)

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        p, s = self.plan, self.source
        out = self.output.array
        loops.layer_norm(s.array, steps, self.rows, s.width, p.weight, p.bias, p.eps, out)


class ActivationPlan:
    """An elementwise function."""

    wants = "f32"

    def __init__(self, name: str) -> None:
        self.kind = ACTIVATIONS.index(name)

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return ActivationRunner(self.kind, source, rows)


def is_relu(plan: Plan) -> bool:
    """Whether a plan is max(x, 0) and nothing else."""
    return isinstance(plan, ActivationPlan) and ACTIVATIONS[plan.kind] == "relu"


class ActivationRunner(Stateless):
    """Has an output of its own: what it reads may be an LSTM's state."""

    def __init__(self, kind: int, source: Block, rows: int) -> None:
        self.kind, self.source, self.rows = kind, source, rows
        self.output = Block.make(len(source.array), rows, source.width)

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        source, out, width = self.source.array, self.output.array, self.output.width
        apply_activation(self.kind, source, steps, self.rows, width, out)


class ResidualPlan:
    """x + layers(x)."""

    wants = "f32"

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = plans

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return ResidualRunner(self.plans, source, steps, rows)


class ResidualRunner:
    """A thread's x + layers(x)."""

    def __init__(self, plans: Sequence[Plan], source: Block, steps: int, rows: int) -> None:
        self.source, self.rows = source, rows
        self.chain = Chain(plans, source, steps, rows)
        self.output = Block.make(steps, rows, source.width)

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        self.chain.run(steps)
        out, width = self.output.array, self.output.width
        loops.copy_block(self.source.array, steps, self.rows, width, out)
        loops.add_block(self.chain.output.array, steps, self.rows, width, out)

    def reset(self, rows: Sequence[int]) -> None:
        """These rows begin again."""
        self.chain.reset(rows)


class ConcatPlan(ResidualPlan):
    """x beside layers(x)."""

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return ConcatRunner(self.plans, source, steps, rows)


class ConcatRunner(ResidualRunner):
    """Runs a ConcatPlan in one thread."""

    def __init__(self, plans: Sequence[Plan], source: Block, steps: int, rows: int) -> None:
        super().__init__(plans, source, steps, rows)
        self.output = Block.make(steps, rows, source.width + self.chain.output.width)

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        self.chain.run(steps)
        first, second = self.source, self.chain.output
        out = self.output.array
        loops.copy_block(first.array, steps, self.rows, first.width, out)
        loops.copy_block(second.array, steps, self.rows, second.width, out[:, :, first.width :])


class Chain:
    """Plans one after another for one thread; ``output`` is in the format and the scale ``last``,
    float32 unless given, as those plans want it that read it."""

    def __init__(
        self,
        plans: Sequence[Plan],
        source: Block,
        steps: int,
        rows: int,
        last: tuple[str, float] = ("f32", 1.0),
    ) -> None:
        self.runners: list[Runner] = []
        block: Block = source
        before: Runner | None = None
        relu = False  # one behind an LSTM is left to its kernel
        for plan in plans:
            if isinstance(before, LstmRunner) and is_relu(plan):
                relu = True
                continue
            block = self._adapt(block, before, relu, *wanted_by(plan))
            before, relu = plan.runner(block, steps, rows), False
            self.runners.append(before)
            block = before.output
        self.output = self._adapt(block, before, relu, *last)

    def _adapt(
        self, block: Block, last: Runner | None, relu: bool, wants: str, scale: float
    ) -> Block:
        """The block in the format wanted, converted from float32 where it is not there already."""
        quantised = wants in ("u8", "i16", "f32int8")
        if (
            not relu
            and block.format == wants
            and (not quantised or abs(block.scale - scale) < 1e-12)
        ):
            return block
        if isinstance(last, LstmRunner):
            direct = not quantised or scale == UNIT
            block = last.emit(wants if direct else "f32", relu)
            if direct:
                return block
        elif isinstance(last, BiLstmRunner):
            block = last.wide()
        if wants == "f32":
            return block
        if isinstance(last, LinearRunner):
            return last.emit(wants, scale)
        convert = Convert(block, wants, scale)
        self.runners.append(convert)
        return convert.output

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        for runner in self.runners:
            runner.run(steps)

    def reset(self, rows: Sequence[int]) -> None:
        """These rows begin again."""
        for runner in self.runners:
            runner.reset(rows)

    def seek(self, position: int) -> None:
        """Say where in the chunk, from its start, the next step is."""
        for runner in self.runners:
            if isinstance(runner, LstmRunner):
                runner.position = position
            elif isinstance(runner, BiLstmRunner):
                for part in runner.parts:
                    part.position = position
            elif isinstance(runner, ResidualRunner):
                runner.chain.seek(position)
