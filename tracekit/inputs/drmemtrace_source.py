"""A drmemtrace of files as a source of the extraction pipeline."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from tracekit._core import Rows
from tracekit.errors import TracekitError
from tracekit.inputs.drmemtrace import Drmemtrace
from tracekit.inputs.native import NativeConverter
from tracekit.inputs.pulled import Pulled, Threads, add_counters
from tracekit.io.files import size_of


class DrmemtraceFolder(Pulled):
    """A drmemtrace of one or more files (threads or cores).

    ``threads``: "separate" makes each file a stream of its own, "interleaved" one of all by
    timestamps.
    """

    def __init__(
        self, path: str | os.PathLike[str], threads: Threads = "separate", *, halves: bool = True
    ) -> None:
        trace = self._trace = Drmemtrace(os.fspath(path), shared_table=threads == "interleaved")
        super().__init__(path, [t.path for t in trace.threads], threads, halves)
        tables = [trace.table] if self.interleaved else [t.table for t in trace.threads]
        self._converters = [
            NativeConverter(t, arch=trace.arch, described=trace.described, halves=halves)
            for t in tables
        ]

    @property
    def streams(self) -> int:
        """One a thread's file, unless the threads are interleaved."""
        return 1 if self.interleaved else len(self._files)

    def batches(self) -> Iterator[list[tuple[int, str, Rows]]]:
        """(number, name, rows) of streams, as they come: of files that are wanted alone."""
        try:
            yield from self._batches()
        except TracekitError as e:
            if len(self._files) == 1 or e.hint:
                raise
            hint = "--cpu reads one thread's file; the others are read where this one is not there"
            raise type(e)(e.message, path=e.path, offset=e.offset, hint=hint) from None

    def _batches(self) -> Iterator[list[tuple[int, str, Rows]]]:
        if self.interleaved:
            for rows in self._converters[0].rows(self._trace.interleaved()):
                yield [(0, "", rows)]
            self.position = self.size
            return
        names = self.cpus()
        for i, thread in enumerate(self._trace.threads):
            if i in self.enough:
                self.position += size_of(thread.path)
                continue
            for rows in self._converters[i].rows(b for b, _ in thread.batches()):
                yield [(i, names[i], rows)]
                if i in self.enough:
                    break
            self.position += size_of(thread.path)

    def cpus(self) -> list[str]:
        """The names of the streams."""
        threads = self._trace.threads
        if self.interleaved or len(threads) == 1:
            return [""]
        # drmemtrace.<program>.<thread>.<random>.trace.zip, or drmemtrace.core.<core>.trace.zip
        found = [re.search(r"\.(\d+)(?:\.\d+)?\.(?:mem)?trace", t.path.name) for t in threads]
        names = [m.group(1) if m else "" for m in found]
        if "" in names or len(set(names)) < len(names):
            return [t.path.name.split(".trace")[0] for t in threads]
        return names

    def counters(self) -> dict[str, dict[str, int]]:
        """Anomalies by kind: how many, and where the first one is."""
        return add_counters(self._trace.anomalies(), super().counters())

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        return {
            "format": "drmemtrace",
            "version": self._trace.version,
            "filetype": self._trace.filetype,
            **super().stats(),
            "counts": self._trace.counts(),
        }

    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return self._trace.arch
