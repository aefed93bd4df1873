"""Writing a file: chunks as they come, the rest at the end, under a temporary name until all is
there."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tracekit.errors import TracekitError
from tracekit.store import frames, statics

FORMAT = 1
LEVEL = 1  # of the chunks: the encoder has done most of the work
STATIC_LEVEL = 9


def check_output(path: Path, force: bool, source: str = "-") -> None:
    """Raises TracekitError where ``path`` must not be replaced; ``source``: what is read
    meanwhile."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except OSError as e:
        raise TracekitError(f"cannot write: {e.strerror}", path=str(path)) from None
    if not stat.S_ISREG(status.st_mode):
        raise TracekitError("is no file that can be replaced", path=str(path), hint="name a file")
    if not force:
        raise TracekitError("exists already", path=str(path), hint="--force replaces it")
    with contextlib.suppress(OSError):
        if source != "-" and os.path.samestat(Path(source).stat(), status):
            raise TracekitError(
                "is the input, too", path=str(path), hint="give the output another name"
            )


class Output:
    """A file that is written under a temporary name; ``publish`` gives it its own, ``discard``
    removes it.

    It is made when the first bytes are written: whoever is to discard it has it in hand by then,
    at whatever moment a signal comes.
    """

    def __init__(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        self.path = Path(path)
        self._force = force
        check_output(self.path, force)
        # Random: after a crash in a container the next process may well have the same number.
        self._tmp = self.path.with_name(f".{self.path.name[:200]}.{secrets.token_hex(6)}.tmp")
        self._offset = 0
        self._f: BinaryIO | None = None

    def write(self, data: bytes) -> int:
        """Appends; returns where it stands."""
        try:
            if self._f is None:
                self._f = self._tmp.open("xb")
            self._f.write(data)
        except OSError as e:
            raise TracekitError(f"cannot write: {e.strerror}", path=str(self.path)) from None
        at, self._offset = self._offset, self._offset + len(data)
        return at

    def stream(self, data: bytes, compress: frames.Compressor) -> list[int]:
        """Appends a compressed frame; returns its place."""
        frame = compress(data)
        return [self.write(frame), len(frame), len(data)]

    def end(self, index: dict[str, Any]) -> None:
        """Appends the index and the trailer, and publishes."""
        frame = frames.json_frame(frames.INDEX, index)
        at = self.write(frame)
        self.write(frames.trailer_frame(at, len(frame)))
        self.publish()

    def publish(self) -> None:
        """Syncs, and gives the file its name."""
        assert self._f is not None
        try:
            self._f.flush()
            os.fsync(self._f.fileno())
            self._f.close()
            check_output(self.path, self._force)
            self._tmp.replace(self.path)
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as e:
            raise TracekitError(f"cannot write: {e.strerror}", path=str(self.path)) from None

    def discard(self) -> None:
        """Removes the temporary file; nothing after ``publish``."""
        if self._f is not None:
            with contextlib.suppress(OSError):
                self._f.close()
        self._tmp.unlink(missing_ok=True)


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
        self.rows = 0

    def write(self, data: bytes) -> int:
        if self._offset == 0:
            super().write(self._head)
        return super().write(data)

    def chunk(self, encoded: Mapping[str, Any]) -> None:
        """One chunk as FeatureStage.encode gives it."""
        streams = {k: self.stream(v, self._compress) for k, v in encoded["streams"].items()}
        meta = {k: v for k, v in encoded.items() if k != "streams"}
        self._chunks.append({**meta, "first": self.rows, "streams": streams})
        self.rows += encoded["rows"]

    @property
    def bytes_written(self) -> int:
        return self._offset

    def finish(
        self, table: statics.StaticTable, index: dict[str, Any], path: Path | None = None
    ) -> None:
        """Writes the static table and the index, syncs, and gives the file its name (or
        ``path``)."""
        self.path = path or self.path
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
        self.end(body)
