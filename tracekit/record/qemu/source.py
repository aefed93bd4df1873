"""A run under QEMU as a source of the extraction pipeline: features without a file between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tracekit._core import Rows
from tracekit.extraction import Extraction
from tracekit.extraction_types import ExtractionResult, Options
from tracekit.inputs.native import NativeConverter
from tracekit.inputs.pulled import Pulled, Threads
from tracekit.record.qemu.image import program_image
from tracekit.record.qemu.launch import shown
from tracekit.record.qemu.options import QemuOptions
from tracekit.record.qemu.session import QemuSession
from tracekit.symbols import maps_as_lists


class QemuSource(Pulled):
    """Rows of a program while it runs.  ``threads``: "separate" makes a stream of each,
    "interleaved" one of all, in the order in which they ran."""

    def __init__(
        self, session: QemuSession, threads: Threads = "interleaved", *, halves: bool = True
    ) -> None:
        super().__init__(shown(session.program.argv), [], threads, halves)
        self.session = session
        self._names: dict[str, int] = {}
        self._lengths: list[list[int]] = []
        self._owners: list[list[str]] = []  # of each epoch, PID.TID

    def batches(self) -> Iterator[list[tuple[int, str, Rows]]]:
        """(number, name, rows) of streams, as they come."""
        for piece in self.session.pieces():
            name = "" if self.interleaved else f"{piece.pid}.{piece.tid}"
            number = self._names.setdefault(name, len(self._names))
            if number == len(self._converters):
                self._converters.append(
                    NativeConverter(self.session.table, arch=self.arch(), halves=self.halves)
                )
                self._lengths.append([])
                self._owners.append([])
            self._lengths[number].append(len(piece.rows))
            self._owners[number].append(f"{piece.pid}.{piece.tid}")
            yield [(number, name, self._converters[number].convert(piece.rows))]
        for name, number in self._names.items():
            yield [(number, name, self._converters[number].source.finish())]

    def cpus(self) -> list[str]:
        """The names of the streams."""
        return list(self._names)

    def counters(self) -> dict[str, dict[str, int]]:
        """Anomalies by kind: how many, and where the first one is."""
        out = super().counters()
        for kind, n in self.session.anomalies().items():
            out[kind] = {"count": n}
        return out

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        return {
            "format": "qemu",
            **super().stats(),
            "epoch_lengths": dict(zip(self._names, self._lengths, strict=True)),
            "epoch_threads": dict(zip(self._names, self._owners, strict=True)),
            "maps": maps_as_lists(self.session.maps),
            "image": program_image(self.session),
            "contiguous": self.session.options.whole,
            "command": list(self.session.program.argv),
            "without_accesses": self.session.silent(),
        }

    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return self.session.program.arch

    def provenance(self) -> dict[str, Any]:
        """Where the rows come from."""
        return {
            "path": self.name,
            "bytes": 0,
            "files": 0,
            "compression": None,
            "xxh3_128": "",
            "engine": {"name": "qemu", "version": self.session.program.version},
        }

    def close(self) -> None:
        """Close the file."""
        self.session.close()


def extract_qemu(
    argv: list[str],
    output: str | Path,
    options: QemuOptions | None = None,
    *,
    threads: Threads = "interleaved",
    force: bool = False,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[ExtractionResult, QemuSession]:
    """Runs a program under QEMU and writes the features of all its instructions to ``output``.

    The session that is returned is over: it tells the exit status.  Raises `TracekitError`.
    """
    session = QemuSession(argv, options or QemuOptions(), progress)
    source = QemuSource(session, threads)
    result = Extraction(source, output, Options(level="macro", force=force)).run()
    return result, session
