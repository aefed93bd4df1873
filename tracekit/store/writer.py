"""Writing a file: chunks as they come, the rest at the end."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import xxhash

from tracekit.errors import TracekitError
from tracekit.io.output import OutputFile
from tracekit.store import frames, statics
from tracekit.store.index import Invalid
from tracekit.store.index import check as check_index

FORMAT = 1
LEVEL = 1  # of the chunks: the encoder has done most of the work
STATIC_LEVEL = 9


class Output(OutputFile):
    """A file of frames; its index has a hash of all that stands before it."""

    def __init__(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        super().__init__(path, force=force)
        self._hash = xxhash.xxh3_128()  # of all that is written

    def write(self, data: Any) -> int:
        """Write, and hash what is written."""
        self._hash.update(data)
        return super().write(data)

    def append(self, data: bytes) -> int:
        """Appends; returns where it stands."""
        at = self.offset
        self.write(data)
        return at

    def stream(self, data: bytes, compress: frames.Compressor) -> list[int]:
        """Appends a compressed frame; returns its place."""
        frame = compress(data)
        return [self.append(frame), len(frame), len(data)]

    def end(
        self,
        index: dict[str, Any],
        path: Path | None = None,
        check: Callable[[Path], None] | None = None,
    ) -> None:
        """Appends the index and the trailer, and publishes (as ``path``); ``check`` sees the whole
        file before and may raise."""
        index = {**index, "xxh3_128": self._hash.hexdigest()}
        try:
            check_index(index, self.offset)
        except Invalid as e:  # no reader would open it
            raise TracekitError(
                f"does not fit the format: {e}", path=str(path or self.path)
            ) from None
        frame = frames.json_frame(frames.INDEX, index)
        at = self.append(frame)
        self.append(frames.trailer_frame(at, len(frame)))
        if check is not None:
            self.flush()
            assert self.temporary is not None
            check(self.temporary)
        self.commit(path)


class Writer(Output):
    """A feats.zst, chunk by chunk."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        head: dict[str, Any],
        *,
        force: bool = False,
    ) -> None:
        super().__init__(path, force=force)
        self._compress = frames.Compressor(LEVEL)
        self._head = frames.json_frame(frames.HEAD, {"format": FORMAT, **head})
        self._chunks: list[dict[str, Any]] = []
        self._hashes: list[list[int]] = []
        self.rows = 0

    def append(self, data: bytes) -> int:
        """Append, behind the head; returns where it stands."""
        if self.offset == 0:
            self.write(self._head)
        return super().append(data)

    def chunk(self, encoded: Mapping[str, Any]) -> None:
        """One chunk as FeatureStage gives it.  Where all have hashes, ``finish`` reads the file
        back and compares."""
        if "hashes" in encoded:
            self._hashes.append(encoded["hashes"])
        streams = {k: self.stream(v, self._compress) for k, v in encoded["streams"].items()}
        meta = {k: v for k, v in encoded.items() if k not in ("streams", "hashes")}
        self._chunks.append({**meta, "first": self.rows, "streams": streams})
        self.rows += encoded["rows"]

    @property
    def tick_unit(self) -> int | None:
        """The divisor of all ticks so far; None without timing."""
        units = [int(c["tick_unit"]) for c in self._chunks if c["timed"]]
        return math.gcd(*units) if units else None

    @property
    def retired_before(self) -> int:
        """The last retirement before the first row, 0 where there was none."""
        return int(self._chunks[0]["retired_before"]) if self._chunks else 0

    @property
    def bytes_written(self) -> int:
        """Bytes written, the head included."""
        return self.offset

    def finish(
        self, table: statics.StaticTable, index: dict[str, Any], path: Path | None = None
    ) -> None:
        """Writes the static table and the index, syncs, and gives the file its name (or
        ``path``)."""
        compress = frames.Compressor(STATIC_LEVEL)
        encoded = statics.encode(table)
        streams = {k: self.stream(v, compress) for k, v in encoded.items()}
        body = {
            **index,
            "rows": self.rows,
            "chunks": self._chunks,
            "statics": {
                "count": len(table),
                "forms": len(encoded["bytes_length"]),
                "op_names": {str(k): v for k, v in table.op_names.items()},
                "streams": streams,
            },
        }
        self.end(body, path, self._read_back(path, table) if self._hashes else None)

    def _read_back(self, path: Path | None, table: statics.StaticTable) -> Callable[[Path], None]:
        from tracekit.store.readback import compare

        return lambda temporary: compare(temporary, str(path or self.path), self._hashes, table)
