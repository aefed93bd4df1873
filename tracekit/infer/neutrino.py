"""NeuroScalar's accelerator as a cost model: a static schedule of a model on its vector engine.

Source: the paper's section 4.3 and Table 3.  The engine has 256 int8 lanes: it multiplies one row
of K activations with K x 256 weights in K cycles.  Weights lie in a global buffer and are staged
through a local one, two halves in turn, while the engine computes; bias and activation functions
follow in a pipeline and cost its drain.  Tiles share nothing but the global buffers.

Nothing is timed: the result is arithmetic on the model's shapes.  ``table3`` holds the paper's own
numbers against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tracekit.errors import UsageError
from tracekit.model import Card, Head, Layer, ModelSpec

__all__ = ["Machine", "Schedule", "Step", "schedule", "table3"]

KIB = 1024
EPOCH = 100_000  # instructions
PAPER_LAYER = 8264  # cycles "a single LSTM layer finishes in"
SPEED = {1: 0.02e6, 8: 0.157e6}
SAMPLING = {1: 152_642, 8: 19_080}
POWER_W = {1: 0.028, 8: 0.226}
AREA = {1: 2.04, 8: 3.15}
TILE_AREA = {1: 0.16, 8: 1.26}
HOST = 3000e6  # instructions a second, section 4.2
GPU_SPEED = 5_916_285.0  # RTX 4090, Table 2
GPU_W, GPU_AREA = 450.0, 608.5  # its rated power and its die in mm²; not in the paper


@dataclass(frozen=True)
class Machine:
    """The accelerator: sizes in bytes, the clock in Hz, the port in bytes a cycle (0: no limit).

    The clock is not in the paper; 325 MHz is what its speed asks for (``table3``).  ``drain`` is
    fitted: four of them make the 72 cycles by which 8264 exceeds a multiple of 2048.
    """

    lanes: int = 256
    clock_hz: float = 325e6
    tiles: int = 1
    batch: int = 1
    port: int = 0
    drain: int = 18
    weight_buffer: int = 1280 * KIB
    input_buffer: int = 1280 * KIB
    local_weights: int = 128 * KIB
    local_inputs: int = 16 * KIB

    def __post_init__(self) -> None:
        if not 1 <= self.tiles <= 8:
            raise UsageError(f"tiles is {self.tiles}; from 1 to 8")
        if not 1 <= self.batch <= 4096 or not 1 <= self.lanes <= 1 << 16:
            raise UsageError("batch is from 1 to 4096, lanes from 1 to 65536")
        if not 1e3 <= self.clock_hz <= 1e11 or self.port < 0 or self.drain < 0:
            raise UsageError("clock is from 1 kHz to 100 GHz; port and drain are not negative")


@dataclass(frozen=True)
class Step:
    """One matrix of the schedule, for ``batch`` instructions."""

    name: str
    macs: int  # for one instruction
    weights: int  # bytes
    compute: int  # cycles in which the engine multiplies
    staging: int  # cycles in which the weights pass the port
    cycles: int  # the longer of both, and the drain
    local_weights: int  # bytes of the local weight buffer in use
    utilisation: float  # of the lanes


@dataclass(frozen=True)
class Schedule:
    """The whole model on a machine."""

    machine: Machine
    steps: tuple[Step, ...]
    cycles: int  # for ``batch`` instructions on one tile
    macs: int  # for one instruction
    weights: int
    features: int  # bytes of an epoch's features, one for each number
    local_inputs: int
    instructions_per_s: float
    notes: tuple[str, ...] = field(default=())

    @property
    def utilisation(self) -> float:
        """Share of lane-cycles that multiply."""
        return self.macs * self.machine.batch / (self.cycles * self.machine.lanes)

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        m = self.machine
        return {
            "machine": asdict(m),
            "steps": [asdict(step) for step in self.steps],
            "cycles_per_instruction": self.cycles / m.batch,
            "macs_per_instruction": self.macs,
            "utilisation": self.utilisation,
            "instructions_per_s": self.instructions_per_s,
            "epoch_s": EPOCH / self.instructions_per_s,
            "host_instructions_per_predicted": HOST / self.instructions_per_s,
            "buffers": {
                "weights": occupancy(self.weights, m.weight_buffer),
                "features_of_an_epoch": occupancy(self.features, m.input_buffer),
                "local_weights": occupancy(
                    max((s.local_weights for s in self.steps), default=0), m.local_weights
                ),
                "local_inputs": occupancy(self.local_inputs, m.local_inputs),
            },
            "notes": list(self.notes),
        }


def occupancy(used: int, size: int) -> dict[str, Any]:
    """Bytes and share of a buffer."""
    return {"bytes": used, "of": size, "share": used / size, "fits": used <= size}


def matrices(spec: ModelSpec) -> Iterator[tuple[str, int, int]]:
    """(name, outputs, inputs) of each product, in the order of the schedule."""

    def of_layer(layer: Layer) -> Iterator[tuple[str, int, int]]:
        for inner in layer.inner:
            yield from of_layer(inner)
        if layer.type in ("lstm", "gru"):
            gates = "ifgo" if layer.type == "lstm" else "rzn"
            for part, width in layer.parts():
                for gate in gates:  # x and h are one row of inputs to each gate
                    yield f"{layer.name}.{part}.{gate}", layer.hidden, width + layer.hidden
        elif layer.type == "mingru":
            yield layer.name, 2 * layer.width_out, layer.width_in
        elif layer.type == "conv1d":
            yield layer.name, layer.width_out, layer.width_in * layer.kernel
        elif layer.type == "linear":
            yield layer.name, layer.width_out, layer.width_in

    def of_head(head: Head) -> Iterator[tuple[str, int, int]]:
        for layer in head.layers:
            yield from of_layer(layer)
        if head.type == "two_way":
            fc1, fc2 = head.classifier
            yield fc1, head.hidden, head.width_in
            yield fc2, 2, head.hidden
            # both heads: the class is not known before the schedule is made
            yield f"{head.short}+{head.long}", 2 * head.width_out, head.width_in

    for layer in spec.layers:
        yield from of_layer(layer)
    for head in spec.heads:
        yield from of_head(head)


def schedule(card: Card, machine: Machine | None = None) -> Schedule:
    """Cycles, utilisation and buffers of one model; raises UsageError where it has no products."""
    m = machine or Machine()
    steps: list[Step] = []
    notes: list[str] = []
    for name, out, width in matrices(card.spec):
        panels = math.ceil(out / m.lanes)
        compute = panels * width * m.batch
        size = out * width
        staging = math.ceil(size / m.port) if m.port else 0
        cycles = max(compute, staging) + m.drain
        # one panel is computed from one half while the next fills the other one
        half = min(width * min(out, m.lanes), m.local_weights // 2)
        local = half * (2 if size > half else 1)
        used = out * width * m.batch / (cycles * m.lanes)
        steps.append(Step(name, size, size, compute, staging, cycles, local, used))
    if not steps:
        raise UsageError("the model has no matrix products")
    if card.spec.bidirectional:
        notes.append("the backward direction needs the rows of a whole window before the first")
    weights = card.spec.parameters()
    widest = max(width for _, _, width in matrices(card.spec))
    # a row's inputs in int8 and the cells of its recurrent layers in 32 bits
    cells = sum(
        layer.width_out * layer.layers for layer in card.spec.flat_layers() if layer.type == "lstm"
    )
    inputs = m.batch * (widest + 4 * cells)
    features = EPOCH * len(card.columns)
    for used, limit, what in (
        (weights, m.weight_buffer, "weights"),
        (features, m.input_buffer, "features of an epoch"),
        (inputs, m.local_inputs, "inputs and cells of a batch"),
    ):
        if used > limit:
            notes.append(f"{what}: {used} bytes do not fit the buffer of {limit}")
    total = sum(step.cycles for step in steps)
    rate = m.tiles * m.batch * m.clock_hz / total
    macs = sum(step.macs for step in steps)
    return Schedule(m, tuple(steps), total, macs, weights, features, inputs, rate, tuple(notes))


def layers(steps: Sequence[Step], machine: Machine) -> list[dict[str, Any]]:
    """The steps summed by layer: the gates of an LSTM layer together."""
    out: dict[str, dict[str, Any]] = {}
    for step in steps:
        parts = step.name.split(".")
        name = ".".join(parts[:2]) if len(parts) > 2 else step.name
        row = out.setdefault(name, {"layer": name, "macs": 0, "weights": 0, "cycles": 0})
        for key in ("macs", "weights", "cycles"):
            row[key] += getattr(step, key)
    for row in out.values():
        row["utilisation"] = row["macs"] * machine.batch / (row["cycles"] * machine.lanes)
    return list(out.values())


#: Instructions a second of the paper's accelerator, by tiles, as its sampling rates give them.
_RATE = {tiles: HOST / rate for tiles, rate in SAMPLING.items()}


def table3() -> list[dict[str, Any]]:
    """The paper's numbers for its accelerator, each beside what its other numbers give.

    ``consistent`` says whether both agree to the digits that the paper prints.
    """
    keys = ("claim", "paper", "derived", "consistent", "note")
    rows = (*_speeds(), *_costs(), *_sizes())
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _speeds() -> list[tuple[Any, ...]]:
    """Cycles and rates."""
    macs = 4 * 512 * 256
    return [
        (
            "cycles of a 256-wide product with one row",
            256,
            256,
            True,
            "(1, 256) x (256, 256) on 256 lanes",
        ),
        (
            "cycles of an LSTM layer",
            PAPER_LAYER,
            macs // 256,
            False,
            f"{macs} multiply-adds over 256 lanes are {macs // 256} cycles; 8264 is four times "
            "that and 72: four rows at once, or weights that pass a port of 64 bytes a cycle",
        ),
        (
            "lanes in use in an LSTM layer",
            0.99,
            round(macs / 256 / PAPER_LAYER, 3),
            False,
            "for one row in 8264 cycles; 0.991 if these are the cycles of four rows",
        ),
        (
            "instructions a second, 1 tile",
            SPEED[1],
            round(_RATE[1]),
            True,
            "from the sampling rate and the host's 3000 MIPS; 0.02 million when rounded",
        ),
        (
            "instructions a second, 8 tiles",
            SPEED[8],
            round(_RATE[8]),
            True,
            "8 times one tile, as the sampling rates are",
        ),
        (
            "seconds between epochs, 1 tile",
            4.9,
            round(EPOCH / _RATE[1], 2),
            False,
            "the introduction's 4.9 s against 152,642 epochs of 100,000 at 3000 MIPS",
        ),
        ("seconds between epochs, 8 tiles", 0.6, round(EPOCH / _RATE[8], 2), True, "rounded"),
        (
            "clock in MHz",
            None,
            round(_RATE[1] * 2 * PAPER_LAYER / 1e6, 1),
            False,
            "not given; this is what two layers of 8264 cycles for each instruction ask for "
            f"({_RATE[1] * 2 * PAPER_LAYER / 4e6:.1f} if they are four instructions' cycles), "
            "the other layers left out",
        ),
    ]


def _costs() -> list[tuple[Any, ...]]:
    """Power, area and energy."""
    per_joule = _RATE[1] / POWER_W[1]
    return [
        (
            "power of 8 tiles in W",
            POWER_W[8],
            round(8 * POWER_W[1], 3),
            True,
            "8 times one tile; the introduction says 230 mW",
        ),
        (
            "area of 8 tiles",
            AREA[8],
            round(AREA[1] - TILE_AREA[1] + TILE_AREA[8], 2),
            True,
            "the buffers once and the tiles 8 times, to the rounding",
        ),
        (
            "energy an instruction against an RTX 4090",
            85,
            round(per_joule / (GPU_SPEED / GPU_W), 1),
            False,
            "with Table 2's 5.92 million a second and the card's rated 450 W; 85 needs 3.7 million "
            "at 450 W.  The abstract calls it performance: by speed, 8 tiles are 1/38 of the GPU",
        ),
        (
            "area against an RTX 4090",
            391,
            round(GPU_AREA / AREA[1]),
            False,
            "with the card's die of 608.5 mm² and one tile with its buffers",
        ),
    ]


def _sizes() -> list[tuple[Any, ...]]:
    """Technology and memory."""
    return [
        (
            "technology in nm",
            "7 (section 2.1)",
            "16 (sections 4.3 and 5)",
            False,
            "both for the same 28 mW",
        ),
        (
            "an epoch's features in bytes",
            "1 MB",
            EPOCH * 13,
            False,
            "13 numbers of one byte for 100,000 instructions fit the 1.25 MB buffer only if its "
            "megabytes are binary",
        ),
        (
            "weights in the 1.25 MB buffer",
            "fit",
            1_073_348,
            True,
            "one byte for each of the paper's parameters",
        ),
    ]
