"""Decompression of inputs recognised by their first bytes, several members or frames one after
another."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from tracekit.errors import FormatError


class Decompressor(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip() -> Any:
    from isal import isal_zlib

    return isal_zlib.decompressobj(wbits=31)


def _zstd() -> Any:
    import zstandard

    # Long windows (zstd --long=31) are legal and need that much memory.
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


def _xz() -> Any:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ)


#: Compression -> (first bytes, what makes a decompressor).
KINDS: dict[str, tuple[tuple[bytes, ...], Callable[[], Any]]] = {
    "gzip": ((b"\x1f\x8b",), _gzip),
    "zstd": (
        (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + k, 0x2A, 0x4D, 0x18]) for k in range(16))),
        _zstd,
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

    #: Bytes to feed at once: bounds what even a bomb can make of them.
    READ: ClassVar[dict[str, int]] = {"gzip": 1 << 18, "zstd": 1 << 17, "xz": 1 << 17}

    def __init__(self, kind: str, path: str) -> None:
        self.kind, self._path = kind, path
        self._magics, self._make = KINDS[kind]
        self._one: Decompressor | None = None
        self._at = 0  # compressed bytes fed so far
        self._between = b""  # the beginning of a member that is still too short to tell

    def feed(self, data: bytes) -> list[bytes]:
        """What ``data`` decompresses to, in order."""
        out: list[bytes] = []
        data, self._between = self._between + data, b""
        while data:
            if self._one is None:
                if self._at and not data.strip(b"\0"):  # padding behind the last member
                    self._at += len(data)
                    break
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
                piece = self._one.decompress(data)
            except (lzma.LZMAError, ValueError, OSError, EOFError, MemoryError) as e:
                raise self._damaged(e) from None
            except Exception as e:  # isal's and zstandard's own errors share no base
                if type(e).__name__ not in ("ZstdError", "IsalError", "error"):
                    raise
                raise self._damaged(e) from None
            if piece:
                out.append(piece)
            if not self._one.eof:
                self._at += size
                break
            data = self._one.unused_data
            self._at += size - len(data)
            self._one = None
        return out

    def _damaged(self, e: Exception) -> FormatError:
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
