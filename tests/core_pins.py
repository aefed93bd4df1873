"""What pins the timing cores: the traces, programs and machines whose cycles golden/cores has.

``cycles()`` gives, of each trace and machine, the total of the cycles and a hash of every number of
a timed walk, row by row, so that one cycle on one row is seen.  tests/bless.py writes them,
tests/test_core_pins.py compares.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import itertools
import json
import lzma
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import tracekit
from tracekit import _core, schema, sim

FOLDER = Path(__file__).parent / "golden" / "cores"
TRACES: dict[str, dict[str, Any]] = json.loads((FOLDER / "traces.json").read_text())
CYCLES = FOLDER / "cycles.json"
MACHINES: dict[str, dict[str, Any]] = {
    m["name"]: m for m in json.loads((FOLDER / "machines.json").read_text())
}
#: (total of the cycles, hash of the timed walk).
Pin = tuple[float, str]

PREDICTORS = ("Local", "Tournament", "BiMode", "TAGE", "LTAGE", "TAGE_SC_L_8KB", "TAGE_SC_L_64KB",
              "MPP_8KB", "MPP_64KB")  # fmt: skip
MEMORIES = ("DDR3_1600_8x8", "DDR3_2133_8x8", "DDR4_2400_8x8", "DDR5_6400_4x8", "LPDDR3_1600_1x32",
            "LPDDR5_6400_1x16_BG_BL32", "HBM_2000_4H_1x64")  # fmt: skip
FIRST_LEVEL, SECOND_LEVEL = (
    ("none", "stride", "tagged", "bop"),
    ("none", "stride", "tagged", "bop", "ampm"),
)
DRAWN = 40


def _small(name: str, **changes: Any) -> dict[str, Any]:
    """A machine whose caches a short trace overflows."""
    caches = {"l1i_kb": 8, "l1i_assoc": 2, "l1d_kb": 4, "l1d_assoc": 2, "l2_kb": 32, "l2_assoc": 4}
    return {**MACHINES["ns_8w"], **caches, "bp": "Local", **changes, "name": name}


def _drawn(seed: int) -> dict[str, Any]:
    """A machine with every parameter drawn; queues and caches are as often tight as wide."""
    r = random.Random(seed)

    def one(*values: Any) -> Any:
        return values[int(r.random() * len(values))]

    machine: dict[str, Any] = {
        "name": f"drawn_{seed}", "clock_ghz": one(0.8, 1.0, 1.5, 2.0, 2.7, 3.2, 4.1),
        "width": one(1, 2, 3, 4, 6, 8), "issue_width": one(1, 2, 4, 8, 12),
        "rob": one(12, 24, 48, 96, 192, 400), "iq": one(6, 12, 24, 48, 96, 160),
        "lq": one(4, 8, 16, 32, 72), "sq": one(4, 8, 16, 32, 64),
        "phys_int": one(64, 72, 96, 160, 256), "phys_float": one(64, 96, 160, 256),
        "phys_vec": one(56, 60, 96, 160, 256), "fetch_buffer": one(16, 32, 64),
        "fetch_queue": one(4, 8, 16, 32, 64), "front_delay": one(1, 2, 3, 5, 8),
        "issue_to_exec": one(1, 1, 2, 3), "int_alu": one(1, 2, 3, 6), "int_mul": one(1, 2),
        "int_mul_lat": one(2, 3, 5), "int_div_lat": one(8, 12, 20), "fp": one(1, 2, 4),
        "fp_add_lat": one(1, 2, 4, 5), "fp_mul_lat": one(3, 4, 6), "fp_div_lat": one(7, 12, 20),
        "simd": one(1, 2, 4), "load_ports": one(1, 2, 3), "store_ports": one(1, 2),
        "agu_lat": one(1, 1, 2), "bp": one(*PREDICTORS), "btb": one(16, 64, 256, 1024, 4096),
        "ras": one(2, 8, 16), "l1i_kb": one(4, 8, 16, 32), "l1i_assoc": one(1, 2, 4),
        "l1i_lat": one(1, 2, 3), "l1d_kb": one(4, 8, 16, 32), "l1d_assoc": one(1, 2, 4),
        "l1d_lat": one(1, 2, 3, 4), "l1d_mshrs": one(1, 2, 4, 8, 16),
        "l1d_pf": one(*FIRST_LEVEL), "l2_kb": one(16, 32, 64, 256), "l2_assoc": one(2, 4, 8),
        "l2_lat": one(6, 9, 12, 20), "l2_mshrs": one(1, 4, 8, 16, 32), "l2_pf": one(*SECOND_LEVEL),
        "l3_kb": one(0, 64, 128, 1024), "l3_assoc": one(4, 8, 16), "l3_lat": one(20, 31, 44),
        "mem": one(*MEMORIES),
    }  # fmt: skip
    return {**machine, "cpu": "minor"} if seed % 6 == 5 else machine


@functools.cache
def variants() -> tuple[dict[str, Any], ...]:
    """Each predictor, prefetcher and memory on one machine, both in-order widths, and drawn
    machines."""
    out = [_small(f"bp_{p}", bp=p) for p in PREDICTORS]
    out += [_small(f"l1d_{p}", l1d_pf=p) for p in FIRST_LEVEL]
    out += [_small(f"l2_{p}", l2_pf=p) for p in SECOND_LEVEL]
    out += [_small(f"mem_{m}", mem=m, l1d_pf="tagged") for m in MEMORIES]
    out += [_small(f"in_order_{w}", width=w, cpu="minor", front_delay=w) for w in (1, 2)]
    return (*out, *(_drawn(seed) for seed in range(DRAWN)))


class Program(NamedTuple):
    """A made-up program, as _core.ReferenceCores takes it."""

    statics: tuple[npt.NDArray[Any], ...]
    ids: npt.NDArray[np.uint32]
    addr: npt.NDArray[np.uint64]
    bits: npt.NDArray[np.uint8]


LOAD, STORE, BEFORE, AFTER, IN_ORDER, BARRIER, ATOMIC, PREFETCH, NO_OP, ZERO, INT, VEC = (
    1 << k for k in range(12)
)
_TAKEN, _FAULT = (int(schema.BITS[k][0]) for k in ("taken", "fault"))


def _op(draw: random.Random, memory: float) -> tuple[str, int]:
    """An operation class and CoreInst's flags of it."""
    if draw.random() < memory:
        name, flags = draw.choices(
            [
                ("MemRead", LOAD | INT), ("FloatMemRead", LOAD | VEC), ("SimdUnitStrideLoad", LOAD),
                ("MemWrite", STORE), ("FloatMemWrite", STORE), ("SimdUnitStrideStore", STORE),
                ("MemRead", LOAD | PREFETCH), ("MemWrite", STORE | ZERO),
                ("MemRead", LOAD | STORE | ATOMIC | IN_ORDER | INT),
                ("MemWrite", STORE | ATOMIC | IN_ORDER | INT), ("MemRead", LOAD | BARRIER | INT),
            ],
            [40, 8, 4, 30, 6, 3, 3, 3, 1, 1, 1],
        )[0]  # fmt: skip
        return name, flags
    if draw.random() < 0.05:
        rare = [("No_OpClass", NO_OP), ("No_OpClass", BEFORE), ("No_OpClass", BARRIER)]
        return draw.choice([*rare, ("IntAlu", AFTER), ("IntAlu", BEFORE | AFTER | IN_ORDER)])
    if draw.random() < 0.7:
        return "IntAlu", INT
    name = draw.choice([o for o in schema.OP_CLASSES if "Mem" not in o and o != "Other"])
    return name, VEC if "Float" in name or "Simd" in name else INT


def made_up(seed: int, rows: int, memory: float = 0.35, size: int = 900) -> Program:
    """A random walk over a random program with every operation class, kind of branch and access:
    hot and cold addresses, strides both ways, parts of words, lines that are crossed, traps."""
    draw = random.Random(seed)
    kinds = draw.choices(range(8), [0, 60, 10, 8, 4, 4, 8, 6], k=size)
    branch = np.array([k if draw.random() < 0.15 else 0 for k in kinds], np.uint8)
    named = [("IntAlu", 0) if b else _op(draw, memory) for b in branch]
    flags = np.array([f for _, f in named], np.uint16)
    op = np.array([schema.OP_CLASSES.index(n) for n, _ in named], np.uint8)
    bytes_ = np.array(draw.choices([0, 1, 2, 4, 8, 16, 32, 64], k=size), np.uint16)
    src = np.full((size, 8), 0xFFFF, np.uint16)
    dst = np.full((size, 6), 0xFFFF, np.uint16)
    for i in range(size):
        for k in range(draw.randrange(4)):
            src[i, k] = draw.randrange(24) if draw.random() < 0.7 else draw.randrange(24, 60)
        if flags[i] & (INT | VEC):
            dst[i, 0] = draw.randrange(24) if flags[i] & INT else draw.randrange(24, 60)
    pc = 0x400000 + 4 * np.arange(size, dtype=np.uint64) + 0x1000 * (np.arange(size) // 300)
    # Some instructions are of two or three parts, as those of X86 are.
    begin, at = [0], 0
    while at < size:
        at += 1 if branch[at] or draw.random() < 0.8 else draw.randrange(2, 4)
        begin.append(min(at, size))
    first = np.array(begin[:-1])
    parts = list(itertools.pairwise(begin))
    for a, b in parts:
        pc[a:b] = pc[a]
    offset = np.where(np.isin(np.arange(size), first), 0, 8).astype(np.uint8)
    offset[branch > 0] = 0
    starts = np.array(begin, np.uint32)
    statics = (pc.astype(np.uint64), flags, op, branch, bytes_, offset, src, dst, starts)
    return Program(statics, *_rows(draw, rows, [int(max(branch[a:b])) for a, b in parts]))


def _rows(draw: random.Random, rows: int, kinds: list[int]) -> tuple[Any, Any, Any]:
    """The walk: where it goes and what it touches."""
    insts = len(kinds)
    where = [draw.randrange(insts) for _ in range(insts)]
    trips = [draw.randrange(1, 12) for _ in range(insts)]
    step = [draw.choice([0, 0, 8, 8, 16, 64, -8, -64, 4, 200, 4096]) for _ in range(insts)]
    base = [
        0x10000000 + draw.choice([draw.randrange(1 << n) for n in (9, 14, 22)])
        for _ in range(insts)
    ]
    visits, at, calls = [0] * insts, 0, [0]
    ids, addr, bits = np.empty(rows, np.uint32), np.empty(rows, np.uint64), np.zeros(rows, np.uint8)
    for i in range(rows):
        kind, n = kinds[at], visits[at]
        visits[at] += 1
        ids[i] = at
        noise = 8 * draw.randrange(4) if step[at] == 0 else 0
        addr[i] = base[at] + (step[at] * (n % 600) if n % 97 else 40) + noise
        if draw.random() < 0.002:
            bits[i] |= _FAULT
        taken = kind not in (0, 1, 7) or (kind != 0 and n % trips[at] != 0) ^ (draw.random() < 0.04)
        here = at
        at = (at + 1) % insts
        if not (kind and taken):
            continue
        bits[i] |= _TAKEN
        if kind in (3, 5):
            calls.append(at)
        elif kind == 6:
            at = calls.pop() if len(calls) > 1 else draw.randrange(insts)
            continue
        far = kind >= 4 and n % 7 == 3
        at = draw.randrange(insts) if n % 50 == 49 else (where[here] + 17 * far) % insts
    return ids, addr, bits


PROGRAMS = {"made_up_1": (1, 12_000, 0.35), "made_up_2": (2, 12_000, 0.6)}
#: Rows again and again, until the store sets are forgotten (every 250,000 stores).
LONG, LONG_TURNS, LONG_MACHINES = (3, 10_000, 0.9), 80, ("ns_8w", "o3_small")


def _pin(timed: npt.NDArray[np.float32]) -> list[Pin]:
    """Of float32 [rows, machines, TIMING]."""
    return [
        (
            float(timed[:, k, 0].sum(dtype=float)),
            hashlib.sha256(np.ascontiguousarray(timed[:, k]).tobytes()).hexdigest()[:16],
        )
        for k in range(timed.shape[1])
    ]


def _walk_program(
    p: Program, machines: Sequence[Mapping[str, Any]], arch: str, turns: int = 1
) -> npt.NDArray[np.float32]:
    rows = np.array([sim.core_row(m, arch) for m in machines])
    cores = _core.SimulatedCores(*p.statics, cores=rows)
    parts = [cores.run(p.ids, p.addr, p.bits, 0, 2, True)[0] for _ in range(turns)]
    return np.concatenate(parts)


_WORK = tempfile.TemporaryDirectory(prefix="tracekit-pins-")
atexit.register(_WORK.cleanup)


def _extract(text: bytes, level: str) -> tracekit.TraceFile:
    folder = Path(_WORK.name) / hashlib.sha256(text + level.encode()).hexdigest()
    folder.mkdir()
    (folder / "trace.txt").write_bytes(text)
    tracekit.extract(str(folder / "trace.txt"), str(folder / "feats.zst"), level=level)
    return tracekit.open(str(folder / "feats.zst"))


@functools.cache
def extracted(name: str, level: str) -> tracekit.TraceFile:
    """A golden trace's feature file."""
    return _extract(lzma.decompress((FOLDER / f"{name}.trace.xz").read_bytes()), level)


@functools.cache
def timed(name: str, level: str) -> npt.NDArray[np.float32]:
    """A golden trace through the machines that gem5 has run it on: [rows, machines, TIMING]."""
    machines = [MACHINES[m] for m in TRACES[name]["machines"]]
    walk = sim.walk(extracted(name, level), machines, timed=True)
    return np.concatenate([w.cycles for w in walk])


def gem5_cycles(name: str) -> npt.NDArray[np.uint16]:
    """What gem5 took for the same rows: [machines, rows]."""
    data = lzma.decompress((FOLDER / f"{name}.cycles.xz").read_bytes())
    return np.frombuffer(data, "<u2").reshape(len(TRACES[name]["machines"]), -1)


def gem5_errors(name: str) -> dict[str, float]:
    """Percent by which the cores' total differs from gem5's, of each machine."""
    ours = timed(name, "micro")[:, :, 0].sum(axis=0, dtype=float)
    theirs = gem5_cycles(name).sum(axis=1, dtype=float)
    found = 100 * (ours - theirs) / theirs
    return {m: round(float(e), 2) for m, e in zip(TRACES[name]["machines"], found, strict=True)}


@functools.cache
def pins_of(name: str) -> dict[str, Pin]:
    """The pins of one of ``names()``."""
    program = LONG if name == "long" else PROGRAMS.get(name.removesuffix(".x86"))
    if program is not None:
        arch = "x86" if name.endswith(".x86") else "arm"
        machines = [MACHINES[m] for m in LONG_MACHINES] if name == "long" else list(variants())
        turns = LONG_TURNS if name == "long" else 1
        found = _pin(_walk_program(made_up(*program), machines, arch, turns))
        return {m["name"]: p for m, p in zip(machines, found, strict=True)}
    trace, _, level = name.partition("/")
    out = dict(zip(TRACES[trace]["machines"], _pin(timed(trace, level or "micro")), strict=True))
    if not level:
        few = variants()
        walk = sim.walk(extracted(trace, "micro"), few, timed=True, rows=12_000)
        found = _pin(np.concatenate([w.cycles for w in walk]))
        out.update({m["name"]: p for m, p in zip(few, found, strict=True)})
    return out


def names() -> list[str]:
    """Everything that has pins: traces, X86 traces at the macro level, made-up programs."""
    macro = [f"{n}/macro" for n in TRACES if n.endswith(".x86")]
    return [*PROGRAMS, *(f"{n}.x86" for n in PROGRAMS), *macro, *TRACES, "long"]


@functools.cache
def uops() -> dict[str, str]:
    """Hashes of the parts into which every X86 instruction of golden/isa_x86.json goes (macro
    level), by what the parts are."""
    from tracekit.sim.uop_table import table

    lines = []
    samples = json.loads((FOLDER.parent / "isa_x86.json").read_text(encoding="utf-8"))
    for k, (_, _, ops, _) in enumerate(samples):
        for upc, (what, op, flags) in enumerate(ops):
            place = f" A={0x10000 + 8 * k:#x}" if {"IsLoad", "IsStore"} & set(flags) else ""
            lines.append(
                f"{500 * len(lines):7d}: system.cpu: {0x400000 + 16 * k:#x}.{upc:2d} :   {what}"
                f" : {op} : {place}  flags=({'|'.join(flags)})\n"
            )
    parts = table(_extract("".join(lines).encode(), "macro").statics)
    return {
        name: hashlib.sha256(np.ascontiguousarray(getattr(parts, name)).tobytes()).hexdigest()[:16]
        for name in ("pc", "flags", "op", "branch", "size", "offset", "src", "dst", "begin")
    }


def all_values() -> dict[str, Any]:
    """What cycles.json holds."""
    return {
        "cycles": {n: {m: list(p) for m, p in pins_of(n).items()} for n in names()},
        "gem5_errors": {n: gem5_errors(n) for n in TRACES},
        "uops": uops(),
    }


def stored() -> dict[str, Any]:
    """cycles.json, as tests/bless.py wrote it."""
    return json.loads(CYCLES.read_text(encoding="utf-8")) if CYCLES.exists() else {}


def digest(pins: Mapping[str, Mapping[str, Sequence[Any]]], whole: bool) -> str:
    """One hash of all pins: of totals and rows (``whole``), or of the totals alone."""
    plain = {t: {m: list(p) if whole else p[0] for m, p in of.items()} for t, of in pins.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
