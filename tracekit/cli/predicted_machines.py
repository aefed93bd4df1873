"""Which machines `tracekit predict` shows of a program: the model's, real processors, and the one
that this computer is."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tracekit.errors import UsageError
from tracekit.text import note

if TYPE_CHECKING:
    from tracekit.hardware import HardwareMachine
    from tracekit.mixture import Mixture

__all__ = ["ThisComputer", "check_named", "only", "this_computer", "with_machine_files"]


class ThisComputer(NamedTuple):
    """``row``: the machine of the model that it is; ``real``: itself, by its name or as it was
    measured; ``kept``: nobody named it, `calibrate` kept it."""

    row: str | None
    real: HardwareMachine | None
    kept: bool


def with_machine_files(model: Mixture, files: Sequence[str] | None) -> Mixture:
    """The model with the machines of --machine.  Raises `UsageError` for a real processor's file,
    which is no row of a model."""
    from tracekit.calibration import add_machines
    from tracekit.hardware import is_hardware_file, is_hardware_name

    for path in files or ():
        if path in model.names or (is_hardware_name(path) and not Path(path).exists()):
            raise UsageError(f"--machine: {path} is no file", hint=f"--uarch {path}: by its name")
        if is_hardware_file(path):
            raise UsageError(
                f"--machine: {path} is a real processor's, and no row of the model",
                hint=f"--here {path}, if it is this computer; `tracekit simulate -m` takes it, too",
            )
    return add_machines(model, files) if files else model


def this_computer(args: argparse.Namespace, model: Mixture) -> ThisComputer:
    """What --here names; else what was kept of this processor, and the --machine that was measured
    here.  Raises `UsageError` for a name that nobody knows."""
    from tracekit.hardware import (
        HardwareMachine,
        hardware_machines,
        is_hardware_file,
        is_hardware_name,
        kept_machine,
    )

    if args.here is None:
        kept = kept_machine()
        if kept is not None:
            note(f"this computer as it was measured: {kept[1]}")
        return ThisComputer(_measured(model, args.machine), kept and kept[0], kept is not None)
    if is_hardware_file(args.here) or (
        is_hardware_name(args.here) and args.here not in model.names
    ):
        return ThisComputer(_measured(model, args.machine), HardwareMachine.load(args.here), False)
    if args.here not in model.names:
        raise UsageError(
            f"--here: {args.here} is no machine's name, and no file of `tracekit calibrate`",
            hint=f"real processors: {', '.join(hardware_machines())}; "
            f"machines of the model: {', '.join(model.names)}",
        )
    return ThisComputer(args.here, None, False)


def _measured(model: Mixture, files: Sequence[str] | None) -> str | None:
    """The machine among ``files`` that was measured on this computer (tracekit measure)."""
    for m in model.machines if files else ():
        if m.get("measured"):
            return str(m["name"])
    return None


def check_named(args: argparse.Namespace, model: Mixture, real: Iterable[str]) -> None:
    """Raises `UsageError` where --uarch names a machine that is neither the model's nor one of
    ``real``, and where what else was asked for is of the model's machines and it names none."""
    if args.uarch is None:
        return
    known = list(real)
    if missing := [n for n in args.uarch if n not in known and n not in model.names]:
        raise UsageError(
            f"--uarch: {', '.join(missing)}: neither a machine of the model nor a real processor "
            "that runs the program",
            hint=f"real processors: {', '.join(known) or 'none'}; "
            f"machines of the model: {', '.join(model.names)}",
        )
    told = [f"--{o}" for o in ("by", "plot") if getattr(args, o)]
    if told and not any(n in model.names for n in args.uarch):
        raise UsageError(f"{' and '.join(told)}: of machines of the model, and --uarch names none")


def only(result: dict[str, Any], names: Sequence[str]) -> None:
    """Leaves of a prediction the machines of these names."""
    result["machines"] = [m for m in result["machines"] if m["name"] in names]
    result["real_machines"] = [m for m in result["real_machines"] if m["name"] in names]
    for part in (*result.get("parts", []), *result.get("processes", [])):
        for key in ("share", "cpi"):
            if key in part:
                part[key] = {k: v for k, v in part[key].items() if k in names}
