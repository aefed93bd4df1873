"""A feats.zst of micro-ops as an input: its rows once more, for another level or other options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tracekit._core import Rows, StoredRows
from tracekit.errors import FormatError, UsageError
from tracekit.inputs.pulled import Pulled
from tracekit.schema import STAGES
from tracekit.store.reader import TraceFile

__all__ = ["FeatsFile"]


class FeatsFile(Pulled):
    """The rows of a feats.zst of the micro level.

    What the file says of a row is known: registers, addresses, outcomes, faults and stage ticks are
    those of the trace that it was made of, and every feature comes out as it did then.  A row of
    the macro level has lost all accesses but its instruction's first: UsageError.
    """

    native: Final = False  # type: ignore[misc]  # its rows are micro-ops

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, [Path(path)], "separate", False)
        self._trace = TraceFile(path)
        if self._trace.level != "micro":
            self._trace.close()
            raise UsageError(
                "its rows are instructions; their micro-ops, which features are counted of, are "
                "not in it",
                path=self.name,
                hint="extract the trace that it was made of",
            )
        if self._trace.index["options"].get("binary"):
            self._trace.close()
            raise UsageError(
                "it was made with --binary, which changed operands behind its features",
                path=self.name,
                hint="extract the trace that it was made of",
            )
        s = self._trace.statics
        names = [s.op_names.get(i, "") for i in range(len(s))]
        columns = {**s.arrays, "disassembly": s.disassembly, "bytes": s.bytes, "op_name": names}
        try:
            self._rows = StoredRows(columns, self._trace.arch)
        except ValueError as e:
            self._trace.close()
            raise FormatError(f"static table: {e}", path=self.name) from None

    def batches(self) -> Iterator[list[tuple[int, str, Rows]]]:
        """The rows of a chunk after another."""
        t = self._trace
        for k in range(t.chunks):
            c = t.chunk(k)
            ticks = [c.column(s) for s in STAGES] if c.timed else None
            ids, addr, bits = (c.column(n) for n in ("static_id", "addr", "bits"))
            yield [(0, t.cpu, self._rows.rows(ids, addr, bits, ticks))]
            self.position = self.size * (c.first + c.rows) // max(len(t), 1)
        self.position = self.size

    def cpus(self) -> list[str]:
        """The name of the CPU."""
        return [self._trace.cpu]

    def table(self, cpu: int, /) -> Any:
        """The static instructions (_core.StaticTable)."""
        return self._rows.table()

    def counters(self) -> dict[str, dict[str, int]]:
        """The anomalies of the trace that the file was made of."""
        found = self._trace.index["anomalies"]
        return {k: {n: x for n, x in v.items() if isinstance(x, int)} for k, v in found.items()}

    def stats(self) -> dict[str, Any]:
        """What the file says of its source."""
        return {**self._trace.index["source"], "extracted_from": self._trace.index["input"]}

    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return self._trace.arch

    def close(self) -> None:
        """Close the file."""
        self._trace.close()
