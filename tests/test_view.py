"""Files for Konata and Perfetto: every event in order, and the times that the trace or the core
has."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import synthetic
from test_sim import MACHINE, extract

import tracekit
from tracekit import sim
from tracekit.cli.main import main
from tracekit.errors import UsageError
from tracekit.view import beside, kanata, of_simulation, of_trace, perfetto


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return extract(tmp_path_factory.mktemp("t"), synthetic.text(7, 2000, blocks=False))


@pytest.fixture(scope="module")
def timed(tmp_path_factory, golden):
    path = tmp_path_factory.mktemp("t") / "lua.zst"
    tracekit.extract(str(golden / "lua.arm.trace.xz"), str(path))
    return tracekit.open(str(path))


def read_kanata(lines):
    """What Konata's parser checks: -> {row: (label, {stage: (begin, end)}, retirement)}."""
    lines = iter(lines)
    assert next(lines) == "Kanata\t0004\n"
    assert next(lines).startswith("C=\t")
    at, rows, open_, dead = 0, {}, {}, set()
    for text in lines:
        command, *p = text.rstrip("\n").split("\t")
        if command == "C":
            assert int(p[0]) > 0
            at += int(p[0])
            continue
        row = int(p[0])
        assert row not in dead
        if command == "I":
            assert row not in rows
            rows[row] = ["", {}, None, int(p[1]), []]
        elif command == "L":
            assert p[1] in "01"
            rows[row][0] += p[2] if p[1] == "0" else ""
        elif command == "S":
            assert (row, p[1]) not in open_
            open_[row, p[1]] = p[2], at
        elif command == "E":
            name, begin = open_.pop((row, p[1]))
            assert name == p[2]
            rows[row][1][name if p[1] == "0" else (name, p[1])] = begin, at
        elif command == "W":
            assert int(p[1]) in rows
            rows[row][4].append(int(p[1]))
        else:
            assert command == "R"
            assert not {(row, "0"), (row, "1")} & open_.keys()
            rows[row][2] = at
            dead.add(row)
    assert len(dead) == len(rows)
    return rows


@pytest.mark.parametrize("cpu", ["o3", "minor"])
def test_a_simulated_core(trace, cpu):
    machine = {**MACHINE, "cpu": cpu}
    view = of_simulation(trace, machine, 500, 900)
    assert (np.diff(np.column_stack([view.starts, view.retired]), axis=1) >= 0).all()
    plain = np.concatenate([w.cycles for w in sim.walk(trace, [machine])])[:, 0]
    assert (np.diff(view.retired) == plain[501:900]).all()
    rows = read_kanata(kanata(view))
    assert sorted(rows) == list(range(400))
    for k, (label, stages, retired, number, reads) in rows.items():
        assert number == 500 + k
        assert label == f"{trace['pc'][500 + k]:#x}: " + label.split(": ", 1)[1]
        assert retired == view.retired[k]
        assert all(p < k for p in reads)
        for name, (begin, _) in stages.items():
            assert begin == view.starts[k, view.stages.index(name)]
    assert any(row[4] for row in rows.values())


def test_gem5s_own_stages(timed):
    view = of_trace(timed, 100, 600)
    ticks = timed.column("retire", (100, 600)).astype(np.int64)
    assert (np.diff(view.retired) == np.diff(ticks) // timed.clock_ps).all()
    rows = read_kanata(kanata(view))
    assert len(rows) == 500
    for k, row in rows.items():
        assert row[1]["F"][0] == view.starts[k, 0]


#: The trace-event format's own words on what each kind of event has.
WHOLE = {"type": "integer", "minimum": 0}
EVENT = {
    "type": "object",
    "required": ["name", "ph", "ts", "pid", "tid", "args"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "cat": {"type": "string"},
        "ts": WHOLE,
        "dur": WHOLE,
        "pid": WHOLE,
        "tid": WHOLE,
        "args": {"type": "object", "minProperties": 1},
    },
    "additionalProperties": {"not": {}},
}
ARGS = {
    "M": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    "C": {"type": "object", "additionalProperties": {"type": "integer"}},
    "X": {"type": "object", "required": ["row"], "properties": {"row": WHOLE}},
}
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "minItems": 1,
            "items": {
                "oneOf": [
                    {
                        **EVENT,
                        "required": [*EVENT["required"], *(["dur", "cat"] if ph == "X" else [])],
                        "properties": {**EVENT["properties"], "ph": {"const": ph}, "args": args},
                    }
                    for ph, args in ARGS.items()
                ]
            },
        },
    },
}


def checked_events(found):
    """Events of a file that follows the schema; nothing overlaps in a lane, all have names."""
    found = json.loads(json.dumps(found))
    pytest.importorskip("fastjsonschema").validate(SCHEMA, found)
    events = found["traceEvents"]
    named = {e["pid"] for e in events if e["name"] == "process_name"}
    busy = {}
    for e in events:
        assert e["pid"] in named
        if e["ph"] == "X":
            key = e["pid"], e["tid"]
            assert e["ts"] >= busy.get(key, 0)
            busy[key] = e["ts"] + e["dur"]
    return events


def test_perfetto(timed):
    view = of_trace(timed, 100, 600)
    found = {"traceEvents": checked_events(perfetto(view))}
    slices = [e for e in found["traceEvents"] if e["ph"] == "X"]
    assert sum(e["cat"] == "F" for e in slices) == 500
    levels = [e["args"]["rows"] for e in found["traceEvents"] if e["ph"] == "C"]
    assert min(levels) == 0
    assert 1 < max(levels) <= 500


def test_queues_and_misses_of_a_core(timed):
    view = of_simulation(timed, MACHINE, 0, 1500)
    events = checked_events(perfetto(view))
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {"load misses", "fetch misses", "mispredictions"} <= set(processes.values())
    most = {}
    for e in events:
        if e["ph"] == "C":
            most[e["name"]] = max(most.get(e["name"], 0), e["args"]["rows"])
    for name, size in (("reorder buffer", "rob"), ("load queue", "lq")):
        assert 0 < most[name] <= MACHINE[size]
    assert 0 < most["load misses"] <= most["executing"]
    for m in view.marks:
        assert m.begin <= m.end
        assert view.loads[m.row] or m.track != "load misses"
        assert view.stores[m.row] or m.track != "store misses"
    waits = [m.end - m.begin for m in view.marks if m.track == "load misses"]
    assert min(waits) > MACHINE["l1d_lat"]


def test_misses_are_the_caches_own(timed):
    ideal = {**MACHINE, "ideal_l1d": 1, "ideal_l1i": 1, "ideal_branches": 1}
    assert not of_simulation(timed, ideal, 0, 800).marks
    small = of_simulation(timed, {**MACHINE, "l1d_kb": 1, "l1i_kb": 1}, 2000, 6000).marks
    large = of_simulation(timed, MACHINE, 2000, 6000).marks
    assert len(small) > len(large) > 0


def test_both_times_in_one_view(timed):
    gem5, core = beside(of_trace(timed, 100, 400), of_simulation(timed, MACHINE, 100, 400))
    assert gem5.retired[0] == core.retired[0]
    rows = read_kanata(kanata(gem5, core))
    assert len(rows) == 300
    for k, (label, stages, retired, *_) in rows.items():
        assert label.endswith(f"[{core.retired[k] - gem5.retired[k]:+d}]")
        assert stages["F"][0] == gem5.starts[k, 0]
        assert stages["X", "1"][0] == core.starts[k, 1]
        assert retired == max(gem5.retired[k], core.retired[k])
    events = checked_events(perfetto(gem5, core))
    later = [e for e in events if e["name"] == "retires later by"]
    assert later[-1]["args"]["cycles"] == core.retired[-1] - gem5.retired[-1]
    assert {e["args"]["name"] for e in events if e["ph"] == "M"} >= {"gem5: fetch", "m: execute"}


@pytest.mark.skipif("KONATA" not in os.environ, reason="KONATA: a checkout of Konata with tsx")
@pytest.mark.parametrize("kind", ["gem5", "core", "both"])
def test_konatas_own_parser(timed, tmp_path, kind):
    view, other = of_trace(timed, 0, 700), None
    if kind != "gem5":
        core = of_simulation(timed, MACHINE, 0, 700)
        view, other = beside(view, core) if kind == "both" else (core, None)
    path = tmp_path / "v.kanata"
    path.write_text("".join(kanata(view, other)))
    checker = Path(__file__).with_name("konata.mjs")
    konata = Path(os.environ["KONATA"])
    done = subprocess.run(
        ["node", "--import", "tsx", str(checker.resolve()), str(path)],
        cwd=konata, env={**os.environ, "KONATA": str(konata)},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["warnings"] == 0
    assert found["lastCycle"] == max(v.last_cycle for v in (view, other) if v is not None)
    assert len(found["ops"]) == 700
    for k, op in enumerate(found["ops"]):
        assert op["gid"] == k
        for lane, v in enumerate(v for v in (view, other) if v is not None):
            begins = [(n, int(c)) for n, c in zip(v.stages, v.starts[k], strict=True) if c >= 0]
            ends = [c for _, c in begins[1:]] + [int(v.retired[k])]
            both = zip(begins, ends, strict=True)
            want = [[n, c] for (n, c), end in both if end > c or n == "X"]
            assert [s[:2] for s in op["lanes"][lane]] == want
        assert op["producers"] == [p for p in view.producers[k] if k - p <= 1000]
        issue = view.stages.index("X")
        assert op["arrowEnds"] == view.starts[k, issue] or other is not None


def test_rows_without_times_say_what_to_do(trace):
    with pytest.raises(UsageError, match=r"the rows have no times .--machine M"):
        of_trace(trace, 0, 10)
    with pytest.raises(UsageError, match="the trace has 2,000"):
        of_simulation(trace, MACHINE, 1990, 2010)


def test_command_view(timed, trace, tmp_path, capsys):
    out = tmp_path / "v.json"
    assert main(["view", str(timed.path), "--rows", "0:50", "-o", str(out)]) == 0
    assert "traceEvents" in json.loads(out.read_text())
    packed = tmp_path / "v.json.gz"
    for _ in range(2):
        assert main(["view", str(timed.path), "--rows", "0:50", "-o", str(packed), "--force"]) == 0
        assert gzip.decompress(packed.read_bytes()) == out.read_bytes()
    capsys.readouterr()
    out = tmp_path / "v.kanata"
    args = ["view", str(trace.path), "-o", str(out), "--rows", "10:2000000"]
    assert main(args) == 2
    machine = tmp_path / "m.json"
    machine.write_text(json.dumps(MACHINE))
    capsys.readouterr()
    assert main([*args, "--machine", str(machine), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == len(read_kanata(out.read_text().splitlines(True))) == 1990
    assert main(["view", str(timed.path), "-o", str(out), "--both"]) == 2
    assert "--both needs --machine" in capsys.readouterr().err
    both = ["view", str(timed.path), "-o", str(out), "--both", "--machine", str(machine), "--force"]
    assert main(both) == 0
    assert "the last row retires" in capsys.readouterr().out
    assert main([*args[:-1], "5"]) == 2
    assert "A:B, as 0:1000" in capsys.readouterr().err
