"""A machine's description (JSON, as gem5 scripts use it) as the parameters of a simulated core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.errors import FormatError, UsageError
from tracekit.io.files import read_json
from tracekit.sim.gem5_config import gem5_machine, is_gem5_config
from tracekit.sim.memories import memory_cycles
from tracekit.sim.named_registers import LEAST_FREE, files
from tracekit.sim.parameters import (
    MACHINE_PARAMETERS,
    PLUGGABLE,
    joined,
    machine_errors,
    part_number,
    value_error,
)

__all__ = [
    "PARAMETERS",
    "check_known",
    "check_machines",
    "completed",
    "core_row",
    "gem5_parameters",
    "load_machine",
]

#: (name, least, most) of each parameter of a core, in the order of its row.
PARAMETERS: tuple[tuple[str, float, float], ...] = _core.CORE_PARAMETERS
_KNOWN = {p.name for p in MACHINE_PARAMETERS}


#: Names that differ from the JSON's.
_SAME_BUT_NAMED = {
    "predictor": "bp",
    "l1d_prefetch": "l1d_pf",
    "l2_prefetch": "l2_pf",
}


#: What a memory that is ideal in one way has instead.
_NO_LATENCY = {
    f"memory_{k}": 0.0
    for k in (
        *("controller", "cas", "activate", "precharge", "ras"),
        *("read_precharge", "write_precharge"),
    )
}
_LEAST = {name: least for name, least, _ in PARAMETERS}
_UNLIMITED = {
    **{
        f"memory_{k}": _LEAST[f"memory_{k}"]
        for k in ("burst", "write", "column", "activation", "write_batch")
    },
    "memory_turnaround": 0.0,
    "memory_refresh": 0.0,
}

#: What a machine has that does not say.
_DEFAULT = {p.name: p.default for p in MACHINE_PARAMETERS}


def load_machine(path: str | Path) -> dict[str, Any]:
    """A machine's JSON object, or the machine of a gem5 run's config.ini or config.json, of which
    gem5_machine tells what has no counterpart; FormatError tells all that is wrong with it."""
    path = Path(path)
    data = gem5_machine(path)[0] if is_gem5_config(path) else read_json(path)
    if not isinstance(data, dict):
        raise FormatError("a machine is a JSON object", path=str(path))
    machine = {"name": path.stem, **gem5_parameters(data, path)}
    if errors := machine_errors(machine):
        raise FormatError(joined(errors), path=str(path))
    return machine


def gem5_parameters(data: Mapping[str, Any], path: str | Path, subject: str = "") -> dict[str, Any]:
    """The parameters in a machine's JSON object, ``subject`` of a file; FormatError where it is a
    real processor's."""
    if data.get("kind") == "hardware":
        raise FormatError(
            f"{subject}is a real processor; a machine of gem5's kind is needed here",
            path=str(path),
            hint="`tracekit simulate -m` takes both",
        )
    # The schema is of what `tracekit machines NAME --json` printed.
    return {k: v for k, v in data.items() if k != "schema"}


def _by_arch(machine: Mapping[str, Any], arch: str) -> dict[str, float]:
    """Parameters that machines seldom give: they follow from the instruction set, as gem5's
    configurations for it have them."""
    x86 = arch == "x86"
    front = int(machine["front_delay"])
    found = {
        # Of ARM's machines a chase through the second cache tells it, to the cycle.
        "l1d_response": max(1, int(machine["l1d_lat"]) // 2) if arch == "arm" else 1,
        "l2_response": 1 if x86 else max(1, int(machine["l2_lat"]) // 2),
        "l3_response": 1 if x86 else max(1, int(machine["l3_lat"]) // 2),
        "l1d_targets": 20 if x86 else 16,
        "fp_misc_lat": 3 if arch == "arm" else machine["fp_add_lat"],
        # O3PipeView text of ARM's machines shows both.
        "decode_to_rename": min(2, front) if arch == "arm" else max(1, front // 2),
        "rename_to_iew": min(2, front) if arch == "arm" else 2,
        "taken_redirects": x86,
        "tso": x86,
    }
    return {k: float(machine.get(k, v)) for k, v in found.items()}


def completed(machine: Mapping[str, Any], arch: str) -> dict[str, Any]:
    """The machine with the parameters that follow from the instruction set given, too."""
    found = {k: int(v) for k, v in _by_arch(machine, arch).items()}
    return {**machine, **found, "ras": int(machine.get("ras", _DEFAULT["ras"]))}


def core_row(machine: Mapping[str, Any], arch: str = "") -> npt.NDArray[np.float64]:
    """The parameters of the simulated core that is most like ``machine``: float64[len(PARAMETERS)].
    ``arch``: "x86" has its vectors in gem5's floating-point registers.

    UsageError tells all that is missing, unknown or out of range.
    """
    if errors := machine_errors(machine, arch):
        raise UsageError(f"{machine.get('name', 'machine')}: {joined(errors)}")
    computed = {
        **memory_cycles(machine["mem"], machine["clock_ghz"]),
        "in_order": float(machine.get("cpu") == "minor"),
        **_by_arch(machine, arch),
    }
    for name, (file, held) in zip(("phys_int", "phys_vec"), files(arch).items(), strict=True):
        computed[name] = float(max(LEAST_FREE, machine[file] - held))
    if machine.get("ideal_memory_latency"):
        computed |= _NO_LATENCY
    if machine.get("ideal_memory_bandwidth"):
        computed |= _UNLIMITED
    row = []
    for parameter, least, most in PARAMETERS:
        key = _SAME_BUT_NAMED.get(parameter, parameter)
        if parameter in computed:
            value = computed[parameter]
        elif key in PLUGGABLE:
            value = float(part_number(key, machine.get(key, _DEFAULT.get(key))))
        else:
            value = float(machine.get(key, _DEFAULT.get(key)))
        if not least <= value <= most:
            raise UsageError(
                f"{machine.get('name', 'machine')}: {key} is {value:g}; from {least:g} to {most:g}"
            )
        row.append(value)
    return np.array(row)


def check_known(machines: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """FormatError with all that is wrong with the parameters that a file has of machines.  Not all
    need to be known, and there may be other keys."""
    errors = [
        f"machine {m.get('name')}: {e}"
        for m in machines
        for k, v in m.items()
        if k in _KNOWN and (e := value_error(k, v))
    ]
    if errors:
        raise FormatError(joined(errors), path=str(path))


def check_machines(machines: Iterable[Mapping[str, Any]], path: str | Path, arch: str = "") -> None:
    """FormatError with all that is wrong with the machines that a file has."""
    errors = [f"{m.get('name', 'machine')}: {e}" for m in machines for e in machine_errors(m, arch)]
    if errors:
        raise FormatError(joined(errors), path=str(path))
