"""Native streams as sources of the extraction pipeline (tracekit/inputs/base.py)."""

from __future__ import annotations

import re
import struct
from typing import Any, Final, Literal

from tracekit._core import (
    ChampsimParser,
    DrmemtraceParser,
    EncodingTable,
    NativeBatch,
    Rows,
    TextStreamParser,
)
from tracekit.errors import UsageError
from tracekit.inputs.drmemtrace import ARCH_BITS, REGDEPS, is_drmemtrace
from tracekit.inputs.native import NativeConverter

_LACKEY: Final = re.compile(rb"^(I  | [LSM] )[0-9a-fA-F]+,\d+\r?$", re.M)
_EXECLOG: Final = re.compile(rb'^\d+, 0x[0-9a-f]+, 0x[0-9a-f]+, "', re.M)
_EXECLOG_CODE: Final = re.compile(rb'^\d+, 0x[0-9a-f]+, 0x([0-9a-f]{1,8}), "([^"\n]*)"', re.M)

_CUT: Final = "a static instruction of over four bytes, whose others no execlog has: read as zeros"


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
        longer = self._converter.longer_than_four if self._converter else 0
        if longer and self._name == "execlog" and self._arch == "x86":
            own = {**own, _CUT: {"count": longer}}
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
