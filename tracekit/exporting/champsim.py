"""ChampSim's traces: written from a feats.zst or straight from a native stream (source.py reads
them).

A record holds a pc, whether it is a branch and taken, 2 destination and 4 source registers, and 2
store and 4 load addresses.  ChampSim finds the kind of a branch by which special registers it reads
and writes, so those are written as its rules want them (csrc/formats/champsim/champsim.hpp),
whatever the architecture.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tracekit._core import ChampsimEncoder
from tracekit.errors import FormatError
from tracekit.inputs.base import HEAD
from tracekit.inputs.blocks import Input
from tracekit.inputs.native_sources import NativeFile, recognise
from tracekit.inputs.pulled import Pulled
from tracekit.inputs.pulled_inputs import open_pulled
from tracekit.io.files import first_bytes
from tracekit.io.output import OutputFile, check_output, replacing
from tracekit.store.frames import MAGIC

RECORD: Final = np.dtype(
    [
        ("ip", "<u8"),
        ("is_branch", "u1"),
        ("taken", "u1"),
        ("dst", "u1", 2),
        ("src", "u1", 4),
        ("dst_mem", "<u8", 2),
        ("src_mem", "<u8", 4),
    ]
)
"""One record; np.frombuffer(data, RECORD) is a trace's content."""


@dataclass(frozen=True)
class Written:
    """``records`` written; ``dropped``: what had no place in them, by kind."""

    records: int
    dropped: dict[str, dict[str, int]]


def write_champsim(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    isa: str | None = None,
    force: bool = False,
) -> Written:
    """Writes ``path`` as a ChampSim trace, compressed as the name of ``output`` ends: .xz, .gz,
    .zst or none.

    ``path`` is a feats.zst, or a native stream (drmemtrace, ChampSim, execlog, lackey), which keeps
    *every* access of an instruction; a feats.zst at the macro level has its first address alone,
    one at the micro level all of them.  The threads of a drmemtrace are interleaved by their
    timestamps.  `isa`: of an execlog.

    Raises `TracekitError`; the output appears whole or not at all.  One that exists is an error
    without ``force``.
    """
    source = "-" if Path(path).is_dir() else path
    check_output(output, force, source)
    pieces = _from_file(path) if _is_feats(path) else _from_stream(path, isa)
    encoder: ChampsimEncoder | None = None
    with replacing(output, force=force) as out, _compressed(out) as file:
        for data, encoder in pieces:  # noqa: B007 (the last one is asked below)
            file.write(data)
    if encoder is None:
        return Written(0, {})
    return Written(encoder.records, encoder.dropped)


@contextlib.contextmanager
def _compressed(out: OutputFile) -> Iterator[Any]:
    """What takes the bytes of ``out``, as its name's suffix says."""
    sink: Any = out
    if out.path.suffix == ".xz":
        with lzma.open(sink, "wb", preset=3) as file:
            yield file
    elif out.path.suffix == ".gz":
        with gzip.GzipFile("", "wb", 6, sink, mtime=0) as file:
            yield file
    elif out.path.suffix == ".zst":
        import zstandard

        with zstandard.ZstdCompressor(level=6).stream_writer(sink, closefd=False) as file:
            yield file
    else:
        yield out


_Pieces = Iterator[tuple[bytes, ChampsimEncoder]]


def _from_file(path: str | os.PathLike[str]) -> _Pieces:
    from tracekit.store.reader import TraceFile

    with TraceFile(path) as f:
        encoder = ChampsimEncoder(f.statics.arrays, f.arch)
        for number in range(f.chunks):
            c = f.chunk(number)
            columns = [np.ascontiguousarray(c.column(n)) for n in ("static_id", "addr", "bits")]
            yield encoder.encode(*columns), encoder


def _is_feats(path: str | os.PathLike[str]) -> bool:
    return first_bytes(path, 16)[8:] == MAGIC


def _from_stream(path: str | os.PathLike[str], isa: str | None) -> _Pieces:
    folder = open_pulled(path, "interleaved", halves=False)
    if folder is not None:
        return _encoded_folder(folder)
    head = b""
    with Input(path) as blocks:
        for block in blocks:
            head += block
            if len(head) >= HEAD:
                break
    source = recognise(head, str(path), isa, halves=False)
    if source is None:
        raise FormatError(
            "neither a feats.zst nor a native stream",
            path=str(path),
            hint="extract gem5's text first",
        )
    return _encoded(source, path)


def _encoded_folder(folder: Pulled) -> _Pieces:
    with folder:
        encoder = ChampsimEncoder(folder.arch())
        for batch in folder.batches():
            for _, _, rows in batch:
                yield encoder.encode_rows(folder.table(0), rows), encoder


def _encoded(source: NativeFile, path: str | os.PathLike[str]) -> _Pieces:
    encoder: ChampsimEncoder | None = None
    try:
        with Input(path) as blocks:
            for block in blocks:
                source.feed(block)
                rows = source.take(0)
                encoder = encoder or ChampsimEncoder(source.arch())
                yield encoder.encode_rows(source.table(0), rows), encoder
        source.finish()
        encoder = encoder or ChampsimEncoder(source.arch())
        for _ in range(2):
            yield encoder.encode_rows(source.table(0), source.take(0)), encoder
    except FormatError as e:
        raise FormatError(
            e.message, path=e.path or str(path), offset=e.offset, hint=e.hint
        ) from None
