"""Machines as commands name them."""

from __future__ import annotations

from tracekit.hardware import HardwareMachine, is_hardware_file, is_hardware_name
from tracekit.sim import Machine, is_gem5_config
from tracekit.text import note


def named_machine(name: str) -> Machine:
    """`Machine.load`; what of a gem5 run's configuration is not simulated is told, a line each."""
    if not is_gem5_config(name):
        return Machine.load(name)
    notes: list[str] = []
    machine = Machine.from_gem5(name, notes=notes)
    for text in notes:
        note(f"{name}: {text}")
    return machine


def any_named_machine(name: str) -> Machine | HardwareMachine:
    """The same of both kinds: a gem5 machine, or a real processor by its name or file."""
    if is_hardware_name(name) or is_hardware_file(name):
        return HardwareMachine.load(name)
    return named_machine(name)
