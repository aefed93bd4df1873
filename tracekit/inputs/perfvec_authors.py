"""The two-file trace of PerfVec's authors: X.txt, and its stores in X.sq.txt beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracekit import _core
from tracekit.errors import FormatError
from tracekit.inputs.blocks import Input

_COMPRESSED = ("", ".zst", ".gz", ".xz")


def store_path(path: str) -> Path | None:
    """X.txt[.zst] -> X.sq.txt[.*], where there is one."""
    p = Path(path)
    name = p.name
    for suffix in _COMPRESSED[1:]:
        name = name.removesuffix(suffix)
    stem = name.removesuffix(".txt")
    for suffix in _COMPRESSED:
        candidate = p.with_name(f"{stem}.sq.txt{suffix}")
        if candidate.exists() and candidate != p:
            return candidate
    return None


class PerfvecAuthors:
    """A Source (tracekit/inputs/base.py) that opens the file of stores itself."""

    def __init__(self, path: str) -> None:
        self._core = _core.PerfvecText()
        self._path = path
        self._stores: Iterator[bytes | memoryview] | None = None
        self._input: Input | None = None

    def feed(self, data: Any, /) -> None:
        """Parse the next bytes of the input."""
        self._core.feed(data)
        while self._core.wants_stores():
            if self._stores is None:
                found = store_path(self._path)
                if found is None:
                    raise FormatError(
                        "the stores of this trace are in a second file",
                        path=self._path,
                        hint="it must stand beside it, with .sq.txt in the place of .txt",
                    )
                self._input = Input(found)
                self._stores = iter(self._input)
            block = next(self._stores, None)
            if block is None:
                self._core.stores_end()
            else:
                self._core.feed_stores(block)

    def finish(self) -> None:
        """Take the end of the input."""
        self._core.finish()

    def cpus(self) -> list[str]:
        """The names of the streams."""
        return [""]

    def take(self, cpu: int, /) -> Any:
        """The rows of a stream since the last call."""
        return self._core.take()

    def table(self, cpu: int, /) -> Any:
        """The static instructions (_core.StaticTable) of a stream."""
        return self._core.table()

    def counters(self) -> dict[str, dict[str, int]]:
        """Anomalies by kind: how many, and where the first one is."""
        return dict(self._core.counters())

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        out: dict[str, Any] = {"format": "perfvec-authors", "lines": self._core.lines()}
        if self._input is not None:
            out["stores"] = self._input.provenance()
        return out

    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return "unknown"
