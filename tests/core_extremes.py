"""Pins of the cores where no real machine is: every parameter anywhere in its range, and branches
that fill the predictors' tables, counters and histories.

tests/bless.py writes them beside those of tests/core_pins.py, tests/test_core_pins.py compares.
They say nothing of how close a core is to gem5: a rule that only an odd machine reaches is held by
them, and no stamp hangs on them.
"""

from __future__ import annotations

import hashlib
import random
from typing import Any

import core_pins as pins
import numpy as np
import numpy.typing as npt

from tracekit import _core

MACHINES, ROWS = 100, 12_000
#: Seed, share of memory accesses, static instructions of each program.
PROGRAMS = {"extreme_1": (11, 0.35, 900), "extreme_2": (12, 0.8, 250), "extreme_3": (13, 0.3, 6000),
            "strewn": (14, 0.9, 1500)}  # fmt: skip
#: Of "strewn", by how much farther its instructions stand from each other.
_FARTHER = 37
#: Parameters that are numbers of kinds.
_KINDS = {"predictor": len(_core.PREDICTORS), "l1d_prefetch": len(_core.PREFETCHERS),
          "l2_prefetch": len(_core.PREFETCHERS), "l1d_replacement": len(_core.REPLACEMENTS),
          "l2_replacement": len(_core.REPLACEMENTS),
          "l3_replacement": len(_core.REPLACEMENTS)}  # fmt: skip
#: The fewest physical registers with which programs of 60 registers run.
_REGISTERS = 64


def row(seed: int) -> npt.NDArray[np.float64]:
    """One core: numbers as often small as large, up to the ends of their ranges."""
    r = random.Random(f"extreme {seed}")
    drawn: dict[str, float] = {}
    for name, least, most in _core.CORE_PARAMETERS:
        if name in _KINDS:
            value: float = r.randrange(_KINDS[name])
        elif name.startswith("ideal_"):
            value = float(r.random() < 0.1)
        elif (least, most) == (0.0, 1.0):
            value = float(r.random() < 0.4)
        else:
            end = least if r.random() < 0.05 else most if r.random() < 0.03 else None
            span = min(most, 4096.0) - least
            share = r.random()
            for _ in range(r.randrange(1, 4)):
                share *= share
            value = least + span * share if end is None else end
            if name.startswith("memory_") and name not in (
                "memory_row_lines",
                "memory_banks",
                "memory_ranks",
                "memory_bank_groups",
                "memory_row_accesses",
                "memory_writes",
                "memory_write_batch",
            ):
                value = round(value, 2)
            else:
                value = float(int(value))
        if name.startswith("phys_"):
            value = max(value, _REGISTERS)
        drawn[name] = value
    for cache in ("l1i", "l1d", "l2", "l3"):  # any number of sets, a power of two or not
        ways = r.choice((1, 2, 3, 4, 5, 8, 16))
        drawn[f"{cache}_assoc"] = ways
        drawn[f"{cache}_kb"] = ways * r.choice((1, 1, 2, 3, 4, 8, 16))
    if r.random() < 0.4:
        drawn["l3_kb"] = 0
    drawn["btb"] = r.choice((1, 2, 16, 64, 512, 4096))
    drawn["fetch_buffer"] = r.choice((4, 8, 16, 32, 64, 128))
    return np.array([drawn[name] for name, _, _ in _core.CORE_PARAMETERS])


def program(name: str) -> pins.Program:
    seed, memory, size = PROGRAMS[name]
    p = pins.made_up(seed, ROWS, memory, size)
    if name == "strewn":  # many of them share a store set
        pc = p.statics[0]
        p = p._replace(statics=(pc[0] + (pc - pc[0]) * np.uint64(_FARTHER), *p.statics[1:]))
    return p


def causes() -> dict[str, list[str]]:
    """Hashes of what made the cycles, of four classes of rows, and of what rows met, by program and
    machine."""
    rows, out = np.array([row(k) for k in range(0, MACHINES, 3)]), {}
    for name in PROGRAMS:
        p = program(name)
        sums = np.zeros((4, len(rows), len(_core.CAUSES)))
        labels = np.arange(ROWS, dtype=np.uint32) % 4
        cores = _core.SimulatedCores(*p.statics, cores=rows, causes=True)
        cores.cause_sums(p.ids, p.addr, p.bits, 0, labels, sums, 2)
        cores = _core.SimulatedCores(*p.statics, cores=rows, causes=True)
        events = cores.events(p.ids, p.addr, p.bits, 0, 2)
        out[name] = [
            hashlib.sha256(sums[:, k].tobytes() + events[:, k].tobytes()).hexdigest()[:16]
            for k in range(len(rows))
        ]
    return out


def cycles() -> dict[str, list[str]]:
    """Hashes of timed walks, by program and machine."""
    rows, out = np.array([row(k) for k in range(MACHINES)]), {}
    for name in PROGRAMS:
        p = program(name)
        cores = _core.SimulatedCores(*p.statics, cores=rows)
        timed = cores.run(p.ids, p.addr, p.bits, 0, 2, True)[0]
        out[name] = [digest for _, digest in pins._pin(timed)]
    return out


def branches(seed: int, n: int) -> npt.NDArray[np.uint64]:
    """[n, 4] of pc, next, kind and taken: 3,000 branches anywhere in 47 bits, loops of up to 400
    turns within loops, branches that repeat what one up to 300 branches before them did, some that
    change their mind for good, and noise."""
    r = random.Random(f"branches {seed}")
    shift = r.choice((2, 2, 0))
    sites = []
    for _ in range(3000 if seed else 60):
        near = r.random() < 0.7
        pc = (0x400000 + (r.randrange(1 << 12) << shift)) if near else r.randrange(1 << 47)
        sites.append((pc, r.choice((1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7)), r.randrange(6),
                      r.choice((2, 3, 5, 9, 17, 33, 120, 400)), r.randrange(1, 300)))  # fmt: skip
    out = np.empty((n, 4), np.uint64)
    past, visits, at, hot = [0] * 512, [0] * len(sites), 0, 0
    for i in range(n):
        pc, kind, mode, period, back = sites[at]
        visits[at] += 1
        turn = visits[at]
        taken = (
            turn % period != 0, turn % period == 0, past[-back], past[-1] ^ past[-back],
            (turn // 50) % 2, r.random() < 0.8,
        )[mode]  # fmt: skip
        taken = int(taken) if kind in (1, 7) else 1
        past.append(taken)
        target = pc ^ (r.randrange(4) << 6 if kind >= 4 and mode == 5 else 0x3C0)
        out[i] = pc, target if taken else pc + 4, kind, taken
        if mode == 0 and kind == 1 and taken and r.random() < 0.97:
            continue
        if r.random() < 0.01:
            hot = r.randrange(len(sites))
        at = (hot + (at - hot + 1) % 40) % len(sites)
        if r.random() < 0.02:
            at = r.randrange(len(sites))
    return out


def predictions() -> dict[str, dict[str, str]]:
    """Hashes of what each predictor says, by stream and branches in flight."""
    n, out = 60_000, {}
    for seed in range(3):
        pc, following, kind, taken = (np.ascontiguousarray(c) for c in branches(seed, n).T)
        few = {"pc": pc, "next": following, "branch": kind.astype(np.uint8),
               "taken": taken.astype(np.uint8)}  # fmt: skip
        for delay in (0, 5, 150):
            committed = np.maximum(np.arange(n) - delay, 0).astype(np.uint32)
            out[f"{seed}, {delay} in flight"] = {
                name: hashlib.sha256(
                    _core.predict_directions(k, committed=committed, **few)[0].tobytes()
                ).hexdigest()[:16]
                for k, name in enumerate(_core.PREDICTORS)
            }
    return out


def all_values() -> dict[str, Any]:
    return {"extreme_cycles": cycles(), "extreme_causes": causes(), "predictions": predictions()}
