"""Writing a file: chunks as they come, the rest at the end, under a temporary name until all is there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError
from tracekit.store import frames, statics

FORMAT = 1
LEVEL = 1  # of the chunks: the encoder has done most of the work
STATIC_LEVEL = 9


class Writer:
    """``discard`` removes what was written, unless ``finish`` has given it its name."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        head: dict[str, Any],
        *,
        force: bool = False,
        part: int = 0,
    ) -> None:
        self.path = Path(path)
        self._force = force
        self._check_absent(self.path)
        self._tmp = self.path.with_name(f".{self.path.name}.{os.getpid()}.{part}.tmp")
        self._compress = frames.Compressor(LEVEL)
        self._offset = 0
        self._chunks: list[dict[str, Any]] = []
        self.rows = 0
        try:
            self._f = self._tmp.open("xb")
        except OSError as e:
            raise TracekitError(f"cannot write: {e.strerror}", path=str(self.path)) from None
        self._write(frames.json_frame(frames.HEAD, {"format": FORMAT, **head}))

    def _check_absent(self, path: Path) -> None:
        if not self._force and path.exists():
            raise TracekitError("exists already", path=str(path), hint="--force replaces it")

    def _write(self, data: bytes) -> int:
        """Appends; returns where it stands."""
        try:
            self._f.write(data)
        except OSError as e:
            raise TracekitError(f"cannot write: {e.strerror}", path=str(self.path)) from None
        at, self._offset = self._offset, self._offset + len(data)
        return at

    def _stream(self, data: bytes, compress: frames.Compressor) -> list[int]:
        frame = compress(data)
        return [self._write(frame), len(frame), len(data)]

    def chunk(self, encoded: dict[str, Any]) -> None:
        """One chunk as FeatureStage.encode gives it."""
        streams = {k: self._stream(v, self._compress) for k, v in encoded["streams"].items()}
        meta = {k: v for k, v in encoded.items() if k != "streams"}
        self._chunks.append({**meta, "first": self.rows, "streams": streams})
        self.rows += encoded["rows"]

    @property
    def bytes_written(self) -> int:
        return self._offset

    def finish(
        self, table: statics.StaticTable, index: dict[str, Any], path: Path | None = None
    ) -> None:
        """Writes the static table and the index, syncs, and gives the file its name (or ``path``)."""
        self.path = path or self.path
        compress = frames.Compressor(STATIC_LEVEL)
        encoded = statics.encode(table)
        streams = {k: self._stream(v, compress) for k, v in encoded.items()}
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
        frame = frames.json_frame(frames.INDEX, body)
        at = self._write(frame)
        self._write(frames.trailer_frame(at, len(frame)))
        try:
            self._f.flush()
            os.fsync(self._f.fileno())
            self._f.close()
            self._check_absent(self.path)
            self._tmp.replace(self.path)
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as e:
            raise TracekitError(f"cannot write: {e.strerror}", path=str(self.path)) from None

    def discard(self) -> None:
        """Removes the temporary file; nothing after ``finish``."""
        with contextlib.suppress(OSError):
            self._f.close()
        self._tmp.unlink(missing_ok=True)
