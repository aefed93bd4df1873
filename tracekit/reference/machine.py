"""A machine's description (JSON, as gem5 scripts use it) as the parameters of a reference core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.errors import FormatError, UsageError

__all__ = ["PARAMETERS", "core_row", "load_machine"]

#: (name, least, most) of each parameter of a core, in the order of its row.
PARAMETERS: tuple[tuple[str, float, float], ...] = _core.CORE_PARAMETERS

MAX_FILE = 1 << 20

#: ns of a read in gem5's controller beside the banks and the bus (src/mem/MemCtrl.py: frontend and
#: backend).
_CONTROLLER = 20.0


class _Memory(NamedTuple):
    """Of gem5's DRAM interfaces (src/mem/DRAMInterface.py): ns, kB, and whether rows are closed.

    ``burst`` and ``column`` are of 64 bytes (tBURST, tCCD_L), ``activation`` is the least time
    between two (tXAW over its limit), ``turnaround`` tWTR + tCL + tRTW,
    ``writes`` half of the write queue (write_low_thresh_perc of write_buffer_size), ``bursts``
    how many make up 64 bytes.
    """

    cas: float
    activate: float
    precharge: float
    ras: float
    burst: float
    column: float
    activation: float
    turnaround: float
    row_kb: int
    banks: int
    closes: bool
    refresh_every: float
    refresh: float
    writes: int
    bursts: int = 1


_MEMORY: dict[str, _Memory] = {
    "DDR3_1600_8x8": _Memory(
        13.75, 13.75, 13.75, 35, 5, 5, 7.5, 23.75, 8, 16, False, 7800, 260, 32
    ),
    "DDR3_2133_8x8": _Memory(
        13.09, 13.09, 13.09, 33, 3.75, 3.75, 6.25, 23.1, 8, 16, False, 7800, 260, 32
    ),
    "DDR4_2400_8x8": _Memory(
        14.16, 14.16, 14.16, 32, 3.33, 5, 5.25, 20.8, 8, 32, False, 7800, 350, 64
    ),
    "DDR5_6400_4x8": _Memory(
        14.375, 14.375, 14.375, 32, 2.5, 5, 2.5, 32.3, 1, 32, True, 3900, 295, 32
    ),
    "LPDDR3_1600_1x32": _Memory(15, 18, 18, 42, 10, 10, 12.5, 25, 4, 8, False, 3900, 130, 32, 2),
    "LPDDR5_6400_1x16_BG_BL32": _Memory(
        21.25, 18, 18, 42, 7.5, 10, 5, 28.75, 2, 16, True, 3900, 210, 32
    ),
    "HBM_2000_4H_1x64": _Memory(18, 12, 14, 28, 4, 6, 4, 40, 1, 16, True, 3900, 220, 32, 2),
}
#: By the names of gem5's classes (src/cpu/pred/BranchPredictor.py) and short ones; numbers are
#: those of csrc/reference/core_parameters.hpp.
_PREDICTOR = {
    **dict.fromkeys(("Local", "LocalBP"), 0),
    **dict.fromkeys(("Tournament", "TournamentBP"), 1),
    **dict.fromkeys(("BiMode", "BiModeBP"), 2),
    "TAGE": 3,
    "LTAGE": 4,
    "TAGE_SC_L_8KB": 5,
    "TAGE_SC_L_64KB": 6,
    **dict.fromkeys(("MPP_8KB", "MultiperspectivePerceptron8KB"), 7),
    **dict.fromkeys(("MPP_64KB", "MultiperspectivePerceptron64KB"), 8),
    # Of TAGE, a loop predictor and a statistical corrector, too.
    **dict.fromkeys(("MPP_TAGE_8KB", "MultiperspectivePerceptronTAGE8KB"), 5),
    **dict.fromkeys(("MPP_TAGE_64KB", "MultiperspectivePerceptronTAGE64KB"), 6),
}
_RETURNS = 16.0  # gem5's, where a machine does not say
_PREFETCH = {"none": 0, "stride": 1, "tagged": 2, "bop": 3, "ampm": 4}
#: Names that differ from the JSON's.
_SAME_BUT_NAMED = {
    "l1d_prefetch": "l1d_pf",
    "l2_prefetch": "l2_pf",
}


def load_machine(path: str | Path) -> dict[str, Any]:
    """A machine's JSON object; FormatError where it is none."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_FILE:
            raise FormatError(f"more than {MAX_FILE} bytes", path=str(path))
        data = json.loads(path.read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as e:
        raise FormatError(f"not JSON: {e}", path=str(path)) from None
    except OSError as e:
        raise FormatError(f"cannot be read: {e.strerror}", path=str(path)) from None
    if not isinstance(data, dict):
        raise FormatError("a machine is a JSON object", path=str(path))
    return {"name": path.stem, **data}


def core_row(machine: Mapping[str, Any], arch: str = "") -> npt.NDArray[np.float64]:
    """The parameters of the reference core that is most like ``machine``: float64[len(PARAMETERS)].
    ``arch``: "x86" has its vectors in gem5's floating-point registers.

    UsageError names a parameter that is missing, unknown or out of range.
    """
    name = str(machine.get("name", "machine"))

    def get(key: str) -> Any:
        if key not in machine:
            raise UsageError(f"{name}: {key} is missing from the machine's parameters")
        return machine[key]

    def number(key: str) -> float:
        value = get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{name}: {key} is {value!r}, not a number")
        return float(value)

    clock = number("clock_ghz")
    if not 0.01 <= clock <= 20:
        raise UsageError(f"{name}: clock_ghz is {clock}; from 0.01 to 20")
    if get("mem") not in _MEMORY:
        raise UsageError(f"{name}: mem {machine['mem']!r}; one of {', '.join(_MEMORY)}")
    memory = _MEMORY[machine["mem"]]
    if str(get("bp")) not in _PREDICTOR:
        raise UsageError(f"{name}: bp {machine['bp']!r}; one of {', '.join(_PREDICTOR)}")
    computed = {
        "ras": number("ras") if "ras" in machine else _RETURNS,
        "predictor": float(_PREDICTOR[str(machine["bp"])]),
        "memory_controller": _CONTROLLER * clock,
        **{f"memory_{k}": v * clock for k, v in memory._asdict().items()},
        "memory_writes": float(memory.writes),
        "memory_row_lines": memory.row_kb * 16.0,
        "memory_banks": float(memory.banks),
        "memory_row_accesses": 16.0 // memory.bursts,
        "memory_closes": float(memory.closes),
        "in_order": float(machine.get("cpu") == "minor"),
        "tso": float(arch == "x86"),
    }
    row = []
    for parameter, least, most in PARAMETERS:
        key = _SAME_BUT_NAMED.get(parameter, parameter)
        if parameter == "phys_vec" and arch == "x86":
            key = "phys_float"
        if parameter in computed:
            value = computed[parameter]
        elif parameter in _SAME_BUT_NAMED:
            if get(key) not in _PREFETCH:
                raise UsageError(f"{name}: {key} {machine[key]!r}; one of {', '.join(_PREFETCH)}")
            value = float(_PREFETCH[machine[key]])
        else:
            value = number(key)
        if not least <= value <= most:
            raise UsageError(f"{name}: {key} is {value:g}; from {least:g} to {most:g}")
        row.append(value)
    return np.array(row)
