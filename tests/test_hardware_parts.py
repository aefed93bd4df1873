"""Parts of real processors' cores beside oracles in plain Python."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit import _core

NONE = 2**64 - 1


@given(
    st.integers(1, 24),
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=120),
)
def test_lines_are_sets_of_the_least_recently_used(
    entries: int, ways: int, operations: list[tuple[int, int]]
) -> None:
    ways_kept = min(ways, entries)
    sets = max(1, entries // ways_kept)
    table: dict[int, list[int]] = {k: [] for k in range(sets)}
    wanted, done = [], []
    for operation, key in operations:
        own = table[key % sets]
        if operation == 1 and key in own:
            operation = 0  # a line is put in where it is not
        done.append((operation, key))
        if operation == 1:
            own.insert(0, key)
            wanted.append(own.pop() if len(own) > ways_kept else NONE)
        else:
            wanted.append(int(key in own))
            if key in own:
                own.remove(key)
                if operation == 0:
                    own.insert(0, key)
    assert _core.hardware_lines(entries, ways, done) == wanted


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 15), st.integers(1, 4)),
        max_size=80,
    )
)
def test_each_use_gets_the_first_cycle_with_a_free_port(
    steps: list[tuple[int, int, int, int]],
) -> None:
    """Whichever port is chosen: no two uses share one, and none was free earlier.  Uses of a single
    port are placed exactly."""
    now, wanted = 0, []
    for step, later, ports, cycles in steps:
        now += step
        wanted.append((now, now + later, ports & -ports, cycles))
    taken: set[tuple[int, int]] = set()
    for (_, ready, port, cycles), at in zip(wanted, _core.hardware_ports(wanted), strict=True):
        expected = ready
        while any((port, expected + k) in taken for k in range(cycles)):
            expected += 1
        assert at == expected
        taken.update((port, at + k) for k in range(cycles))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=80), st.integers(1, 4))
def test_several_ports_take_as_many_a_cycle(steps: list[tuple[int, int]], count: int) -> None:
    now, wanted = 0, []
    for step, later in steps:
        now += step
        wanted.append((now, now + later, (1 << count) - 1, 1))
    used: dict[int, int] = {}
    for (_, ready, _, _), at in zip(wanted, _core.hardware_ports(wanted), strict=True):
        expected = ready
        while used.get(expected, 0) >= count:
            expected += 1
        assert at == expected
        used[at] = used.get(at, 0) + 1


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5000)), max_size=80),
)
def test_a_scheduler_lets_in_when_one_has_left(entries: int, steps: list[tuple[int, int]]) -> None:
    given_, leaves, last, wanted = [], [], 0, []
    now = 0
    for step, waits in steps:
        now += step
        given_.append((now, waits))
        at = max(now, last)
        while sum(leave >= at for leave in leaves) >= entries:
            at += 1
        leaves.append(at + waits)
        wanted.append(at)
        last = at
    assert _core.hardware_scheduler(entries, given_) == wanted


WORDS = st.integers(0, 20)


@given(
    st.lists(st.tuples(WORDS, st.sampled_from((1, 2, 4)), st.integers(0, 9)), max_size=30),
    st.lists(
        st.tuples(WORDS, st.sampled_from((1, 2, 4)), st.integers(0, 9), st.integers(0, 30)),
        max_size=40,
    ),
)
def test_a_load_finds_the_youngest_store_of_its_bytes(
    stores: list[tuple[int, int, int]], loads: list[tuple[int, int, int, int]]
) -> None:
    """Of words, which the buffer knows exactly."""
    stores = [(4 * a, 4 * n, written) for a, n, written in stores]
    loads = sorted(((4 * a, 4 * n, at, before) for a, n, at, before in loads), key=lambda x: x[3])
    wanted = []
    for address, size, at, before in loads:
        owner = {}
        for number, (a, n, written) in enumerate(stores[:before], 1):
            for byte in range(a, a + n):
                owner[byte] = (number, written)
        own = [owner.get(b, (0, 0)) for b in range(address, address + size)]
        live = [number if written > at else 0 for number, written in own]
        if not any(live):
            wanted.append((0, 0))
        else:
            wanted.append((1 if len(set(live)) == 1 else 2, max(live)))
    assert _core.hardware_forwards(stores, loads) == wanted


def test_indirect_targets_follow_the_path() -> None:
    targets = [0x1000, 0x2000, 0x3000, 0x1000, 0x5000, 0x2000]
    once = [(0x400, t) for t in targets * 60]
    right = _core.hardware_indirect(3072, once)
    assert not right[0] and all(right[-120:])
    # Where the path tells nothing, the last targets are all there is.
    state, drawn = 1, []
    for _ in range(4000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        drawn.append((0x400, 0x1000 + 16 * (state >> 60)))
    found = _core.hardware_indirect(3072, drawn)
    assert sum(found[-1000:]) < 150
    assert all(_core.hardware_indirect(16, [(0x10, 0x99)] * 50)[1:])


@pytest.mark.parametrize("between", [2, 6, 12, 20])
def test_indirect_targets_follow_paths_of_so_many_branches(between: int) -> None:
    """One of two places at random, `between` jumps to a third, and one of two that follows."""
    rng = random.Random(1)
    branches = []
    for _ in range(600):
        first = rng.randrange(2)
        branches += [(0x400, 0x1000 * (1 + first)), *[(0x400, 0x9000)] * between]
        branches.append((0x400, 0x4000 + 0x1000 * first))
    right = _core.hardware_indirect(16384, branches, between + 1)[between + 1 :: between + 2]
    assert sum(right[-200:]) > 190
    right = _core.hardware_indirect(16384, branches, between)[between + 1 :: between + 2]
    assert sum(right[-200:]) < 150


@given(st.integers(-5000, 5000), st.integers(3, 20))
def test_a_stride_is_known_after_the_same_step_three_times(step: int, count: int) -> None:
    start = 1 << 20
    found = _core.hardware_strides([(0x40, start + k * step) for k in range(count)])
    assert found == [0] * min(count, 3) + [step] * (count - 3) if step else not any(found)
