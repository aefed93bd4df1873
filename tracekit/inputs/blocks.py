"""An input as blocks of decompressed bytes: a file, or standard input; hashed as it is on the
disk."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import xxhash

from tracekit.errors import TracekitError
from tracekit.inputs.decompress import Members, recognise
from tracekit.io.files import TRACE_PATIENCE, open_stream
from tracekit.io.remote import OpenRemote, open_remote, public_name, remote_url

BLOCK = 1 << 22
STDIN = "-"


class Input:
    """Iterate to get blocks, which are bytes or memoryviews.

    A block is the consumer's until it gives it back with ``recycle``, which saves the next one a
    new buffer (and the kernel the clearing of its pages); one that is not given back stays as it
    is. ``position`` counts the bytes read from the disk or pipe, ``size`` is the file's, None for a
    pipe.  ``consumed`` says how many of them stand behind the blocks that were used.
    """

    def __init__(self, path: str | os.PathLike[str], *, sha256: bool = False) -> None:
        self.path = os.fspath(path)
        self.name = "<stdin>" if self.path == STDIN else public_name(path)
        self.position = 0
        self.compression: str | None = None
        self._xxh = xxhash.xxh3_128()
        self._sha: Any = None
        if sha256:
            import hashlib

            self._sha = hashlib.sha256()
        self._free: deque[bytearray] = deque()
        self._close = self.path != STDIN
        self._first = b""
        #: Of a compressed input: after so many decompressed bytes, so many of the file were used.
        self._marks: deque[tuple[int, int]] = deque()
        self._used = 0
        self._stopped = threading.Event()
        self._poll: select.poll | None = None
        self._fd = -1
        self._remote: OpenRemote | None = None
        if (url := remote_url(path)) is not None:
            self._remote = open_remote(url)
            self.size = self._remote.size
            return
        try:
            if self._close:
                self._fd, self._first = open_stream(self.path, TRACE_PATIENCE)
            else:
                self._fd = sys.stdin.fileno()
            mode = os.fstat(self._fd)
        except (OSError, ValueError) as e:
            reason = getattr(e, "strerror", None) or str(e)
            raise TracekitError(f"cannot open: {reason}", path=self.name) from None
        self.size = mode.st_size if stat.S_ISREG(mode.st_mode) else None
        if hasattr(os, "posix_fadvise") and self.size:
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        if self.size is None and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLIN | select.POLLHUP)
            with contextlib.suppress(
                OSError, AttributeError
            ):  # Linux, up to a limit of the system's
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, 1 << 20)

    def stop(self) -> None:
        """Ends the iteration soon, even where a pipe brings nothing; called from another thread."""
        self._stopped.set()

    def _wait(self) -> bool:
        """Waits until a pipe has something or is closed; False where the reader is to stop."""
        while self._poll is not None and not self._poll.poll(200):
            if self._stopped.is_set():
                return False
        return True

    def _count(self, data: bytes | memoryview) -> None:
        self.position += len(data)
        self._xxh.update(data)
        if self._sha is not None:
            self._sha.update(data)

    def _read(self, size: int) -> bytes:
        try:
            if self._remote is not None:
                data = self._remote.read(size)
            else:
                data = os.read(self._fd, size) if self._wait() else b""
        except OSError as e:
            raise self._unreadable(e) from None
        self._count(data)
        return data

    def _read_block(self) -> memoryview:
        try:
            buffer = self._free.popleft()
        except IndexError:
            buffer = bytearray(BLOCK)
        room, n = memoryview(buffer), 0
        try:
            if self._remote is not None:
                n = self._remote.readinto(room)
            elif self._wait():
                n = os.readv(self._fd, [room])
                # What else a pipe has already: it brings little at once, and hand-overs cost.
                while 0 < n < BLOCK and self._poll is not None and self._poll.poll(0):
                    if not (more := os.readv(self._fd, [room[n:]])):
                        break
                    n += more
        except OSError as e:
            raise self._unreadable(e) from None
        block = room[:n]
        self._count(block)
        return block

    def _unreadable(self, e: OSError) -> TracekitError:
        return TracekitError(f"cannot read: {e.strerror}", path=self.name, offset=self.position)

    def recycle(self, block: bytes | memoryview) -> None:
        """Gives a block back: its content may change from now on."""
        if isinstance(block, memoryview) and isinstance(block.obj, bytearray):
            self._free.append(block.obj)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        head = self._first
        self._count(head)
        while len(head) < 6 and (more := self._read(BLOCK)):  # a pipe may bring a byte at a time
            head += more
        self.compression = recognise(head)
        if self.compression is None:
            if head:
                yield head
            while block := self._read_block():
                yield block
            return
        members = Members(self.compression, self.name)
        step = Members.READ[self.compression]
        made = used = 0
        parts = (head[at : at + step] for at in range(0, len(head), step))
        for data in itertools.chain(parts, iter(lambda: self._read(step), b"")):
            for piece in members.feed(data):
                made += len(piece)
                yield piece
            used += len(data)
            self._marks.append((made, used))
        members.finish()

    def consumed(self, done: int) -> int:
        """Bytes of the file or pipe behind the first ``done`` decompressed ones, which were used:
        what was merely read ahead does not count."""
        if self.compression is None:
            return done
        while self._marks and self._marks[0][0] <= done:
            self._used = self._marks.popleft()[1]
        return self._used

    def provenance(self) -> dict[str, Any]:
        """Path, size and hashes of what was read, for the file's index."""
        out = {
            "path": self.name,
            "bytes": self.position,
            "compression": self.compression,
            "xxh3_128": self._xxh.hexdigest(),
        }
        if self._sha is not None:
            out["sha256"] = self._sha.hexdigest()
        return out

    def close(self) -> None:
        """Close the input, where it was opened here."""
        if self._remote is not None:
            self._remote.close()
        if self._close and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
