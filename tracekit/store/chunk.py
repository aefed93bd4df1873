"""One chunk of a file: its streams, decoded on demand and kept while the chunk is in use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import _core, schema
from tracekit.errors import FormatError
from tracekit.store.index_types import ChunkEntry

Array = npt.NDArray[Any]

_PLAIN = {"load_distance", "store_distance", "data_distance"}
_REF = {"load_distance_ref": "load_distance", "store_distance_ref": "store_distance"}


class Chunk:
    """Columns of rows [first, first + rows) as read-only arrays."""

    def __init__(
        self,
        meta: ChunkEntry,
        read: Callable[[str], bytes],
        table: _core.HotTable,
        line_bits: int,
        path: str,
    ) -> None:
        self.first, self.rows = int(meta["first"]), int(meta["rows"])
        self.timed = bool(meta["timed"])
        self._unit, self._retired_before = int(meta["tick_unit"]), int(meta["retired_before"])
        self._has = meta["streams"]
        self._read, self._line_bits, self._path = read, line_bits, path
        self._kept: dict[str, Array] = {}
        self._lock = threading.RLock()  # one column at a time; a column may need another
        self._table = table
        self._begun: _core.Chunk | None = None

    @property
    def _decoder(self) -> _core.Chunk:
        """What all columns are decoded with: begun when the first one is asked for, so that threads
        begin their chunks at the same time."""
        with self._lock:
            if self._begun is None:
                try:
                    self._begun = _core.Chunk(
                        self._table, self.rows, self._stream("static_id"), self._stream("bits")
                    )
                except ValueError as e:
                    raise self._damaged("static_id or bits", e) from None
            return self._begun

    def _stream(self, name: str) -> bytes:
        return self._read(name) if name in self._has else b""

    def _damaged(self, name: str, e: Exception) -> FormatError:
        return FormatError(f"column {name} of the chunk at row {self.first}: {e}", path=self._path)

    def column(self, name: str) -> Array:
        """A stored column (schema.COLUMNS), whole."""
        with self._lock:
            if name not in self._kept:
                try:
                    self._decode(name)
                except ValueError as e:
                    raise self._damaged(name, e) from None
                for a in self._kept.values():
                    a.flags.writeable = False
            return self._kept[name]

    def _decode(self, name: str) -> None:
        c, keep = self._decoder, self._kept
        if name == "static_id":
            keep[name] = c.static_id()
        elif name == "bits":
            keep[name] = c.bits()
        elif name == "addr":
            keep[name] = c.addr(self._stream(name))
        elif name == "fetch_distance":
            keep[name] = c.fetch_distance(self._stream(name), self._line_bits)
        elif name in _PLAIN:
            keep[name] = c.distance(self._stream(name))
        elif name in _REF:
            keep[name] = c.distance_ref(self._stream(name), self.column(_REF[name]))
        elif name == "data_reuse":
            keep[name] = c.reuse(self._stream(name))
        elif name.startswith("window_"):
            keep[name] = c.window(self._stream(name))
        elif name.startswith("p_"):
            keep[name] = c.probability(self._stream(name))
        elif name in schema.STAGES:
            if self.timed:
                ticks = c.ticks([self._stream(s) for s in schema.STAGES], self._unit)
            else:
                ticks = [np.zeros(self.rows, np.uint64) for _ in schema.STAGES]
            keep.update(zip(schema.STAGES, ticks, strict=True))
        else:
            raise KeyError(name)

    def hashes(self) -> dict[str, int]:
        """A hash of each stored column, decoded: what FeatureStage tells of the rows that it
        encodes."""
        names = list(schema.COLUMNS)
        streams = [self._stream(n) for n in names]
        try:
            values = self._decoder.hashes(streams, self._unit, self._line_bits, self.timed)
        except ValueError as e:
            raise self._damaged("a column", e) from None
        return dict(zip(names, values, strict=True))

    def incremental_ticks(self) -> npt.NDArray[np.int64]:
        """Retire time minus the largest retire time before it, never negative (features.md,
        Targets)."""
        if "incremental" not in self._kept:
            retire = self.column("retire").view(np.int64)
            seen = np.maximum.accumulate(retire) if self.rows else retire
            seen = np.maximum(seen, self._retired_before)
            before = np.concatenate(([self._retired_before], seen[:-1]))
            out = seen - before
            if self._retired_before == 0:  # the window's clock starts at the first retirement
                out[before == 0] = 0
            out.flags.writeable = False
            self._kept["incremental"] = out
        return self._kept["incremental"]
