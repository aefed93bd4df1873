"""Machines as commands name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tracekit.cli.common_options import check_once
from tracekit.errors import UsageError
from tracekit.hardware import HardwareMachine, is_hardware_file, is_hardware_name
from tracekit.sim import Machine, is_gem5_config, joined, machine_errors, machine_notes
from tracekit.text import note

AnyMachine = TypeVar("AnyMachine", Machine, Machine | HardwareMachine)


def tell_notes(
    name: str, machine: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> None:
    """What gem5 cannot run of a machine (`machine_notes`), a line each on standard error; not what
    it could not run of the machine ``before`` either."""
    known = machine_notes(before or {})
    for text in machine_notes(machine):
        if text not in known:
            note(f"{name}: {text}")


def named_machine(name: str, arch: str = "") -> Machine:
    """`Machine.load`, for traces of ``arch`` where it is given.  A line on standard error for each
    parameter of a gem5 run that is not simulated, and for each of a machine that gem5 cannot run.

    Raises `UsageError` for a real processor, too, and for what the trace's architecture needs and
    the machine lacks.
    """
    if is_hardware_name(name):
        raise UsageError(
            f"{name} is a real processor; a machine of gem5's kind is needed here",
            hint="`tracekit simulate -m` takes both",
        )
    if is_gem5_config(name):
        notes: list[str] = []
        machine = Machine.from_gem5(name, notes=notes)
        for text in notes:
            note(f"{name}: {text}")
    else:
        machine = Machine.load(name)
    if errors := machine_errors(machine.to_dict(), arch):
        raise UsageError(f"{name}: {joined(errors)}", hint="a machine of the trace's architecture")
    tell_notes(name, machine.to_dict())
    return machine


def any_named_machine(name: str) -> Machine | HardwareMachine:
    """The same of both kinds: a gem5 machine, or a real processor by its name or file."""
    if is_hardware_name(name) or is_hardware_file(name):
        return HardwareMachine.load(name)
    return named_machine(name)


def told_apart(given: Sequence[str], load: Callable[[str], AnyMachine]) -> list[AnyMachine]:
    """The machines that the command line gave as ``given``, each by ``load``; those of one name are
    called as they were given.  `UsageError` where one is given twice."""
    check_once(given)
    machines = [load(text) for text in given]
    count = Counter(m.name for m in machines)
    each = zip(given, machines, strict=True)
    return [m.replace(name=text) if count[m.name] > 1 else m for text, m in each]
