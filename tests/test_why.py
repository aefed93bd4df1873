"""Stacks of causes, changed machines and differences add up, and say what they must."""

from __future__ import annotations

import json

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sim import MACHINE, extract, line

from tracekit import sim
from tracekit.causes import (
    CAUSES,
    Change,
    Places,
    explain,
    idealizations,
    limits,
    modelled,
    parse_change,
    spread,
    stacks,
    steps,
    what_if,
)
from tracekit.causes.why import why
from tracekit.cli.main import main
from tracekit.errors import UsageError
from tracekit.sim.trace_walk import KeptRows

MINOR = {**MACHINE, "name": "io", "cpu": "minor", "width": 2, "clock_ghz": 1.5}
MACHINES = [MACHINE, MINOR, {**MACHINE, "name": "l3", "l3_kb": 2048, "rob": 16}]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return extract(tmp_path_factory.mktemp("t"), synthetic.text(7, 3000, blocks=False))


@pytest.fixture
def machine_file(tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(MACHINE))
    return str(path)


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.integers(1, 900), st.integers(1, 40), st.integers(20, 300))
def test_stacks_add_up_by_place_and_phase(tmp_path_factory, seed, rows, phases, block):
    t = extract(tmp_path_factory.mktemp("t"), synthetic.text(seed, rows, blocks=False))
    plain = np.concatenate([w.cycles for w in sim.walk(t, MACHINES)]).astype(np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracekit.sim.trace_walk.BLOCK", block)
        found = stacks(t, MACHINES, phases=phases)
        kept = stacks(KeptRows(t), MACHINES, phases=phases)
    assert (found.cycles == plain.sum(0)).all()
    want = [plain[a:b].sum(0) for a, b in zip(found.breaks, found.breaks[1:], strict=False)]
    assert (found.phases.sum(2) == want).all()
    ids = t["static_id"]
    for i in np.unique(ids):
        assert (found.places[i].sum(1) == plain[ids == i].sum(0)).all()
    assert (kept.places == found.places).all()
    assert (kept.phases == found.phases).all()
    for k, m in enumerate(MACHINES):
        assert not found.causes[k][~modelled(m)].any()
        assert sum(found.of(k).values()) == found.cycles[k] == sum(found.groups()[k].values())


def test_causes_that_a_machine_lacks_are_not_shown():
    def names(m):
        return {c for c, k in zip(CAUSES, modelled(m), strict=True) if k}

    assert {"load_l3", "icache_l3"} <= names(MACHINES[2]) - names(MACHINE)
    assert "rob_full" in names(MACHINE) - names(MINOR)
    assert not {n for n in names({**MACHINE, "ideal_branches": 1}) if n.startswith("mispredict")}


def test_rows_that_are_spread_are_walked_alone(trace):
    ranges = spread(len(trace), 800, 4)
    assert [b - a for a, b in ranges] == [200] * 4
    assert spread(800, 800) is None
    found = stacks(trace, [MACHINE], ranges=ranges)
    kept = stacks(KeptRows(trace), [MACHINE], ranges=ranges)
    assert found.walked == kept.walked == 800
    assert (found.places == kept.places).all()
    plain = np.concatenate([w.cycles for w in sim.walk(trace, [MACHINE], ranges=ranges)])
    assert found.cycles == plain.sum()


def test_changes_say_what_they_set():
    def set_by(text, m=MACHINE):
        return dict(parse_change(text, m).set)

    assert set_by("rob=512") == {"rob": 512}
    assert set_by("l2_kb*2") == {"l2_kb": 1024}
    assert set_by("l2_kb / 2") == {"l2_kb": 256}
    assert set_by("l1d_lat-1") == {"l1d_lat": 1}
    assert set_by("clock_ghz+0.5") == {"clock_ghz": 2.5}
    assert set_by("bp=perfect") == {"ideal_branches": 1}
    assert set_by("bp=LTAGE") == {"bp": "LTAGE"}
    assert set_by("memory_latency=0") == {"ideal_memory_latency": 1}
    assert set_by("width=max") == {"width": 32, "issue_width": 64}
    assert set_by("rob=max") == {"rob": 1000}


@pytest.mark.parametrize(
    ("text", "machine", "says"),
    [
        ("rob=0", MACHINE, "rob=0 makes no machine: rob is 0; from 1 to 1000"),
        ("width=0", MACHINE, "from 1 to 32"),
        ("rop=3", MACHINE, "did you mean rob"),
        ("rob", MACHINE, "no change of a machine .like rob=512"),
        ("rob=", MACHINE, "no change of a machine"),
        ("rob=x", MACHINE, "'x' is no number"),
        ("rob=1e400", MACHINE, "no machine"),
        ("rob=nan", MACHINE, "no machine"),
        ("rob*-2", MACHINE, "a number above 0"),
        ("rob*1.001", MACHINE, "no whole number"),
        ("l2_assoc=3", MACHINE, "no multiple"),
        ("l1d=1", MACHINE, "l1d=perfect"),
        ("bp*2", MACHINE, "bp is a name"),
        ("bp=foo", MACHINE, "one of Local"),
        ("name=x", MACHINE, "no parameter"),
        ("rob=64", MINOR, "in-order"),
        ("window=perfect", MINOR, "in-order"),
    ],
)
def test_expressions_that_make_no_machine(text, machine, says):
    with pytest.raises(UsageError, match=says) as e:
        parse_change(text, machine)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m["name"])
def test_steps_make_machines(machine):
    made = steps(machine) + idealizations(machine)
    assert len({c.text for c in made}) == len(made) > 40 - 30 * (machine is MINOR)
    for c in made:
        assert not sim.machine_errors(c.apply(machine))
        assert c.apply(machine) != machine
    names = {n for c in made for n in c.set}
    assert ("rob" in names) == (machine is not MINOR)
    assert ("l3_kb" in names) == bool(machine["l3_kb"])


def test_effects_add_up(trace):
    places = Places.of(trace, "instruction")
    changes = ["rob/4", "l1d=perfect", "clock_ghz*2"]
    found = what_if(trace, MACHINE, changes, together=True, labels=places.labels)
    machines = [e.machine for e in found.effects]
    assert machines[-1]["rob"] == 16
    assert machines[-1]["ideal_l1d"] == 1
    plain = sim.totals(trace, [MACHINE, *machines])[0]
    assert [found.cycles, *(e.cycles for e in found.effects)] == plain.tolist()
    for e in found.effects:
        moved = e.seconds - found.seconds
        assert sum(e.causes.values()) == pytest.approx(moved, rel=1e-9, abs=1e-15)
        assert e.places.sum() == pytest.approx(moved, rel=1e-9, abs=1e-15)
        assert e.gain == pytest.approx(1 - e.seconds / found.seconds)
    twice = what_if(trace, MACHINE, ["l2_kb*2", "l2_kb*2"], together=True).effects[-1]
    assert twice.machine["l2_kb"] == 4 * MACHINE["l2_kb"]


def test_objects_are_changes_too(trace):
    change = Change("small", {"rob": 8, "iq": 4})
    (effect,) = what_if(trace, MACHINE, [change]).effects
    assert effect.cycles == sim.totals(trace, [{**MACHINE, "rob": 8, "iq": 4}])[0, 0]
    with pytest.raises(UsageError, match="bad makes no machine"):
        what_if(trace, MACHINE, [Change("bad", {"rob": 0})])


def test_ideal_memories_are_faster(tmp_path):
    text = "".join(
        line(k, "ldr x1, [x1]", "MemRead", "IsInteger|IsMemRef|IsLoad", 0x10000000 + 4160 * 977 * k)
        for k in range(400)
    )
    changes = ["memory_latency=perfect", "bandwidth=perfect", "l1d=perfect"]
    chain = what_if(extract(tmp_path, text), MACHINE, changes).effects
    assert chain[0].gain > 0.3 > chain[1].gain >= 0
    assert chain[2].gain > chain[0].gain
    free = "".join(
        line(k, f"ldr x{k % 8}, [x9]", "MemRead", "IsInteger|IsMemRef|IsLoad", 0x10000000 + 64 * k)
        for k in range(4000)
    )
    wide = {**MACHINE, "rob": 512, "iq": 512, "lq": 250, "l1d_mshrs": 256, "l2_mshrs": 256}
    stream = what_if(extract(tmp_path, free), wide, changes).effects
    assert stream[1].gain > 0.2


def test_limits_find_what_a_chain_waits_for(tmp_path):
    trace = extract(tmp_path, "".join(line(k, "sdiv x1, x1, x2", "IntDiv") for k in range(2000)))
    best = limits(trace, MACHINE, most_rows=1000).best()
    assert "int_div_lat" in best[0].change.set
    found = why(trace, MACHINE)
    assert found.helpful()[0].change.text == "int_div_lat=9"
    assert "integer divisions" in found.paragraph()
    assert sum(p.cycles for p in found.places) == found.cycles
    assert sum(p.rows for p in found.functions) == len(trace)


def test_difference_of_two_machines_adds_up(trace):
    found = explain(trace, trace, MACHINE, MINOR, by="instruction")
    plain = sim.totals(trace, [MACHINE, MINOR])[0]
    assert found.picoseconds == (plain[0] * 500, plain[1] * 667)
    assert sum(found.causes.values()) == found.moved == sum(found.places.values()) != 0
    same = explain(trace, trace, MACHINE, MACHINE)
    assert same.moved == 0
    assert same.parts == {}


def test_difference_of_two_versions_is_in_what_differs(tmp_path):
    def version(base, extra):
        body = "".join(f"{base + 4 * i:#x}|movz x{i % 8}, #{i}|IntAlu\n" for i in range(20))
        rows = []
        for _ in range(200):
            for entry in (body + extra).splitlines():
                pc, text, op = entry.split("|")
                k = len(rows)
                place = f"{500 * k:7d}: system.cpu: {pc}    :   "
                rows.append(f"{place}{text:<24} : {op} :   flags=(IsInteger)\n")
        return extract(tmp_path, "".join(rows))

    old = version(0x400000, "0x400100|sdiv x1, x1, x2|IntDiv\n")
    new = version(0x410000, "")
    found = explain(old, new, MACHINE, MACHINE)
    assert found.by == "block"
    assert sum(found.causes.values()) == found.moved == sum(found.places.values()) < 0
    place, moved = next(iter(found.places.items()))
    assert "sdiv" in place
    assert moved < 0.7 * found.moved
    assert len(found.parts) <= 2


def test_command_why(trace, machine_file, capsys):
    assert main(["why", str(trace.path), "--machine", machine_file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["causes"].values()) == found["cycles"] == sum(found["groups"].values())
    assert found["by"] == "instruction"
    assert len(found["places"]) <= 10
    assert main(["why", str(trace.path), "--machine", machine_file, "--top", "3"]) == 0
    out = capsys.readouterr().out
    assert out.split()[:2] == ["3,000", "rows"]
    assert "What would help most" in " ".join(out.split())
    assert main(["why", str(trace.path), "--machine", machine_file, "--no-changes"]) == 0
    assert "would help most" not in capsys.readouterr().out


def test_seconds_are_those_of_simulate(trace):
    """To the last digit, whatever the clock."""
    machines = [{**MACHINE, "clock_ghz": clock} for clock in (0.3, 1.1, 1.7, 2.3, 2.9, 3.1, 3.7)]
    plain = sim.simulate(trace, [sim.Machine.from_dict(m) for m in machines])
    found = [why(trace, m, changes=False).seconds for m in machines]
    assert found == plain.seconds.tolist()
    assert [what_if(trace, m, ["rob=64"]).seconds for m in machines] == found


def test_folded_stacks_add_up(trace, machine_file, tmp_path, capsys):
    out = tmp_path / "f.txt"
    args = ["why", str(trace.path), "--machine", machine_file, "--no-changes", "--json"]
    assert main([*args, "--folded", str(out)]) == 0
    lines = [x.rpartition(" ") for x in out.read_text().splitlines()]
    total = json.loads(capsys.readouterr().out)["cycles"]
    assert sum(int(n) for _, _, n in lines) == total
    assert all(x.count(";") == 1 for x, _, _ in lines)
    assert main([*args, "--folded", str(out)]) == 1


def test_stacks_by_row_and_phase(trace, machine_file, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "rows.parquet"
    args = ["why", str(trace.path), "--machine", machine_file, "--no-changes", "--json"]
    assert main([*args, "--by-row", str(out), "--phases", "7"]) == 0
    found = json.loads(capsys.readouterr().out)
    table = parquet.read_table(out)
    plain = np.concatenate([w.cycles for w in sim.walk(trace, [MACHINE])])[:, 0]
    columns = {n: table[n].to_numpy() for n in table.column_names}
    assert (columns["cycles"] == plain).all()
    assert (columns["pc"] == trace["pc"]).all()
    assert columns["row"].tolist() == list(range(len(trace)))
    causes = {n: int(c.sum()) for n, c in columns.items() if n in CAUSES}
    assert causes == found["causes"]
    assert (sum(columns[n] for n in causes) == plain).all()
    edges = found["phases"]["edges"]
    assert len(edges) == 8
    for k, stack in enumerate(found["phases"]["causes"]):
        assert sum(stack.values()) == plain[edges[k] : edges[k + 1]].sum()
    assert main([*args, "--by-row", str(out)]) == 1
    assert "exists" in capsys.readouterr().err
    assert main([*args, "--by-row", str(tmp_path / "rows.csv")]) == 2
    assert "go to .parquet or .arrow" in capsys.readouterr().err
    assert main([*args, "--by-row", str(tmp_path / "rows.champsim")]) == 2
    assert main([*args, "--phases", "0"]) == 2


def test_command_what_if(trace, machine_file, capsys):
    args = ["what-if", str(trace.path), "--machine", machine_file, "rob=512", "l2_kb*2"]
    assert main([*args, "--together", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [e["change"] for e in found["effects"]] == ["rob=512", "l2_kb*2", "rob=512 and l2_kb*2"]
    assert main(["what-if", str(trace.path), "--all", "--machine", machine_file]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    moved = [float(x.split("%")[0]) for x in lines]
    assert moved == sorted(moved)
    assert main(["what-if", str(trace.path), "--machine", machine_file]) == 2
    assert "no change (like rob=512" in capsys.readouterr().err


def test_command_explain(trace, machine_file, tmp_path, capsys):
    other = tmp_path / "io.json"
    other.write_text(json.dumps(MINOR))
    args = ["explain", str(trace.path), "--machine", machine_file, str(other)]
    assert main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["causes"].values()) == found["moved"] == sum(found["places"].values())
    assert main([*args, "--top", "2"]) == 0
    out = capsys.readouterr().out
    assert out.count(f"{found['moved'] * 1e-6:+,.3f}  together") == 2
    assert main(args[:-1]) == 2
    assert "nothing to compare" in capsys.readouterr().err


def test_machines_by_name(trace, capsys):
    assert main(["why", str(trace.path), "--machine", "u077", "--no-changes"]) == 2
    assert "no file (did you mean u0" in capsys.readouterr().err
    assert main(["why", str(trace.path), "--machine", "u007", "--no-changes"]) == 0
    assert "on u007" in capsys.readouterr().out
