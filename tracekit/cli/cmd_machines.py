"""``tracekit machines``: the machines that are known by name, one of them, or what a machine's
parameters mean."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tracekit.cli.report import add_json, reported
from tracekit.text import counted

if TYPE_CHECKING:
    from tracekit.hardware import HardwareMachine


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit machines``."""
    p = sub.add_parser("machines", help=help_text, description=__doc__)
    p.add_argument(
        "name", nargs="*", help="all parameters of these (names, or JSON files); a line each of all"
    )
    p.add_argument(
        "--parameters",
        action="store_true",
        help="what a machine's JSON has: name, unit, range, meaning and gem5's name",
    )
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit machines``; returns the exit code."""
    import tracekit
    from tracekit.cli.machine_option import any_named_machine
    from tracekit.errors import UsageError
    from tracekit.hardware import HardwareMachine, hardware_machines

    if args.parameters:
        if args.name:
            raise UsageError("--parameters is of all machines: name none")
        return _parameters(args)
    if args.name:
        chosen = [any_named_machine(n) for n in args.name]
        described = [m.to_dict() for m in chosen]
        # One alone is what a machine's file holds.
        if reported(args, described[0] if len(chosen) == 1 else [*described]):
            return 0
        for m in chosen:
            print(m)
            long = _long_values(m) if isinstance(m, HardwareMachine) else {}
            for key, value in m.to_dict().items():
                if key != "name":
                    print(f"  {key:<23}{long.get(key, _short(value))}")
        return 0
    real = hardware_machines()
    known = tracekit.machines()
    described = [m.to_dict() for m in real.values()] + [m.to_dict() for m in known.values()]
    if reported(args, described):
        return 0
    print("real processors (docs/hardware.md):")
    for name, machine in real.items():
        print(f"{name:<16}{machine.summary}; checked on hardware: {machine.checked_on_hardware}")
    print("machines of gem5 (docs/machine-parameters.md):")
    width = max(12, *(len(name) + 1 for name in known))
    for name, m in known.items():
        print(f"{name:<{width}}{m.summary}")
    return 0


def _short(value: object) -> object:
    """A parameter's value for people: a measured number is not known to more digits than these."""
    return f"{value:.6g}" if isinstance(value, float) else value


def _long_values(m: HardwareMachine) -> dict[str, str]:
    """What a real processor's file has beside numbers, in a line each: thousands of values are
    counted."""
    out = {
        "schedulers": "; ".join(f"{s.entries} for {' '.join(s.ports)}" for s in m.schedulers),
        "measured": f"{counted(len(m.measured), 'form')}; --json shows them"
        if m.measured
        else "no form",
        "checked": m.checked_on_hardware,
        "notes": "; ".join(m.notes) or "none",
        "calibration": "none",
        "fitted": "no factor",
    }
    if m.calibration is not None:
        out["calibration"] = f"{len(m.calibration)} values; --json shows them"
    if m.fitted is not None:
        out["fitted"] = f"a factor of {m.factor:g}; --json shows the programs"
    return out


def _parameters(args: argparse.Namespace) -> int:
    from tracekit.hardware import HARDWARE_PARAMETERS
    from tracekit.sim import MACHINE_PARAMETERS

    def result() -> list[dict[str, Any]]:
        real = [
            {
                "name": p.name,
                "kind": "hardware",
                "type": p.type.__name__,
                "unit": p.unit,
                "range": [p.least, p.most],
                "default": p.default,
                "required": p.default is None,
                "meaning": p.meaning,
            }
            for p in HARDWARE_PARAMETERS
        ]
        gem5: list[dict[str, Any]] = [
            {
                "name": p.name,
                "type": p.type.__name__,
                "unit": p.unit,
                "range": list(p.choices) if p.choices else [p.least, p.most],
                "default": p.default,
                "required": p.required,
                "follows": p.follows,
                "meaning": p.meaning,
                "gem5": p.gem5,
            }
            for p in MACHINE_PARAMETERS
            if p.name != "name"
        ]
        return gem5 + real

    if reported(args, result):
        return 0
    print("machines of gem5:")
    for p in MACHINE_PARAMETERS:
        if p.name != "name":
            known = p.follows or p.default
            default = "" if known is None else f"; {known} unless given"
            unit = f" {p.unit}" if p.unit else ""
            print(f"{p.name}: {p.meaning}\n    {p.range}{unit}{default}")
            if p.gem5:
                print(f"    gem5: {p.gem5}")
    print("real processors:")
    for q in HARDWARE_PARAMETERS:
        default = "" if q.default is None else f"; {q.default} unless given"
        print(f"{q.name}: {q.meaning}\n    from {q.least:g} to {q.most:g} {q.unit}{default}")
    return 0
