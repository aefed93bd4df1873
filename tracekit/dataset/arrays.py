"""Arrays of commit cycles (.npy, .npy.zst): read, and checked before anything is computed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from tracekit.errors import FormatError
from tracekit.text import counted

__all__ = ["check_cycles", "check_numbers", "no_time", "open_cycles", "read_cycles"]

BLOCK = 1 << 16
Array = npt.NDArray[Any]


def read_cycles(path: str | Path, machines: tuple[str, ...], rows: int) -> Array:
    """Cycles between retirements, [machines, rows] (one machine: [rows] will do, too), checked:
    numbers of rows and machines, nothing negative, NaN or infinite, no machine without time."""
    cycles = open_cycles(path, machines, rows)
    for name, column in zip(machines, cycles, strict=True):
        check_cycles(column, name, str(path))
    return cycles


def open_cycles(path: str | Path, machines: tuple[str, ...], rows: int) -> Array:
    """`read_cycles`, of which numbers of rows and machines alone are checked."""
    path = Path(path)
    try:
        if path.name.endswith(".zst"):
            with path.open("rb") as f, zstandard.ZstdDecompressor().stream_reader(f) as reader:
                # One byte more than any array of that size, so that a bomb is noticed.
                limit = rows * max(1, len(machines)) * 8 + 4096
                data = reader.read(limit + 1)
            if len(data) > limit:
                raise FormatError(
                    f"more than {limit} bytes: not the cycles of "
                    f"{counted(len(machines), 'machine')} in {counted(rows, 'row')}",
                    path=str(path),
                )
            cycles = np.load(io.BytesIO(data), allow_pickle=False)
        else:
            cycles = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as e:
        raise FormatError(f"cannot be read: {e.strerror or e}", path=str(path)) from None
    except FormatError:
        raise
    except Exception as e:  # NumPy's reader raises whatever its parsers raise
        raise FormatError(f"no array of cycles: {e}", path=str(path)) from None
    if not isinstance(cycles, np.ndarray) or cycles.dtype.kind not in "uif":
        raise FormatError("cycles are an array of numbers, machines x rows", path=str(path))
    if cycles.ndim == 1 and len(machines) == 1:
        cycles = cycles.reshape(1, -1)
    if cycles.ndim != 2:
        raise FormatError("cycles are an array of numbers, machines x rows", path=str(path))
    if cycles.shape != (len(machines), rows):
        raise _misfit(cycles.shape, machines, rows, str(path))
    return np.asarray(cycles)


def _misfit(shape: tuple[int, ...], machines: tuple[str, ...], rows: int, path: str) -> FormatError:
    """What is wrong with an array of two dimensions that is not machines x rows."""
    first, second = shape
    turned = first == rows != second
    count, wanted = second if turned else first, len(machines)
    where = "it is rows x machines, as `simulate -o` writes it"
    if count != wanted:
        hints = [where] if turned else []
        if wanted == 1:
            part = "column K of it: array[:, K]" if turned else "row K of it: array[K]"
            hints.append(f"the cycles of one machine are {part}")
        return FormatError(
            f"cycles of {counted(count, 'machine')}; {wanted} {'is' if wanted == 1 else 'are'} "
            f"named: {', '.join(machines)}",
            path=path,
            hint="; ".join(hints) or None,
        )
    if turned:
        return FormatError("cycles are machines x rows", path=path, hint=f"{where}: transpose it")
    return FormatError(f"{second} rows; the features have {rows}", path=path)


def check_cycles(column: Array, machine: str, path: str) -> None:
    """FormatError names the first row whose cycles are no number of cycles, or says that all are
    0."""
    if not check_numbers(column, machine, path):
        raise no_time(machine, path)


def no_time(machine: str, path: str) -> FormatError:
    """What is wrong with a machine that takes no time."""
    return FormatError(f"{machine}: every target is 0", path=path)


def check_numbers(column: Array, machine: str, path: str, first: int = 0) -> bool:
    """Whether some cycles are more than 0.  FormatError names the first row whose cycles are no
    number of cycles; ``first``: the number of the column's first row."""
    some = False
    for a in range(0, len(column), BLOCK):
        part = column[a : a + BLOCK]
        if part.dtype.kind != "u":
            bad = ~np.isfinite(part) | (part < 0) | (part > 0xFFFFFFFF)
            if bad.any():
                r = int(bad.argmax())
                raise FormatError(
                    f"{machine}, row {first + a + r}: target {part[r]} is not a number of cycles",
                    path=path,
                )
        elif part.dtype.itemsize > 4 and part.max(initial=0) > 0xFFFFFFFF:
            raise FormatError(f"{machine}: a target is beyond 32 bits", path=path)
        some = some or bool(part.any())
    return some
