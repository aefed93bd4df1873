"""A trace's static instructions as a machine's core takes them (csrc/hardware/op.hpp)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.hardware.hardware_ops import HardwareOps
    from tracekit.hardware.machine import HardwareMachine
    from tracekit.store.reader import TraceFile

__all__ = ["check_statics", "core_ops", "parameter_row", "schedulers_of"]

_BITS: dict[str, int] = _core.HARDWARE_OP_BITS
_NO_REGISTER = np.uint16(0xFFFF)
_INT, _VECTORS = 0, (1, 2, 3)
#: The stack's and the frame's pointer.
_STACK = {"x86": (4, 5), "arm": (29, 31)}


def core_ops(statics: Any, hw: HardwareOps, arch: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays that _core.HardwareCore takes: one element a static instruction, and the uses of
    ports of all of them."""
    src, dst = _registers(statics)
    arrays = statics.arrays
    early = np.asarray(hw.early_destinations, np.uint8)
    classes = arrays["dst_class"]
    late = (early[:, None] >> np.arange(classes.shape[1], dtype=np.uint8) & 1) == 0
    return {
        "pc": np.ascontiguousarray(statics.pc, np.uint64),
        "flags": np.asarray(hw.flags, np.uint32) | _operand_flags(statics, hw, arch),
        "latency": np.asarray(hw.latency, np.float32),
        "size": np.asarray(hw.size, np.uint16),
        "length": np.array([len(code) for code in statics.bytes], np.uint8),
        "uops": np.asarray(hw.uops, np.uint8),
        "fields": np.asarray(hw.fields, np.uint8),
        "branch": np.ascontiguousarray(statics.branch, np.uint8),
        "address_sources": np.asarray(hw.address_sources, np.uint8),
        "data_sources": np.asarray(hw.data_sources, np.uint8),
        "early_destinations": early,
        "int_results": ((classes == _INT) & late).sum(axis=1, dtype=np.uint8),
        "vector_results": (np.isin(classes, _VECTORS) & late).sum(axis=1, dtype=np.uint8),
        "source": src,
        "result": dst,
        "use_begin": np.asarray(hw.use_begin, np.uint32),
        "use_kind": np.asarray(hw.use_kind, np.uint8),
        "use_ports": np.asarray(hw.use_ports, np.uint32),
        "use_cycles": np.asarray(hw.use_cycles, np.float32),
    }


def _registers(statics: Any) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Sources and destinations as numbers of one dense numbering."""
    keys = []
    for kind in ("src", "dst"):
        cls, index = statics.arrays[f"{kind}_class"], statics.arrays[f"{kind}_index"]
        keys.append(np.where(cls == 255, -1, cls.astype(np.int32) << 16 | index))
    names = np.unique(np.concatenate([k.ravel() for k in keys]))
    names = names[names >= 0]
    if len(names) > _core.MOST_HARDWARE_REGISTERS:
        raise UsageError(f"{len(names)} registers; no processor's program has so many")
    out = []
    for key in keys:
        number = np.searchsorted(names, key).astype(np.uint16)
        out.append(np.ascontiguousarray(np.where(key < 0, _NO_REGISTER, number)))
    return out[0], out[1]


def _operand_flags(statics: Any, hw: HardwareOps, arch: str) -> npt.NDArray[np.uint32]:
    """What follows from the registers of the address: its base is the first of them."""
    roles = np.asarray(hw.address_sources, np.uint8)
    several = (roles & (roles - (roles > 0))) != 0
    out = np.where(several, _BITS["indexed"], 0).astype(np.uint32)
    base = np.zeros(len(roles), np.intp)
    for k in range(8):
        base = np.where((roles & -roles.astype(np.int16)) == 1 << k, k, base)
    rows = np.arange(len(roles))
    cls = statics.arrays["src_class"][rows, base]
    index = statics.arrays["src_index"][rows, base]
    stack = (roles != 0) & (cls == _INT) & np.isin(index, _STACK[arch])
    out |= np.where(stack, _BITS["stack_base"], 0).astype(np.uint32)
    code = np.asarray(statics.pc) == _core.TOUCHED_PCS[2]
    return out | np.where(code, _BITS["fetched_line"], 0).astype(np.uint32)


def parameter_row(machine: HardwareMachine) -> npt.NDArray[np.float64]:
    """The machine's numbers in the core's order: float64 [parameters]."""
    row = []
    for name, _, _ in _core.HARDWARE_PARAMETERS:
        value = getattr(machine, name)
        row.append(_core.PREDICTORS.index(value) if name == "predictor" else float(value))
    return np.array(row, np.float64)


def schedulers_of(
    machine: HardwareMachine, ports: tuple[str, ...] | list[str]
) -> list[tuple[int, int]]:
    """Entries, and the ports as bits, of each scheduler; a port belongs to the first that names it.

    Raises `UsageError` where none does.
    """
    masks = [0] * len(machine.schedulers)
    for bit, port in enumerate(ports):
        for k, s in enumerate(machine.schedulers):
            if any(fnmatchcase(port, pattern) for pattern in s.ports):
                masks[k] |= 1 << bit
                break
        else:
            raise UsageError(
                f"{machine.name}: no scheduler feeds the port {port} of the table {machine.table}"
            )
    return [(s.entries, m) for s, m in zip(machine.schedulers, masks, strict=True)]


def check_statics(trace: TraceFile, machine: HardwareMachine) -> None:
    """`UsageError` where the trace has no machine code, or is of another instruction set than the
    machine's."""
    path, name = trace.path, machine.name
    if trace.arch != machine.isa:
        found = "an unknown instruction set" if trace.arch in ("", "unknown") else trace.arch
        raise UsageError(f"{name} runs {machine.isa}; the trace is of {found}", path=path)
    if trace.level == "micro" and trace.arch == "x86":
        raise UsageError(
            "its rows are gem5's micro-ops, which no real processor has",
            path=path,
            hint="extract it with --level macro and --binary",
        )
    codes = trace.statics.bytes
    if not codes or not any(codes):
        raise UsageError(
            f"it has no machine code, which {name} needs",
            path=path,
            hint="a recording has it; tracekit extract --binary adds it to text",
        )
