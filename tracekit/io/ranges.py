"""A file of which any range is read: on this computer, or elsewhere (remote.py)."""

from __future__ import annotations

import os

from tracekit.errors import FormatError, TracekitError
from tracekit.io.files import Name, open_descriptor
from tracekit.io.remote import RemoteFile, public_name, remote_url

__all__ = ["FileRanges"]


class FileRanges:
    """Holds no position, so that threads may share it.  ``name`` may be shown, ``size`` is in
    bytes."""

    def __init__(self, path: Name) -> None:
        self.name = public_name(path)
        self._fd = -1
        self._remote: RemoteFile | None = None
        if (url := remote_url(path)) is None:
            self._fd = open_descriptor(path)
            self.size = os.fstat(self._fd).st_size
            return
        self._remote = RemoteFile(url)
        if not self._remote.ranges or self._remote.size is None:
            self.close()
            raise TracekitError(
                "its server gives no ranges, which this format is read by",
                path=self.name,
                hint="copy it first",
            )
        self.size = self._remote.size

    def read(self, offset: int, size: int) -> bytes:
        """These bytes, all of them; `FormatError` where the file ends before, `TracekitError` where
        it cannot be read."""
        if self._remote is not None:
            data = self._remote.read_at(offset, size)
            if len(data) < size:
                raise FormatError("file is cut short", path=self.name, offset=offset + len(data))
            return data
        parts = []
        while size > 0:
            try:
                part = os.pread(self._fd, size, offset)
            except OSError as e:
                reason = e.strerror or str(e)
                raise TracekitError(
                    f"cannot read: {reason}", path=self.name, offset=offset
                ) from None
            if not part:
                raise FormatError("file is cut short", path=self.name, offset=offset)
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    @property
    def is_open(self) -> bool:
        """Whether it can be read."""
        return self._fd >= 0 or self._remote is not None

    def close(self) -> None:
        """Close it; again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._remote is not None:
            self._remote.close()
            self._remote = None

    def __del__(self) -> None:
        if hasattr(self, "_remote"):
            self.close()
