"""Branches: what a misprediction costs, how many branches and calls are remembered."""

from __future__ import annotations

import numpy as np

from tracekit.hardware.measure.bench import Bench, Experiment, first_above
from tracekit.hardware.measure.kernels import Kernel, branch_to, kernel
from tracekit.hardware.measure.library import snippets
from tracekit.hardware.measure.timing import Run

__all__ = ["EXPERIMENTS"]

#: Random words that nobody can learn, 64 branches each.
_WORDS = 1 << 14
#: Places in memory at which a kernel of branches is tried; the best counts.
_PLACES = 4


def mispredictions(bench: Bench) -> dict[str, float]:
    """Cycles from a wrong branch's execution to the next instruction's: a branch on each bit of
    random words in turn, beside the same on zeros."""
    words = bench.data.words
    words[:_WORDS] = bench.rng.integers(0, 2**63, _WORDS, np.uint64) * np.uint64(2)
    taken = float(np.unpackbits(words[:_WORDS].view(np.uint8)).mean())
    # at some places in memory branches disturb each other: each kernel is at another one
    kernels = [kernel(["bits_load", *["bits_branch"] * 64], 64) for _ in range(_PLACES)]
    # each timing reads the same 256 words first: other ones, so that they cannot be learnt
    times = []
    for place, k in enumerate(kernels):
        found = []
        for turn in range(16 * place, 16 * place + 16):
            at = bench.data.address + 8 * 256 * (turn % (_WORDS // 256))
            one = bench.timer.cycles(Run(k, at, _WORDS - 1, count=256), 1)
            found.append(one if one is not None else np.nan)
        times.append(float(np.quantile(found, 0.3)))
    random = min(times)
    words[:_WORDS] = 0
    run = Run(kernels[0], bench.data.address, _WORDS - 1, count=256)
    even = bench.timer.cycles(run) or np.nan
    wrong = min(taken, 1 - taken)
    return {"mispredict_cycles": (random - even) / wrong, "branch_cycles": even}


def _jumps(count: int, spacing: int) -> Kernel:
    """``count`` jumps, each to the next, ``spacing`` bytes apart."""
    nop = snippets()["nop"]
    jump = branch_to("jump", spacing)
    return kernel((jump + nop * ((spacing - len(jump)) // len(nop))) * count, count)


def targets(bench: Bench) -> dict[str, float]:
    """How many taken branches the first branch target buffer knows, and all of them; what a branch
    costs there and behind."""

    def time(n: int) -> float:
        return bench.timer.cycles(Run(_jumps(n, 16)), 7, 60_000.0) or np.nan

    fast = time(64)
    found = {"taken_cycles": fast}
    sizes = [2**k for k in range(7, 16)]
    first = first_above(time, sizes, max(1.45 * fast, fast + 0.3), step=64)
    if first is None:
        return found
    second = float(np.median([time(2 * first) for _ in range(3)]))
    found |= {"btb_l1": first, "btb_l2_penalty": second - fast}
    last = first_above(time, [n for n in sizes if n > 2 * first], second + 4.0, step=512)
    if last is not None:
        found["btb_l2"] = last
    return found


def _nest(depth: int) -> Kernel:
    """Calls in calls, ``depth`` of them."""
    s = snippets()
    enter, leave = s.get("nest_enter", b""), s.get("nest_leave", b"")
    nop = s["nop"]
    call = len(s["call"])
    unit = -(-(len(enter) + call + len(leave) + len(s["ret"])) // 16) * 16
    jump = len(s["jump"])
    first = -(-(call + jump) // 16) * 16
    head = branch_to("call", first) + branch_to("jump", first + unit * depth - call)
    body = head + nop * ((first - len(head)) // len(nop))
    for i in range(depth):
        inner = branch_to("call", unit - len(enter)) if i + 1 < depth else b""
        one = enter + (inner or nop * (call // len(nop))) + leave + s["ret"]
        body += one + nop * ((unit - len(one)) // len(nop))
    return kernel(body, depth)


def returns(bench: Bench) -> dict[str, float]:
    """What a call and its return take, and how deep calls nest before a return is mispredicted."""

    def time(depth: int) -> float:
        # at some places in memory a few of them are mispredicted: each kernel is at another one
        return depth * min(bench.timer.cycles(Run(_nest(depth))) or np.nan for _ in range(_PLACES))

    level = (time(12) - time(4)) / 8
    found = {"call_return_cycles": level}
    deep = first_above(
        lambda d: time(d) - d * level, [*range(4, 16, 4), *range(16, 136, 8)], level + 8.0
    )
    if deep is not None:
        found["return_stack"] = deep - 1
    return found


def indirect(bench: Bench) -> dict[str, float]:
    """Jumps through a table to one of 16 places, in an order that repeats: what a predicted one
    costs, a mispredicted one, and how long an order is learnt."""
    s, nop = snippets(), snippets()["nop"]
    head = s["jump_table"]
    unit, places = 32, 16
    body = head + nop * ((-len(head) % 16) // len(nop))
    first = len(body)
    for i in range(places):
        jump = branch_to("jump", unit * (places - i))
        body += jump + nop * ((unit - len(jump)) // len(nop))
    k = kernel(body)

    def time(period: int) -> float:
        order = bench.rng.integers(0, places, period)
        where = (first + unit * order).astype(np.uint64) + np.uint64(k.loop)
        bench.data.words[:period] = where
        run = Run(k, bench.data.address, period - 1, count=max(2 * period, 4000))
        return bench.timer.cycles(run, 5) or np.nan

    learnt = time(4)
    wrong = time(1 << 15)
    found = {"indirect_cycles": learnt, "indirect_mispredict_cycles": (wrong - learnt) * 16 / 15}
    period = first_above(time, [2**k for k in range(4, 15)], learnt + (wrong - learnt) / 2, 8192)
    if period is not None:
        found["indirect_period"] = period
    return found


EXPERIMENTS = (
    Experiment("mispredictions", "mispredictions", mispredictions, 0.06, 0.7),
    Experiment("branch targets", "branch target buffers", targets, 0.15, 0.2),
    Experiment("returns", "return stack", returns, 0.04, 1.0),
    Experiment("indirect jumps", "indirect jumps", indirect, 0.15, 1.0),
)
