"""gem5_patches/tracekit_machine.py on objects that stand for gem5's: every parameter of a machine
reaches a parameter of gem5."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tracekit.plugin import plugin_folder
from tracekit.sim import MACHINE_PARAMETERS, completed
from tracekit.sim.description import machines

CLASSES = ["No_OpClass", "IntAlu", "IntMult", "IntDiv", "FloatAdd", "SimdAdd", "SimdFloatAdd",
           "SimdFloatMult", "SimdFloatDiv", "SimdDiv", "SimdMult", "SimdPredAlu", "MemRead",
           "FloatMemRead", "SimdUnitStrideLoad", "MemWrite", "FloatMemWrite", "IprAccess",
           "SimdUnitStrideStore"]  # fmt: skip


class Thing:
    """One of gem5's objects: its class, what it was given, and what was set."""

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "told", {})
        for key, value in values.items():
            setattr(self, key, value)

    def __setattr__(self, key: str, value: Any) -> None:
        self.told[key] = value
        object.__setattr__(self, key, value)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        return mock.MagicMock()

    def createThreads(self) -> None:
        pass

    def createInterruptController(self) -> None:
        pass

    def tree(self, seen: frozenset[int] = frozenset()) -> Any:
        """All of it, comparable."""
        out: dict[str, Any] = {"class": type(self).__name__}
        for key, value in self.told.items():
            values = value if isinstance(value, list) else [value]
            out[key] = [
                v.tree(seen | {id(self)}) if isinstance(v, Thing) and id(v) not in seen else
                None if isinstance(v, Thing | mock.MagicMock) else repr(v)
                for v in values
            ]  # fmt: skip
        return out


class Objects(types.ModuleType):
    """m5.objects: a class of any name."""

    OpClass = types.SimpleNamespace(vals=CLASSES)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Thing,), {})
        if name == "AddrRange":
            made = lambda size: size  # type: ignore[assignment]  # noqa: E731
        setattr(self, name, made)
        return made


@pytest.fixture(scope="module")
def script() -> Any:
    m5 = types.ModuleType("m5")
    m5.objects = Objects("m5.objects")  # type: ignore[attr-defined]
    before = {k: sys.modules.get(k) for k in ("m5", "m5.objects")}
    sys.modules.update({"m5": m5, "m5.objects": m5.objects})  # type: ignore[attr-defined]
    place = plugin_folder() / "gem5_patches" / "tracekit_machine.py"
    spec = importlib.util.spec_from_file_location("tracekit_machine", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for k, v in before.items():
        if v is None:
            del sys.modules[k]
        else:
            sys.modules[k] = v


def built(script: Any, machine: dict[str, Any], isa: str, *options: str) -> Any:
    o = script.parse_arguments(["machine.json", *options, "--", "program"])
    return script.build(machine, o, isa)[0].tree()


def other(name: str, value: Any) -> Any:
    """Another valid value of a parameter."""
    p = next(p for p in MACHINE_PARAMETERS if p.name == name)
    if p.choices:
        return next(c for c in p.choices if c != value)
    if name.endswith(("_kb", "_assoc")):
        return value * 2 or 64
    return value + 1 if value + 1 <= p.most else value - 1


#: What gem5 has no parameter for (refused by a plan), and what only names.
NO_COUNTERPART = {"name", "cpu", "taken_redirects"} | {
    p.name for p in MACHINE_PARAMETERS if p.name.startswith("ideal_")
}
#: What gem5's Minor CPU has.
IN_ORDER = {"clock_ghz", "width", "front_delay", "bp", "btb", "ras", "mem"} | {
    p.name for p in MACHINE_PARAMETERS if p.name[:3] in ("l1i", "l1d", "l2_", "l3_")
}


@pytest.mark.parametrize("cpu", ["o3", "minor"])
@pytest.mark.parametrize("isa", ["Riscv", "Arm", "X86"])
def test_every_parameter_reaches_gem5(script, cpu, isa):
    base = {**completed(machines()["u007"].to_dict(), isa.lower()), "cpu": cpu, "l3_kb": 4096,
            "phys_float": 200}  # fmt: skip
    whole = built(script, base, isa)
    reached = {
        p.name
        for p in MACHINE_PARAMETERS
        if p.name not in NO_COUNTERPART
        and built(script, {**base, p.name: other(p.name, base.get(p.name, p.default))}, isa)
        != whole
    }
    expected = {p.name for p in MACHINE_PARAMETERS} - NO_COUNTERPART
    assert reached == (expected & IN_ORDER if cpu == "minor" else expected)


def test_what_runs_first_holds_the_wires(script):
    base = completed({**machines()["u007"].to_dict()}, "riscv")
    o = script.parse_arguments(["m", "--skip", "5", "--", "p"])
    system, first = script.build(base, o, "Riscv")
    assert type(first).__name__ == "RiscvNonCachingSimpleCPU" and system.cpu.switched_out
    assert "icache" in first.told and "icache" not in system.cpu.told
    system, first = script.build(base, script.parse_arguments(["m", "--", "p"]), "Riscv")
    assert first is None and "icache" in system.cpu.told
    o = script.parse_arguments(["m", "--functional", "--", "p"])
    system, first = script.build({"clock_ghz": 1.0}, o, "Riscv")
    assert type(system.cpu).__name__ == "RiscvAtomicSimpleCPU" and first is None


def test_only_programs_of_three_instruction_sets(script, tmp_path: Path):
    head = b"\x7fELF" + bytes(14)
    (tmp_path / "riscv").write_bytes(head + (243).to_bytes(2, "little"))
    assert script.isa_of(tmp_path / "riscv") == "Riscv"
    for data in (head + (8).to_bytes(2, "little"), b"#!/bin/sh -----------------"):
        (tmp_path / "other").write_bytes(data)
        with pytest.raises(SystemExit, match="is no ELF file of X86, Arm, Riscv"):
            script.isa_of(tmp_path / "other")
