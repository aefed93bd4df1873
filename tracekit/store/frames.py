"""The two kinds of frame that a file is made of: zstd data frames and skippable JSON frames.

A skippable frame (RFC 8878, section 3.1.2) is ignored by every zstd decoder, which therefore does
not check it either: its payload begins with a checksum of its own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import xxhash
import zstandard

from tracekit.errors import FormatError
from tracekit.io import files

MAGIC = b"tracekit"
HEAD, INDEX, TRAILER = b"HEAD", b"INDX", b"TAIL"

_RESERVED = 0x18  # bits of a zstd frame's descriptor that mean nothing
_SKIPPABLE = 0x184D2A5E  # one of the sixteen magic numbers that are free to use
_PREFIX = struct.Struct(
    "<II8s4sQ"
)  # magic, payload size, "tracekit", kind, xxh3-64 of what follows
_TRAILER = struct.Struct("<QQ")  # offset and size of the index frame
TRAILER_SIZE = _PREFIX.size + _TRAILER.size
PREFIX_SIZE = _PREFIX.size
MAX_HEAD = 1 << 20
#: Bytes of an index, and the commas and brackets in it: each value takes up to 100 bytes when it
#: is read.  A chunk has about a hundred.
MAX_JSON, MAX_VALUES = 1 << 26, 1 << 22


def skippable(kind: bytes, body: bytes) -> bytes:
    """A skippable frame of one kind around ``body``."""
    size = _PREFIX.size - 8 + len(body)
    return _PREFIX.pack(_SKIPPABLE, size, MAGIC, kind, xxhash.xxh3_64_intdigest(body)) + body


def json_frame(kind: bytes, value: Any) -> bytes:
    """A skippable frame that holds ``value`` as JSON."""
    return skippable(kind, json.dumps(value, separators=(",", ":"), allow_nan=False).encode())


def trailer_frame(offset: int, size: int) -> bytes:
    """The last frame, which says where the index is."""
    return skippable(TRAILER, _TRAILER.pack(offset, size))


def parse_skippable(data: bytes, kind: bytes, path: str, offset: int) -> bytes:
    """The body of a whole skippable frame; FormatError where it is not one of that kind."""
    if len(data) < _PREFIX.size:
        raise FormatError("frame is cut short", path=path, offset=offset)
    magic, size, name, got, checksum = _PREFIX.unpack_from(data)
    if magic != _SKIPPABLE or name != MAGIC or got != kind:
        raise FormatError(f"no {kind.decode()} frame of a tracekit file", path=path, offset=offset)
    body = data[_PREFIX.size :]
    if size != len(data) - 8:
        raise FormatError("frame is cut short", path=path, offset=offset)
    if xxhash.xxh3_64_intdigest(body) != checksum:
        raise FormatError(
            f"checksum of the {kind.decode()} frame is wrong", path=path, offset=offset
        )
    return body


def parse_json(data: bytes, kind: bytes, path: str, offset: int) -> Any:
    """The JSON of a skippable frame; FormatError where it is none."""
    body = parse_skippable(data, kind, path, offset)
    try:
        return files.parse_json(body, MAX_VALUES, parse_constant=_no_constant)
    except ValueError as e:
        raise FormatError(
            f"{kind.decode()} frame holds no JSON: {e}", path=path, offset=offset
        ) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON's")


def parse_trailer(data: bytes, path: str, offset: int) -> tuple[int, int]:
    """Offset and size of the index's frame; FormatError where it is no trailer."""
    body = parse_skippable(data, TRAILER, path, offset)
    if len(body) != _TRAILER.size:
        raise FormatError("trailer of a wrong size", path=path, offset=offset)
    index_offset, index_size = _TRAILER.unpack(body)
    return int(index_offset), int(index_size)


def head_size(prefix: bytes) -> int:
    """Bytes of the head frame that begins with ``prefix``."""
    return int(_PREFIX.unpack(prefix)[1]) + 8


def read_head(pread: Callable[[int, int], bytes], end: int, path: str) -> dict[str, Any]:
    """The JSON of the head frame, at the beginning of a file of ``end`` bytes; ``format`` is in
    it."""
    prefix = pread(0, min(end, _PREFIX.size))
    if (
        len(prefix) < _PREFIX.size
        or _PREFIX.unpack(prefix)[0] != _SKIPPABLE
        or prefix[8:16] != MAGIC
    ):
        raise FormatError(
            "not a tracekit file", path=path, offset=0, hint="tracekit extract makes one"
        )
    size = head_size(prefix)
    if not _PREFIX.size <= size <= min(end, MAX_HEAD):
        raise FormatError("head frame is cut short", path=path, offset=0, hint="extract it again")
    head = parse_json(pread(0, size), HEAD, path, 0)
    if not isinstance(head, dict) or not all(
        type(head.get(k)) is t for k, t in (("format", int), ("tracekit", str))
    ):
        raise FormatError("head frame without a format", path=path, offset=0)
    return head


class Compressor:
    """zstd frames with content size and checksum."""

    def __init__(self, level: int) -> None:
        self._zstd = zstandard.ZstdCompressor(
            level=level, write_checksum=True, write_content_size=True
        )

    def __call__(self, data: bytes) -> bytes:
        """One zstd frame of ``data``."""
        return self._zstd.compress(data)


def decompress(frame: bytes, size: int, path: str, offset: int) -> bytes:
    """The content of one zstd frame, which must be ``size`` bytes; checks the frame's checksum."""
    try:
        header = zstandard.get_frame_parameters(frame)
        if header.content_size != size or not header.has_checksum or frame[4] & _RESERVED:
            raise FormatError("frame differs from the index", path=path, offset=offset)
        if size == 0:  # ZstdDecompressor.decompress looks at such a one's header alone
            return _decompress_empty(frame, path, offset)
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
    except zstandard.ZstdError as e:
        raise FormatError(f"damaged frame: {e}", path=path, offset=offset) from None


def _decompress_empty(frame: bytes, path: str, offset: int) -> bytes:
    one = zstandard.ZstdDecompressor().decompressobj()
    if one.decompress(frame) or not one.eof or one.unused_data:
        raise FormatError("frame differs from the index", path=path, offset=offset)
    return b""
