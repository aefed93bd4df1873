"""Users' own predictors, prefetchers and replacement policies: each equal to a slow twin."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import replacement as twins
from test_sim import MACHINE, extract, line

from tracekit import _core, sim
from tracekit.cluster import Run, simulate_many
from tracekit.errors import TracekitError, UsageError
from tracekit.sim import other_machines, plugins

SOURCE = Path(__file__).parent / "plugins.c"


def compiled(source: Path, out: Path, *options: str) -> Path:
    if (cc := shutil.which("cc") or shutil.which("gcc")) is None:
        pytest.skip("no C compiler")
    strict = ("-O2", "-Wall", "-Wextra", "-Werror", *options)
    include = f"-I{plugins.include()}"
    subprocess.run([cc, *strict, "-shared", "-fPIC", include, source, "-o", out], check=True)
    return out


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The names of the plug-ins of plugins.c, loaded."""
    return plugins.load(compiled(SOURCE, tmp_path_factory.mktemp("plugins") / "plugins.so"))


@pytest.fixture(scope="module")
def numba_plugins():
    """gshare, next two lines and a random way, as Numba cfuncs."""
    numba = pytest.importorskip("numba")
    carray, u8, u64 = numba.carray, np.uint64(8), np.uint64

    @numba.cfunc(plugins.PREDICT)
    def predict(state, pc, kind):
        s = carray(state, 8 + 4096)
        history = np.uint64(s[0]) | np.uint64(s[1]) << u8
        return np.int64(s[8 + ((pc >> u64(2)) ^ history) % u64(4096)] >= 2)

    @numba.cfunc(plugins.UPDATE)
    def update(state, pc, kind, taken):  # counter and history together, at commit
        s = carray(state, 8 + 4096)
        history = np.uint64(s[0]) | np.uint64(s[1]) << u8
        at = 8 + ((pc >> u64(2)) ^ history) % u64(4096)
        if taken and s[at] < 3:
            s[at] += 1
        if not taken and s[at] > 0:
            s[at] -= 1
        history = (history << u64(1) | u64(taken)) & u64(4095)
        s[0], s[1] = history & u64(255), history >> u8

    @numba.cfunc(plugins.ACCESS)
    def access(state, line, pc, hit, out):
        wanted = carray(out, 32)
        wanted[0], wanted[1] = line + u64(1), line + u64(2)
        return 2

    @numba.cfunc(plugins.TOUCH)
    def touch(state, way, ways, filled):
        s = carray(state, 64)
        s[way] = 0 if not filled else 2

    @numba.cfunc(plugins.VICTIM)
    def victim(state, ways):
        s = carray(state, 64)
        while True:
            for k in range(ways):
                if s[k] == 3:
                    return k
            for k in range(ways):
                s[k] += 1

    plugins.add_predictor("gshare-numba", 8 + 4096, predict, update)
    plugins.add_prefetcher("next-two-numba", 0, access)
    plugins.add_replacement("srrip-numba", 64, touch, victim)


def gshare(branches, delay: int, speculative: bool, last: int | None = None):
    """Predictions of plugins.c's gshare (or of the Numba one, whose history moves at commit).

    Behind branch ``last`` no more commit.
    """
    counter, history, waiting, out = [0] * 4096, 0, [], []

    def commit():
        nonlocal history
        at, pc, taken = waiting.pop(0)
        at = at if speculative else (pc >> 2 ^ history) % 4096
        counter[at] = min(3, counter[at] + 1) if taken else max(0, counter[at] - 1)
        if not speculative:
            history = (history << 1 | taken) & 4095

    for k, (pc, taken) in enumerate(branches):
        while len(waiting) > delay and (last is None or k <= last):
            commit()
        at = (pc >> 2 ^ history) % 4096
        out.append(counter[at] >= 2)
        waiting.append((at, pc, taken))
        if speculative:
            history = (history << 1 | taken) & 4095
    return out


def columns(branches, delay: int) -> dict[str, np.ndarray]:
    n = len(branches)
    return {
        "pc": np.array([pc for pc, _ in branches], np.uint64),
        "next": np.zeros(n, np.uint64),
        "branch": np.ones(n, np.uint8),
        "taken": np.array([t for _, t in branches], np.uint8),
        "committed": np.array([max(0, k - delay) for k in range(n)], np.uint32),
    }


def predicted(name: str, branches, delay: int):
    kind = plugins.number("predictor", f"plugin:{name}")
    said, _ = _core.predict_directions(kind, **columns(branches, delay))
    return said.astype(bool)


def drawn(seed: int, n: int) -> list[tuple[int, int]]:
    """(pc, taken) of branches that hang on their place."""
    draw = random.Random(seed)
    pcs = [4 * draw.randrange(1 << 20) for _ in range(60)]
    return [(pc := draw.choice(pcs), int((pc >> 4 & k & 3) != 1)) for k in range(n)]


@pytest.mark.parametrize("delay", [0, 7, 100])
@pytest.mark.parametrize(("name", "speculative"), [("gshare-c", True), ("gshare-numba", False)])
def test_gshare(library, numba_plugins, name, speculative, delay):
    branches = drawn(5, 4000)
    assert predicted(name, branches, delay).tolist() == gshare(branches, delay, speculative)


@pytest.mark.parametrize("delay", [0, 7, 100])
@pytest.mark.parametrize(("name", "speculative"), [("gshare-c", True), ("gshare-numba", False)])
def test_gshare_on_wrong_ways(library, numba_plugins, name, speculative, delay):
    """It is asked there as if the way were the right one, and nothing of that stays."""
    branches = drawn(6, 2000)
    detours = np.array([17 if k % 9 == 0 and k > 500 else 0 for k in range(2000)], np.uint8)
    kind = plugins.number("predictor", f"plugin:{name}")
    said, foreseen = _core.predict_directions(kind, **columns(branches, delay), detours=detours)
    assert said.astype(bool).tolist() == gshare(branches, delay, speculative)
    told = foreseen.astype(bool).tolist()
    for k in np.flatnonzero(detours):
        pc, taken = branches[k]
        way = [(p, told.pop(0)) for p, _ in branches[k + 1 : k + 18]]
        # Nothing commits meanwhile, as nothing would that comes behind an endless delay.
        there = [*branches[:k], (pc, 1 - taken), *((p, int(g)) for p, g in way)]
        late = gshare(there, delay, speculative, last=int(k))
        assert late[k + 1 :] == [g for _, g in way]


@settings(max_examples=40)
@given(
    st.sampled_from([(1, 4), (1, 16), (3, 6), (2, 1), (5, 5), (16, 4)]),
    st.integers(0, 2**32),
    st.sampled_from(["lru", "tree_plru", "srrip", "random"]),
)
def test_built_in_policies_are_their_twins(shape, seed, policy):
    kb, ways = shape
    draw = random.Random(seed)  # as many lines as sets and ways need, some of them far apart
    lines = [draw.randrange(40 * kb) << draw.choice((0, 0, 0, 33)) for _ in range(600)]
    kind = sim.REPLACEMENTS[policy]
    hits = _core.cache_hits(kb, ways, np.array(lines, np.uint64), kind)
    assert hits.tolist() == twins.hits(policy, kb * 16 // ways, ways, lines)


@pytest.mark.parametrize(("name", "twin"), [("lru-c", "lru"), ("srrip-numba", "srrip")])
def test_policies_of_plugins(library, numba_plugins, name, twin):
    lines = np.random.default_rng(3).integers(0, 300, 5000).astype(np.uint64)
    for kb, ways in ((1, 4), (4, 16), (3, 6)):
        found = _core.cache_hits(kb, ways, lines, plugins.number("replacement", f"plugin:{name}"))
        assert found.tolist() == twins.hits(twin, kb * 16 // ways, ways, lines.tolist())


def test_states_are_where_vectors_can_be_loaded_from(library):
    assert predicted("aligned", [(0x400000, 1)] * 9, 2).all()
    # Of every set, in caches of one set, of two and of eight: each replaces its first way.
    for kb, sets in ((1, 1), (1, 2), (1, 8)):
        ways = kb * 16 // sets
        kind = plugins.number("replacement", "plugin:aligned-sets")
        fills = [set_ + sets * k for set_ in range(sets) for k in range(ways + 1)]
        lines = fills + [set_ + sets * (ways - 1) for set_ in range(sets)]  # the last way stays
        hits = _core.cache_hits(kb, ways, np.array(lines, np.uint64), kind)
        assert hits.tolist() == [False] * len(fills) + [True] * sets


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return extract(tmp_path_factory.mktemp("t"), synthetic.text(11, 6000, blocks=False))


@pytest.mark.parametrize("name", ["next-two-c", "next-two-numba"])
@pytest.mark.parametrize("level", ["l1d_pf", "l2_pf"])
def test_a_prefetcher_of_the_same_rule_gives_the_same_cycles(
    library, numba_plugins, trace, name, level
):
    small = {**MACHINE, "l1d_kb": 4, "l2_kb": 64}
    machines = [small, {**small, level: "tagged"}, {**small, level: f"plugin:{name}"}]
    none, tagged, plugged = sim.totals(trace, machines)[0]
    assert plugged == tagged != none


@pytest.mark.parametrize("level", ["l1d_pf", "l2_pf"])
def test_prefetchers_are_told_what_missed(library, trace, level):
    small = {**MACHINE, "l1d_kb": 4, "l2_kb": 64}
    none, told = sim.totals(trace, [small, {**small, level: "plugin:next-two-of-misses"}])[0]
    assert told != none


@pytest.fixture(scope="module")
def loads(tmp_path_factory):
    """Loads of many lines, few of them often."""
    draw = random.Random(8)
    addresses = (0x10000000 + 4096 * (int(draw.paretovariate(0.5)) % 4096) for _ in range(4000))
    return extract(
        tmp_path_factory.mktemp("loads"),
        "".join(
            line(k, "ldr x1, [x1]", "MemRead", "IsInteger|IsMemRef|IsLoad", a)
            for k, a in enumerate(addresses)
        ),
    )


def test_a_policy_of_the_same_rule_gives_the_same_cycles(library, loads):
    small = {**MACHINE, "l1d_kb": 1, "l2_kb": 8}
    keys = ("l1d_replacement", "l2_replacement")
    lru, plugged, srrip = sim.totals(
        loads,
        [
            small,
            {**small, **dict.fromkeys(keys, "plugin:lru-c")},
            {**small, **dict.fromkeys(keys, "srrip")},
        ],
    )[0]
    assert plugged == lru != srrip


def test_threads_and_blocks_do_not_matter(library, trace):
    machines = [{**MACHINE, "bp": "plugin:gshare-c", "rob": 20 + k} for k in range(4)]
    one, two = (sim.totals(trace, machines, threads=n)[0] for n in (1, 2))
    assert (one == two).all()


@pytest.mark.parametrize(
    ("parameter", "name", "message"),
    [
        ("bp", "writes-beyond", "plug-in writes-beyond: wrote outside of its state"),
        ("l1d_replacement", "names-no-way", "plug-in names-no-way: named a way"),
    ],
)
def test_what_a_plugin_may_not_do_is_said(library, trace, loads, parameter, name, message):
    machine = {**MACHINE, "l1d_kb": 1, "l1d_assoc": 2, parameter: f"plugin:{name}"}
    with pytest.raises(TracekitError, match=message):
        sim.totals(trace if parameter == "bp" else loads, [machine])
    assert sim.totals(trace, [MACHINE]).sum() > 0  # the complaint is told once


def test_names_that_nobody_loaded(tmp_path):
    with pytest.raises(UsageError, match="bp is 'plugin:nobody': no such predictor is loaded"):
        sim.core_row({**MACHINE, "bp": "plugin:nobody"})
    (tmp_path / "no.so").write_bytes(b"no library")
    with pytest.raises(UsageError, match="no library of plug-ins"):
        plugins.load(tmp_path / "no.so")


def test_names_of_plugins() -> None:
    add = lambda name, *_: len(name)  # noqa: E731
    plugins._add("predictor", "x" * 100, add, (0,), "")
    assert plugins._numbers.pop(("predictor", "x" * 100)) == 100
    for name in ("", "x" * 101, "a\nb"):
        with pytest.raises(UsageError, match="1 to 100 printable"):
            plugins._add("predictor", name, add, (0,), "")
    with pytest.raises(UsageError, match="a state of -1 bytes"):
        plugins._add("predictor", "x", add, (-1,), "")


def test_functions_of_another_signature_are_refused() -> None:
    numba = pytest.importorskip("numba")
    victim = numba.cfunc(plugins.VICTIM)(lambda state, ways: 0)
    narrow = numba.cfunc("boolean(voidptr, int64)")(lambda state, ways: True)
    touch = numba.cfunc(plugins.TOUCH)(lambda state, way, ways, filled: None)
    plugins.add_replacement("of-a-signature", 0, touch, victim)
    for wrong in (touch, narrow, lambda state, ways: 0, 5):
        with pytest.raises(UsageError, match=r"plug-in wrong: victim is no C function of int64\("):
            plugins.add_replacement("wrong", 0, touch, wrong)
        with pytest.raises(UsageError, match=r"plug-in wrong: access is no C function"):
            plugins.add_prefetcher("wrong", 0, wrong)
        with pytest.raises(UsageError, match=r"plug-in wrong: predict is no C function"):
            plugins.add_predictor("wrong", 0, wrong, wrong)
    assert not any(
        "wrong" in plugins.names(part) for part in ("predictor", "prefetcher", "replacement")
    )


@pytest.mark.parametrize("given", [5, {"a": 1}, {"a": {}, "b": []}, lambda: [1]])
def test_machines_of_others_that_are_no_machines(given) -> None:
    class Offer:
        def load(self):
            return given

        def failed(self, error):
            return UsageError(str(error))

    with pytest.raises(UsageError, match="it gives no mapping of names to parameters"):
        other_machines._machines(Offer())


STATIC = """#include "tracekit_plugin.h"
static int64_t predict(uint8_t* state, uint64_t pc, int64_t kind) {
  (void)state, (void)pc, (void)kind;
  return TAKEN;
}
static void update(uint8_t* state, uint64_t pc, int64_t kind, int64_t taken) {
  (void)state, (void)pc, (void)kind, (void)taken;
}
static const tracekit_predictor predictors[] = {{"kept", 0, predict, 0, update}};
static const tracekit_plugins all = {1, 1, 0, 0, predictors, 0, 0};
const tracekit_plugins* tracekit_plugins_v1(void) { return &all; }
"""


def test_a_run_knows_a_plug_in_by_its_code(tmp_path):
    (tmp_path / "static.c").write_text(STATIC)
    libraries = [
        compiled(tmp_path / "static.c", tmp_path / f"{taken}.so", f"-DTAKEN={taken}")
        for taken in (0, 1)
    ]
    feats = str(extract(tmp_path, synthetic.text(5, 900, blocks=False)).path)
    machine = {**MACHINE, "bp": "plugin:kept"}

    def cycles(library: Path) -> float:
        plugins.load(library)
        with Run(folder=tmp_path / "run") as run:
            (found,) = simulate_many(run, [feats], [sim.Machine.from_dict(machine)])
        assert isinstance(found, sim.SimulationResult)
        return float(found.cycles[0])

    first, second = map(cycles, libraries)
    assert first != second and list(map(cycles, libraries)) == [first, second]


def test_functions_that_tell_no_code_are_never_the_same():
    class Unknown:
        address = 1

    for same in (False, True):
        found = []
        for _ in range(2):
            plugins.add_replacement("untold", 8, Unknown(), Unknown())
            found.append(plugins.contents('["plugin:untold"]'))
        assert (found[0] == found[1]) is same
        Unknown.inspect_llvm = lambda self: "code"
    assert plugins.contents('["plugin:other", "untold"]') == []
