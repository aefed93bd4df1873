"""The store buffer of the in-order core, and how many accesses its memory takes (gem5's Minor CPU,
src/cpu/minor/lsq.cc)."""

from __future__ import annotations

import core_pins as pins
import pytest

import tracekit
from tracekit.sim import totals

MACHINE = {**pins.MACHINES["io_2w"], "name": "m", "l1d_mshrs": 32, "l2_mshrs": 32}
LOAD, STORE = "IsInteger|IsLoad", "IsInteger|IsStore"
TIMES = 300
FIXED, FRESH = 0x20000, 0x100000


def cycles(tmp_path, rows):
    """Of (text, operation, address, flags) in a loop's code, all of 4 bytes."""
    length = len(rows) // TIMES
    lines = []
    for i, (text, op, addr, flags) in enumerate(rows):
        place = f" A={addr:#x}" if addr else ""
        pc = 0x10000 + 4 * (i % length)
        lines.append(
            f"{500 * i:7}: system.cpu: {pc:#x}    : {text}    : {op} : {place}  flags=({flags})"
        )
    path = tmp_path / "t.txt"
    path.write_text("\n".join(lines) + "\n")
    tracekit.extract(path, tmp_path / "t.zst", level="micro", force=True)
    with tracekit.open(tmp_path / "t.zst") as trace:
        return float(totals(trace, [MACHINE])[0, 0])


def load(addr, into="a1", by="a0"):
    return f"ld {into}, 0({by})", "MemRead", addr, LOAD


def store(addr):
    return "sd a2, 0(a3)", "MemWrite", addr, STORE


def add():
    return "addi a4, a5, 1", "IntAlu", 0, "IsInteger"


def fresh(k, lines=70):
    """A line of a page that nothing has touched."""
    return FRESH + 64 * lines * k


@pytest.fixture
def latency(tmp_path):
    """Cycles of a load that waits for the one before it."""
    return cycles(tmp_path, [load(fresh(k), "a0") for k in range(TIMES)]) / TIMES


def test_two_stores_are_on_their_way_at_a_time(tmp_path, latency):
    each = cycles(tmp_path, [store(fresh(k)) for k in range(TIMES)]) / TIMES
    assert latency / 2 - 3 < each < 0.7 * latency


def test_a_load_waits_for_a_place_in_memory(tmp_path, latency):
    """Beside two stores that miss there is none, and it hits."""
    rows = [r for k in range(TIMES) for r in (store(fresh(k)), load(FIXED))]
    assert cycles(tmp_path, rows) / TIMES > latency / 2


def test_a_load_waits_until_the_store_before_it_has_retired(tmp_path):
    """Both hit; behind the load a store has time to retire before the next round's load."""
    rest = [add()] * 8
    behind = [r for _ in range(TIMES) for r in (store(FIXED), load(FIXED + 64), *rest)]
    before = [r for _ in range(TIMES) for r in (load(FIXED + 64), store(FIXED), *rest)]
    assert cycles(tmp_path, behind) > cycles(tmp_path, before) + TIMES


def test_forwarded_loads_need_no_memory(tmp_path):
    """Of the bytes that a store in the buffer has; of a part they wait until it is written."""
    whole = [r for k in range(TIMES) for r in (store(fresh(k)), load(fresh(k)))]
    part = [r for k in range(TIMES) for r in (store(fresh(k) + 4), load(fresh(k)))]
    assert cycles(tmp_path, whole) < 0.7 * cycles(tmp_path, part)
