"""The machine of a gem5 run: its m5out/config.ini or config.json as a machine's parameters.

The caches are found by the wires, from the CPU's ports to memory, so that their names do not
matter.  What a run says and a machine cannot is told by name.
"""

from __future__ import annotations

import configparser
import io
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tracekit.errors import FormatError
from tracekit.io.files import parse_json, read_limited
from tracekit.sim.gem5_defaults import UNUSED_IN_ORDER, departures
from tracekit.sim.memories import MEMORIES
from tracekit.sim.parameters import MACHINE_PARAMETERS, PREDICTORS

__all__ = ["gem5_caches", "gem5_machine", "gem5_machine_of", "is_gem5_config"]

MAX_FILE: Final = 16 << 20
_ARCHES: Final = {"ArmISA": "arm", "X86ISA": "x86", "RiscvISA": "riscv"}
_PREFETCHERS: Final = {
    "StridePrefetcher": "stride",
    "TaggedPrefetcher": "tagged",
    "BOPPrefetcher": "bop",
    "AMPMPrefetcher": "ampm",
}
_REPLACEMENTS: Final = {
    "LRURP": "lru",
    "TreePLRURP": "tree_plru",
    "RRIPRP": "srrip",
    "RandomRP": "random",
}
#: A machine's key -> the CPU's.
_O3: Final = {
    "width": "fetchWidth",
    "issue_width": "issueWidth",
    "rob": "numROBEntries",
    "iq": "numIQEntries",
    "lq": "LQEntries",
    "sq": "SQEntries",
    "phys_int": "numPhysIntRegs",
    "phys_float": "numPhysFloatRegs",
    "phys_vec": "numPhysVecRegs",
    "fetch_buffer": "fetchBufferSize",
    "fetch_queue": "fetchQueueSize",
    "front_delay": "fetchToDecodeDelay",
    "decode_to_rename": "decodeToRenameDelay",
    "rename_to_iew": "renameToIEWDelay",
    "issue_to_exec": "issueToExecuteDelay",
}
#: What is as gem5 has it unless a run says otherwise, and cannot be said of a machine.
_FIXED_O3: Final[dict[str, int | str]] = {
    "commitToFetchDelay": 1,
    "iewToCommitDelay": 1,
    "commitToIEWDelay": 1,
    "renameToROBDelay": 1,
    "trapLatency": 13,
    "LFSTSize": 1024,
    "SSITSize": 1024,
    "store_set_clear_period": 250_000,
    "numThreads": 1,
}
_L2_XBAR: Final = {
    "width": 32,
    "frontend_latency": 1,
    "forward_latency": 0,
    "response_latency": 1,
}
_SYSTEM_XBAR: Final = {
    "width": 16,
    "frontend_latency": 3,
    "forward_latency": 4,
    "response_latency": 2,
}
_FIXED_CACHE: Final[dict[str, int | str]] = {
    "write_buffers": 8,
    "sequential_access": "false",
    "clusivity": "mostly_incl",
}
#: A machine's key of a unit -> the operation class that tells its latency, its count, or both.
_LATENCIES: Final = {
    "int_mul_lat": "IntMult",
    "int_div_lat": "IntDiv",
    "fp_add_lat": "FloatAdd",
    "fp_mul_lat": "FloatMult",
    "fp_div_lat": "FloatDiv",
    "agu_lat": "MemRead",
}
_COUNTS: Final = {"int_alu": "IntAlu", "int_mul": "IntMult", "fp": "FloatAdd", "simd": "SimdAdd"}

Config = dict[str, dict[str, str]]


def is_gem5_config(path: str | Path) -> bool:
    """Whether a file's name is one that gem5 gives its configuration."""
    return Path(path).suffix == ".ini" or Path(path).name == "config.json"


def gem5_machine(path: str | Path, cpu: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """The parameters of the machine that a gem5 run simulated, as a machine's JSON has them, and
    what of the run they do not say, a line each.

    ``path``: the run's config.ini or config.json.  ``cpu``: the path of one of several CPUs, as
    ``system.cpu1``; the first unless given.  FormatError where the run had no O3 or Minor CPU with
    classic caches.
    """
    return gem5_machine_of(read_limited(Path(path), MAX_FILE), str(path), cpu)


def gem5_machine_of(
    data: bytes, path: str, cpu: str | None = None
) -> tuple[dict[str, Any], list[str]]:
    """As `gem5_machine`, of the content of such a file; ``path`` is what errors call it."""
    return _Reader(path, _config(data, path)).machine(cpu)


def gem5_caches(path: str | Path, cpu: str | None = None) -> dict[str, str]:
    """What a run calls its first caches, by ``l1i`` and ``l1d``; arguments as of `gem5_machine`."""
    return _Reader(str(path), _config(read_limited(Path(path), MAX_FILE), str(path))).first(cpu)


def _config(data: bytes, path: str) -> Config:
    if data.lstrip()[:1] == b"{":
        try:
            tree = parse_json(data)
        except (ValueError, RecursionError) as e:
            raise FormatError(f"not JSON: {e}", path=path) from None
        return dict(_flat(tree))
    ini = configparser.RawConfigParser(strict=False, delimiters=("=",), interpolation=None)
    ini.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        ini.read_file(io.StringIO(data.decode("utf-8", "replace")))
    except configparser.Error as e:
        raise FormatError(f"not a config.ini: {e.message}", path=path) from None
    return {name: dict(ini.items(name)) for name in ini.sections()}


def _flat(tree: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """The objects of a config.json by path, each value as config.ini writes it."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        if not isinstance(node, dict):
            continue
        stack.extend(node.values())
        if "path" in node:
            yield str(node["path"]), {k: _text(v) for k, v in node.items()}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_text(v) for v in value)
    if isinstance(value, dict):  # a port, or an object
        return _text(value.get("peer", value.get("path", "")))
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Reader:
    """One run's configuration."""

    def __init__(self, path: str, config: Config) -> None:
        self._path, self._config = path, config
        self._notes: list[str] = []
        self._read_from: list[tuple[str, bool]] = []  # objects that `departures` looks through

    def first(self, cpu: str | None) -> dict[str, str]:
        """The paths of the first caches."""
        name = self._cpu(cpu)
        wired = self._wired(name)
        found = {f"l1{k[0]}": self._below(wired, f"{k}_port") for k in ("icache", "dcache")}
        return {level: path for level, path in found.items() if path is not None}

    def _cpu(self, cpu: str | None) -> str:
        """The path of the CPU that is meant."""
        cpus = [
            p
            for p, o in self._config.items()
            if re.search(r"(O3|Minor)CPU$", o.get("type", "")) and o.get("switched_out") != "true"
        ] or [p for p, o in self._config.items() if re.search(r"(O3|Minor)CPU$", o.get("type", ""))]
        if not cpus:
            raise FormatError("no O3 or Minor CPU in this configuration", path=self._path)
        if cpu is not None and cpu not in cpus:
            raise FormatError(f"no CPU {cpu}; there are {', '.join(cpus)}", path=self._path)
        if cpu is None and len(cpus) > 1:
            self._notes.append(f"{len(cpus)} CPUs; this is {cpus[0]}")
        return cpu or cpus[0]

    def machine(self, cpu: str | None) -> tuple[dict[str, Any], list[str]]:
        """Parameters and notes."""
        name = self._cpu(cpu)
        self._read_from.append((name, False))
        minor = self._config[name]["type"].endswith("MinorCPU")
        out: dict[str, Any] = {
            "name": Path(self._path).resolve().parent.name or "gem5",
            "cpu": "minor" if minor else "o3",
            "clock_ghz": self._clock(name),
        }
        out.update(self._in_order(name) if minor else self._out_of_order(name))
        out.update(self._predictor(name))
        out.update(self._caches(name))
        out["mem"] = self._memory()
        self._notes += departures(self._config, self._read_from)
        return {p.name: out[p.name] for p in MACHINE_PARAMETERS if p.name in out}, self._notes

    # ---- values

    def _get(self, obj: str, key: str) -> str:
        try:
            return self._config[obj][key]
        except KeyError:
            raise FormatError(f"{obj} has no {key}", path=self._path) from None

    def _int(self, obj: str, key: str) -> int:
        text = self._get(obj, key).split()[0:1]
        try:
            return int(float(text[0]))
        except (ValueError, IndexError, OverflowError):
            raise FormatError(f"{obj}: {key} is no number", path=self._path) from None

    def _child(self, obj: str, key: str) -> str | None:
        """The object that a parameter names."""
        to = self._config[obj].get(key, "")
        for name in (to, f"{obj}.{key}"):
            if name in self._config:
                return name
        return None

    def _fixed(self, obj: str, expected: Mapping[str, int | str]) -> None:
        for key, usual in expected.items():
            value = self._config[obj].get(key)
            if value is not None and value != str(usual):
                self._notes.append(f"{obj}.{key} is {value}; {usual} is simulated")

    def _clock(self, cpu: str) -> float:
        domain = self._child(cpu, "clk_domain")
        while domain and "clock" not in self._config[domain]:
            self._notes.append(f"{domain} divides its clock; its parent's is taken")
            domain = self._child(domain, "clk_domain")
        period = self._int(domain, "clock") if domain else 0
        if period < 1:
            raise FormatError(f"{cpu} has no clock", path=self._path)
        if domain and len(periods := self._get(domain, "clock").split()) > 1:
            self._notes.append(f"{domain}.clock has {len(periods)} periods; {period} is simulated")
        return round(1000 / period, 6)

    # ---- the core

    def _out_of_order(self, cpu: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for ours, theirs in _O3.items():
            if theirs in self._config[cpu] or ours != "phys_vec":
                out[ours] = self._int(cpu, theirs)
        arch = _ARCHES.get(self._config.get(f"{cpu}.isa", {}).get("type", ""), "")
        for stage in ("decode", "rename", "dispatch", "commit", "squash"):
            if (width := self._int(cpu, f"{stage}Width")) != out["width"]:
                self._notes.append(f"{cpu}.{stage}Width is {width}; {out['width']} is simulated")
        if (width := self._int(cpu, "wbWidth")) < out["issue_width"]:
            self._notes.append(f"{cpu}.wbWidth is {width}; {out['issue_width']} is simulated")
        if (tso := self._config[cpu].get("needsTSO") == "true") != (arch == "x86"):
            out["tso"] = int(tso)
        self._fixed(cpu, _FIXED_O3)
        out.update(self._units(cpu))
        return out

    def _units(self, cpu: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        latencies: dict[str, int] = {}
        pool = self._child(cpu, "fuPool") or f"{cpu}.fuPool"
        for name in self._config:
            if not re.fullmatch(re.escape(pool) + r"\.FUList\d*", name):
                continue
            for op, values in self._config.items():
                if re.fullmatch(re.escape(name) + r"\.opList\d*", op):
                    kind = values.get("opClass", "")
                    counts[kind] = counts.get(kind, 0) + self._int(name, "count")
                    latencies[kind] = self._int(op, "opLat")
        if missing := [k for k in {*_LATENCIES.values(), *_COUNTS.values()} if k not in counts]:
            raise FormatError(f"{pool} has no unit of {', '.join(missing)}", path=self._path)
        out = {ours: latencies[op] for ours, op in _LATENCIES.items()}
        out.update({ours: counts[op] for ours, op in _COUNTS.items()})
        if "FloatMisc" in latencies:
            out["fp_misc_lat"] = latencies["FloatMisc"]
        out["load_ports"] = min(self._int(cpu, "cacheLoadPorts"), counts["MemRead"])
        out["store_ports"] = min(
            self._int(cpu, "cacheStorePorts"), counts.get("MemWrite", counts["MemRead"])
        )
        return out

    def _in_order(self, cpu: str) -> dict[str, Any]:
        """Minor's parameters; those that it does not have are gem5's of the O3 CPU."""
        width = self._int(cpu, "executeIssueLimit")
        for key in ("decodeInputWidth", "executeInputWidth", "executeCommitLimit"):
            if (other := self._int(cpu, key)) != width:
                self._notes.append(f"{cpu}.{key} is {other}; {width} is simulated")
        for key in ("executeMemoryIssueLimit", "executeMemoryCommitLimit"):
            self._fixed(cpu, {key: 1})
        self._notes.append("the units are those of Minor's default pool")
        return {
            **UNUSED_IN_ORDER,
            "width": width,
            "issue_width": width,
            "front_delay": self._int(cpu, "executeBranchDelay"),
        }

    def _predictor(self, cpu: str) -> dict[str, Any]:
        unit = self._child(cpu, "branchPred")
        if unit is None:
            raise FormatError(f"{cpu} has no branch predictor", path=self._path)
        kind = self._get(unit, "type")
        self._read_from.append((unit, True))
        if kind not in PREDICTORS:
            raise FormatError(
                f"{unit} is a {kind}, which is not simulated",
                path=self._path,
                hint=f"one of {', '.join(PREDICTORS)}",
            )
        btb, ras = self._child(unit, "btb"), self._child(unit, "ras")
        return {
            "bp": kind,
            "btb": self._int(btb, "numEntries") if btb else self._int(unit, "BTBEntries"),
            "ras": self._int(ras, "numEntries") if ras else self._int(unit, "RASSize"),
        }

    # ---- caches and memory

    def _wired(self, cpu: str) -> str:
        """The CPU that has the wires: a run writes its configuration before it switches CPUs, and
        the one that is switched in takes those of the CPU of its number."""
        own = self._config[cpu]
        if own.get("switched_out") != "true" or own.get("icache_port"):
            return cpu
        for name, other in self._config.items():
            kind, number = other.get("type", ""), other.get("cpu_id")
            if kind.endswith("CPU") and number == own.get("cpu_id") and other.get("icache_port"):
                return name
        return cpu

    def _below(self, obj: str, port: str, seen: frozenset[str] = frozenset()) -> str | None:
        """The next cache behind a port; None where memory is."""
        for peer in self._config[obj].get(port, "").split():
            to = re.sub(r"\.[^.]*$", "", peer)
            if to in seen or to not in self._config:
                continue
            kind = self._config[to].get("type", "")
            if kind == "Cache":
                return to
            if kind.endswith("XBar") or kind == "Bridge":
                found = self._below(to, "mem_side_ports", seen | {to})
                if found:
                    return found
        return None

    def _caches(self, cpu: str) -> dict[str, Any]:
        wired = self._wired(cpu)
        first = {k: self._below(wired, f"{k}_port") for k in ("icache", "dcache")}
        if missing := [k for k, c in first.items() if c is None]:
            raise FormatError(
                f"no classic cache at the {' and '.join(missing)} of {cpu}", path=self._path
            )
        chain = [str(first["dcache"])]
        while (below := self._below(chain[-1], "mem_side")) and below not in chain:
            chain.append(below)
        if len(chain) < 2:
            raise FormatError(f"no second cache behind {chain[0]}", path=self._path)
        if len(chain) > 3:
            self._notes.append(f"{chain[3]}: a fourth cache is not simulated")
        for above in chain[:3]:
            self._crossbar(above, last=above == chain[-1])
        levels: dict[str, str | None] = {
            "l1i": first["icache"],
            "l1d": chain[0],
            "l2": chain[1],
            "l3": chain[2] if len(chain) > 2 else None,
        }
        out: dict[str, Any] = {}
        for level, cache in levels.items():
            out.update(self._cache(level, cache))
        return out

    def _cache(self, level: str, cache: str | None) -> dict[str, Any]:
        if cache is None:
            return {f"{level}_kb": 0, f"{level}_assoc": 16, f"{level}_lat": 30}
        tag, data = self._int(cache, "tag_latency"), self._int(cache, "data_latency")
        if tag != data:
            self._notes.append(f"{cache}: tag and data latencies differ; the larger is simulated")
        size = self._int(cache, "size")
        out: dict[str, Any] = {
            f"{level}_kb": size // 1024,
            f"{level}_assoc": self._int(cache, "assoc"),
            f"{level}_lat": max(tag, data),
        }
        if size % 1024:
            raise FormatError(f"{cache}: {size} bytes are no whole kB", path=self._path)
        self._fixed(cache, _FIXED_CACHE)
        self._read_from.append((cache, False))
        out.update(self._replacement(level, cache))
        if level in ("l1d", "l2", "l3") and "response_latency" in self._config[cache]:
            out[f"{level}_response"] = self._int(cache, "response_latency")
        elif level == "l1i":
            self._fixed(cache, {"response_latency": 1})
        if level == "l1d" and "tgts_per_mshr" in self._config[cache]:
            out["l1d_targets"] = self._int(cache, "tgts_per_mshr")
        if level in ("l1d", "l2"):
            out[f"{level}_mshrs"] = self._int(cache, "mshrs")
            out[f"{level}_pf"] = self._prefetcher(cache)
        elif self._prefetcher(cache) != "none":
            self._notes.append(f"{cache}.prefetcher: of this cache none is simulated")
        return out

    def _crossbar(self, cache: str, *, last: bool) -> None:
        """What lies below a cache: gem5's L2XBar, below the last one its SystemXBar."""
        for peer in self._config[cache].get("mem_side", "").split():
            bus = re.sub(r"\.[^.]*$", "", peer)
            if self._config.get(bus, {}).get("type", "").endswith("XBar"):
                self._fixed(bus, _SYSTEM_XBAR if last else _L2_XBAR)

    def _replacement(self, level: str, cache: str) -> dict[str, Any]:
        policy = self._child(cache, "replacement_policy")
        kind = self._get(policy, "type") if policy else "LRURP"
        if kind == "BRRIPRP" and policy and self._config[policy].get("btp") == "100":
            kind = "RRIPRP"  # gem5's class of it is a bimodal one that never is
        known = _REPLACEMENTS.get(kind)
        if known is None or (level == "l1i" and known != "lru"):
            self._notes.append(f"{cache}: replacement is {kind}; LRU is simulated")
            known = "lru"
        return {} if known == "lru" else {f"{level}_replacement": known}

    def _prefetcher(self, cache: str) -> str:
        unit = self._child(cache, "prefetcher")
        if unit is None:
            return "none"
        kind = self._get(unit, "type")
        self._read_from.append((unit, True))
        if kind not in _PREFETCHERS:
            self._notes.append(f"{unit} is a {kind}; none is simulated")
        return _PREFETCHERS.get(kind, "none")

    def _memory(self) -> str:
        """The known memory whose timing is nearest."""
        drams = [p for p, o in self._config.items() if o.get("type") == "DRAMInterface"]
        if not drams:
            raise FormatError("no DRAM in this configuration", path=self._path)
        if len(drams) > 1:
            self._notes.append(f"{len(drams)} memories; one, {drams[0]}, is simulated")
        at = drams[0]
        self._read_from += [
            (p, False) for p, o in self._config.items() if o.get("type") == "MemCtrl"
        ]
        burst_bytes = (
            self._int(at, "device_bus_width")
            * self._int(at, "burst_length")
            * self._int(at, "devices_per_rank")
            // 8
        )
        ns = {k: self._int(at, t) / 1000 for k, t in _TIMING.items()}
        ns["burst"] *= 64 / max(1, burst_bytes)

        def far(name: str) -> float:
            known = {**MEMORIES[name]._asdict(), "burst": MEMORIES[name].told_burst}
            return sum(abs(math.log(max(v, 1e-3) / known[k])) for k, v in ns.items())

        best = min(MEMORIES, key=far)
        if far(best) > 0.02:
            self._notes.append(
                f"{at} is none of the known memories; {best}, the nearest, is simulated"
            )
        return best


_TIMING: Final = {
    "cas": "tCL",
    "activate": "tRCD",
    "precharge": "tRP",
    "ras": "tRAS",
    "burst": "tBURST",
}
