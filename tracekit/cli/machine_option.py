"""Machines as commands name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.hardware import HardwareMachine, is_hardware_file, is_hardware_name
from tracekit.sim import Machine, is_gem5_config, machine_notes
from tracekit.text import note


def tell_notes(
    name: str, machine: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> None:
    """What gem5 cannot run of a machine (`machine_notes`), a line each on standard error; not what
    it could not run of the machine ``before`` either."""
    known = machine_notes(before or {})
    for text in machine_notes(machine):
        if text not in known:
            note(f"{name}: {text}")


def named_machine(name: str) -> Machine:
    """`Machine.load`; what of a gem5 run's configuration is not simulated is told, a line each, and
    what of a machine gem5 cannot run."""
    if is_gem5_config(name):
        notes: list[str] = []
        machine = Machine.from_gem5(name, notes=notes)
        for text in notes:
            note(f"{name}: {text}")
    else:
        machine = Machine.load(name)
    tell_notes(name, machine.to_dict())
    return machine


def any_named_machine(name: str) -> Machine | HardwareMachine:
    """The same of both kinds: a gem5 machine, or a real processor by its name or file."""
    if is_hardware_name(name) or is_hardware_file(name):
        return HardwareMachine.load(name)
    return named_machine(name)
