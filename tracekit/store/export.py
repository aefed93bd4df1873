"""Other people's formats, written chunk by chunk."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tracekit import schema
from tracekit.errors import TracekitError, UsageError
from tracekit.store.reader import TraceFile


def _columns(f: TraceFile) -> list[str]:
    return [n for n in f.columns if n != "bits" and (f.timed or n not in schema.STAGES)]


def _batches(f: TraceFile, features: str | None) -> Iterator[dict[str, Any]]:
    from tracekit import features as sets

    for k in range(f.chunks):
        rows = int(f._starts[k]), int(f._starts[k + 1])
        if features is None:
            yield {n: f.column(n, rows) for n in _columns(f)}
        else:
            x = f.features(features, rows)
            names = sets.get(features).columns
            yield {n: np.ascontiguousarray(x[:, i]) for i, n in enumerate(names)}


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise UsageError(
            "Parquet and Arrow need pyarrow", hint='pip install "tracekit[export]"'
        ) from None
    return pyarrow


def _arrow(f: TraceFile, features: str | None, out: Path) -> None:
    pa = _pyarrow()
    _write_batches(f, features, lambda schema: pa.ipc.new_file(str(out), schema), pa)


def _parquet(f: TraceFile, features: str | None, out: Path) -> None:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    _write_batches(
        f, features, lambda schema: pq.ParquetWriter(str(out), schema, compression="zstd"), pa
    )


def _write_batches(f: TraceFile, features: str | None, make: Callable[[Any], Any], pa: Any) -> None:
    writer = None
    try:
        for columns in _batches(f, features):
            batch = pa.RecordBatch.from_arrays(
                [pa.array(v) for v in columns.values()], list(columns)
            )
            if writer is None:
                meta = {
                    b"tracekit.arch": f.index["arch"].encode(),
                    b"tracekit.level": f.index["level"].encode(),
                }
                writer = make(batch.schema.with_metadata(meta))
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()


def _npy(f: TraceFile, features: str | None, out: Path) -> None:
    out.mkdir()
    if features is not None:
        spec = (len(f), len(_first(f, features)))
        whole = np.lib.format.open_memmap(out / f"{features}.npy", "w+", np.float32, spec)
        for k in range(f.chunks):
            a, b = int(f._starts[k]), int(f._starts[k + 1])
            whole[a:b] = f.features(features, (a, b))
        whole.flush()
        return
    for name in _columns(f):
        np.save(out / f"{name}.npy", f.column(name), allow_pickle=False)


def _first(f: TraceFile, features: str) -> tuple[str, ...]:
    from tracekit import features as sets

    return sets.get(features).columns


def _champsim(f: TraceFile, features: str | None, out: Path) -> None:
    _to_champsim(f.path, features, out)


def _to_champsim(path: str | os.PathLike[str], features: str | None, out: Path) -> None:
    """``path`` may be a native stream, which keeps accesses that a macro row has no place for."""
    from tracekit.streams.champsim import write_champsim

    if features is not None:
        raise UsageError("ChampSim's format has no place for features")
    write_champsim(path, out)


FORMATS: dict[str, Callable[[TraceFile, str | None, Path], None]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "npy": _npy,
    "champsim": _champsim,
}


def export(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str,
    features: str | None = None,
    force: bool = False,
) -> None:
    """Writes a feats.zst in another format: ``to`` is a key of FORMATS.

    ``features`` names a feature set to export instead of the columns.  The output appears whole or
    not at all; one that exists is an error without ``force``.
    """
    if to not in FORMATS:
        raise UsageError(f"to: one of {', '.join(FORMATS)}, not {to!r}")
    out = Path(output)
    if out.exists() and not force:
        raise TracekitError("exists already", path=str(out), hint="--force replaces it")
    # The suffix stays at the end: it tells a compression.
    tmp = out.with_name(f".{os.getpid()}.tmp.{out.name}")
    try:
        if to == "champsim":
            _to_champsim(path, features, tmp)
        else:
            with TraceFile(path) as f:
                FORMATS[to](f, features, tmp)
        if out.is_dir() and not out.is_symlink():
            shutil.rmtree(out)
        tmp.replace(out)
    except OSError as e:
        raise TracekitError(f"cannot write: {e.strerror or e}", path=str(out)) from None
    finally:
        with contextlib.suppress(OSError):
            if tmp.is_dir():
                shutil.rmtree(tmp)
            else:
                tmp.unlink(missing_ok=True)
