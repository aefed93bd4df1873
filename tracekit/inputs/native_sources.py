"""Native streams as sources of the extraction pipeline (tracekit/inputs/base.py)."""

from __future__ import annotations

import os
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from tracekit._core import (
    ChampsimParser,
    DrmemtraceParser,
    EncodingTable,
    NativeBatch,
    Rows,
    TextStreamParser,
)
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.inputs.archives import chunks
from tracekit.inputs.drmemtrace import ARCH_BITS, REGDEPS, Drmemtrace, is_drmemtrace
from tracekit.inputs.native import NativeConverter
from tracekit.inputs.tks import TksReader, is_tks
from tracekit.io.files import first_bytes, open_file
from tracekit.symbols import maps_as_lists

Threads = Literal["separate", "interleaved"]

_LACKEY: Final = re.compile(rb"^(I  | [LSM] )[0-9a-fA-F]+,\d+\r?$", re.M)
_EXECLOG: Final = re.compile(rb'^\d+, 0x[0-9a-f]+, 0x[0-9a-f]+, "', re.M)
_EXECLOG_CODE: Final = re.compile(rb'^\d+, 0x[0-9a-f]+, 0x([0-9a-f]{1,8}), "([^"\n]*)"', re.M)


class _Parser(Protocol):
    def feed(self, data: Any, /) -> None: ...
    def finish(self) -> None: ...
    @property
    def anomalies(self) -> dict[str, dict[str, int]]: ...


class NativeFile:
    """A single stream that is fed in pieces: a inputs.base.Source.

    There are no micro-ops in it: extract at the macro level.
    """

    native: Final = True

    def __init__(self, format_name: str, table: EncodingTable, parser: Any) -> None:
        self._name = format_name
        self._table = table
        self._parser = parser
        self._converter: NativeConverter | None = None
        self._rows: list[Rows] = []
        self._arch, self._described, self._halves = "unknown", "branch_kind", True

    def feed(self, data: Any, /) -> None:
        """Parse the next bytes of the input."""
        self._parser.feed(data)

    def finish(self) -> None:
        """Take the end of the input."""
        self._parser.finish()
        converter = self._convert()
        self._rows = [converter.convert(self._batch()), converter.source.finish()]

    def _batch(self) -> NativeBatch:
        taken = self._parser.take()
        batch: NativeBatch = taken[0] if isinstance(taken, tuple) else taken
        return batch

    def _convert(self) -> NativeConverter:
        # Not before the first block was parsed: a drmemtrace tells its architecture in a marker.
        if self._converter is None:
            if isinstance(self._parser, DrmemtraceParser):
                filetype = self._parser.filetype or 0
                self._arch = next((a for b, a in ARCH_BITS.items() if filetype & b), "unknown")
                if filetype & REGDEPS:
                    self._described = "regdeps"
            self._converter = NativeConverter(
                self._table, arch=self._arch, described=self._described, halves=self._halves
            )
        return self._converter

    def cpus(self) -> list[str]:
        """The names of the streams."""
        return [""]

    def take(self, cpu: int, /) -> Rows:
        """The rows of a stream since the last call."""
        if self._rows:  # after the end
            return self._rows.pop(0)
        return self._convert().convert(self._batch())

    def table(self, cpu: int, /) -> Any:
        """The static instructions (_core.StaticTable) of a stream."""
        return self._convert().source.table()

    def counters(self) -> dict[str, dict[str, int]]:
        """Anomalies by kind: how many, and where the first one is."""
        own = self._converter.source.counters() if self._converter else {}
        return {**self._parser.anomalies, **own}

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        instructions = self._converter.source.instructions if self._converter else 0
        out: dict[str, Any] = {"format": self._name, "instructions": instructions}
        if isinstance(self._parser, DrmemtraceParser):
            out |= {"version": self._parser.version, "counts": self._parser.counts}
        if self._described == "champsim" or self._name == "lackey":
            out["absent"] = ABSENT[self._name]
        return out

    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return self._arch


ABSENT: Final = {
    "champsim": [
        "operation",
        "machine code",
        "access size",
        "class of registers beyond Pin's 16 integer ones",
    ],
    "cloudsuite": [
        "operation",
        "machine code",
        "access size",
        "class of registers beyond Pin's 16 integer ones",
    ],
    "lackey": ["operation", "machine code", "registers", "branches"],
}
"""What a format does not hold, and the features that need it therefore lack."""


def champsim_file(*, cloudsuite: bool = False) -> NativeFile:
    """ChampSim's records of 64 bytes, or CloudSuite's of 96."""
    table = EncodingTable()
    f = NativeFile(
        "cloudsuite" if cloudsuite else "champsim", table, ChampsimParser(table, cloudsuite)
    )
    f._described = "champsim"
    return f


def text_file(format_name: Literal["execlog", "lackey"], arch: str = "unknown") -> NativeFile:
    """QEMU's execlog (``arch`` of the guest: x86, arm or riscv) or Valgrind's lackey."""
    if format_name == "execlog" and arch not in ("x86", "arm", "riscv"):
        raise UsageError(
            "QEMU's execlog does not tell its architecture", hint="--isa x86, arm or riscv"
        )
    table = EncodingTable()
    f = NativeFile(format_name, table, TextStreamParser(table, format_name, arch))
    f._arch = arch if format_name == "execlog" else "unknown"
    return f


def drmemtrace_file() -> NativeFile:
    """One thread's drmemtrace, decompressed."""
    table = EncodingTable()
    return NativeFile("drmemtrace", table, DrmemtraceParser(table))


def recognise(
    head: bytes, path: str, isa: str | None = None, *, halves: bool = True
) -> NativeFile | None:
    """The source for a decompressed input that begins with ``head``, or None; ``halves``:
    `NativeConverter`."""
    found = _recognise(head, isa)
    if found is not None:
        found._halves = halves
    return found


def _recognise(head: bytes, isa: str | None) -> NativeFile | None:
    if is_drmemtrace(head):
        return drmemtrace_file()
    if _EXECLOG.search(head, 0, 4096):
        return text_file("execlog", isa or execlog_arch(head))
    if len(_LACKEY.findall(head[:4096])) >= 4:
        return text_file("lackey")
    for size in (64, 96):
        if _looks_champsim(head, size):
            return champsim_file(cloudsuite=size == 96)
    return None


def _looks_champsim(head: bytes, size: int) -> bool:
    """Both flags of every record are 0 or 1, no pc is 0, and taken is only a branch."""
    n = min(len(head) // size, 512)
    if n == 0 or (n < 512 and len(head) % size):
        return False
    for i in range(n):
        ip, branch, taken = struct.unpack_from("<QBB", head, i * size)
        if not ip or branch > 1 or taken > branch:
            return False
        if size == 96 and any(head[i * size + 90 : i * size + 96]):  # its padding
            return False
    return True


def execlog_arch(head: bytes) -> str:
    """The architecture of an execlog: x86 is told by its register names, the others by what
    decodes."""
    from tracekit.isa import decode_many

    lines = _EXECLOG_CODE.findall(head)[:400]
    if any(b"%" in text for _, text in lines):
        return "x86"
    codes = [int(c, 16).to_bytes(4, "little") for c, _ in lines]
    valid = {a: sum(d.valid for d in decode_many(a, codes)) for a in ("arm", "riscv", "x86")}
    best = max(valid, key=lambda a: valid[a])
    return best if codes else "x86"


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
        self.name = self.path = os.fspath(path)
        self.interleaved = threads == "interleaved"
        self.halves = halves
        self.size = sum(f.stat().st_size for f in files)
        self.position = 0
        self._files = files
        self._converters: list[NativeConverter] = []

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

    def batches(self) -> Iterator[list[tuple[int, str, Rows]]]:
        """(number, name, rows) of streams, as they come."""
        if self.interleaved:
            for rows in self._converters[0].rows(self._trace.interleaved()):
                yield [(0, "", rows)]
            self.position = self.size
            return
        names = self.cpus()
        for i, thread in enumerate(self._trace.threads):
            for rows in self._converters[i].rows(b for b, _ in thread.batches()):
                yield [(i, names[i], rows)]
            self.position += thread.path.stat().st_size

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
            out["the recording was cut short"] = {"count": 1, "first_offset": 0}
        return out

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        return {
            "format": "tks",
            **super().stats(),
            "epoch_lengths": dict(zip(self._names, self._epochs, strict=True)),
            "epoch_threads": dict(zip(self._names, self._owners, strict=True)),
            "maps": maps_as_lists(self._reader.maps),
            "contiguous": bool(self._recorded("full")),
            "command": self._reader.meta.get("command"),
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


def add_counters(
    out: dict[str, dict[str, int]], more: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]]:
    """Adds ``more`` to ``out``, kind by kind."""
    for kind, found in more.items():
        one = out.setdefault(kind, {**found, "count": 0})
        one["count"] += found["count"]
    return out


def open_pulled(
    path: str | os.PathLike[str], threads: Threads = "separate", *, halves: bool = True
) -> Pulled | None:
    """The source for what reads its own files: a folder, a recording (.tks), a .zip, .lz4 or .zlib.

    None for any other path, which the usual input reads.  ``halves``: `NativeConverter`.

    Raises `TracekitError` for a folder or an archive that holds no drmemtrace.
    """
    p = Path(path)
    if os.fspath(path) == "-" or not p.exists():
        return None
    if not p.is_dir():
        head = first_bytes(p, 16)
        if is_tks(head):
            return TksFile(p, threads, halves=halves)
        if not head.startswith(
            (b"PK\x03\x04", b"\x04\x22\x4d\x18", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
        ):
            return None
        try:
            first = next(chunks(p, 4096), b"")
        except FormatError:
            if head[:1] == b"\x78":  # two bytes of a plain file may look like zlib's
                return None
            raise
        if not is_drmemtrace(first):
            if head[:1] == b"\x78":
                return None
            raise TracekitError("an archive without a drmemtrace in it", path=str(p))
    return DrmemtraceFolder(p, threads, halves=halves)
