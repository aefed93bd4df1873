"""Machines of gem5 runs: what config.ini and config.json say, written here as gem5 v24.0 does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_sim import MACHINE

from tracekit import Machine
from tracekit.cli.main import main
from tracekit.errors import FormatError
from tracekit.sim import gem5_machine, load_machine
from tracekit.sim.gem5_config import gem5_caches
from tracekit.sim.parameters import machine_errors

#: gem5's classes of the memories: tCL, tRCD, tRP, tRAS, tBURST (ps), bus, burst length, devices.
DRAM = {
    "DDR3_1600_8x8": (13750, 13750, 13750, 35000, 5000, 8, 8, 8),
    "DDR3_2133_8x8": (13090, 13090, 13090, 33000, 3750, 8, 8, 8),
    "DDR4_2400_8x8": (14160, 14160, 14160, 32000, 3332, 8, 8, 8),
    "DDR5_6400_4x8": (14375, 14375, 14375, 32000, 2500, 8, 16, 4),
    "LPDDR3_1600_1x32": (15000, 18000, 18000, 42000, 5000, 32, 8, 1),
    "LPDDR5_6400_1x16_BG_BL32": (21250, 18000, 18000, 42000, 7500, 16, 32, 1),
    "HBM_2000_4H_1x64": (18000, 12000, 14000, 28000, 2000, 64, 4, 1),
}
BP = {"Local": "LocalBP", "Tournament": "TournamentBP", "BiMode": "BiModeBP"}
PF = {
    "stride": "StridePrefetcher",
    "tagged": "TaggedPrefetcher",
    "bop": "BOPPrefetcher",
    "ampm": "AMPMPrefetcher",
}


def cache(m: dict[str, Any], level: str, behind: str) -> dict[str, Any]:
    return {
        "type": "Cache",
        "size": m[f"{level}_kb"] * 1024,
        "assoc": m[f"{level}_assoc"],
        "tag_latency": m[f"{level}_lat"],
        "data_latency": m[f"{level}_lat"],
        "mshrs": m.get(f"{level}_mshrs", 8),
        "prefetcher": "Null",
        "write_buffers": 8,
        "mem_side": behind,
        "clusivity": "mostly_incl",
    }


def config(m: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A run's objects by path."""
    w, fd, cpu = m["width"], m["front_delay"], "system.cpu"
    minor = m.get("cpu") == "minor"
    out: dict[str, dict[str, Any]] = {
        "system.clk": {"type": "SrcClockDomain", "clock": round(1000 / m["clock_ghz"])},
        cpu: {
            "type": "BaseMinorCPU" if minor else "BaseO3CPU",
            "clk_domain": "system.clk",
            "icache_port": f"{cpu}.icache.cpu_side",
            "dcache_port": f"{cpu}.dcache.cpu_side",
            "branchPred": f"{cpu}.branchPred",
            "needsTSO": False,
            "switched_out": False,
        },
        f"{cpu}.branchPred": {"type": BP.get(m["bp"], m["bp"])},
        f"{cpu}.branchPred.btb": {"type": "SimpleBTB", "numEntries": m["btb"]},
        f"{cpu}.branchPred.ras": {"type": "ReturnAddrStack", "numEntries": m.get("ras", 16)},
        f"{cpu}.icache": cache(m, "l1i", "system.l2bus.cpu_side_ports[0]"),
        f"{cpu}.dcache": cache(m, "l1d", "system.l2bus.cpu_side_ports[1]"),
        "system.l2bus": {"type": "CoherentXBar", "mem_side_ports": "system.l2.cpu_side"},
        "system.l2": cache(m, "l2", "system.membus.cpu_side_ports[0]"),
        "system.membus": {"type": "CoherentXBar", "mem_side_ports": "system.mem.port"},
        "system.mem": {"type": "MemCtrl", "dram": "system.mem.dram"},
    }
    if m["l3_kb"]:
        out["system.l2"]["mem_side"] = "system.l3bus.cpu_side_ports[0]"
        out["system.l3bus"] = {"type": "CoherentXBar", "mem_side_ports": "system.l3.cpu_side"}
        out["system.l3"] = cache(m, "l3", "system.membus.cpu_side_ports[0]")
    for level, where in (("l1d", f"{cpu}.dcache"), ("l2", "system.l2")):
        if m[f"{level}_pf"] != "none":
            out[where]["prefetcher"] = f"{where}.prefetcher"
            out[f"{where}.prefetcher"] = {"type": PF[m[f"{level}_pf"]]}
    keys = (
        "tCL",
        "tRCD",
        "tRP",
        "tRAS",
        "tBURST",
        "device_bus_width",
        "burst_length",
        "devices_per_rank",
    )
    out["system.mem.dram"] = {
        "type": "DRAMInterface",
        **dict(zip(keys, DRAM[m["mem"]], strict=True)),
    }
    if minor:
        keys = ("decodeInputWidth", "executeInputWidth", "executeIssueLimit", "executeCommitLimit")
        out[cpu].update(dict.fromkeys(keys, w), executeBranchDelay=fd)
        out[cpu].update(executeMemoryIssueLimit=1, executeMemoryCommitLimit=1)
        return out
    stages = ("fetch", "decode", "rename", "dispatch", "commit", "squash")
    out[cpu].update({f"{s}Width": w for s in stages})
    out[cpu].update(
        issueWidth=m["issue_width"],
        wbWidth=m["issue_width"],
        numROBEntries=m["rob"],
        numIQEntries=m["iq"],
        LQEntries=m["lq"],
        SQEntries=m["sq"],
        numPhysIntRegs=m["phys_int"],
        numPhysFloatRegs=m.get("phys_float", 256),
        numPhysVecRegs=m["phys_vec"],
        fetchBufferSize=m["fetch_buffer"],
        fetchQueueSize=m["fetch_queue"],
        fetchToDecodeDelay=fd,
        decodeToRenameDelay=fd + 1,
        renameToIEWDelay=fd + 2,
        issueToExecuteDelay=m["issue_to_exec"],
        cacheLoadPorts=m["load_ports"],
        cacheStorePorts=m["store_ports"],
        fuPool=f"{cpu}.fuPool",
    )
    return {**out, **units(m, f"{cpu}.fuPool")}


def units(m: dict[str, Any], pool: str) -> dict[str, dict[str, Any]]:
    """The functional units of an out-of-order core by path."""
    out: dict[str, dict[str, Any]] = {}
    lists = [
        (m["int_alu"], {"IntAlu": 1}),
        (m["int_mul"], {"IntMult": m["int_mul_lat"], "IntDiv": m["int_div_lat"]}),
        (
            m["fp"],
            {
                "FloatAdd": m["fp_add_lat"],
                "FloatMult": m["fp_mul_lat"],
                "FloatDiv": m["fp_div_lat"],
            },
        ),
        (m["simd"], {"SimdAdd": 1}),
        (m["load_ports"], {"MemRead": m["agu_lat"]}),
        (m["store_ports"], {"MemWrite": m["agu_lat"]}),
    ]
    for k, (count, ops) in enumerate(lists):
        unit = f"{pool}.FUList{k}"
        out[unit] = {"type": "FUDesc", "count": count}
        for j, (op, latency) in enumerate(ops.items()):
            name = f"{unit}.opList{j if len(ops) > 1 else ''}"
            out[name] = {"type": "OpDesc", "opClass": op, "opLat": latency, "pipelined": True}
    return out


def written(folder: Path, objects: dict[str, dict[str, Any]], kind: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"config.{kind}"
    if kind == "ini":
        lines = []
        for name, values in objects.items():
            lines.append(f"[{name}]")
            lines += [
                f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in values.items()
            ]
            lines.append("")
        path.write_text("\n".join(lines))
        return path
    root: dict[str, Any] = {"type": "Root", "path": "root"}
    for name, values in objects.items():
        at = root
        for part in name.split("."):
            if not isinstance(at.get(part), dict):  # a child stands where its name stood
                at[part] = {}
            at = at[part]
        for k, v in values.items():
            if isinstance(at.get(k), dict):
                continue
            port = k.endswith("_port") or k in ("mem_side", "mem_side_ports")
            at[k] = {"role": "GEM5 REQUESTOR", "peer": v} if port else v
        at["path"] = name
    path.write_text(json.dumps(root))
    return path


def same(found: dict[str, Any], m: dict[str, Any]) -> None:
    minor = m.get("cpu") == "minor"
    core = (
        "rob",
        "iq",
        "lq",
        "sq",
        "phys_",
        "fetch_",
        "issue_",
        "int_",
        "fp",
        "simd",
        "load_",
        "store_",
        "agu",
    )
    for key, value in found.items():
        if key in ("name", "phys_float") or (minor and key.startswith(core)):
            continue
        if key == "cpu":
            assert value == m.get("cpu", "o3")
        elif key == "clock_ghz":
            assert round(1000 / value) == round(1000 / m[key])
        elif key == "bp":
            assert value == BP.get(m["bp"], m["bp"])
        elif key in ("decode_to_rename", "rename_to_iew"):
            assert value == m["front_delay"] + (1 if key == "decode_to_rename" else 2)
        elif key.startswith("l3_") and not m["l3_kb"]:
            assert key != "l3_kb" or value == 0
        else:
            assert value == m.get(key, 16), key


@pytest.mark.parametrize("kind", ["ini", "json"])
@pytest.mark.parametrize("memory", sorted(DRAM))
def test_a_run_of_a_machine_is_that_machine(tmp_path, kind, memory):
    m = {**MACHINE, "mem": memory, "l3_kb": 2048, "l1d_pf": "stride", "l2_pf": "ampm", "rob": 77}
    path = written(tmp_path / "m5out", config(m), kind)
    found, notes = gem5_machine(path)
    same(found, m)
    assert notes == [] and machine_errors(found) == []
    assert load_machine(path) == found


@pytest.mark.parametrize("kind", ["ini", "json"])
def test_every_shared_machine(tmp_path, shared, kind):
    files = [
        *sorted((shared / "machines").glob("*.json")),
        *sorted((shared / "x86/machines").glob("*.json")),
    ]
    for file in files:
        m = json.loads(file.read_text())
        if str(m["bp"]) in ("MPP_8KB",):
            m["bp"] = "MultiperspectivePerceptron8KB"
        found, notes = gem5_machine(written(tmp_path / file.stem, config(m), kind))
        same(found, m)
        assert found["name"] == file.stem
        assert notes == (
            ["the units are those of Minor's default pool"] if m.get("cpu") == "minor" else []
        )


@pytest.mark.parametrize("kind", ["ini", "json"])
def test_a_cache_behind_a_bridge_is_found(tmp_path, kind):
    made = config(MACHINE)
    for side in ("icache", "dcache"):
        made[f"system.cpu.{side}"]["mem_side"] = "system.bridge.cpu_side_port"
    made["system.bridge"] = {"type": "Bridge", "mem_side_ports": "system.l2.cpu_side"}
    found, _ = gem5_machine(written(tmp_path / "m5out", made, kind))
    same(found, MACHINE)


@pytest.mark.parametrize("kind", ["ini", "json"])
def test_a_cpu_that_is_switched_out_is_not_meant(tmp_path, kind):
    objects = config(MACHINE)
    objects["system.cpu"]["switched_out"] = True
    same(gem5_machine(written(tmp_path / "alone", objects, kind))[0], MACHINE)
    here = {**objects["system.cpu"], "switched_out": False, "numROBEntries": 40}
    objects["system.cpu"]["numROBEntries"] = 41
    pool = "system.other.fuPool"
    objects |= {"system.other": {**here, "fuPool": pool}, **units(MACHINE, pool)}
    assert gem5_machine(written(tmp_path / "both", objects, kind))[0]["rob"] == 40


@pytest.mark.parametrize("kind", ["ini", "json"])
def test_a_cpu_that_is_switched_in_takes_the_wires_of_the_other(tmp_path, kind):
    """A run that begins on an atomic CPU (--fast-forward) writes the other without its ports."""
    objects = config(MACHINE)
    cpu = objects["system.cpu"]
    ports = {k: cpu.pop(k) for k in ("icache_port", "dcache_port")}
    objects["system.switch_cpus"] = {**cpu, "switched_out": True, "cpu_id": 0}
    objects |= units(MACHINE, "system.switch_cpus.fuPool")
    wrong = {k: f"system.{k}" for k in ports}
    objects["system.cpu1"] = {"type": "BaseAtomicSimpleCPU", "cpu_id": 1, **wrong}
    objects["system.cpu"] = {"type": "BaseAtomicSimpleCPU", "cpu_id": 0, **ports}
    path = written(tmp_path / "run", objects, kind)
    same(gem5_machine(path)[0], MACHINE)
    caches = {"l1i": "system.cpu.icache", "l1d": "system.cpu.dcache"}
    assert gem5_caches(path) == gem5_caches(path, "system.switch_cpus") == caches


def test_of_several_clock_periods_the_first_is_simulated(tmp_path):
    """Those of dynamic voltage and frequency scaling."""
    objects = config(MACHINE)
    objects["system.clk"]["clock"] = "400 500 667"
    found, notes = gem5_machine(written(tmp_path / "run", objects, "ini"))
    assert found["clock_ghz"] == 2.5
    assert "system.clk.clock has 3 periods; 400 is simulated" in notes


def test_commands_tell_what_is_not_simulated(tmp_path, capsys):
    objects = config(MACHINE)
    objects["system.cpu"].update(trapLatency=5)
    path = written(tmp_path / "m5out", objects, "ini")
    notes = []
    machine = Machine.from_gem5(path, notes=notes)
    assert machine == Machine.load(path) and machine.rob == MACHINE["rob"]
    assert main(["machines", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "trapLatency is 5" in err and f"{'rob':<23}{machine.rob}" in out
    assert len(notes) == 1 and notes[0] in err


def test_values_out_of_range_are_all_named(tmp_path):
    objects = config(MACHINE)
    objects["system.cpu"].update(numROBEntries=0, LQEntries=0)
    with pytest.raises(FormatError, match=r"rob.*lq|lq.*rob"):
        Machine.from_gem5(written(tmp_path / "m5out", objects, "ini"))


def test_what_has_no_counterpart_is_named(tmp_path):
    objects = config(MACHINE)
    objects["system.cpu"].update(wbWidth=2, trapLatency=5)
    objects["system.cpu.dcache"].update(
        replacement_policy="system.cpu.dcache.rp", data_latency=9, clusivity="mostly_excl"
    )
    objects["system.cpu.dcache.rp"] = {"type": "FIFORP"}
    objects["system.mem.dram"]["tCL"] = 99000
    found, notes = gem5_machine(written(tmp_path / "run", objects, "ini"))
    assert found["l1d_lat"] == 9
    text = "\n".join(notes)
    for part in (
        "wbWidth is 2",
        "trapLatency is 5",
        "FIFORP",
        "tag and data",
        "mostly_excl",
        "none of the known memories",
    ):
        assert part in text


def test_what_a_machine_can_say_is_read(tmp_path):
    """Responses, targets, store order and replacement have parameters of their own."""
    objects = config({**MACHINE, "l3_kb": 2048})
    objects["system.cpu"]["needsTSO"] = True
    objects["system.cpu.dcache"]["tgts_per_mshr"] = 11
    objects["system.l2"]["response_latency"] = 3
    objects["system.l3"]["response_latency"] = 4
    policies = {"system.cpu.dcache": "RandomRP", "system.l2": "TreePLRURP", "system.l3": "BRRIPRP"}
    for cache_name, kind in policies.items():
        objects[cache_name]["replacement_policy"] = f"{cache_name}.rp"
        objects[f"{cache_name}.rp"] = {"type": kind, "btp": 100}
    found, notes = gem5_machine(written(tmp_path / "run", objects, "ini"))
    expected = {
        "tso": 1, "l1d_targets": 11, "l2_response": 3, "l3_response": 4,
        "l1d_replacement": "random", "l2_replacement": "tree_plru", "l3_replacement": "srrip",
    }  # fmt: skip
    assert {k: found[k] for k in expected} == expected and notes == []
    objects["system.l3.rp"]["btp"] = 3
    found, notes = gem5_machine(written(tmp_path / "run", objects, "ini"))
    assert "l3_replacement" not in found
    assert notes == ["system.l3: replacement is BRRIPRP; LRU is simulated"]


@pytest.mark.parametrize(
    ("cpu", "place", "key", "value", "usual"),
    [
        ("o3", "system.cpu", "fetchTrapLatency", 4, "1"),
        ("o3", "system.cpu", "numPhysVecPredRegs", 16, "32"),
        ("minor", "system.cpu", "executeInputBufferSize", 3, "7"),
        ("minor", "system.cpu", "fetch1ToFetch2ForwardDelay", 2, "1"),
        ("o3", "system.cpu.branchPred", "localPredictorSize", 512, "2048"),
        ("o3", "system.cpu.branchPred.indirectBranchPred", "indirectSets", 64, "256"),
        ("o3", "system.cpu.dcache", "writeback_clean", True, "false"),
        ("o3", "system.l2.prefetcher", "degree", 8, "4"),
        ("o3", "system.cpu.icache", "response_latency", 2, "1"),
        ("o3", "system.l2bus", "forward_latency", 4, "0"),
        ("o3", "system.membus", "width", 64, "16"),
        ("o3", "system.mem", "static_backend_latency", 20000, "10000"),
    ],
)
def test_every_value_that_is_not_gem5_s_own_is_named(tmp_path, cpu, place, key, value, usual):
    m = {**MACHINE, "cpu": cpu, "bp": "Local", "l2_pf": "stride"}
    objects = config(m)
    kinds = {"system.cpu.branchPred.indirectBranchPred": "SimpleIndirectPredictor"}
    objects.setdefault(place, {"type": kinds.get(place, "")})
    objects[place][key] = not value if isinstance(value, bool) else int(usual)
    _, before = gem5_machine(written(tmp_path / "run", objects, "ini"))
    objects[place][key] = value
    _, after = gem5_machine(written(tmp_path / "run", objects, "ini"))
    shown = str(value).lower()
    assert [n for n in after if n not in before] == [
        f"{place}.{key} is {shown}; {usual} is simulated"
    ]
    assert len(before) == len(after) - 1 == (cpu == "minor")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"system.cpu": {"type": "BaseAtomicSimpleCPU"}}, "no O3 or Minor CPU"),
        ({"system.cpu": {"dcache_port": "system.ruby.port"}}, "no classic cache at the dcache"),
        ({"system.l2bus": {"mem_side_ports": ""}}, "no second cache"),
        ({"system.cpu.branchPred": {"type": "GshareBP"}}, "GshareBP, which is not simulated"),
        ({"system.cpu": {"numROBEntries": "many"}}, "numROBEntries is no number"),
        ({"system.mem.dram": {"type": "NVMInterface"}}, "no DRAM"),
        ({"system.clk": {"clock": 0}}, "no clock"),
    ],
)
def test_what_cannot_be_simulated_is_said(tmp_path, change, message):
    objects = config(MACHINE)
    for name, values in change.items():
        objects[name].update(values)
    with pytest.raises(FormatError, match=message):
        gem5_machine(written(tmp_path / "run", objects, "ini"))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[" * 100_000, b"\xff\x00[a]\nb", b"{}", b"[a]\nb=c\n"]
)
def test_what_is_no_configuration_is_an_error(tmp_path, data):
    path = tmp_path / "config.ini"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        gem5_machine(path)
