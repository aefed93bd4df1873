"""Files for Konata and Perfetto: every event in order, and the times that the trace or the core
has."""

from __future__ import annotations

import json

import numpy as np
import pytest
import synthetic
from test_sim import MACHINE, extract

import tracekit
from tracekit import sim
from tracekit.cli.main import main
from tracekit.errors import UsageError
from tracekit.view import kanata, of_simulation, of_trace, perfetto


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
            rows[row][0] = p[2]
        elif command == "S":
            assert row not in open_
            open_[row] = p[2], at
        elif command == "E":
            name, begin = open_.pop(row)
            assert name == p[2]
            rows[row][1][name] = begin, at
        elif command == "W":
            assert int(p[1]) in rows
            rows[row][4].append(int(p[1]))
        else:
            assert command == "R"
            assert row not in open_
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


def test_perfetto(timed):
    view = of_trace(timed, 100, 600)
    found = json.loads(json.dumps(perfetto(view)))
    assert {e["ph"] for e in found["traceEvents"]} == {"M", "X", "C"}
    busy = {}
    for e in found["traceEvents"]:
        assert {"name", "ph", "ts", "pid", "tid", "args"} <= e.keys()
        if e["ph"] == "X":
            assert e["dur"] >= 0
            key = e["pid"], e["tid"]
            assert e["ts"] >= busy.get(key, 0)  # nothing overlaps in a lane
            busy[key] = e["ts"] + e["dur"]
    slices = [e for e in found["traceEvents"] if e["ph"] == "X"]
    assert sum(e["cat"] == "F" for e in slices) == 500
    levels = [e["args"]["rows"] for e in found["traceEvents"] if e["ph"] == "C"]
    assert min(levels) == 0
    assert 1 < max(levels) <= 500


def test_rows_without_times_say_what_to_do(trace):
    with pytest.raises(UsageError, match=r"the rows have no times .--machine M"):
        of_trace(trace, 0, 10)
    with pytest.raises(UsageError, match="the trace has 2,000"):
        of_simulation(trace, MACHINE, 1990, 2010)


def test_command_view(timed, trace, tmp_path, capsys):
    out = tmp_path / "v.json"
    assert main(["view", str(timed.path), "--rows", "0:50", "-o", str(out)]) == 0
    assert "traceEvents" in json.loads(out.read_text())
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
    assert main([*args[:-1], "5"]) == 2
    assert "A:B, as 0:1000" in capsys.readouterr().err
