"""Other people's formats, written chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tracekit import features as sets
from tracekit.errors import UsageError
from tracekit.io.arrays import array_file, save_array
from tracekit.io.output import Folder, OutputFile, check_folder, check_output, replacing
from tracekit.opening import open_trace
from tracekit.store import arrow
from tracekit.store.reader import TraceFile


def _batches(f: TraceFile, features: str | None, disassembly: bool) -> Iterator[Any]:
    """Record batches, one a chunk."""
    if features is None:
        yield from arrow.record_batches(f, arrow.column_names(f, disassembly=disassembly))
        return
    if disassembly:
        raise UsageError("the disassembly is a column of the rows, and of no feature set")
    pa = arrow.pyarrow()
    names = list(sets.get(features).columns)
    for k in range(f.chunks):
        x = f.features(features, (int(f.starts[k]), int(f.starts[k + 1])))
        columns = [pa.array(np.ascontiguousarray(x[:, i])) for i in range(len(names))]
        yield pa.RecordBatch.from_arrays(columns, names)


class _Sink:
    """What pyarrow takes for a file."""

    closed = False

    def __init__(self, out: OutputFile) -> None:
        self.write, self.tell, self.flush = out.write, out.tell, out.flush

    def close(self) -> None:
        self.closed = True


def _arrow(f: TraceFile, features: str | None, out: Path, force: bool, disassembly: bool) -> None:
    write_batches(_batches(f, features, disassembly), out, "arrow", force=force)


def _parquet(f: TraceFile, features: str | None, out: Path, force: bool, disassembly: bool) -> None:
    write_batches(_batches(f, features, disassembly), out, "parquet", force=force)


def write_batches(batches: Iterator[Any], path: Path, to: str, *, force: bool) -> None:
    """Record batches to a file of ``to``, parquet or arrow."""
    pa = arrow.pyarrow()
    import pyarrow.parquet as pq

    with replacing(path, force=force) as out:
        writer: Any = None
        for batch in batches:
            if writer is None:
                sink = pa.PythonFile(_Sink(out), "w")
                if to == "parquet":
                    writer = pq.ParquetWriter(sink, batch.schema, compression="zstd")
                else:
                    writer = pa.ipc.new_file(sink, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()


def _npy(f: TraceFile, features: str | None, out: Path, force: bool, disassembly: bool) -> None:
    if disassembly:
        raise UsageError("NumPy files have no place for disassembly")
    check_folder(out, force, ".npy")
    with Folder(out, force=force) as folder:
        here = folder.temporary
        if features is not None:
            spec = (len(f), len(sets.get(features).columns))
            with array_file(here / f"{features}.npy", np.float32, spec) as whole:
                for k in range(f.chunks):
                    a, b = int(f.starts[k]), int(f.starts[k + 1])
                    whole.append(f.features(features, (a, b)))
        else:
            for name in arrow.column_names(f):
                save_array(here / f"{name}.npy", f.column(name))
        folder.commit()


def _to_champsim(path: str | os.PathLike[str], out: Path, force: bool) -> dict[str, int]:
    """``path`` may be a native stream, which keeps accesses that a macro row has no place for."""
    from tracekit.exporting.champsim import write_champsim

    written = write_champsim(path, out, force=force)
    return {kind: int(d["count"]) for kind, d in written.dropped.items()}


def _to_drmemtrace(path: str | os.PathLike[str], out: Path, force: bool) -> dict[str, int]:
    from tracekit.exporting.drmemtrace import write_drmemtrace

    write_drmemtrace(path, out, force=force)
    return {}


_WRITERS: dict[str, Callable[[TraceFile, str | None, Path, bool, bool], None]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "npy": _npy,
}
FORMATS = (*_WRITERS, "champsim", "drmemtrace")
#: How a name ends -> its format; compression of ChampSim's traces stands behind it.
_ENDINGS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".champsim": "champsim"}


def format_of(output: str | os.PathLike[str]) -> str:
    """The format that a file's name tells; UsageError where it tells none."""
    suffixes = [s.lower() for s in Path(output).suffixes]
    if suffixes[-1:] and suffixes[-1] in (".xz", ".gz", ".zst"):
        suffixes.pop()
    if suffixes[-1:] and suffixes[-1] in _ENDINGS:
        return _ENDINGS[suffixes[-1]]
    raise UsageError(
        f"{Path(output).name} tells no format",
        hint=f"name one with --to, or end it in {', '.join(_ENDINGS)}",
    )


def export(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str | None = None,
    features: str | None = None,
    disassembly: bool = False,
    force: bool = False,
) -> dict[str, int]:
    """Writes a feats.zst or a recording in another format: ``to`` is one of FORMATS, or told by the
    name.  Returns what the format has no room for: kind → how many (ChampSim's records).

    Parquet and Arrow have names for op, branch and flags, units and meanings as metadata, and
    ``disassembly`` on request.  ``features`` names a feature set to export instead of the columns.
    The output appears whole or not at all; one that exists is an error without ``force``.
    """
    if to is None:
        to = format_of(output)
    if to not in FORMATS:
        raise UsageError(f"to: one of {', '.join(FORMATS)}, not {to!r}")
    if features is not None and disassembly:
        raise UsageError("disassembly is a column; a feature set has none")
    out = Path(output)
    if to in ("champsim", "drmemtrace"):
        if features is not None or disassembly:
            raise UsageError(f"{to} has no place for features or disassembly")
        return (_to_champsim if to == "champsim" else _to_drmemtrace)(path, out, force)
    if to == "npy":
        check_folder(out, force, ".npy")
    else:
        check_output(out, force, path)
    with open_trace(path) as f:
        _WRITERS[to](f, features, out, force, disassembly)
    return {}
