"""Decompressed pieces of a trace file, whatever its compression; the content decides, not the
name."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from tracekit.errors import FormatError, TracekitError

PIECE: Final = 1 << 20
"""Bytes of a piece, about; a piece of a badly behaved file may be shorter or a few times longer."""

_ZIP_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")


def chunks(path: str | Path, piece: int = PIECE) -> Iterator[bytes]:
    """The content of ``path``: .zip (its members one after another, as DynamoRIO writes them), .gz,
    .xz, .zst, .lz4, .zlib or plain.

    Raises `FormatError` for a damaged file, `TracekitError` for one that cannot be opened or needs
    a library that is missing.
    """
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            head = file.read(10)
            file.seek(0)
            try:
                yield from _reader(head)(file, piece)
            except (OSError, EOFError, ValueError, RuntimeError, lzma.LZMAError, zlib.error) as e:
                raise FormatError(f"damaged: {e}", path=name) from None
            except zipfile.BadZipFile as e:
                raise FormatError(f"damaged zip archive: {e}", path=name) from None
            except TracekitError as e:
                raise type(e)(e.message, path=name, offset=e.offset, hint=e.hint) from None
    except OSError as e:
        raise TracekitError(e.strerror or str(e), path=name) from None


def _reader(head: bytes) -> Any:
    for magic, reader in (
        (b"PK\x03\x04", _zip),
        (b"\x1f\x8b", _gzip),
        (b"\xfd7zXZ\0", _xz),
        (b"\x28\xb5\x2f\xfd", _zst),
        (b"\x04\x22\x4d\x18", _lz4),
        (b"\xff\x06\0\0sNaPpY", _snappy),
        (b"\x78\x01", _zlib),
        (b"\x78\x5e", _zlib),
        (b"\x78\x9c", _zlib),
        (b"\x78\xda", _zlib),
    ):
        if head.startswith(magic):
            return reader
    return _plain


def _plain(file: IO[bytes], piece: int) -> Iterator[bytes]:
    while data := file.read(piece):
        yield data


def _inflate(file: IO[bytes], piece: int, wbits: int) -> Iterator[bytes]:
    """Any number of members one after another."""
    from isal import isal_zlib

    try:
        data = file.read(piece)
        while data:
            engine = isal_zlib.decompressobj(wbits)
            while not engine.eof:
                out = engine.decompress(data, 4 * piece)
                if out:
                    yield out
                if engine.eof:
                    break
                data = engine.unconsumed_tail
                if not data and not out:
                    data = file.read(piece)
                    if not data:
                        raise FormatError("the compressed stream is cut short")
            data = (engine.unused_data or file.read(piece)).lstrip(b"\0") or file.read(piece)
    except _zlib_error() as e:
        raise FormatError(f"damaged: {e}") from None


def _zlib_error() -> Any:
    from isal import isal_zlib

    found: Any = isal_zlib.error  # its stub calls it an instance
    return found


def _gzip(file: IO[bytes], piece: int) -> Iterator[bytes]:
    return _inflate(file, piece, 31)


def _zlib(file: IO[bytes], piece: int) -> Iterator[bytes]:
    return _inflate(file, piece, 15)


def _xz(file: IO[bytes], piece: int) -> Iterator[bytes]:
    with lzma.open(file) as stream:
        yield from _plain(stream, piece)


def _zst(file: IO[bytes], piece: int) -> Iterator[bytes]:
    import zstandard

    try:
        engine = zstandard.ZstdDecompressor(max_window_size=1 << 30)
        with engine.stream_reader(file, read_across_frames=True) as stream:
            yield from _plain(stream, piece)
    except zstandard.ZstdError as e:
        raise FormatError(f"damaged: {e}") from None


def _lz4(file: IO[bytes], piece: int) -> Iterator[bytes]:
    try:
        import lz4.frame
    except ImportError:
        raise TracekitError(
            "an .lz4 file needs the package lz4", hint="pip install lz4, or recompress as .zst"
        ) from None
    with lz4.frame.open(file) as stream:
        yield from _plain(stream, piece)


def _snappy(file: IO[bytes], piece: int) -> Iterator[bytes]:
    raise TracekitError("a snappy-compressed file", hint="recompress it as .gz, .zst or .lz4")


def _zip(file: IO[bytes], piece: int) -> Iterator[bytes]:
    with zipfile.ZipFile(file) as archive:
        members = [m for m in archive.infolist() if not m.is_dir()]
    for m in members:
        yield from _member(file, m, piece)


def _member(file: IO[bytes], m: zipfile.ZipInfo, piece: int) -> Iterator[bytes]:
    """One member, with isal instead of zipfile's zlib, which would be the slowest part of all."""
    from isal import isal_zlib

    if m.flag_bits & 1:
        raise FormatError(f"{m.filename}: encrypted")
    if m.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        raise FormatError(f"{m.filename}: compression method {m.compress_type} is not supported")
    file.seek(m.header_offset)
    local = file.read(_ZIP_LOCAL.size)
    if len(local) < _ZIP_LOCAL.size or not local.startswith(b"PK\x03\x04"):
        raise FormatError(f"{m.filename}: no local header", offset=m.header_offset)
    *_, name_length, extra_length = _ZIP_LOCAL.unpack(local)
    file.seek(name_length + extra_length, 1)
    left, size, crc = m.compress_size, 0, 0
    engine = isal_zlib.decompressobj(-15) if m.compress_type == zipfile.ZIP_DEFLATED else None
    try:
        while left:
            data = file.read(min(piece, left))
            if not data:
                raise FormatError(f"{m.filename}: the archive is cut short")
            left -= len(data)
            pending: bytes = data
            while pending:
                if engine is None:
                    out, pending = pending, b""
                else:
                    out = engine.decompress(pending, 4 * piece)
                    pending = engine.unconsumed_tail
                    if not out and pending:
                        break
                size += len(out)
                if size > m.file_size:
                    raise FormatError(f"{m.filename}: longer than its header says")
                crc = isal_zlib.crc32(out, crc)
                if out:
                    yield out
        if engine is not None:
            while out := engine.decompress(engine.unconsumed_tail, 4 * piece):
                size += len(out)
                if size > m.file_size:
                    raise FormatError(f"{m.filename}: longer than its header says")
                crc = isal_zlib.crc32(out, crc)
                yield out
    except _zlib_error() as e:
        raise FormatError(f"{m.filename}: damaged: {e}") from None
    if size != m.file_size or crc != m.CRC:
        raise FormatError(f"{m.filename}: size or checksum differs from the archive's directory")
