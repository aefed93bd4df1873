"""Decompressed pieces of a trace file, whatever its compression; the content decides, not the
name."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from tracekit.errors import FormatError, TracekitError
from tracekit.extras import install_command
from tracekit.inputs.decompress import Members
from tracekit.io.files import open_file
from tracekit.io.remote import public_name

PIECE: Final = 1 << 20
"""Bytes of a piece, about; a piece of a badly behaved file may be shorter or a few times longer."""

MAX_DIRECTORY: Final = 4 << 20
"""Bytes of a .zip's list of members."""
_ZIP_TAIL: Final = (1 << 16) + 256  # holds its end, behind which a comment may stand
_ZIP_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")


def chunks(path: str | Path, piece: int = PIECE) -> Iterator[bytes]:
    """The content of ``path``: .zip (its members one after another, as DynamoRIO writes them), .gz,
    .xz, .zst, .lz4, .zlib or plain.

    Raises `FormatError` for a damaged file, `TracekitError` for one that cannot be opened or needs
    a library that is missing.
    """
    name = public_name(path)
    try:
        with open_file(path) as file:
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
        (b"\x1f\x8b", _members("gzip")),
        (b"\xfd7zXZ\0", _members("xz")),
        (b"\x28\xb5\x2f\xfd", _members("zstd")),
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


def _members(kind: str) -> Any:
    def read(file: IO[bytes], piece: int) -> Iterator[bytes]:
        members = Members(kind, "")
        while data := file.read(min(piece, Members.READ[kind])):
            yield from members.feed(data)
        members.finish()

    return read


def _zlib(file: IO[bytes], piece: int) -> Iterator[bytes]:
    """Any number of streams one after another."""
    from isal import isal_zlib

    try:
        data = file.read(piece)
        while data:
            engine = isal_zlib.decompressobj(15)
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


def _lz4(file: IO[bytes], piece: int) -> Iterator[bytes]:
    try:
        import lz4.frame
    except ImportError:
        raise TracekitError(
            "an .lz4 file needs the package lz4",
            hint=f"{install_command('lz4')}, or recompress as .zst",
        ) from None
    with lz4.frame.open(file) as stream:
        yield from _plain(stream, piece)


def _snappy(file: IO[bytes], piece: int) -> Iterator[bytes]:
    raise TracekitError("a snappy-compressed file", hint="recompress it as .gz, .zst or .lz4")


def _zip(file: IO[bytes], piece: int) -> Iterator[bytes]:
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        members = [m for m in archive.infolist() if not m.is_dir()]
    for m in members:
        yield from _member(file, m, piece)


def _check_directory(file: IO[bytes]) -> None:
    """Each of an archive's entries takes many times its size when it is read."""
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - _ZIP_TAIL))
    tail = file.read(_ZIP_TAIL)
    sizes = [
        int.from_bytes(tail[at + place : at + place + width], "little")
        for magic, place, width in ((b"PK\5\6", 12, 4), (b"PK\6\6", 40, 8))
        if (at := tail.rfind(magic)) >= 0
    ]
    if any(MAX_DIRECTORY < size < 0xFFFFFFFF for size in sizes):
        raise FormatError(f"an archive whose directory has over {MAX_DIRECTORY} bytes")


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
