"""Which inputs read their files by themselves; their parsers are imported for these alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tracekit.errors import FormatError, TracekitError
from tracekit.inputs.pulled import Pulled, Threads
from tracekit.io.files import first_bytes
from tracekit.io.remote import remote_url

#: How files begin that may be such: skippable frames of zstd (a feats.zst, a recording), then .zip,
#: .lz4 and .zlib.
_FEATS: Final = b"\x5e\x2a\x4d\x18"
_SKIPPABLE: Final = b"\x5b\x2a\x4d\x18"
_ARCHIVES: Final = (
    b"PK\x03\x04", b"\x04\x22\x4d\x18", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda",
)  # fmt: skip


def open_feats(path: str | os.PathLike[str]) -> Pulled | None:
    """The source for a feats.zst of micro-ops; None for any other path, which other inputs read.

    Raises `UsageError` for one of instructions.
    """
    p = Path(path)
    elsewhere = remote_url(path) is not None
    if os.fspath(path) == "-" or not (elsewhere or p.is_file()):
        return None
    head = first_bytes(p, 16)
    if head[:4] != _FEATS or head[8:] != b"tracekit":
        return None
    from tracekit.inputs.feats import FeatsFile

    return FeatsFile(p)


def open_pulled(
    path: str | os.PathLike[str], threads: Threads = "separate", *, halves: bool = True
) -> Pulled | None:
    """The source for what reads its own files: a folder, a recording (.tks), a .zip, .lz4 or .zlib.

    None for any other path, which the usual input reads.  ``halves``: `NativeConverter`.

    Raises `TracekitError` for a folder or an archive that holds no drmemtrace.
    """
    p = Path(path)
    elsewhere = remote_url(path) is not None
    if os.fspath(path) == "-" or not (elsewhere or p.exists()):
        return None
    if elsewhere or not p.is_dir():
        head = first_bytes(p, 16)
        if head.startswith(_SKIPPABLE):
            from tracekit.inputs.tks import is_tks

            if not is_tks(head):
                return None
            from tracekit.inputs.tks_source import TksFile

            return TksFile(p, threads, halves=halves)
        if not head.startswith(_ARCHIVES):
            return None
        if not _holds_drmemtrace(p, zlib=head[:1] == b"\x78"):
            return None
    from tracekit.inputs.drmemtrace_source import DrmemtraceFolder

    return DrmemtraceFolder(p, threads, halves=halves)


def _holds_drmemtrace(path: Path, zlib: bool) -> bool:
    """Of an archive; False where the two bytes of ``zlib`` were a plain file's."""
    from tracekit.inputs.archives import chunks
    from tracekit.inputs.drmemtrace import is_drmemtrace

    try:
        first = next(chunks(path, 4096), b"")
    except FormatError:
        if zlib:
            return False
        raise
    if not is_drmemtrace(first) and not zlib:
        raise TracekitError("an archive without a drmemtrace in it", path=str(path))
    return is_drmemtrace(first)
