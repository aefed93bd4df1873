"""A trace through the simulated cores, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import _core, schema
from tracekit.cpus import thread_count
from tracekit.errors import UsageError
from tracekit.pipeline import overlap
from tracekit.sim import plugins
from tracekit.sim.access_sizes import access_sizes, masked
from tracekit.sim.arm_values import arm_values
from tracekit.sim.instruction_lengths import split
from tracekit.sim.machine import PARAMETERS, core_row
from tracekit.sim.micro_ops import in_parts
from tracekit.sim.microcode_loops import Loops, executed_parts
from tracekit.sim.register_moves import to_general
from tracekit.sim.register_values import RegisterValues, no_values
from tracekit.sim.riscv_values import riscv_values
from tracekit.sim.structure_loads import structure_operands
from tracekit.sim.x86_values import x86_values
from tracekit.store.reader import TraceFile

__all__ = [
    "TIMING",
    "Block",
    "ClassedRows",
    "KeptRows",
    "RowSource",
    "Walk",
    "source_of",
    "totals",
    "walk",
]

BLOCK = 1 << 17
ROWS_AHEAD: int = _core.ROWS_AHEAD
#: What a timed walk gives for each row and core (core_timing, csrc/sim/core.hpp).
TIMING: tuple[str, ...] = _core.CORE_TIMING
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


@dataclass(frozen=True)
class Walk:
    """The rows [begin, begin + len(cycles)): ``cycles`` float32 rows x cores.  Of a timed walk
    ``cycles`` has a third axis: TIMING.  ``wrong``, where difficulty was asked for: the branches
    that predictor k of csrc/sim/core_parameters.hpp would get wrong if it learnt at once, as
    bit k."""

    begin: int
    cycles: npt.NDArray[np.float32]
    wrong: npt.NDArray[np.uint8]


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


#: pc, flags, op, branch, size, offset, src, dst, where each instruction's parts begin,
#: RegisterValues and Loops.
_Arrays = tuple[Any, ...]


def _values(s: Any, arch: str, operands: _Operands, src: npt.NDArray[np.uint16]) -> RegisterValues:
    if arch == "arm":
        return arm_values(s, src)
    if arch == "x86":
        return x86_values(s, src, operands.src_class, operands.src_index)
    return riscv_values(s, src) if arch == "riscv" else no_values()


def _micro_arrays(s: Any, moves: npt.NDArray[np.intp], arch: str) -> _Arrays:
    """A part for each row: what gem5's micro-ops, and other instruction sets' rows, are."""
    operands = _operands(s, arch, moves)
    src, dst = _registers(operands)
    flags = _flags(s, operands.dst_class)
    return (
        np.ascontiguousarray(s.pc, np.uint64),
        flags | _place_flags(s, arch),
        np.ascontiguousarray(s.op, np.uint8),
        np.ascontiguousarray(s.branch, np.uint8),
        np.ascontiguousarray(access_sizes(s)),
        np.zeros(len(s), np.uint8),
        src,
        dst,
        np.arange(len(s) + 1, dtype=np.uint32),
        *_values(s, arch, operands, src),
        *Loops.of([]),
    )


def _turned_moves(trace: TraceFile) -> npt.NDArray[np.intp]:
    """The moves that gem5's text shows the wrong way round."""
    told = trace.index.get("options", {}).get("binary")
    if told is None and trace.arch == "arm":
        return to_general(trace.statics)
    return np.array([], np.intp)


def _uop_arrays(s: Any) -> _Arrays:
    from tracekit.sim.uop_table import table

    t = table(s)
    place = np.repeat(_place_flags(s, "x86"), np.diff(t.begin))
    own = t.pc, t.flags | place, t.op, t.branch, t.size, t.offset, t.src, t.dst, t.begin
    return *own, *RegisterValues.empty(len(t.pc)), *t.loops


class RowsBehind(NamedTuple):
    """Those behind a block, at most `ROWS_AHEAD`: what a core knows of registers on a wrong path
    (csrc/sim/rows_around.hpp)."""

    ids: npt.NDArray[np.uint32]
    addr: npt.NDArray[np.uint64]
    bits: npt.NDArray[np.uint8]

    def behind(self, *columns: npt.NDArray[Any]) -> RowsBehind:
        """Those behind a part of the block; ``columns``: of the rest of it."""
        pairs = zip(columns, self, strict=True)
        return RowsBehind(*(np.concatenate([a[:ROWS_AHEAD], b])[:ROWS_AHEAD] for a, b in pairs))


@dataclass(frozen=True)
class Block:
    """Rows from ``begin`` on, as _core.SimulatedCores takes them."""

    begin: int
    ids: npt.NDArray[np.uint32]
    addr: npt.NDArray[np.uint64]
    bits: npt.NDArray[np.uint8]
    following: RowsBehind

    def part(self, i: int, j: int) -> Block:
        """Its rows [i, j)."""
        rest = self.ids[j:], self.addr[j:], self.bits[j:]
        own = self.ids[i:j], self.addr[i:j], self.bits[i:j]
        return Block(self.begin + i, *own, self.following.behind(*rest))


class RowSource:
    """A trace as cores see it: its static instructions and its blocks."""

    def __init__(self, trace: TraceFile) -> None:
        self._trace = trace
        self._arch = trace.arch
        joined = trace.level == "macro"
        own = (
            _uop_arrays(trace.statics)
            if in_parts(trace)
            else _micro_arrays(trace.statics, _turned_moves(trace), self._arch)
        )
        self._uops = *own, joined
        self.path = trace.path

    def __len__(self) -> int:
        return len(self._trace)

    @property
    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return self._arch

    @property
    def statics(self) -> int:
        """Static instructions of the whole trace."""
        return len(self._trace.statics)

    @property
    def pcs(self) -> npt.NDArray[np.uint64]:
        """Of each static instruction."""
        return np.ascontiguousarray(self._trace.statics.pc, np.uint64)

    def executed_parts(self, classes: Sequence[int]) -> npt.NDArray[np.float64]:
        """Of `microcode_loops.executed_parts`: float64 [statics]."""
        return executed_parts(self._uops[2], self._uops[8], Loops(*self._uops[-5:-1]), classes)

    def cores(
        self, machines: Sequence[Mapping[str, Any]], *, causes: bool = False
    ) -> _core.SimulatedCores:
        """Cold cores with the parameters of ``machines``; ``causes``: that know why."""
        plugins.forget()
        rows = np.empty((len(machines), len(PARAMETERS)))
        for k, m in enumerate(machines):
            rows[k] = core_row(m, self._arch)
        return _core.SimulatedCores(*self._uops, cores=rows, causes=causes)

    def column(self, name: str, rows: tuple[int, int]) -> npt.NDArray[Any]:
        """A column of a range of rows."""
        return self._trace.column(name, rows)

    def ids(self) -> Iterator[npt.NDArray[np.uint32]]:
        """The static instruction of each row, in blocks."""
        for begin in range(0, len(self), BLOCK):
            yield self._trace.column("static_id", (begin, min(begin + BLOCK, len(self))))

    def blocks(self, first: int, last: int) -> Iterator[Block]:
        """The rows [first, last)."""
        trace = self._trace
        for begin in range(first, last, BLOCK):
            end = min(begin + BLOCK, last)
            places = (begin, min(end + ROWS_AHEAD, len(trace)))
            ids: npt.NDArray[np.uint32] = trace.column("static_id", places)
            addr: npt.NDArray[np.uint64] = trace.column("addr", places)
            bits: npt.NDArray[np.uint8] = trace.column("bits", places)
            n = end - begin
            yield Block(begin, ids[:n], addr[:n], bits[:n], RowsBehind(ids[n:], addr[n:], bits[n:]))

    @contextmanager
    def ahead(self, first: int, last: int, threads: int) -> Iterator[Iterator[Block]]:
        """`blocks`; where there are several ``threads``, and more than one block, another one
        decodes them while the caller works.  It has ended when the context has."""
        if threads < 2 or last - first <= BLOCK:
            yield self.blocks(first, last)
            return
        with closing(overlap(lambda: self.blocks(first, last))) as found:
            yield found

    def block(self, first: int, last: int) -> Block:
        """The rows [first, last) as one block."""
        parts = list(self.blocks(first, last))
        if not parts:
            none = np.zeros(0, np.uint32), np.zeros(0, np.uint64), np.zeros(0, np.uint8)
            return Block(first, *none, RowsBehind(*none))
        ids, addr, bits = (
            np.concatenate([getattr(b, name) for b in parts]) for name in ("ids", "addr", "bits")
        )
        return Block(first, ids, addr, bits, parts[-1].following)


class KeptRows(RowSource):
    """The first ``rows`` of a trace (all of them unless given), decoded once for many walks: 13
    bytes a row."""

    def __init__(self, trace: TraceFile, rows: int | None = None) -> None:
        super().__init__(trace)
        self._rows = len(trace) if rows is None else min(rows, len(trace))
        self._kept = list(super().blocks(0, self._rows))

    def __len__(self) -> int:
        return self._rows

    def blocks(self, first: int, last: int) -> Iterator[Block]:
        """The kept rows [first, last)."""
        for b in self._kept:
            i, j = max(first - b.begin, 0), min(last - b.begin, len(b.ids))
            if (i, j) == (0, len(b.ids)):
                yield b
            elif i < j:
                yield b.part(i, j)

    @contextmanager
    def ahead(self, first: int, last: int, threads: int) -> Iterator[Iterator[Block]]:
        """`blocks`, which are decoded."""
        yield self.blocks(first, last)


class ClassedRows(KeptRows):
    """The first rows of a trace, each in a class of every division of them; ``labels``: uint16
    [divisions, rows], all below ``classes``.  Windows of ``window`` rows are one more division; a
    block's last one may be shorter."""

    def __init__(
        self, trace: TraceFile, labels: npt.NDArray[np.uint16], classes: int, window: int
    ) -> None:
        super().__init__(trace, labels.shape[1])
        self._classes = classes
        self._labels = []
        for b in self._kept:
            n = len(b.ids)
            windows = -(-n // window)
            own = labels[:, b.begin : b.begin + n] + np.uint16(windows)
            numbers = (np.arange(n) // window).astype(np.uint16)
            self._labels.append((windows, np.vstack([numbers, own])))

    def totals(
        self, machines: Sequence[Mapping[str, Any]], threads: int | None = None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Sums of the cycles of cores with the parameters of ``machines``: windows x cores, and
        classes x cores."""
        cores = self.cores(machines)
        threads = thread_count(threads)
        windows, classes = [], np.zeros((self._classes, len(machines)))
        for b, (count, labels) in zip(self._kept, self._labels, strict=True):
            block = (b.ids, b.addr, b.bits, b.following)
            sums = cores.class_sums(*block, labels, count + self._classes, threads)
            plugins.check()
            windows.append(sums[:count])
            classes += sums[count:]
        return np.concatenate(windows), classes

    def sums(
        self, cycles: npt.NDArray[np.floating[Any]]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The same sums of ``cycles``, those of the trace's rows."""
        windows, classes = [], np.zeros(self._classes)
        for b, (count, labels) in zip(self._kept, self._labels, strict=True):
            own = np.tile(cycles[b.begin : b.begin + len(b.ids)], len(labels))
            sums = np.bincount(labels.ravel(), own, count + self._classes)
            windows.append(sums[:count])
            classes += sums[count:]
        return np.concatenate(windows), classes


def source_of(trace: TraceFile | RowSource) -> RowSource:
    """A trace as cores see it; what is one already, as it is."""
    return trace if isinstance(trace, RowSource) else RowSource(trace)


def walk(
    trace: TraceFile,
    machines: Sequence[Mapping[str, Any]],
    threads: int | None = None,
    *,
    timed: bool = False,
    difficulty: bool = False,
    rows: int | None = None,
    ranges: Sequence[tuple[int, int]] | None = None,
) -> Iterator[Walk]:
    """Each block of the trace (of its first ``rows``) through cores with the parameters of
    ``machines`` (none, if only ``difficulty`` is asked for), from cold.  ``ranges``: of rows that
    are walked one after another instead, each in blocks of its own; the cores keep what they know
    from one to the next.

    X86 instructions (the macro level) go through the cores in parts, which follow from their names
    and operands alone.
    """
    source = RowSource(trace)
    cores = source.cores(machines)
    threads = thread_count(threads)
    n = len(trace)
    for first, last in ranges or [(0, n if rows is None else min(rows, n))]:
        with source.ahead(first, last, threads) as blocks:
            for b in blocks:
                cycles, wrong = cores.run(
                    b.ids, b.addr, b.bits, b.following, threads, timed, difficulty
                )
                plugins.check()
                yield Walk(b.begin, cycles, wrong)


def totals(
    trace: TraceFile | RowSource,
    machines: Sequence[Mapping[str, Any]],
    breaks: Sequence[int] | npt.NDArray[np.int64] | None = None,
    threads: int | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> npt.NDArray[np.float64]:
    """Sums of the cores' cycles over the ranges between ``breaks``: float64, ranges x cores.

    ``breaks``: row numbers, increasing, from 0; the whole trace unless given.  Rows after the last
    one are not counted.  ``report`` is told how many rows are done.
    """
    if not machines:
        raise UsageError("no simulated cores")
    source = source_of(trace)
    n = len(source)
    edges = np.array([0, n] if breaks is None else breaks, np.int64)
    if len(edges) < 2 or edges[0] != 0 or edges[-1] > n or np.any(np.diff(edges) < 0):
        raise UsageError(f"breaks: increasing row numbers from 0 to at most {n}")
    cores = source.cores(machines)
    threads = thread_count(threads)
    out = np.zeros((len(edges) - 1, len(machines)))
    with source.ahead(0, int(edges[-1]), threads) as blocks:
        for b in blocks:
            end = b.begin + len(b.ids)
            first = int(np.searchsorted(edges, b.begin, "right")) - 1
            last = min(int(np.searchsorted(edges, end, "left")), len(edges) - 1)
            inside = (np.clip(edges[first : last + 1], b.begin, end) - b.begin).astype(np.uint32)
            out[first:last] += cores.sums(b.ids, b.addr, b.bits, b.following, inside, threads)
            plugins.check()
            report(end)
    return out
