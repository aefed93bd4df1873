"""DynamoRIO's drmemtrace: offline traces as they lie on disk, one file a thread (or a core).

The format is DynamoRIO's ``clients/drcachesim/common/trace_entry.h``; versions 1 to 7, with and
without machine code inside, x86-64 and AArch64, and the synthetic instructions (regdeps) of the
traces that Google publishes.  `Drmemtrace.counts` are those of DynamoRIO's own basic_counts tool.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from tracekit._core import DrmemtraceParser, EncodingTable, NativeBatch
from tracekit.errors import FormatError, TracekitError
from tracekit.inputs.archives import chunks

_HEADER: Final = 25
_MAX_VERSION: Final = 99
_OTHER_FILES: Final = (
    *("cpu_schedule.bin.zip", "serial_schedule.bin.gz", "serial_schedule.bin.zip"),
    *("serial_schedule.bin", "modules.log", "funclist.log", "encodings.bin", "v2p.textproto"),
)
ARCH_BITS: Final = {0x8: "arm", 0x40: "x86"}
REGDEPS: Final = 0x20000


def is_drmemtrace(head: bytes) -> bool:
    """Whether a decompressed file that starts so is a drmemtrace: its first record is the
    header."""
    if len(head) < 12:
        return False
    kind, _, version = struct.unpack_from("<HHQ", head)
    return bool(kind == _HEADER and 1 <= version <= _MAX_VERSION)


def thread_files(path: str | Path) -> list[Path]:
    """The trace files at ``path``, a file or the folder that DynamoRIO wrote, in order of their
    names.

    Raises `TracekitError` where there are none.
    """
    root = Path(path)
    if not root.is_dir():
        return [root]
    for folder in (root, root / "trace"):
        if not folder.is_dir():
            continue
        found = [f for f in sorted(folder.iterdir()) if f.is_file() and _holds_trace(f)]
        if found:
            return found
    hint = "give the folder that holds *.trace.zip (or .gz, .lz4)"
    if (root / "raw").is_dir() or list(root.glob("*.raw*")):
        hint = "this is a raw trace: run DynamoRIO's raw2trace on it first"
    raise TracekitError("no drmemtrace files in this folder", path=str(root), hint=hint)


def _holds_trace(file: Path) -> bool:
    if file.name in _OTHER_FILES or file.name.startswith("."):
        return False
    try:
        return is_drmemtrace(next(chunks(file, 4096), b""))
    except TracekitError:
        # Damage must not make a thread disappear silently; its own reading tells what is wrong.
        return ".trace" in file.name


class Thread:
    """One file: its rows, in program order.

    ``parser`` holds what was learnt so far: version, filetype, threads, counts, anomalies.
    """

    def __init__(self, path: Path, table: EncodingTable) -> None:
        self.path = path
        self.table = table
        self.parser = DrmemtraceParser(table)

    def batches(self) -> Iterator[tuple[NativeBatch, np.ndarray[Any, Any]]]:
        """Rows, and for each timestamp among them the row that it stands before and its
        microseconds."""
        try:
            for piece in chunks(self.path):
                self.parser.feed(piece)
                yield self.parser.take()
            self.parser.finish()
        except TracekitError as e:
            raise type(e)(
                e.message, path=e.path or str(self.path), offset=e.offset, hint=e.hint
            ) from None
        yield self.parser.take()

    def stretches(self) -> Iterator[tuple[int, NativeBatch, int, int]]:
        """(timestamp, batch, from, to) with from < to, in order; 0 before the first timestamp."""
        now = 0
        for batch, times in self.batches():
            at = 0
            for row, value in times.tolist():
                if row > at:
                    yield now, batch, at, row
                at, now = row, max(now, value)
            if len(batch) > at:
                yield now, batch, at, len(batch)


class Drmemtrace:
    """A trace of one or more threads; ``path`` is a file or a folder.

    With ``shared_table`` all threads share one table of encodings, ``table``; else each has its
    own.
    """

    def __init__(self, path: str | Path, *, shared_table: bool = True) -> None:
        self.path = Path(path)
        self.table = EncodingTable()
        self.threads = [
            Thread(f, self.table if shared_table else EncodingTable()) for f in thread_files(path)
        ]
        probe = self._probe()
        self.filetype: int = probe.filetype or 0
        self.version: int = probe.version

    def _probe(self) -> DrmemtraceParser:
        """What the beginning of the first whole file tells; raises what is wrong with the first
        file where none is."""
        wrong: TracekitError | None = None
        for path in (t.path for t in self.threads):
            try:
                first = next(chunks(path, 4096), b"")
            except TracekitError as e:
                wrong = wrong or e
                continue
            if is_drmemtrace(first):
                probe = DrmemtraceParser(EncodingTable())
                probe.feed(first[: len(first) // 12 * 12])
                return probe
            told = "not a drmemtrace file: its first record is no header"
            wrong = wrong or FormatError(told, path=str(path))
        assert wrong is not None  # there is a file
        raise wrong

    @property
    def arch(self) -> str:
        """ "x86", "arm", or "unknown" (versions below 2, 32-bit code, and regdeps)."""
        return next((a for bit, a in ARCH_BITS.items() if self.filetype & bit), "unknown")

    @property
    def described(self) -> str:
        """What stands in for machine code where there is none: "regdeps" or "branch_kind"."""
        return "regdeps" if self.filetype & REGDEPS else "branch_kind"

    def interleaved(self, rows: int = 1 << 17) -> Iterator[NativeBatch]:
        """All threads as one stream in the order of their timestamps, ``rows`` at a time (about).

        Between two timestamps a thread's instructions stay together, which is the resolution that
        the trace has; equal timestamps go by file name.  Needs the shared table.
        """
        heap: list[tuple[int, int]] = []
        streams = [t.stretches() for t in self.threads]
        heads = [next(s, None) for s in streams]
        for i, head in enumerate(heads):
            if head:
                heap.append((head[0], i))
        heapq.heapify(heap)
        pending: list[tuple[NativeBatch, int, int, bool]] = []
        waiting, last = 0, -1
        while heap:
            now, i = heapq.heappop(heap)
            head = heads[i]
            while head and head[0] == now:
                _, batch, lo, hi = head
                pending.append((batch, lo, hi, i != last))
                last = i
                waiting += hi - lo
                if waiting >= rows:
                    yield NativeBatch.joined(pending)
                    pending, waiting = [], 0
                head = next(streams[i], None)
            heads[i] = head
            if head:
                heapq.heappush(heap, (head[0], i))
        if pending:
            yield NativeBatch.joined(pending)

    def counts(self) -> dict[str, int]:
        """Of what was read so far, over all threads, as basic_counts defines them; ``unique`` is
        the number of distinct pcs fetched, ``threads`` that of distinct thread ids."""
        total: dict[str, int] = {}
        for t in self.threads:
            for k, v in t.parser.counts.items():
                total[k] = total.get(k, 0) + v
        pcs = [t.parser.fetched()[0] for t in self.threads]
        total["unique"] = len(np.unique(np.concatenate(pcs)))
        total["threads"] = len({i for t in self.threads for i in t.parser.threads})
        return total

    def anomalies(self) -> dict[str, dict[str, int]]:
        """Counted damage by kind, over all threads."""
        total: dict[str, dict[str, int]] = {}
        for t in self.threads:
            for kind, found in t.parser.anomalies.items():
                one = total.setdefault(kind, {**found, "count": 0})
                one["count"] += found["count"]
        return total
