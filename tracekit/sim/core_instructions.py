"""What the simulated cores know of a trace's static instructions: the parts that they execute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import _core, schema
from tracekit.sim.access_sizes import access_sizes, masked
from tracekit.sim.arm_parts import MicroOps, arm_parts
from tracekit.sim.arm_values import arm_values
from tracekit.sim.core_parts import CoreInstructions
from tracekit.sim.instruction_lengths import split
from tracekit.sim.micro_ops import in_parts
from tracekit.sim.microcode_loops import Loops
from tracekit.sim.register_moves import to_general
from tracekit.sim.register_values import RegisterValues, no_values
from tracekit.sim.riscv_values import riscv_values
from tracekit.sim.structure_loads import structure_operands
from tracekit.sim.x86_values import x86_values
from tracekit.store.reader import TraceFile
from tracekit.store.statics import StaticTable

__all__ = ["core_instructions"]

NO_REGISTER: int = _core.NO_REGISTER
#: gem5's flags that set each of CoreInst's bits (csrc/sim/core_inst.hpp); the others follow
#: from registers and names.
_FLAGS: dict[str, tuple[str, ...]] = {
    "load": ("IsLoad",),
    "store": ("IsStore", "IsAtomic", "IsStoreConditional"),
    "serialize_before": ("IsSerializeBefore",),
    "serialize_after": ("IsSerializeAfter",),
    "in_order": ("IsNonSpeculative", "IsAtomic", "IsStoreConditional"),
    "barrier": ("IsReadBarrier", "IsWriteBarrier"),
    "atomic": ("IsAtomic", "IsStoreConditional"),
    "data_prefetch": ("IsDataPrefetch",),
    "no_op": ("IsNop",),
}
_BITS = _core.CORE_INST_BITS
#: RISC-V's compressed branches, as gem5 and capstone write them.
_COMPRESSED = ("c_beqz", "c_bnez", "c.beqz", "c.bnez")
_INT, _VECTORS = 0, (1, 2)
#: Registers of the system: gem5 does not rename them, and nothing waits for them
#: (Scoreboard::getReg, src/cpu/o3/scoreboard.hh).  Classes above it are none.
_MISC = 6


class _Operands(NamedTuple):
    """Register classes (255: none) and indices, as the columns of a static table."""

    src_class: npt.NDArray[np.uint8]
    src_index: npt.NDArray[np.uint16]
    dst_class: npt.NDArray[np.uint8]
    dst_index: npt.NDArray[np.uint16]


def _operands(statics: Any, arch: str, moves: npt.NDArray[np.intp]) -> _Operands:
    """What a core renames; ``moves`` go from vectors to general registers.

    X86's micro-ops: gem5 renames halves of vector registers and groups of condition codes, which
    the columns do not tell apart.
    """
    if arch == "x86":
        return _Operands(
            *_core.renamed_operands(
                list(statics.disassembly),
                np.ascontiguousarray(statics.upc, np.uint16),
                np.ascontiguousarray(statics.flags, np.uint64),
            )
        )
    own = _Operands(*(statics.arrays[name] for name in _Operands._fields))
    src, dst = own.src_class.copy(), own.dst_class.copy()
    src[moves, 0], dst[moves, 0] = _VECTORS[-1], _INT
    if arch != "arm":
        return own._replace(src_class=src, dst_class=dst)
    src_index, dst_index = own.src_index.copy(), own.dst_index.copy()
    for number, reads, writes in structure_operands(statics):
        for k, register in enumerate(reads):
            src[number, k], src_index[number, k] = register
        for k, register in enumerate(writes):
            dst[number, k], dst_index[number, k] = register
    return _Operands(src, src_index, dst, dst_index)


def _registers(own: _Operands) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Sources and destinations as numbers of one dense numbering, most used first."""
    none = _MISC << 16
    src, dst = (
        np.where(cls >= _MISC, none, cls.astype(np.int32) << 16 | index)
        for cls, index in ((own.src_class, own.src_index), (own.dst_class, own.dst_index))
    )
    counts = np.bincount(src.ravel(), minlength=none + 1)
    counts += np.bincount(dst.ravel(), minlength=none + 1)
    names = np.flatnonzero(counts[:none])
    # A table of thousands of registers is no real machine's: the rarest are left out.
    kept = names[np.argsort(-counts[names], kind="stable")][: _core.MOST_CORE_REGISTERS]
    rank = np.full(none + 1, NO_REGISTER, np.uint16)
    rank[kept] = np.arange(len(kept), dtype=np.uint16)
    return rank[src], rank[dst]


def _of_text(statics: Any, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """The static instructions whose text is wanted; each text is looked at once."""
    some = {text for text in set(statics.disassembly) if wanted(text)}
    if not some:
        return np.zeros(len(statics), bool)
    return np.array([text in some for text in statics.disassembly], bool)


def _place_flags(statics: Any, arch: str) -> npt.NDArray[np.uint32]:
    """What follows from an instruction's bytes and its address."""
    out = np.where(split(statics, arch), _BITS["split"], 0)
    if arch == "arm":
        out |= np.where(masked(statics), _BITS["masked"], 0)
    if arch == "riscv":
        branch = _of_text(statics, lambda text: text.startswith(_COMPRESSED))
        out |= np.where(branch, _BITS["compressed_branch"], 0)
    return out.astype(np.uint32)


def _written(ints: npt.NDArray[np.int_], vecs: npt.NDArray[np.int_]) -> npt.NDArray[np.uint32]:
    """The bits that say how many registers a row writes."""
    out = np.zeros(len(ints), np.uint32)
    for count, bits in (
        (ints, ("writes_int", "second_int", "third_int")),
        (vecs, ("writes_vec", "second_vec")),
    ):
        for k, bit in enumerate(bits):
            out |= np.where(count > k, _BITS[bit], 0).astype(np.uint32)
    return out


def _zeroes_line(text: str) -> bool:
    """ARM's DC ZVA; RISC-V's CBO.ZERO, as gem5 writes it or capstone."""
    return (text.startswith("dc") and "zva" in text) or text.startswith(("cbo_zero", "cbo.zero"))


def _flags(statics: Any, cls: Any) -> npt.NDArray[np.uint32]:
    out = np.zeros(len(statics), np.uint32)
    own = statics.flags
    for bit, names in _FLAGS.items():
        mask = np.uint64(sum(1 << schema.FLAGS.index(name) for name in names))
        out |= np.where(own & mask != 0, _BITS[bit], 0).astype(np.uint32)
    zero = _of_text(statics, _zeroes_line)
    # Each warning is a fault (M5WarnOnceFault, src/arch/generic/debugfaults.hh).
    warns = _of_text(statics, lambda text: ": warn_once" in text)
    out |= np.where(zero, _BITS["zero_line"], 0).astype(np.uint32)
    out |= np.where(warns, _BITS["traps"], 0).astype(np.uint32)
    return out | _written((cls == _INT).sum(axis=1), np.isin(cls, _VECTORS).sum(axis=1))


def _values(s: Any, arch: str, operands: _Operands, src: npt.NDArray[np.uint16]) -> RegisterValues:
    if arch == "arm":
        return arm_values(s, src)
    if arch == "x86":
        return x86_values(s, src, operands.src_class, operands.src_index)
    return riscv_values(s, src) if arch == "riscv" else no_values()


def _of_micro_ops(parts: MicroOps, moves: npt.NDArray[np.intp], arch: str) -> CoreInstructions:
    """Of what gem5's micro-ops, and other instruction sets' rows, are."""
    s = parts.statics
    operands = _operands(s, arch, moves)
    src, dst = _registers(operands)
    return CoreInstructions(
        np.ascontiguousarray(s.pc, np.uint64),
        _flags(s, operands.dst_class) | _place_flags(s, arch),
        np.ascontiguousarray(s.op, np.uint8),
        np.ascontiguousarray(s.branch, np.uint8),
        np.ascontiguousarray(access_sizes(s)),
        parts.offset,
        src,
        dst,
        parts.begin,
        _values(s, arch, operands, src),
        Loops.of([]),
    )


def _turned_moves(trace: TraceFile, statics: StaticTable) -> npt.NDArray[np.intp]:
    """The moves of ``statics`` that gem5's text shows the wrong way round."""
    told = trace.index.get("options", {}).get("binary")
    if told is None and trace.arch == "arm":
        return to_general(statics)
    return np.array([], np.intp)


def core_instructions(trace: TraceFile) -> CoreInstructions:
    """Of all static instructions of a trace."""
    s = trace.statics
    if not in_parts(trace):
        parts = MicroOps(s, np.zeros(len(s), np.uint8), np.arange(len(s) + 1, dtype=np.uint32))
    elif trace.arch == "x86":
        return _uop_arrays(s)
    else:
        parts = arm_parts(s)
    return _of_micro_ops(parts, _turned_moves(trace, parts.statics), trace.arch)


def _uop_arrays(s: StaticTable) -> CoreInstructions:
    from tracekit.sim.uop_table import table

    t = table(s)
    return t._replace(flags=t.flags | np.repeat(_place_flags(s, "x86"), np.diff(t.begin)))
