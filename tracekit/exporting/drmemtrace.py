"""DynamoRIO's offline memory traces: written from a recording, one file a thread.

Records have 12 bytes: u16 type, u16 size, u64 value (DynamoRIO:
clients/drcachesim/common/trace_entry.h, format version 5).  Machine code stands before the first
run of an instruction.  What does not follow from the row before begins another window.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError
from tracekit.inputs.tks import Epoch, TksReader, is_tks
from tracekit.io.files import first_bytes
from tracekit.io.output import Folder, OutputFile, check_folder

__all__ = ["WrittenThreads", "write_drmemtrace"]

RECORD: Final = np.dtype([("type", "<u2"), ("size", "<u2"), ("value", "<u8")])
"""One record; np.frombuffer(data, RECORD) is a file's content."""

_READ, _WRITE, _INSTR, _CONDITIONAL = 0, 1, 10, 13
_THREAD, _EXIT, _PROCESS, _HEADER, _FOOTER, _MARKER = 22, 23, 24, 25, 26, 28
_ENCODING, _TAKEN, _UNTAKEN = 47, 48, 49
_TIMESTAMP, _CPU, _FILETYPE, _LINE, _VERSION, _WINDOW, _PAGE, _TARGET = 2, 3, 9, 10, 12, 14, 18, 29
_FORMAT: Final = 5
_ENCODINGS: Final = 0x200
_ARCHS: Final = {"x86": 0x40, "arm": 0x8}
#: Record type of each kind of branch; of a conditional one where the outcome is not known.
_TYPES: Final = {
    "none": _INSTR,
    "conditional": _CONDITIONAL,
    "jump": 11,
    "indirect": 12,
    "call": 14,
    "indirect_call": 15,
    "return": 16,
}
_INDIRECT: Final = (12, 15, 16)
_TAKEN_BIT, _KNOWN_BIT, _RESTART_BIT = 1, 2, 4
#: Microseconds from 1601, DynamoRIO's beginning of time, to 1970.
_EPOCH_1601: Final = 11_644_473_600_000_000

U64 = npt.NDArray[np.uint64]


class WrittenThreads(NamedTuple):
    """What was written: files, instructions and accesses."""

    threads: int
    instructions: int
    accesses: int


def write_drmemtrace(
    path: str | os.PathLike[str], output: str | os.PathLike[str], *, force: bool = False
) -> WrittenThreads:
    """Writes the recording ``path`` (.tks, x86-64 or AArch64) as a folder that DynamoRIO's tools
    read with ``-indir``: ``drmemtrace.PROCESS.THREAD.trace.gz`` for each thread.

    The folder appears whole or not at all.  Raises `UsageError` for other inputs, which do not hold
    every access, and `TracekitError` where the folder exists (without ``force``) or cannot be
    written.
    """
    if not is_tks(first_bytes(path, 16)):
        raise UsageError("drmemtrace holds every access of an instruction: give a recording (.tks)")
    out = Path(output)
    check_folder(out, force, ".gz")
    accesses = instructions = 0
    threads: dict[tuple[int, int], _Thread] = {}
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(TksReader(os.fspath(path)))
        if reader.arch not in _ARCHS:
            raise UsageError(f"drmemtrace knows x86-64 and AArch64, not {reader.arch}")
        folder = stack.enter_context(Folder(out, force=force))
        codes = _Codes(reader)
        for epoch in reader.epochs():
            codes.learn()
            pid, tid = epoch.info["pid"], epoch.info["tid"]
            if (pid, tid) not in threads:
                threads[pid, tid] = stack.enter_context(
                    _Thread(folder.temporary, pid, tid, _ARCHS[reader.arch])
                )
            threads[pid, tid].add(epoch, codes)
            instructions += len(epoch.rows)
            accesses += len(epoch.rows.address)
        if not threads:
            raise FormatError("a recording without epochs", path=reader.path)
        for thread in threads.values():
            thread.finish()
        folder.commit()
    return WrittenThreads(len(threads), instructions, accesses)


class _Codes:
    """What is written of each encoding of the recording's table."""

    def __init__(self, reader: TksReader) -> None:
        self._table, self._arch = reader.table, reader.arch
        self.pc = np.zeros(0, np.uint64)
        self.length = np.zeros(0, np.uint16)
        self.kind = np.zeros(0, np.uint16)  # record type
        self.code = np.zeros((0, 2), np.uint64)
        self.rewritten = np.zeros(0, bool)  # its pc had other code, too

    def learn(self) -> None:
        """Takes up what the table has got since."""
        from tracekit.isa import decode_many

        first, end = len(self.pc), len(self._table)
        if first == end:
            return
        entries = [self._table[i] for i in range(first, end)]
        raw = [code[:length] for _, length, _, code in entries]
        decoded = decode_many(self._arch, raw)  # type: ignore[arg-type]
        kinds = [_TYPES.get(d.branch, _INSTR) for d in decoded]
        padded = np.frombuffer(b"".join(r.ljust(16, b"\0") for r in raw), "<u8").reshape(-1, 2)
        self.pc = np.append(self.pc, np.array([e[0] for e in entries], np.uint64))
        self.length = np.append(self.length, np.array([e[1] for e in entries], np.uint16))
        self.kind = np.append(self.kind, np.array(kinds, np.uint16))
        self.code = np.concatenate([self.code, padded])
        _, which, counts = np.unique(self.pc, return_inverse=True, return_counts=True)
        self.rewritten = counts[which] > 1


class _Thread:
    """One thread's file."""

    def __init__(self, folder: Path, pid: int, tid: int, arch: int) -> None:
        self._out = OutputFile(folder / f"drmemtrace.{pid}.{tid}.trace.gz")
        self._gzip: Any = None
        self._tid, self._window, self._rows = tid, 0, 0
        self._written = np.zeros(0, bool)  # encodings
        self._head = [
            *((_HEADER, 0, _FORMAT), (_MARKER, _VERSION, _FORMAT)),
            (_MARKER, _FILETYPE, arch | _ENCODINGS),
            *((_THREAD, 4, tid), (_PROCESS, 4, pid)),
            *((_MARKER, _LINE, 64), (_MARKER, _PAGE, 4096), (_MARKER, _WINDOW, 0)),
        ]

    def __enter__(self) -> _Thread:
        from isal import igzip

        self._out.__enter__()
        self._gzip = igzip.IGzipFile("", "wb", 1, self._out, mtime=0)  # type: ignore[no-untyped-call]
        self._gzip.write(_records(self._head))
        return self

    def __exit__(self, *error: object) -> None:
        self._out.__exit__(*error)

    def finish(self) -> None:
        self._gzip.write(_records([(_EXIT, 4, self._tid), (_FOOTER, 0, 0)]))
        self._gzip.close()
        self._out.commit()

    def add(self, epoch: Epoch, codes: _Codes) -> None:
        """An epoch behind those before."""
        time = _EPOCH_1601 + int(epoch.info["start_ns"]) // 1000
        self._gzip.write(_records([(_MARKER, _TIMESTAMP, time), (_MARKER, _CPU, 0)]))
        if len(epoch.rows):
            self._gzip.write(self._rows_of(epoch, codes).tobytes())
            self._rows += len(epoch.rows)

    def _rows_of(self, epoch: Epoch, codes: _Codes) -> npt.NDArray[Any]:
        rows = epoch.rows
        ids, bits = rows.encoding.astype(np.int64), rows.bits
        pc, length, kind = codes.pc[ids], codes.length[ids], codes.kind[ids].copy()
        restart = (bits & _RESTART_BIT) != 0
        if self._rows == 0:
            restart[0] = False  # nothing stands before it
        following = np.append(pc[1:], np.uint64(0))
        goes_on = np.append(~restart[1:], False)
        known = (bits & _KNOWN_BIT) != 0
        taken = np.where(known, bits & _TAKEN_BIT, following != pc + length)
        decided = (kind == _CONDITIONAL) & (known | goes_on)
        kind[decided] = np.where(taken[decided], _TAKEN, _UNTAKEN)
        target = np.isin(kind, _INDIRECT) & goes_on
        parts = np.where(self._with_code(ids, codes), 1 + (length > 8), 0)
        accesses = np.diff(np.append(rows.first_access, np.uint64(len(rows.address)))).astype(int)
        begin = np.cumsum(restart + parts + target + 1 + accesses)
        out = np.zeros(int(begin[-1]), RECORD)
        at = np.concatenate([[0], begin[:-1]])
        self._put_windows(out, at[restart])
        at = at + restart
        for part in (0, 1):
            here = parts > part
            where = at[here] + part
            out["type"][where] = _ENCODING
            out["size"][where] = np.minimum(length[here] - 8 * part, 8)
            out["value"][where] = codes.code[ids[here], part]
        at = at + parts
        _put(out, at[target], _MARKER, _TARGET, following[target])
        at = at + target
        _put(out, at, kind, length, pc)
        order = np.arange(len(rows.address)) - np.repeat(rows.first_access.astype(int), accesses)
        where = np.repeat(at + 1, accesses) + order
        _put(out, where, np.where(rows.is_store, _WRITE, _READ), rows.access_size, rows.address)
        return out

    def _put_windows(self, out: npt.NDArray[Any], where: npt.NDArray[np.int64]) -> None:
        numbers = np.arange(self._window + 1, self._window + 1 + len(where), dtype=np.uint64)
        self._window += len(where)
        _put(out, where, _MARKER, _WINDOW, numbers)

    def _with_code(self, ids: npt.NDArray[np.int64], codes: _Codes) -> npt.NDArray[np.bool_]:
        """Which rows have their machine code before them: the first of each, and every one of code
        that was rewritten in place."""
        missing = np.zeros(len(codes.pc) - len(self._written), bool)
        self._written = np.append(self._written, missing)
        out: npt.NDArray[np.bool_] = codes.rewritten[ids]
        distinct, first = np.unique(ids, return_index=True)
        out[first[~self._written[distinct]]] = True
        self._written[distinct] = True
        return out


def _records(records: list[tuple[int, int, int]]) -> bytes:
    return np.array(records, RECORD).tobytes()


def _put(out: npt.NDArray[Any], where: Any, kind: Any, size: Any, value: Any) -> None:
    out["type"][where], out["size"][where], out["value"][where] = kind, size, value
