"""NumPy arrays and pictures, written as output.py writes every file.

Never through a map of the file: a full disk would end the process by a signal.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracekit.errors import UsageError
from tracekit.io.output import OutputFile, StrPath, replacing, write_bytes

__all__ = ["ArrayFile", "array_file", "npy_name", "save_array", "save_arrays", "save_figure"]


class ArrayFile:
    """A .npy of a known shape, row by row."""

    def __init__(self, out: OutputFile, dtype: Any, shape: tuple[int, ...]) -> None:
        import numpy as np

        self._out, self._dtype, self._rows, self._shape = out, np.dtype(dtype), 0, shape
        header = io.BytesIO()
        descr = np.lib.format.dtype_to_descr(self._dtype)
        what = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, what)
        out.write(header.getvalue())

    def append(self, rows: Any) -> None:
        """The next rows, [n, ...]."""
        import numpy as np

        block = np.ascontiguousarray(rows, self._dtype)
        if block.shape[1:] != self._shape[1:]:
            raise ValueError(f"rows of shape {block.shape[1:]}, not {self._shape[1:]}")
        self._rows += len(block)
        if block.size:
            self._out.write(block.data.cast("B"))

    def end(self) -> None:
        """Check that all rows came; raises ValueError where some are missing."""
        if self._rows != self._shape[0]:
            raise ValueError(f"{self._rows} rows of {self._shape[0]}")


@contextmanager
def array_file(
    path: StrPath, dtype: Any, shape: tuple[int, ...], *, force: bool = False
) -> Iterator[ArrayFile]:
    """Committed where the block ends well and all rows are there."""
    with replacing(path, force=force) as out:
        array = ArrayFile(out, dtype, shape)
        yield array
        array.end()


def npy_name(path: StrPath) -> Path:
    """As ``numpy.save`` does: a name without the suffix gets it.  Raises UsageError for a path that
    names no file."""
    path = Path(path)
    if not path.name:
        raise UsageError("names no file", path=str(path))
    return path if path.suffix == ".npy" else path.with_name(f"{path.name}.npy")


def save_array(path: StrPath, array: Any, *, force: bool = False) -> None:
    """One .npy, under ``npy_name``."""
    import numpy as np

    a = np.asarray(array)
    with replacing(npy_name(path), force=force) as out:
        np.lib.format.write_array(_Plain(out), a, allow_pickle=False)


class _Plain:
    """What NumPy takes for no file of the system's, whose errors it would hide."""

    def __init__(self, out: OutputFile) -> None:
        self.write = out.write


def save_arrays(path: StrPath, *, force: bool = False, **arrays: Any) -> None:
    """One .npz of a few arrays that are small beside memory."""
    import numpy as np

    data = io.BytesIO()
    np.savez(data, **arrays)
    write_bytes(path, data.getbuffer(), force=force)


def save_figure(fig: Any, path: StrPath, *, force: bool = False) -> None:
    """A matplotlib figure in the format of the name's suffix."""
    data = io.BytesIO()
    fig.savefig(data, dpi=150, format=Path(path).suffix[1:].lower())
    write_bytes(path, data.getbuffer(), force=force)
