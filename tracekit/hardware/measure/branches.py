"""Branches: what a misprediction costs, how many branches and calls are remembered."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.hardware.measure.bench import Bench, Experiment, first_above
from tracekit.hardware.measure.kernels import Kernel, branch_to, kernel
from tracekit.hardware.measure.library import snippets
from tracekit.hardware.measure.timing import Run

__all__ = ["EXPERIMENTS"]

#: Random words that nobody can learn, 64 branches each.
_WORDS = 1 << 14
#: From the dispatch of what is behind a wrong branch to the next branch's execution: a cycle, the
#: shift and the branch itself.
_EXECUTES = 3
#: Of a table: places, and the order of jumps that is learnt while several follow each of them.
_TARGETS, _LEARNT = 16, 64
#: Of a short order that repeats.
_TURNS = 512
#: Places in memory at which a kernel of branches is tried; the best counts.
_PLACES = 4


def mispredictions(bench: Bench) -> dict[str, float]:
    """Cycles from a wrong branch's execution to the dispatch of what follows: a branch on each bit
    of random words in turn, over two operations, beside the same on zeros."""
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
    return {"mispredict_cycles": (random - even) / wrong - _EXECUTES, "branch_cycles": even}


def _jumps(count: int, spacing: int, rng: np.random.Generator) -> Kernel:
    """``count`` jumps ``spacing`` bytes apart in a random order: one to the next place in memory is
    predicted better than others."""
    nop = snippets()["nop"]
    order = np.concatenate([[0], 1 + rng.permutation(count - 1)])
    to = np.full(count, count)
    to[order[:-1]] = order[1:]
    jumps = [branch_to("jump", spacing * int(t - k)) for k, t in enumerate(to)]
    fill = nop * ((spacing - len(jumps[0])) // len(nop))
    return kernel(b"".join(j + fill for j in jumps), count)


def targets(bench: Bench) -> dict[str, float]:
    """How many taken branches the first branch target buffer knows, and all of them; what a branch
    costs there and behind."""

    def time(n: int) -> float:
        return bench.timer.cycles(Run(_jumps(n, 16, bench.rng)), 7, 60_000.0) or np.nan

    fast = time(64)
    found = {"taken_cycles": fast}
    sizes = [2**k for k in range(7, 16)]
    first = first_above(time, sizes, max(1.45 * fast, fast + 0.3), step=64)
    if first is None:
        return found
    second = float(np.median([time(3 * first // 2) for _ in range(3)]))
    found |= {"btb_l1": first, "btb_l2_penalty": second - fast}
    last = first_above(time, [n for n in sizes if n > 3 * first // 2], second + 4.0, step=512)
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


def _table(rng: np.random.Generator) -> tuple[Kernel, npt.NDArray[np.uint64]]:
    """A jump through a table, and where its places are, whose sizes differ as an interpreter's do:
    some processors tell places of one alignment badly apart."""
    s, nop = snippets(), snippets()["nop"]
    head = s["jump_table"]
    sizes = 4 * rng.integers(2, 16, _TARGETS)
    body = head + nop * ((-len(head) % 16) // len(nop))
    where, end = [], len(body) + int(sizes.sum())
    for size in sizes.tolist():
        where.append(len(body))
        jump = branch_to("jump", end - len(body))
        body += jump + nop * ((size - len(jump)) // len(nop))
    k = kernel(body)
    return k, np.array(where, np.uint64) + np.uint64(k.loop)


def indirect(bench: Bench) -> dict[str, float]:
    """Jumps through a table to one of 16 places, in an order that repeats: what a predicted one
    costs, a mispredicted one, and how long an order is learnt."""
    tables = [_table(bench.rng) for _ in range(_PLACES)]

    def time(period: int) -> float:
        found = []
        for k, where in tables:
            bench.data.words[:period] = where[bench.rng.integers(0, _TARGETS, period)]
            run = Run(k, bench.data.address, period - 1, count=max(2 * period, 4000))
            found.append(bench.timer.cycles(run, 5) or np.nan)
        return float(np.median(found))

    learnt = time(_LEARNT)
    wrong = time(1 << 15)
    found = {"indirect_cycles": learnt, "indirect_mispredict_cycles": (wrong - learnt) * 16 / 15}
    half = learnt + (wrong - learnt) / 2
    sizes = [2**k for k in range(_LEARNT.bit_length(), 15)]
    times = [time(n) for n in sizes]
    above = next((k for k, t in enumerate(times) if t > half), None)
    if above is not None:  # between two powers of two
        below = times[above - 1] if above else learnt
        share = (half - below) / (times[above] - below)
        found["indirect_period"] = sizes[above] / 2 * 2.0 ** max(share, 0.0)
    return found


def _threaded(rng: np.random.Generator) -> tuple[Kernel, npt.NDArray[np.uint64]]:
    """Five places that each jump to the next one through a table, as an interpreter's do, the end
    of the loop as the sixth, and where these are."""
    s = snippets()
    nop, step = s["nop"], s["jump_table"]
    body, where = step, []
    for size in (4 * rng.integers(1, 12, 5)).tolist():
        body += nop * (size // len(nop))
        where.append(len(body))
        body += step
    where.append(len(body))
    k = kernel(body)
    return k, np.array(where, np.uint64) + np.uint64(k.loop)


def indirect_history(bench: Bench) -> dict[str, float]:
    """How many taken branches the longest path has that tells where an indirect jump goes: to one
    place, several times to a second one, and to a third one, again and again."""
    tables = [_threaded(bench.rng) for _ in range(_PLACES)]

    def time(between: int) -> float:
        order = np.array([1, *[0] * between, 3, 5] * _TURNS)
        found = []
        for k, where in tables:
            bench.data.words[: order.size] = where[order]
            run = Run(k, bench.data.address, (1 << 20) - 1, count=_TURNS)
            found.append((bench.timer.cycles(run, 5) or np.nan) / (between + 3))
        return float(np.median(found))

    known = min(time(1), time(2))
    lost = first_above(time, [2**k for k in range(1, 7)], 1.25 * known, step=1)
    return {} if lost is None else {"indirect_history": lost - 1}


EXPERIMENTS = (
    Experiment("mispredictions", "mispredictions", mispredictions, 0.06, 0.7),
    Experiment("branch targets", "branch target buffers", targets, 0.15, 0.2),
    Experiment("returns", "return stack", returns, 0.04, 1.0),
    Experiment("indirect jumps", "indirect jumps", indirect, 0.15, 1.0),
    Experiment("paths to indirect jumps", "indirect jumps", indirect_history, 0.15, 1.0),
)
