"""A machine's parameters: all that is wrong is told at once; caches of any number of sets."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sim import MACHINE, extract

from tracekit import _core, sim
from tracekit.cli.main import main
from tracekit.errors import FormatError, UsageError
from tracekit.exploration.dse import Space, load_space
from tracekit.exploration.objective import Expression
from tracekit.sim.memories import MEMORIES
from tracekit.sim.parameters import MACHINE_PARAMETERS

WRONG = [
    ({"roob": 999}, "'roob' is no parameter (did you mean rob?)"),
    ({"robb": 5}, "did you mean rob?"),
    ({"ROB": 5}, "did you mean rob?"),
    ({"cpu": "Minor"}, "cpu is 'Minor' (did you mean minor?); one of o3, minor"),
    ({"width": 2.7}, "width is 2.7, no whole number"),
    ({"rob": 64.9}, "rob is 64.9"),
    ({"rob": 10**21}, "rob is a number of about 21 digits; from 1 to 1000"),
    ({"rob": 10**400}, "rob is a number of about 400 digits; from 1 to 1000"),
    ({"rob": -(10**400)}, "rob is"),
    ({"clock_ghz": 10**400}, "clock_ghz is"),
    ({"clock_ghz": float("inf")}, "clock_ghz is inf"),
    ({"iq": float("nan")}, "iq is nan"),
    ({"iq": True}, "iq is True, not a number"),
    ({"iq": None}, "iq is None"),
    ({"mem": ["DDR3"]}, "mem is a list"),
    ({"l1d_pf": {}}, "l1d_pf is an object"),
    ({"l1d_pf": "strid"}, "did you mean stride?"),
    ({"bp": "TAGE_SCL_8KB"}, "did you mean TAGE_SC_L_8KB?"),
    ({"mem": "DDR4_2400_4x16"}, "did you mean DDR4_2400_8x8?"),
    ({"bp": 3}, "bp is 3"),
    ({"name": 3}, "name is 3"),
    ({"l1d_kb": 5, "l1d_assoc": 12}, "l1d_kb is 5 with 12 ways: no multiple"),
    ({"l3_kb": 98, "l3_assoc": 64}, "l3_kb is 98 with 64 ways"),
    ({"l2_kb": 1 << 20}, "l2_kb is 1048576; from 1 to 65536"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(UsageError) as e:
        sim.core_row({**MACHINE, **changes})
    assert message in str(e.value) and len(str(e.value)) < 1000


def test_everything_is_told_at_once(tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"roob": 999, "cpu": "Minor", "width": 2.7, "mem": 4, "rob": 1e9}))
    with pytest.raises(FormatError) as e:
        sim.load_machine(path)
    text = str(e.value)
    assert text.startswith(str(path)) and "\n" not in text
    for part in ("'roob' is", "cpu is 'Minor'", "width is 2.7", "mem is 4", "rob is 1000000000.0"):
        assert part in text
    missing = [k for k in MACHINE if k not in ("name", "width", "mem", "rob")]
    listed = text.rpartition("; ")[2]
    assert listed.endswith("are missing") and set(missing) == set(
        listed.removesuffix(" are missing").split(", ")
    )


def test_a_machine_s_defaults_are_its_parameters():
    parameters = {p.name: p.default for p in MACHINE_PARAMETERS}
    for f in dataclasses.fields(sim.Machine):
        if f.name in parameters and f.default is not dataclasses.MISSING:
            assert f.default == parameters[f.name], f.name


def test_what_may_be_left_out():
    row = dict(zip([p[0] for p in sim.PARAMETERS], sim.core_row(MACHINE), strict=True))
    assert row["ras"] == 16 and row["in_order"] == 0
    assert not np.isnan(list(row.values())).any()
    with pytest.raises(UsageError, match="phys_float is missing"):
        sim.core_row(MACHINE, "x86")
    assert sim.core_row({**MACHINE, "width": 4.0}).tolist() == list(row.values())


def test_the_table_is_the_cores():
    """Each number of a core's row comes from the table or from the memory's class."""
    names = {p.name for p in sim.MACHINE_PARAMETERS}
    assert len(names) == len(sim.MACHINE_PARAMETERS)
    for name, least, most in sim.PARAMETERS:
        name = {"l1d_prefetch": "l1d_pf", "l2_prefetch": "l2_pf", "predictor": "bp"}.get(name, name)
        if name.startswith("memory_") or name in ("in_order", "tso"):
            continue
        (p,) = (p for p in sim.MACHINE_PARAMETERS if p.name == name)
        assert p.choices or (p.least, p.most) == (least, most)
    for p in sim.MACHINE_PARAMETERS:
        assert p.meaning and p.type in (int, float, str)
        assert p.unit or p.type is str
        if p.name == "mem":
            assert p.choices == tuple(MEMORIES)
        for choice in p.choices:
            sim.core_row({**MACHINE, p.name: choice})
        for end in () if p.choices or p.name == "name" else (p.least, p.most):
            ways = {f"{c}_assoc": 1 for c in ("l1i", "l1d", "l2", "l3") if p.name == f"{c}_kb"}
            if not p.name.endswith("_assoc"):
                sim.core_row({**MACHINE, **ways, p.name: end})


def lru(kb: int, ways: int, lines: list[int]) -> list[bool]:
    """A cache as lists, the least recent line first."""
    sets: list[list[int]] = [[] for _ in range(kb * 16 // ways)]
    hits = []
    for line in lines:
        one = sets[line % len(sets)]
        hits.append(line in one)
        if line in one:
            one.remove(line)
        one.append(line)
        del one[:-ways]
    return hits


#: kB and ways: 48 kB of 12 (64 sets), 36 MB of 12 and 16, and what was rounded down.
CACHES = [
    *((48, 12), (48, 4), (36 << 10, 12), (36 << 10, 16), (5, 4), (5, 1), (6, 2), (6, 8), (7, 7)),
    *((7, 4), (1, 16), (1, 1), (4, 64), (32, 8), (24, 6), (3, 3), (65536, 64), (65535, 1)),
]


@settings(max_examples=40)
@given(st.sampled_from(CACHES), st.integers(0, 2**32), st.integers(1, 900))
def test_caches_are_those_of_any_number_of_sets(cache, seed, count):
    kb, ways = cache
    random = np.random.default_rng(seed)
    sets = kb * 16 // ways
    # Few sets and a few more lines than ways in each; some anywhere.
    few = random.integers(0, 2**58 // sets, 3 * ways + 1, dtype=np.uint64)
    where = random.integers(0, sets, 3, dtype=np.uint64)
    lines = random.choice(few, count) * np.uint64(sets) + random.choice(where, count)
    lines[::17] = random.integers(0, 2**58, len(lines[::17]), dtype=np.uint64)
    assert _core.cache_hits(kb, ways, lines).tolist() == lru(kb, ways, lines.tolist())


def test_a_loop_fits_as_its_cache_is_large():
    for kb in (4, 5, 6, 7, 8):
        loop = np.tile(np.arange(16 * kb, dtype=np.uint64), 3)
        assert _core.cache_hits(kb, 4, loop)[16 * kb :].all()
        more = np.tile(np.arange(16 * kb + 4, dtype=np.uint64), 3)
        assert not _core.cache_hits(kb, 4, more).all()


def test_what_gem5_cannot_run_is_said():
    notes = sim.machine_notes({**MACHINE, "l1d_kb": 6, "l3_kb": 36 << 10, "l3_assoc": 12})
    assert notes == [
        "l1d: 24 sets are no power of two: gem5 cannot run this",
        "l3: 49152 sets are no power of two: gem5 cannot run this",
    ]
    assert sim.machine_notes({**MACHINE, "l1d_kb": 48, "l1d_assoc": 12}) == []
    few = {**MACHINE, "btb": 1000, "phys_int": 40, "phys_vec": 43}
    btb = "btb: 1000 entries are no power of two: gem5 cannot run this"
    cannot, instead = "gem5 cannot run", "simulated with 8 more than these"
    ints = f"phys_int: {cannot} 40 registers of ARM (42): {instead}"
    vecs = f"phys_vec: {cannot} 43 registers of ARM (44): {instead}"
    assert sim.machine_notes(few) == [btb, ints, vecs]
    assert sim.machine_notes(few, "x86") == [btb]
    assert sim.machine_notes({**few, "cpu": "minor"}) == [btb]


def test_commands_say_what_gem5_cannot_run(tmp_path, capsys):
    path, said = tmp_path / "m.json", "l1d: 24 sets are no power of two: gem5 cannot run this"
    feats = str(extract(tmp_path, synthetic.text(5, 900, blocks=False)).path)
    for machine, change, by in (
        (MACHINE, "l1d_kb=6", "l1d_kb=6"),
        ({**MACHINE, "l1d_kb": 6}, "rob=16", str(path)),
    ):
        path.write_text(json.dumps(machine))
        assert main(["what-if", feats, "--machine", str(path), change]) == 0
        assert capsys.readouterr().err == f"tracekit: {by}: {said}\n"
    for command in ("simulate F -q --machine M", "why F --no-changes --machine M", "machines M"):
        places = {"F": feats, "M": str(path)}
        assert main([places.get(a, a) for a in command.split()]) == 0
        assert capsys.readouterr().err == f"tracekit: {path}: {said}\n"


def test_a_space_is_checked_whole(tmp_path):
    with pytest.raises(UsageError) as e:
        Space(MACHINE, {"rob": [64, 10**400, 2.5], "mem": [[], "DDR3_1600_8x8"]}, "s")
    for part in ("400 digits", "rob is 2.5", "mem is a list"):
        assert str(e.value).count(part) == 1
    with pytest.raises(UsageError, match=r"roob \(did you mean rob\?\) is no parameter"):
        Space(MACHINE, {"roob": [1]}, "s")
    with pytest.raises(UsageError, match="5 ways"):
        Space(MACHINE, {"l1d_assoc": [4, 5]}, "s")
    space = Space(MACHINE, {"l1d_kb": [4, 5, 6, 7, 8]}, "s")
    assert [n.split()[1] for n in space.notes] == ["20", "24", "28"]


@pytest.mark.parametrize(
    "known",
    [
        *("[" * 100_000, '{"p": {"0": 1' + "0" * 400 + "}}", '{"p": {"0": "x"}}', "[1]", "{"),
        *('{"p": {"0": true}}', '{"p": {"01": 1, "1": 2}}', '{"p": {"1e0": 1}}', '{"p": [1, 2]}'),
    ],
)
def test_known_cycles_that_are_none(tmp_path, capsys, known):
    space, path = tmp_path / "s.json", tmp_path / "k.json"
    space.write_text(json.dumps({"base": MACHINE, "vary": {"rob": [32, 64]}}))
    path.write_text(known)
    assert main(["dse", str(space), "none.zst", "--known", str(path)]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and str(path) in err and "object has" not in err


def test_long_sums_are_no_deep_ones():
    assert Expression("+".join("1" * 1000))({}) == 1000
    assert Expression("*".join("2" * 900))({}) == 2.0**900
    assert Expression("1" + "-x" * 900)({"x": 1.0}) == -899


def test_the_base_of_a_space_is_a_machine_of_any_kind_of_name(tmp_path):
    space, vary = tmp_path / "s.json", {"rob": [32, 64]}

    def loaded(base: object) -> list[dict[str, object]]:
        space.write_text(json.dumps({"base": base, "vary": vary}))
        return load_space(space).machines

    small = sim.Machine.load("o3_small").to_dict()
    (tmp_path / "mine.json").write_text(json.dumps({**small, "name": "mine"}))
    expected = loaded(small)
    assert loaded("o3_small") == loaded("mine.json") == loaded({**small, "schema": 2}) == expected
    for base, why in (
        ("o3_smal", r"base: o3_smal: no machine has this name.*o3_small"),
        ({"kind": "hardware"}, "base is a real processor"),
        (None, "base: a machine's parameters, name or file"),
    ):
        with pytest.raises(FormatError, match=why):
            loaded(base)


def test_a_value_varies_once(tmp_path):
    space = tmp_path / "s.json"
    space.write_text(json.dumps({"base": MACHINE, "vary": {"rob": [32, 64, 32.0]}}))
    with pytest.raises(UsageError, match=r"vary: rob has 32\.0 twice"):
        load_space(space)
