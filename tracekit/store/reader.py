"""Reading a file: an index in memory, everything else on demand."""

from __future__ import annotations

import hashlib
import operator
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tracekit import _core, features, schema
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.features import Assembly, FeatureSet, Plan
from tracekit.io.ranges import FileRanges
from tracekit.store import frames, index, showing, statics
from tracekit.store.chunk import Chunk
from tracekit.store.dataframes import Dataframes
from tracekit.store.index_types import ChunkEntry, Head, Index
from tracekit.store.row_windows import row_windows
from tracekit.store.statics import StaticTable

Rows = slice | tuple[int, int] | None
Array = npt.NDArray[np.generic]
Targets = npt.NDArray[np.float64] | npt.NDArray[np.int64]

SUPPORTED = (1,)
_KEPT_ROWS = 1 << 19  # of decoded chunks
_PIECE = 1 << 20  # bytes that are read at once


def row_range(rows: Rows, count: int, path: str) -> tuple[int, int]:
    """``rows`` of ``count`` as (begin, end); UsageError where they are no range of them."""
    if rows is None:
        return 0, count
    if isinstance(rows, slice):
        begin, end, step = rows.indices(count)
        if step != 1:
            raise UsageError("rows: a range without a step", path=path)
        return begin, max(begin, end)
    try:
        begin, end = map(operator.index, rows)
    except (TypeError, ValueError):
        why = f"rows: a slice or two whole numbers, (begin, end), not {rows!r:.80}"
        raise UsageError(why, path=path) from None
    if not 0 <= begin <= end <= count:
        raise UsageError(f"rows {begin}:{end} are not within 0:{count}", path=path)
    return begin, end


def _check_unit(unit: str) -> None:
    if unit not in ("cycles", "ticks"):
        raise UsageError(f"targets: 'cycles' or 'ticks', not {unit!r}")


class TraceFile(Dataframes):
    """A feats.zst, open for reading.

    ``len(f)`` is its number of rows; ``f["pc"]``, ``f["addr"]``, … are whole columns (read-only
    arrays); ``f.column(name, rows)`` a range of one.  Columns are those of schema.COLUMNS,
    schema.BITS (bool) and schema.STATIC_COLUMNS.  Safe in several processes: it holds no position
    in the file and opens it anew when it is sent to a spawned process.  Threads may share it; each
    that opens its own decodes without waiting for the others.  ``path`` is what is shown,
    ``address`` what opens it.  ``kept``: about how many rows stay decoded.
    """

    def __init__(self, path: str | os.PathLike[str], *, kept: int | None = None) -> None:
        self._kept = _KEPT_ROWS if kept is None else kept
        self._bytes = FileRanges(path)
        self.path, self.address = self._bytes.name, str(path)
        self._cache: OrderedDict[int, Chunk] = OrderedDict()
        self._lock = threading.RLock()  # of what is decoded once: chunks, tables, plans
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self.size = self._bytes.size
        head = frames.read_head(self.read_bytes, self.size, self.path)
        self.head: Head = head  # type: ignore[assignment]  # as frames checked it
        self.head_size = frames.head_size(self.read_bytes(0, frames.PREFIX_SIZE))
        if self.head["format"] not in SUPPORTED:
            raise FormatError(
                f"format {self.head['format']} is not one that this tracekit reads "
                f"({', '.join(map(str, SUPPORTED))})",
                path=self.path,
                hint="update tracekit",
            )
        at = self.size - frames.TRAILER_SIZE
        if at < 0:
            raise FormatError("file is cut short", path=self.path, hint="extract it again")
        try:
            trailer = self.read_bytes(at, frames.TRAILER_SIZE)
            offset, size = frames.parse_trailer(trailer, self.path, at)
        except FormatError:
            raise FormatError(
                "file is cut short: no trailer at its end", path=self.path, hint="extract it again"
            ) from None
        if offset + size != at or size > frames.MAX_JSON:
            raise FormatError("trailer does not point at the index", path=self.path, offset=at)
        self.index: Index = frames.parse_json(
            self.read_bytes(offset, size), frames.INDEX, self.path, offset
        )
        try:
            index.check(self.index, offset)
        except index.Invalid as e:
            raise FormatError(
                f"index is not as the format says: {e}",
                path=self.path,
                offset=offset,
                hint="extract it again",
            ) from None
        self.index_offset = offset
        self._line_bits: int = self.index["options"]["line_bits"]
        self._chunks: list[ChunkEntry] = self.index["chunks"]
        self._starts = np.array([c["first"] for c in self._chunks] + [self.index["rows"]], np.int64)
        self.timed: bool = any(c["timed"] for c in self._chunks)

    # ---- raw access

    def read_bytes(self, offset: int, size: int) -> bytes:
        """Raw bytes of the file."""
        return self._bytes.read(offset, size)

    def stream(self, place: list[int]) -> bytes:
        """The content of a frame, its checksum checked."""
        offset, size, raw = place
        return frames.decompress(self.read_bytes(offset, size), raw, self.path, offset)

    def digest(self) -> str:
        """SHA-256 of the file's bytes: 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for at in range(0, self.size, _PIECE):
            digest.update(self.read_bytes(at, min(_PIECE, self.size - at)))
        return digest.hexdigest()

    def close(self) -> None:
        """Close the file; what was decoded stays usable."""
        self._bytes.close()

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[TraceFile], tuple[str]]:
        return TraceFile, (self.address,)

    def __repr__(self) -> str:
        return showing.line(self) if self._bytes.is_open else f"{ascii(self.path)[1:-1]}: closed"

    def _repr_html_(self) -> str:
        return showing.html_table(self)

    @property
    def arch(self) -> str:
        """The instruction set: "arm", "x86", "riscv" or "unknown"."""
        return self.index["arch"]

    @property
    def level(self) -> str:
        """What a row is: "micro" (a micro-op) or "macro" (an instruction)."""
        return self.index["level"]

    @property
    def cpu(self) -> str:
        """The CPU's name in the trace, "" where it has none."""
        return self.index["cpu"]

    # ---- rows

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def statics(self) -> StaticTable:
        """The static table."""
        with self._lock:
            return self._decoded_statics()

    def _decoded_statics(self) -> StaticTable:
        if "_statics" not in self.__dict__:
            s = self.index["statics"]

            def read(name: str) -> bytes:
                if name not in s["streams"]:
                    raise FormatError(f"static column {name} is missing", path=self.path)
                return self.stream(s["streams"][name])

            n, forms = int(s["count"]), int(s["forms"])
            self._statics = statics.decode(read, n, forms, s["op_names"], self.path)
        return self._statics

    @property
    def _hot(self) -> _core.HotTable:
        with self._lock:
            if "_hot_table" not in self.__dict__:
                t = self.statics
                self._hot_table = _core.HotTable(t.pc, t.upc, t.hot_bits, t.fall)
            return self._hot_table

    def chunk(self, number: int) -> Chunk:
        """One chunk; the last few stay decoded."""
        with self._lock:
            return self._chunk(number)

    def _chunk(self, number: int) -> Chunk:
        if number in self._cache:
            self._cache.move_to_end(number)
            return self._cache[number]
        meta = self._chunks[number]
        streams = meta["streams"]
        c = Chunk(
            meta, lambda name: self.stream(streams[name]), self._hot, self._line_bits, self.path
        )
        self._cache[number] = c
        while len(self._cache) > 1 and sum(k.rows for k in self._cache.values()) > self._kept:
            self._cache.popitem(last=False)
        return c

    @property
    def chunks(self) -> int:
        """How many chunks there are; a chunk is what is decoded at once."""
        return len(self._chunks)

    def range(self, rows: Rows) -> tuple[int, int]:
        """``rows`` as (begin, end); UsageError where it is no range of this file."""
        return row_range(rows, len(self), self.path)

    def parts(self, rows: Rows = None) -> Iterator[tuple[Chunk, int, int]]:
        """(chunk, begin, end) of each part of ``rows``, begin and end counted within the chunk."""
        begin, end = self.range(rows)
        if begin == end:
            return
        k = int(np.searchsorted(self._starts, begin, "right")) - 1
        while begin < end:
            first, last = int(self._starts[k]), int(self._starts[k + 1])
            upto = min(end, last)
            yield self.chunk(k), begin - first, upto - first
            begin, k = upto, k + 1

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each chunk begins, and the number of rows."""
        return self._starts

    def _gather(self, rows: Rows, dtype: Any, get: Any, writable: bool = False) -> Array:
        begin, end = self.range(rows)
        out = np.empty(end - begin, dtype)
        at = 0
        for chunk, a, b in self.parts((begin, end)):
            out[at : at + b - a] = get(chunk)[a:b]
            at += b - a
        out.flags.writeable = writable
        return out

    @property
    def columns(self) -> tuple[str, ...]:
        """Every name that ``f[name]`` knows."""
        return (*schema.COLUMNS, *schema.BITS, *schema.STATIC_COLUMNS)

    @overload
    def column(
        self, name: schema.Uint64Column, rows: Rows = None, *, writable: bool = False
    ) -> npt.NDArray[np.uint64]: ...
    @overload
    def column(
        self, name: schema.Uint32Column, rows: Rows = None, *, writable: bool = False
    ) -> npt.NDArray[np.uint32]: ...
    @overload
    def column(
        self, name: schema.Uint16Column, rows: Rows = None, *, writable: bool = False
    ) -> npt.NDArray[np.uint16]: ...
    @overload
    def column(
        self, name: schema.Uint8Column, rows: Rows = None, *, writable: bool = False
    ) -> npt.NDArray[np.uint8]: ...
    @overload
    def column(
        self, name: schema.Float32Column, rows: Rows = None, *, writable: bool = False
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def column(
        self, name: schema.BoolColumn, rows: Rows = None, *, writable: bool = False
    ) -> npt.NDArray[np.bool_]: ...
    @overload
    def column(self, name: str, rows: Rows = None, *, writable: bool = False) -> Array: ...
    def column(self, name: str, rows: Rows = None, *, writable: bool = False) -> Array:
        """A column, or a range of rows of it: an array of one value a row, which is the caller's
        and read-only unless ``writable``.

        Stage ticks of a file without timing are an error, not zeros.
        """
        if name in schema.COLUMNS:
            spec = schema.COLUMNS[name]
            if spec.domain == "timed":
                self._need_timing(name)
            return self._gather(rows, spec.dtype, lambda c: c.column(name), writable)
        if name in schema.BITS:
            mask = schema.BITS[name][0]
            return self._gather(rows, bool, lambda c: (c.column("bits") & mask) != 0, writable)
        if name in schema.STATIC_COLUMNS:
            values = self.statics.arrays[name]
            return self._gather(
                rows, values.dtype, lambda c: values[c.column("static_id")], writable
            )
        raise KeyError(f"{self.path}: no column {name!r}; there are {', '.join(self.columns)}")

    @overload
    def __getitem__(self, name: schema.Uint64Column) -> npt.NDArray[np.uint64]: ...
    @overload
    def __getitem__(self, name: schema.Uint32Column) -> npt.NDArray[np.uint32]: ...
    @overload
    def __getitem__(self, name: schema.Uint16Column) -> npt.NDArray[np.uint16]: ...
    @overload
    def __getitem__(self, name: schema.Uint8Column) -> npt.NDArray[np.uint8]: ...
    @overload
    def __getitem__(self, name: schema.Float32Column) -> npt.NDArray[np.float32]: ...
    @overload
    def __getitem__(self, name: schema.BoolColumn) -> npt.NDArray[np.bool_]: ...
    @overload
    def __getitem__(self, name: str) -> Array: ...
    def __getitem__(self, name: str) -> Array:
        return self.column(name)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def _need_timing(self, what: str) -> None:
        if not self.timed:
            raise TracekitError(
                f"{what}: no row of the trace has times of a pipeline", path=self.path
            )

    # ---- what models need

    def features(
        self,
        name: str = "perfvec",
        rows: Rows = None,
        *,
        out: npt.NDArray[np.float32] | None = None,
        entropy: Literal["bits", "linear"] = "bits",
    ) -> npt.NDArray[np.float32]:
        """A feature set (features.md): float32, rows x columns; ``out`` is filled where given.

        ``entropy``: of p_local and p_global, in bits or as 2·min(p, 1 - p).
        """
        if entropy not in ("bits", "linear"):
            raise UsageError(f"entropy: 'bits' or 'linear', not {entropy!r}")
        spec = features.get(name)
        begin, end = self.range(rows)
        shape = (end - begin, len(spec.columns))
        if out is None:
            out = np.empty(shape, np.float32)
        elif out.shape != shape or out.dtype != np.float32 or not out.flags.carray:
            why = f"out: a contiguous float32 array of shape {shape} is needed, not read-only"
            raise UsageError(why)
        plan = self._plan(spec, entropy)
        at = 0
        for chunk, a, b in self.parts((begin, end)):
            plan.fill(chunk, a, b, out[at : at + b - a])
            at += b - a
        return out

    def assembly(self, name: str, number: int) -> Assembly:
        """A feature set of a chunk, decoded: ``take(starts, out)`` puts windows of its rows into
        float32 [windows, rows, columns]."""
        plan = self._plan(features.get(name), "bits")
        return plan.rows(self.chunk(number), 0, int(self._chunks[number]["rows"]))

    def _plan(self, spec: FeatureSet, entropy: str) -> Plan:
        with self._lock:
            plans: dict[tuple[str, int, str], Plan] = self.__dict__.setdefault("_plan_cache", {})
            key = (spec.name, spec.version, entropy)
            if key not in plans:
                plans[key] = Plan(spec, self.statics, entropy)
            return plans[key]

    @overload
    def targets(
        self, unit: Literal["cycles"] = "cycles", rows: Rows = None, *, writable: bool = False
    ) -> npt.NDArray[np.float64]: ...
    @overload
    def targets(
        self, unit: Literal["ticks"], rows: Rows = None, *, writable: bool = False
    ) -> npt.NDArray[np.int64]: ...
    def targets(
        self,
        unit: Literal["cycles", "ticks"] = "cycles",
        rows: Rows = None,
        *,
        writable: bool = False,
    ) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
        """Incremental latencies, one value a row: int64 ticks (ps), or float64 cycles of the clock.

        Their sum over a window is the window's time.  Trapped and untimed rows are 0 and the next
        row takes the rest; so is the first timed row, at whose retirement the clock starts.
        The array is read-only unless ``writable``.
        """
        self._need_timing("targets")
        _check_unit(unit)
        gathered = self._gather(rows, np.int64, lambda c: c.incremental_ticks(), writable)
        ticks = gathered.view(np.int64)
        if unit == "ticks":
            return ticks
        cycles: npt.NDArray[np.float64] = ticks / self.clock_ps
        cycles.flags.writeable = writable
        return cycles

    @property
    def clock_ps(self) -> int:
        """The CPU's clock period in ticks: as given at extraction, else the divisor of all stage
        ticks."""
        self._need_timing("clock")
        given = self.index["options"].get("clock_ps")
        if given:
            return int(given)
        units = [int(c["tick_unit"]) for c in self._chunks if c["timed"]]
        return int(np.gcd.reduce(np.array(units, np.int64)))

    @overload
    def windows(
        self,
        name: str = "perfvec",
        length: int = 256,
        *,
        target: None = None,
        shuffle: int | None = None,
        stride: int | None = None,
    ) -> Iterator[npt.NDArray[np.float32]]: ...
    @overload
    def windows(
        self,
        name: str = "perfvec",
        length: int = 256,
        *,
        target: Literal["cycles", "ticks"],
        shuffle: int | None = None,
        stride: int | None = None,
    ) -> Iterator[tuple[npt.NDArray[np.float32], Targets]]: ...
    def windows(
        self,
        name: str = "perfvec",
        length: int = 256,
        *,
        target: Literal["cycles", "ticks"] | None = None,
        shuffle: int | None = None,
        stride: int | None = None,
    ) -> Iterator[npt.NDArray[np.float32]] | Iterator[tuple[npt.NDArray[np.float32], Targets]]:
        """Windows of ``length`` rows for training: float32 (length x columns), or (window,
        targets).

        In order, or, with ``shuffle`` as a seed, chunks in random order and the windows of each
        chunk in random order: a chunk is decoded once.  Windows do not cross chunks; `UsageError`
        where no chunk has the rows of one.  ``stride`` rows from one window to the next, ``length``
        unless given.
        """
        features.get(name)  # what is wrong is told now, not at the first window
        if target is not None:
            _check_unit(target)
            self._need_timing("targets")
        step = length if stride is None else stride
        return row_windows(self, name, length, target, shuffle, step)
