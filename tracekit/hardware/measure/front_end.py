"""Fetch, decoding and allocation: how many instructions a cycle, from where."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracekit.hardware.measure.bench import Bench, Experiment, family, first_above
from tracekit.hardware.measure.kernels import branch_to, kernel
from tracekit.hardware.measure.library import isa, snippets
from tracekit.hardware.measure.timing import Run

__all__ = ["EXPERIMENTS"]

_LINE: Final = 64
#: Instructions of a line that are tried, and by how many cycles one more of them must cost.
_FEWEST, _MOST, _STEP = 5, 15, 0.8
#: The same of instructions that are entered by a jump: others than the first entry's begin another.
_ENTRY: Final = 0.35


def mixture() -> list[str]:
    """240 independent instructions of every kind, none of which takes all units of its own."""
    return [
        n
        for k in range(30)
        for n in (
            *(f"result{2 * k % 8}", f"vector{2 * k % 8}", f"result{(2 * k + 1) % 8}"),
            *(f"vector_load{k % 4}", f"result{(2 * k + 4) % 8}", f"vector{(2 * k + 1) % 8}"),
            *(f"result{(2 * k + 5) % 8}", f"store{k % 4}"),
        )
    ]


def width(bench: Bench) -> dict[str, float]:
    """Instructions a cycle, of several kinds and of mixtures."""
    found = {}
    for name in ("int", "result", "compare", "move", "multiply", "vector", "load", "vector_load"):
        found[f"{name}_per_cycle"] = 1 / bench.cycles(family(name, 240), 240)
    for name in ("store", "store_near", "store_half"):
        found[f"{name}_per_cycle"] = 1 / bench.cycles(family(name, 240), 240)
    found["nop_per_cycle"] = 1 / bench.cycles(["nop"] * 240, 240)
    found["mixed_per_cycle"] = 1 / bench.cycles(mixture(), len(mixture()))
    if "pair0" in snippets():
        found["pair_cycles"] = bench.cycles(family("pair", 120), 120)
    for name in ("float_add", "float_multiply", "float_both"):
        found[f"{name}_cycles"] = bench.cycles([name] * 60, 60)
    found["move_chain_cycles"] = bench.cycles(["chain_move"] * 120, 240)
    return found


def code_size(bench: Bench) -> dict[str, float]:
    """Where instructions of four bytes come from: a cache of decoded ones, decoders, caches."""
    length = len(snippets()["wide_nop"])

    def time(count: int) -> float:
        k = kernel(["wide_nop"] * count, count)
        return bench.timer.cycles(Run(k), 5, 60_000.0) or np.nan

    fast = time(1024)
    found = {"wide_nop_per_cycle": 1 / fast}
    l1i = time(28 * 1024 // length)
    l2 = time(6 * (int(bench.found["l1d_kb"]) << 10) // length)
    if l1i > 1.15 * fast:
        held = first_above(time, [2**k for k in range(7, 14)], (fast + l1i) / 2, step=64)
        if held is not None:
            found["op_cache_ops"] = held
        found["decode_per_cycle"] = 1 / l1i
    found["l2_code_per_cycle"] = 1 / l2
    return found


def _lines(count: int) -> bytes:
    """Sixteen lines of code of ``count`` instructions, the last of which jumps to the next line."""
    known = snippets()
    out = b""
    for _ in range(16):
        one = b"".join(known[f"{'load' if k % 2 else 'result'}{k % 4}"] for k in range(count - 1))
        one += branch_to("jump", _LINE - len(one))
        out += one + known["nop"] * (_LINE - len(one))
    return out


def lines(bench: Bench) -> dict[str, float]:
    """How many instructions of a line of code come together, and what a line of more takes."""
    if isa() != "x86":  # whose instructions are short enough for a line of many
        return {}

    def time(count: int) -> float:
        # places in memory differ in how they meet the predictors: the best of three
        return min(bench.cycles(_lines(count), 16, rounds=5) for _ in range(3))

    cycles = [time(n) for n in range(_FEWEST, _MOST + 1)]
    steps = np.diff(cycles)
    most = int(np.argmax(steps))
    if steps[most] < _STEP:
        return {"line_step_cycles": 0.0}
    return {
        "line_step_cycles": float(steps[most]),
        "line_together": _FEWEST + most,
        "line_more_cycles": cycles[most + 1],
    }


def _entered(count: int, before: int) -> bytes:
    """32 pieces of code of ``count`` moves and a jump, each entered by a jump; ``before`` of its
    moves lie in the line before."""
    known = snippets()
    moves = [known[f"move{k % 4}"] for k in range(count)]
    begin = -sum(map(len, moves[:before])) % _LINE
    out = branch_to("jump", begin) if begin else b""
    for _ in range(32):
        out += known["nop"] * (begin - len(out) % _LINE)
        one = b"".join(moves)
        at = (len(out) + len(one)) % (2 * _LINE)
        out += one + branch_to("jump", 2 * _LINE + begin - at)
        out += known["nop"] * (-len(out) % (2 * _LINE))
    return out + known["nop"] * begin


def entries(bench: Bench) -> dict[str, float]:
    """What a few instructions take that are entered by a jump: in one line of code, in two, and as
    many of them as take a cycle more than one less."""
    if isa() != "x86":
        return {}

    def time(count: int, before: int = 0) -> float:
        return min(bench.cycles(_entered(count, before), 32, rounds=5) for _ in range(4))

    one, two = time(3), time(3, 2)
    cycles = [time(n) for n in range(_FEWEST, _MOST)]
    steps = np.diff(cycles)
    most = int(np.argmax(steps))
    found = {"entered_cycles": one, "entered_two_cycles": two, "entry_step_cycles": steps[most]}
    if steps[most] > _ENTRY:  # with the jump
        found |= {"entry_together": _FEWEST + most + 1, "entry_more_cycles": cycles[most + 1]}
    return {k: float(v) for k, v in found.items()}


EXPERIMENTS = (
    Experiment("entries", "entries of decoded instructions", entries, 0.05, 0.2),
    Experiment("width", "width", width, 0.04, 0.1),
    Experiment("lines of code", "lines of code", lines, 0.05, 0.2),
    Experiment("code size", "cache of decoded instructions", code_size, 0.12, 0.2),
)
