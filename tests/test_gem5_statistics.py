"""`tracekit check`: a trace's counts beside gem5's stats.txt."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from oracles import replacement
from test_gem5_config import config, written
from test_shared_traces import TEXTS
from test_sim import MACHINE

import tracekit
from tracekit.analysis.gem5_statistics import compared, cpu_of, read_statistics
from tracekit.cli.main import main
from tracekit.errors import FormatError, UsageError

#: How gem5 v24 and v21 call things, of the counts below.
NEW = {
    "rows": "commitStats0.numOps",
    "instructions": "commitStats0.numInsts",
    "loads": "commitStats0.numLoadInsts",
    "control": "commitStats0.committedControl::",
    "op": "commitStats0.committedInstType::",
}
OLD = {
    "rows": "commit.opsCommitted",
    "instructions": "commit.instsCommitted",
    "loads": "commit.loads",
    "op": "commit.committedInstType_0::",
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory, golden) -> Path:
    out = tmp_path_factory.mktemp("check") / "lua.zst"
    tracekit.extract(golden / "lua.arm.trace.xz", out)
    return out


def counted(path: Path, names: dict[str, str]) -> dict[str, float]:
    """gem5's statistics of the trace, row by row."""
    out: Counter[str] = Counter()
    with tracekit.open(path) as t:
        s = t.statics
        ends = s.ends()
        kinds = {f: s.has(f) for f in ("IsLoad", "IsControl", "IsCall")}
        for i, fault in zip(t["static_id"].tolist(), t["fault"].tolist(), strict=True):
            if fault:
                continue
            out[names["rows"]] += 1
            out[names["instructions"]] += bool(ends[i])
            out[names["loads"]] += bool(kinds["IsLoad"][i])
            out[names["op"] + s.op_name(i)] += 1
            out[names["op"] + "total"] += 1
            if "control" in names:
                for f in ("IsControl", "IsCall"):
                    out[names["control"] + f] += bool(kinds[f][i])
        cycles = t.targets("ticks").sum() / t.clock_ps
    out["numCycles"] = int(cycles) + 100
    return {f"system.cpu.{k}": v for k, v in out.items()}


def stats(path: Path, *dumps: dict[str, float]) -> Path:
    """As gem5 writes them."""
    text = ""
    for dump in dumps:
        text += "\n---------- Begin Simulation Statistics ----------\n"
        for name, value in dump.items():
            text += f"{name:<44} {value:>12}                       # what it is (Count)\n"
        text += "system.cpu.noise                      nan                       # not a number\n"
        text += "\n---------- End Simulation Statistics   ----------\n"
    path.write_text(text)
    return path


@pytest.mark.parametrize("names", [NEW, OLD], ids=["v24", "v21"])
def test_equal_counts(trace, tmp_path, names, capsys):
    file = stats(tmp_path / "stats.txt", counted(trace, names))
    assert main(["check", str(trace), str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["equal"] and said["cpu"] == "system.cpu" and said["machine"] is None
    exact = {c["name"]: c["trace"] for c in said["counts"] if c["exact"]}
    assert {"rows", "instructions", "loads", "op IntAlu"} <= set(exact)
    assert ("IsCall" in exact) == (names is NEW)
    assert all(c["trace"] == c["gem5"] for c in said["counts"] if c["exact"])
    approximate = {c["name"]: c for c in said["counts"] if not c["exact"]}
    assert approximate["cycles"]["why"] and abs(approximate["cycles"]["difference"]) <= 101


@pytest.mark.parametrize("name", [NEW["rows"], NEW["control"] + "IsCall", NEW["op"] + "IntMult"])
def test_a_count_that_differs_is_an_error(trace, tmp_path, name, capsys):
    found = counted(trace, NEW)
    found[f"system.cpu.{name}"] = found.get(f"system.cpu.{name}", 0) + 1
    file = stats(tmp_path / "stats.txt", found)
    assert main(["check", str(trace), str(file)]) == 1
    out = capsys.readouterr().out
    assert out.count("DIFFERS") == 1
    assert name.partition("::")[2] or "rows" in out.split("DIFFERS")[0].splitlines()[-1]


def test_an_op_that_gem5_alone_had_differs(trace, tmp_path):
    found = counted(trace, NEW) | {"system.cpu.commitStats0.committedInstType::SimdSha1Hash": 2.0}
    file = stats(tmp_path / "stats.txt", found)
    with tracekit.open(trace) as t:
        wrong = [c for c in compared(t, read_statistics(file), "system.cpu") if c.wrong]
    assert [(c.name, c.trace, c.gem5) for c in wrong] == [("op SimdSha1Hash", 0, 2)]


def test_misses_and_cycles_of_the_machine_beside_the_statistics(trace, tmp_path, capsys):
    found = counted(trace, NEW)
    fills = {
        "system.cpu.dcache.overallMshrMisses::total": 7,
        "system.cpu.icache.overallMshrMisses::total": 9,
        "system.other.dcache.overallMshrMisses::total": 5,
    }
    file = stats(tmp_path / "stats.txt", {**dict(reversed(fills.items())), **found})
    small = {**MACHINE, "l1d_kb": 2, "l1d_assoc": 2, "l1i_kb": 4, "l1i_assoc": 4}
    written(tmp_path, config(small), "ini")
    assert main(["check", str(trace), str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    counts = {c["name"]: c for c in said["counts"]}
    assert said["machine"]["l1d_kb"] == 2
    with tracekit.open(trace) as t:
        lines = (t["addr"][t["is_mem"] & ~t["fault"]] >> np.uint64(6)).tolist()
        code = [pc >> 6 for pc in t["pc"].tolist()]
        code = [a for k, a in enumerate(code) if k == 0 or a != code[k - 1]]
        cycles = tracekit.simulate(t, tracekit.Machine.from_dict(said["machine"])).cycles[0]
    assert counts["l1d misses"]["trace"] == replacement.hits("lru", 16, 2, lines).count(False)
    assert counts["l1i misses"]["trace"] == replacement.hits("lru", 16, 4, code).count(False)
    assert (counts["l1d misses"]["gem5"], counts["l1i misses"]["gem5"]) == (7, 9)
    assert counts["cycles simulated"]["trace"] == cycles


def test_several_dumps_and_cpus(trace, tmp_path):
    one, two = {"system.cpu.numCycles": 1.0}, {"system.cpu.numCycles": 2.0, "b.numCycles": 3.0}
    file = stats(tmp_path / "stats.txt", one, two)
    with pytest.raises(UsageError, match=r"2 dumps of statistics.*--section"):
        read_statistics(file)
    with pytest.raises(UsageError, match="section 3 of 2"):
        read_statistics(file, 3)
    assert read_statistics(file, 2) == two
    assert cpu_of(two, "s", "b") == "b" and cpu_of(one, "s", "") == "system.cpu"
    for named in ("", "c"):
        with pytest.raises(UsageError, match=r"there are system\.cpu, b"):
            cpu_of(two, "s", named)


def test_what_cannot_be_compared(trace, tmp_path, golden, capsys):
    (tmp_path / "none").write_bytes(b"\xff\x00 nothing\n" * 5)
    with pytest.raises(FormatError, match="none: no gem5 statistics"):
        read_statistics(tmp_path / "none")
    stats(tmp_path / "empty", {})
    with pytest.raises(FormatError, match="the dump is empty"):
        read_statistics(tmp_path / "empty")
    file = stats(tmp_path / "stats.txt", counted(trace, NEW))
    tracekit.extract(golden / "lua.arm.trace.xz", tmp_path / "part.zst", count=100)
    assert main(["check", str(tmp_path / "part.zst"), str(file)]) == 2
    assert "part of a trace" in capsys.readouterr().err
    assert main(["check", str(trace), "/dev/zero"]) == 1
    assert "is a device" in capsys.readouterr().err


def test_nothing_is_exact_at_the_macro_level(trace, tmp_path, golden):
    tracekit.extract(golden / "lua.arm.trace.xz", tmp_path / "macro.zst", level="macro")
    file = stats(tmp_path / "stats.txt", counted(trace, NEW))
    with tracekit.open(tmp_path / "macro.zst") as t:
        counts = {c.name: c for c in compared(t, read_statistics(file), "system.cpu")}
    assert "rows" not in counts and not any(c.exact for c in counts.values())
    assert abs(counts["instructions"].difference) < 0.001
    assert all(c.why for c in counts.values())


@pytest.mark.parametrize("name", TEXTS)
def test_real_runs(shared, tmp_path, name):
    """Every count of gem5's that is exact, of the shared runs."""
    tracekit.extract(shared / "text" / f"{name}.xz", tmp_path / "t.zst")
    statistics = read_statistics(shared / "text" / f"{name}.stats")
    with tracekit.open(tmp_path / "t.zst") as t:
        cpu = cpu_of(statistics, name, t.cpu)
        counts = compared(t, statistics, cpu, l1d=(32, 8))
    exact = [c for c in counts if c.exact]
    assert [c for c in exact if c.wrong] == []
    assert len(exact) >= 18 or (name.endswith(".o3") and not exact)
    cycles = next(c for c in counts if c.name == "cycles")
    assert abs(cycles.difference) < 0.003
