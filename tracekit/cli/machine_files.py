"""Machines on a command line: files, or names, of the shipped models' machines and of other
packages'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["machine_named"]


def machine_named(text: str, arch: str) -> dict[str, Any]:
    """The machine in the file ``text``; else the one of that name that the shipped model of
    ``arch`` knows, another package brings, or `tracekit.machines` has.

    What of it gem5 cannot run is told on standard error.  Raises `UsageError` with the names there
    are.
    """
    from tracekit.cli.machine_option import tell_notes
    from tracekit.errors import TracekitError, UsageError
    from tracekit.hardware import is_hardware_name
    from tracekit.mixture import load_model
    from tracekit.sim import joined, load_machine, machine_errors, machines, suggestion
    from tracekit.sim.other_machines import other_machines

    if Path(text).exists() or text.endswith(".json"):
        machine = load_machine(text)
    else:
        known: dict[str, Any]
        try:
            known = {str(m["name"]): m for m in load_model(None, arch).machines}
        except TracekitError:  # no model of this architecture ships
            known = {}
        others, failed = other_machines()
        known = {**{n: m.to_dict() for n, m in machines().items()}, **others, **known}
        if text not in known and is_hardware_name(text):
            raise UsageError(
                f"{text} is a real processor; a machine of gem5's kind is needed here",
                hint="`tracekit simulate -m` takes both",
            )
        if text not in known:
            raise UsageError(
                f"{text} is no file, and no machine that ships{suggestion(text, known)}",
                hint="; ".join(
                    [f"a machine's JSON or one of {', '.join(known) or 'none'}", *map(str, failed)]
                ),
            )
        machine = known[text]
    if errors := machine_errors(machine, arch):
        raise UsageError(f"{text}: {joined(errors)}", hint="a machine of the trace's architecture")
    tell_notes(text, machine)
    return machine
