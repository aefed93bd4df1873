"""The static instructions of a trace as a simulated core of a real machine takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError
from tracekit.hardware.entries import Entry, MemoryPorts
from tracekit.hardware.forms import INVALID, Decoded, decode_form
from tracekit.hardware.nearest_form import nearest_form
from tracekit.hardware.op_flags import OpFlag, op_flags
from tracekit.hardware.operand_roles import Roles, operand_roles
from tracekit.isa import decode
from tracekit.schema import FLAGS
from tracekit.text import counted

__all__ = ["Coverage", "HardwareOps", "coverage", "hardware_ops"]

OPERATION, LOAD, STORE_ADDRESS, STORE_DATA = range(4)
_NO_REGISTER: Final = 255
_DATA_MOVES_ONLY: Final = OpFlag.ZERO_IDIOM | OpFlag.ELIMINATED_MOVE | OpFlag.NO_OP


@dataclass(frozen=True)
class HardwareOps:
    """One row a static instruction.

    ``uops`` u8: allocation slots.  ``fields`` u8: displacements and immediates of x86's machine
    code, of which one of 64 bits counts twice.  ``size`` u16: bytes of its access.  ``flags`` u32:
    `OpFlag`.
    ``latency`` f32: cycles from the last data source or loaded value to the result.
    ``address_sources``, ``data_sources``,
    ``early_destinations`` u8: bits of places in the statics' ``src_*`` and ``dst_*``
    (`tracekit.hardware.operand_roles`).  Its uses are ``use_begin[i]`` to ``use_begin[i + 1]`` of
    ``use_kind`` u8 (0 operation, 1 load, 2 store's address, 3 store's data), ``use_ports`` u32 (a
    set of the table's ports) and ``use_cycles`` f32: so long one of them is occupied.  ``form`` i32
    numbers ``forms``; ``own``: whether the form has an entry of its own.
    """

    uops: npt.NDArray[np.uint8]
    fields: npt.NDArray[np.uint8]
    size: npt.NDArray[np.uint16]
    flags: npt.NDArray[np.uint32]
    latency: npt.NDArray[np.float32]
    address_sources: npt.NDArray[np.uint8]
    data_sources: npt.NDArray[np.uint8]
    early_destinations: npt.NDArray[np.uint8]
    use_begin: npt.NDArray[np.uint32]
    use_kind: npt.NDArray[np.uint8]
    use_ports: npt.NDArray[np.uint32]
    use_cycles: npt.NDArray[np.float32]
    form: npt.NDArray[np.int32]
    forms: list[str]
    own: npt.NDArray[np.bool_]


class _Table(Protocol):
    """An `InstructionTable`."""

    @property
    def name(self) -> str: ...
    @property
    def isa(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def ports(self) -> tuple[str, ...]: ...
    @property
    def memory(self) -> MemoryPorts: ...
    @property
    def entries(self) -> Mapping[str, Entry]: ...


class Coverage(NamedTuple):
    """``share`` of the executed instructions has an entry of its own; ``missing``: form ->
    (executions, the form whose entry is used instead)."""

    share: float
    missing: dict[str, tuple[int, str]]

    def told(self, table: str) -> str:
        """One line on the forms that ``table`` has not, the commonest three named; "" for none."""
        if not self.missing:
            return ""
        first = [f"{f} (as {near})" for f, (_, near) in self.missing.items()][:3]
        more = ", …" if len(self.missing) > 3 else ""
        forms = counted(len(self.missing), "instruction form")
        return (
            f"the table {table} lacks {forms}, {1 - self.share:.2g} of what was executed; the "
            f"nearest counts instead: {', '.join(first)}{more}"
        )


class _Row(NamedTuple):
    uops: int
    fields: int
    size: int
    flags: int
    latency: float
    roles: Roles
    uses: tuple[tuple[int, int, float], ...]
    form: str
    own: bool


def hardware_ops(table: _Table, statics: Any, isa: str) -> HardwareOps:
    """The static instructions of a trace under ``table``.

    `UsageError` for rows of another instruction set than the table's, `FormatError` where an
    instruction has no machine code.
    """
    _check(table, statics, isa)
    rows: list[_Row] = []
    numbers: dict[bytes, int] = {}
    which = np.empty(len(statics), np.intp)
    for i, (key, inputs) in enumerate(_inputs(statics)):
        found = numbers.get(key)
        if found is None:
            found = numbers[key] = len(rows)
            rows.append(_row(table, isa, *inputs()))
        which[i] = found
    forms = list(dict.fromkeys(r.form for r in rows))
    number = {f: k for k, f in enumerate(forms)}
    lengths = np.array([len(r.uses) for r in rows], np.int64)[which]
    begin = np.zeros(len(which) + 1, np.uint32)
    begin[1:] = np.cumsum(lengths)
    flat = [u for k in which.tolist() for u in rows[k].uses]

    def column(values: list[Any], dtype: Any) -> npt.NDArray[Any]:
        return np.array(values, dtype)[which]

    return HardwareOps(
        column([min(r.uops, 255) for r in rows], np.uint8),
        column([r.fields for r in rows], np.uint8),
        column([r.size for r in rows], np.uint16),
        column([r.flags for r in rows], np.uint32),
        column([r.latency for r in rows], np.float32),
        column([r.roles.address_sources for r in rows], np.uint8),
        column([r.roles.data_sources for r in rows], np.uint8),
        column([r.roles.early_destinations for r in rows], np.uint8),
        begin,
        np.array([u[0] for u in flat], np.uint8),
        np.array([u[1] for u in flat], np.uint32),
        np.array([u[2] for u in flat], np.float32),
        column([number[r.form] for r in rows], np.int32),
        forms,
        column([r.own for r in rows], bool),
    )


def coverage(table: _Table, statics: Any, isa: str) -> Coverage:
    """Which share of the executed instructions has an entry of its own, and which have none."""
    _check(table, statics, isa)
    counts: dict[str, int] = {}
    for code, n in zip(statics.bytes, statics.count.tolist(), strict=True):
        form = decode_form(code, isa).form
        counts[form] = counts.get(form, 0) + n
    total = sum(counts.values())
    missing = {
        f: (n, nearest_form(f, table.entries, isa))
        for f, n in counts.items()
        if f not in table.entries
    }
    missing = dict(sorted(missing.items(), key=lambda item: -item[1][0]))
    without = sum(n for n, _ in missing.values())
    return Coverage(1.0 - without / total if total else 1.0, missing)


def _check(table: _Table, statics: Any, isa: str) -> None:
    if isa != table.isa:
        raise UsageError(
            f"the rows are of {isa}, the instruction table {table.name} of {table.isa}"
        )
    if not all(statics.bytes):
        n = sum(not b for b in statics.bytes)
        raise FormatError(
            f"{n} of {len(statics.bytes)} instructions have no machine code",
            hint="record the program, or extract its trace with --binary",
        )


def _inputs(statics: Any) -> Any:
    """(what the row depends on, as bytes; a function that gives it) of each instruction."""
    a = statics.arrays
    n = len(statics)
    names = ("src_class", "src_index", "dst_class", "dst_index", "flags", "access_size")
    packed = np.concatenate(
        [np.ascontiguousarray(a[k]).view(np.uint8).reshape(n, -1) for k in names], axis=1
    ).tobytes()
    width = len(packed) // n if n else 0

    def registers(kind: str, i: int) -> list[tuple[int, int]]:
        classes, indices = a[f"{kind}_class"][i].tolist(), a[f"{kind}_index"][i].tolist()
        return [(c, k) for c, k in zip(classes, indices, strict=True) if c != _NO_REGISTER]

    for i, code in enumerate(statics.bytes):

        def get(i: int = i, code: bytes = code) -> tuple[Any, ...]:
            sources, destinations = registers("src", i), registers("dst", i)
            return code, sources, destinations, int(a["flags"][i]), int(a["access_size"][i])

        yield code + b"|" + packed[i * width : (i + 1) * width], get


_IS_LOAD: Final = 1 << FLAGS.index("IsLoad")
_IS_STORE: Final = 1 << FLAGS.index("IsStore")
_MEMORY_BITS: Final = re.compile(r"\bm(\d+)")
#: An operand that is a number, or an address that has one.
_FIELD: Final = re.compile(r"^-?\d|[-+] \d[0-9a-fx]*]|\[-?\d|\[rip")
_ELEMENTS: Final = re.compile(r"v?p?(?:gather|scatter)")


def _row(
    table: _Table,
    isa: str,
    code: bytes,
    sources: Sequence[tuple[int, int]],
    destinations: Sequence[tuple[int, int]],
    gem5: int,
    size: int,
) -> _Row:
    d = decode_form(code, isa)
    own = d.form in table.entries
    entry = table.entries[d.form if own else nearest_form(d.form, table.entries, isa)]
    flags = op_flags(d, isa, table.family)
    if gem5 & _IS_LOAD:
        flags |= OpFlag.LOAD
    if gem5 & _IS_STORE:
        flags |= OpFlag.STORE
    if d.form == INVALID:
        flags |= OpFlag.NO_OP
    size = _size(d, size, isa)
    latency = entry.latency
    work = entry.uses
    if flags & _DATA_MOVES_ONLY:
        latency, work = 0.0, ()
    flags |= _of_entry(entry, table, isa)
    if _is_alu(flags, work):
        flags |= OpFlag.ALU
    if size in (4, 8) and not flags & OpFlag.VECTOR:
        flags |= OpFlag.RENAMABLE
    uses = [(OPERATION, mask, cycles) for mask, cycles in work]
    uses += _memory_uses(table, d, flags, size, code, isa)
    roles = operand_roles(d, isa, sources, destinations)
    fields = _fields(d) if isa == "x86" else 0
    return _Row(entry.uops, fields, size, int(flags), latency, roles, tuple(uses), d.form, own)


def _fields(d: Decoded) -> int:
    """Displacements and immediates, as the assembler writes them."""
    if d.mnemonic == "movabs":
        return 2
    return sum(bool(_FIELD.search(o)) for o in d.operands)


def _size(d: Decoded, size: int, isa: str) -> int:
    """Bytes of its access: of the form, where a trace has gem5's, which halves vectors."""
    found = _MEMORY_BITS.search(d.form) if isa == "x86" and not _ELEMENTS.match(d.form) else None
    return max(size, int(found[1]) // 8) if found and size else size


def _is_alu(flags: OpFlag, work: Sequence[tuple[int, float]]) -> bool:
    other = OpFlag.VECTOR | OpFlag.CONDITIONAL_BRANCH | OpFlag.MICROCODED | OpFlag.DIVIDER
    return bool(work) and not flags & (other | OpFlag.STACK_ENGINE)


def _of_entry(entry: Entry, table: _Table, isa: str) -> OpFlag:
    flags = OpFlag(0)
    dividers = sum(1 << i for i, p in enumerate(table.ports) if p in ("div", "fpdiv"))
    if any(mask & dividers and not mask & ~dividers for mask, _ in entry.uses):
        flags |= OpFlag.DIVIDER
    if isa == "x86" and entry.uops > (2 if table.family.startswith("zen") else 4):
        flags |= OpFlag.MICROCODED
    return flags


def _memory_uses(
    table: _Table, d: Decoded, flags: OpFlag, size: int, code: bytes, isa: str
) -> list[tuple[int, int, float]]:
    """Loads, stores' addresses and stores' data: a port each, twice for what is wider than it."""
    m = table.memory
    vector = bool(flags & OpFlag.VECTOR)
    times = 1
    if _ELEMENTS.match(d.mnemonic):
        times = max((o.times for o in decode(isa, code).memory), default=1)  # type: ignore[arg-type]
    out = []
    if flags & OpFlag.LOAD:
        cycles = float(times * max(1, -(-size // m.load_bytes)))
        out.append((LOAD, m.load_vector if vector else m.load, cycles))
    if flags & OpFlag.STORE:
        cycles = float(times * max(1, -(-size // m.store_bytes)))
        out.append((STORE_ADDRESS, m.store_address, float(times)))
        out.append((STORE_DATA, m.store_data_vector if vector else m.store_data, cycles))
    return out
