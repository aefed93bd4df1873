"""Targets: cycles between retirements, machines x rows, from arrays or from a joined file."""

from __future__ import annotations

import io
import itertools
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from tracekit.errors import FormatError, UsageError

__all__ = ["Targets", "open_targets", "write_targets"]

#: Rows of a block of a joined file: what is decompressed at once.
BLOCK = 1 << 16
MAX_BYTES = 1 << 40


@dataclass(frozen=True)
class Targets:
    """``cycles`` [machines, rows]: a NumPy array (an unsigned integer or float32 type)."""

    machines: tuple[str, ...]
    cycles: npt.NDArray[Any]

    @property
    def rows(self) -> int:
        return int(self.cycles.shape[1])

    def sums(self, breaks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Sums over the ranges between ``breaks``: float64 [ranges, machines]."""
        out = np.zeros((len(breaks) - 1, len(self.machines)))
        for k, (a, b) in enumerate(itertools.pairwise(breaks)):
            out[k] = self.cycles[:, a:b].sum(axis=1, dtype=np.float64)
        return out


def open_targets(path: str | Path, order: tuple[str, ...] = (), rows: int | None = None) -> Targets:
    """Read targets and check them: numbers of rows and machines, nothing negative, NaN or infinite.

    ``order`` names the machines of a plain array; a joined file (.npz) has its own.
    """
    path = Path(path)
    try:
        if path.name.endswith(".npz"):
            with path.open("rb") as f, np.load(f, allow_pickle=False) as z:
                order, cycles = tuple(str(m) for m in z["machines"]), z["cycles"]
        elif path.name.endswith(".zst"):
            with path.open("rb") as f, zstandard.ZstdDecompressor().stream_reader(f) as reader:
                # One byte more than any array of that size, so that a bomb is noticed.
                limit = (rows or 1 << 28) * max(1, len(order)) * 8 + 4096
                data = reader.read(limit + 1)
            if len(data) > limit:
                raise FormatError(f"more than {limit} bytes of targets", path=str(path))
            cycles = np.load(io.BytesIO(data), allow_pickle=False)
        else:
            cycles = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as e:
        raise FormatError(f"cannot be read: {e.strerror or e}", path=str(path)) from None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zstandard.ZstdError) as e:
        raise FormatError(f"no array of targets: {e}", path=str(path)) from None
    if cycles.ndim != 2 or cycles.dtype.kind not in "uif":
        raise FormatError("targets are numbers, machines x rows", path=str(path))
    if not order:
        raise UsageError(
            "the machines of the array are not named", path=str(path), hint="give order"
        )
    if len(order) != cycles.shape[0]:
        raise FormatError(f"{cycles.shape[0]} machines, {len(order)} names", path=str(path))
    if rows is not None and cycles.shape[1] != rows:
        raise FormatError(f"{cycles.shape[1]} rows; the features have {rows}", path=str(path))
    _check(cycles, order, path)
    return Targets(order, cycles)


def _check(cycles: npt.NDArray[Any], order: tuple[str, ...], path: Path) -> None:
    if cycles.dtype.kind == "u":
        return
    for a in range(0, cycles.shape[1], BLOCK):
        part = cycles[:, a : a + BLOCK]
        bad = ~np.isfinite(part) | (part < 0)
        if bad.any():
            m, r = (int(x[0]) for x in np.nonzero(bad))
            raise FormatError(
                f"{order[m]}, row {a + r}: target {part[m, r]} is not a number of cycles",
                path=str(path),
            )


def write_targets(path: str | Path, targets: Targets) -> None:
    """Write a joined file: the machines' names and the cycles, compressed; no pickle."""
    with Path(path).open("wb") as f:
        np.savez_compressed(f, machines=np.array(targets.machines), cycles=targets.cycles)
