"""Sources that read their files by themselves: what they are to the pipeline."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tracekit.errors import UsageError
from tracekit.io.files import open_file, size_of
from tracekit.io.remote import public_name

if TYPE_CHECKING:
    from tracekit._core import Rows
    from tracekit.inputs.native import NativeConverter

Threads = Literal["separate", "interleaved"]


class Pulled(ABC):
    """A source that reads its files by itself: `batches` in place of `feed`.

    In all else it is a inputs.base.Source.  ``position`` and ``size`` are bytes on the disk.
    """

    native: Final = True

    def __init__(
        self, path: str | os.PathLike[str], files: list[Path], threads: Threads, halves: bool
    ) -> None:
        if threads not in ("separate", "interleaved"):
            raise UsageError(f"threads: separate or interleaved, not {threads!r}")
        self.name, self.path = public_name(path), os.fspath(path)
        self.interleaved = threads == "interleaved"
        self.halves = halves
        self.size = sum(size_of(f) for f in files)
        self.position = 0
        self._files = files
        self._converters: list[NativeConverter] = []
        #: Streams of which no more rows are wanted: a source may leave out what is left of them.
        self.enough: set[int] = set()

    @property
    def streams(self) -> int:
        """How many streams there are at least: those that `cpus` does not name yet come later."""
        return 1

    @abstractmethod
    def batches(self) -> Iterator[list[tuple[int, str, Rows]]]:
        """(number, name, rows) of streams, as they come."""

    @abstractmethod
    def cpus(self) -> list[str]:
        """The streams' names so far."""

    @abstractmethod
    def arch(self) -> str:
        """arm, x86, riscv or unknown."""

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        return {
            "interleaved": self.interleaved,
            "instructions": sum(c.source.instructions for c in self._converters),
        }

    def counters(self) -> dict[str, dict[str, int]]:
        """Anomalies by kind."""
        out: dict[str, dict[str, int]] = {}
        for c in self._converters:
            add_counters(out, c.source.counters())
        return out

    def table(self, cpu: int, /) -> Any:
        """The static instructions (_core.StaticTable) of a stream."""
        return self._converters[cpu].source.table()

    def provenance(self) -> dict[str, Any]:
        """Path, size and a hash over the files' contents as they are on the disk."""
        import xxhash

        h = xxhash.xxh3_128()
        for file in self._files:
            with open_file(file) as f:
                while data := f.read(1 << 20):
                    h.update(data)
        return {
            "path": self.name,
            "bytes": self.size,
            "files": len(self._files),
            "compression": None,
            "xxh3_128": h.hexdigest(),
        }

    def close(self) -> None:
        """Closes what is open."""

    def stop(self) -> None:
        """Files never keep a reader waiting."""

    def __enter__(self) -> Pulled:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def add_counters(
    out: dict[str, dict[str, int]], more: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]]:
    """Adds ``more`` to ``out``, kind by kind."""
    for kind, found in more.items():
        one = out.setdefault(kind, {**found, "count": 0})
        one["count"] += found["count"]
    return out
