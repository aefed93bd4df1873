"""A recording (.tks) as a source of the extraction pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracekit._core import Rows
from tracekit.inputs.native import NativeConverter
from tracekit.inputs.pulled import Pulled, Threads
from tracekit.inputs.tks import TksReader
from tracekit.symbols import maps_as_lists


class TksFile(Pulled):
    """A recording (.tks): the epochs of each thread one after another, or those of all as recorded.

    A conditional branch at an epoch's end whose outcome nothing tells counts as not taken.
    """

    def __init__(
        self, path: str | os.PathLike[str], threads: Threads = "separate", *, halves: bool = True
    ) -> None:
        super().__init__(path, [Path(path)], threads, halves)
        self._reader = TksReader(Path(path))
        self._names: dict[str, int] = {}
        self._epochs: list[list[int]] = []
        self._owners: list[list[str]] = []
        self._unrecorded = 0

    def batches(self) -> Iterator[list[tuple[int, str, Rows]]]:
        """(number, name, rows) of streams, as they come."""
        for epoch in self._reader.epochs():
            name = "" if self.interleaved else f"{epoch.info['pid']}.{epoch.info['tid']}"
            number = self._names.setdefault(name, len(self._names))
            if number == len(self._converters):
                converter = NativeConverter(
                    self._reader.table, arch=self.arch(), halves=self.halves
                )
                self._converters.append(converter)
                self._epochs.append([])
                self._owners.append([])
            self._epochs[number].append(len(epoch.rows))
            self._unrecorded += epoch.info["unrecorded"]
            self._owners[number].append(f"{epoch.info['pid']}.{epoch.info['tid']}")
            yield [(number, name, self._converters[number].convert(epoch.rows))]
        for name, number in self._names.items():
            yield [(number, name, self._converters[number].source.finish())]
        self.position = self.size

    def cpus(self) -> list[str]:
        """The names of the streams."""
        return list(self._names)

    def counters(self) -> dict[str, dict[str, int]]:
        """Anomalies by kind: how many, and where the first one is."""
        out = super().counters()
        if self._reader.totals is None and self.position:
            out["the recording was cut short"] = {"count": 1}
        return out

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        silent = (self._reader.totals or {}).get("silent")
        return {
            "format": "tks",
            **super().stats(),
            "epoch_lengths": dict(zip(self._names, self._epochs, strict=True)),
            "epoch_threads": dict(zip(self._names, self._owners, strict=True)),
            "maps": maps_as_lists(self._reader.maps),
            "image": self._reader.image,
            "contiguous": bool(self._recorded("full")),
            "command": self._reader.meta.get("command"),
            "unrecorded_accesses": self._unrecorded,
            "without_accesses": silent if isinstance(silent, dict) else {},
        }

    def _recorded(self, option: str) -> Any:
        options = self._reader.meta.get("options")
        return options.get(option) if isinstance(options, dict) else None

    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return self._reader.arch

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
