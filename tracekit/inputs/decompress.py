"""Decompression of inputs recognised by their first bytes, several members or frames one after
another.

Whatever the input claims, a step makes at most `PIECE` bytes (zstd: `PIECE` in whole blocks) and an
engine keeps at most `WINDOW` bytes of history: a small file cannot fill the memory.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Protocol

from tracekit.errors import FormatError

PIECE: Final = 1 << 21
"""Bytes that one step may make."""
WINDOW: Final = 1 << 27
"""Bytes of history that an input may ask for: what ``zstd --long`` and ``zstd -d`` have."""
_BLOCK: Final = 1 << 17  # no zstd block makes more (RFC 8878, section 3.1.1.2.4)


class Decompressor(Protocol):
    """What the decompressors of all formats have in common."""

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""

    @property
    def unused_data(self) -> bytes:
        """What follows its end."""

    def pieces(self, data: bytes, /) -> Iterator[bytes]:
        """What ``data`` decompresses to, at most `PIECE` bytes at a time."""


class _Limited:
    """An engine that takes a limit of its output, as lzma's and isal's do."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @property
    def eof(self) -> bool:
        return bool(self._engine.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._engine.unused_data)

    def pieces(self, data: bytes, /) -> Iterator[bytes]:
        engine = self._engine
        while True:
            if piece := engine.decompress(data, PIECE):
                yield piece
            data = b""
            if engine.eof or (engine.needs_input and len(piece) < PIECE):
                return


class _Zstd:
    """zstd, whose engine takes no limit: it is given a few blocks at a time instead."""

    def __init__(self) -> None:
        import zstandard

        self._engine = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
        self._blocks = ZstdBlocks()
        self.unused_data = b""

    @property
    def eof(self) -> bool:
        return bool(self._engine.eof)

    def pieces(self, data: bytes, /) -> Iterator[bytes]:
        at = 0
        while at < len(data) and not self._engine.eof:
            size = self._blocks.upto(data, at, PIECE // _BLOCK)
            if piece := self._engine.decompress(data[at : at + size]):
                yield piece
            at += size
        self.unused_data = self._engine.unused_data + data[at:]


class ZstdBlocks:
    """Where the blocks of one zstd frame end (RFC 8878, sections 3.1.1 and 3.1.2)."""

    def __init__(self) -> None:
        self._head = b""  # of a frame or block, incomplete
        self._skip = 0  # bytes of a block's content, a checksum or a skippable frame
        self._need = 5  # bytes of the head that comes; 0 = the frame has ended
        self._in_frame = self._checksum = False

    def upto(self, data: bytes, at: int, most: int) -> int:
        """How many bytes of ``data`` from ``at`` on hold no more than ``most`` blocks' beginnings;
        at least one where there are any."""
        begin, end = at, len(data)
        while at < end:
            if self._skip:
                step = min(self._skip, end - at)
                self._skip -= step
                at += step
                continue
            if not self._need:
                return end - begin
            if self._in_frame and not self._head:
                if not most:
                    return at - begin
                most -= 1
            taken = data[at : at + self._need - len(self._head)]
            self._head += taken
            at += len(taken)
            if len(self._head) == self._need:
                self._parse(self._head)
        return at - begin

    def _parse(self, head: bytes) -> None:
        self._head = b""
        if self._in_frame:
            word = int.from_bytes(head, "little")
            last, kind, size = word & 1, word >> 1 & 3, word >> 3
            self._skip = (1 if kind == 1 else size) + (4 if last and self._checksum else 0)
            self._need = 0 if last else 3
        elif head[:4] == b"\x28\xb5\x2f\xfd":
            flags = head[4]
            single = flags >> 5 & 1
            self._skip = (1 - single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
            self._in_frame, self._checksum, self._need = True, bool(flags & 4), 3
        elif len(head) == 5:  # a skippable frame: four bytes of size behind the magic
            self._head, self._need = head, 8
        else:
            self._skip, self._need = int.from_bytes(head[4:], "little"), 0


def _gzip() -> Decompressor:
    from isal import igzip_lib

    return _Limited(igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP))


def _xz() -> Decompressor:
    # The memory that a window of that size takes, and the decoder's own.
    return _Limited(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=WINDOW + (1 << 20)))


#: Compression -> (first bytes, what makes a decompressor).
KINDS: dict[str, tuple[tuple[bytes, ...], Callable[[], Decompressor]]] = {
    "gzip": ((b"\x1f\x8b",), _gzip),
    "zstd": (
        (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + k, 0x2A, 0x4D, 0x18]) for k in range(16))),
        _Zstd,
    ),
    "xz": ((b"\xfd7zXZ\x00",), _xz),
}


def recognise(head: bytes) -> str | None:
    """The compression of data that begins with ``head``; None = plain."""
    for kind, (magics, _) in KINDS.items():
        if head.startswith(magics):
            return kind
    return None


class Members:
    """Feeds compressed bytes through one decompressor a member; says where the damage is."""

    #: Bytes to feed at once.
    READ: ClassVar[dict[str, int]] = {"gzip": 1 << 18, "zstd": 1 << 17, "xz": 1 << 17}

    def __init__(self, kind: str, path: str) -> None:
        self.kind, self._path = kind, path
        self._magics, self._make = KINDS[kind]
        self._one: Decompressor | None = None
        self._at = 0  # compressed bytes fed so far
        self._between = b""  # the beginning of a member that is still too short to tell

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What ``data`` decompresses to, in order and in pieces of bounded size."""
        data, self._between = self._between + data, b""
        while data:
            if self._one is None:
                if self._at and (padding := self._padding(data)):
                    self._at += padding
                    data = data[padding:]
                    continue
                if len(data) < 6 and any(m.startswith(data[: len(m)]) for m in self._magics):
                    self._between = data
                    break
                if not data.startswith(self._magics):
                    raise FormatError(
                        f"what follows the {self.kind} data is no {self.kind} data",
                        path=self._path,
                        offset=self._at,
                    )
                self._one = self._make()
            size = len(data)
            try:
                yield from self._one.pieces(data)
            except (lzma.LZMAError, ValueError, OSError, EOFError, MemoryError) as e:
                raise self._damaged(e) from None
            except Exception as e:  # isal's and zstandard's own errors share no base
                if type(e).__name__ not in ("ZstdError", "IsalError", "error"):
                    raise
                raise self._damaged(e) from None
            if not self._one.eof:
                self._at += size
                break
            data = self._one.unused_data
            self._at += size - len(data)
            self._one = None

    def _padding(self, data: bytes) -> int:
        """Bytes of zero behind a member: of .xz before another one, too ("Stream Padding")."""
        rest = data.lstrip(b"\0")
        return len(data) - len(rest) if self.kind == "xz" or not rest else 0

    def _damaged(self, e: Exception) -> FormatError:
        if "emory" in str(e):  # zstd: "Frame requires too much memory"; xz: "Memory usage limit"
            return FormatError(
                f"{self.kind} data with a window of over {WINDOW >> 20} MiB",
                path=self._path,
                offset=self._at,
                hint="recompress it: zstd --long=27, xz -9 or less",
            )
        return FormatError(
            f"damaged {self.kind} data: {e}",
            path=self._path,
            offset=self._at,
            hint="the offset counts compressed bytes",
        )

    def finish(self) -> None:
        """Raises where the data ended inside a member."""
        if self._one is not None or self._between:
            raise FormatError(
                f"{self.kind} data is cut short",
                path=self._path,
                offset=self._at,
                hint="copy it again",
            )
