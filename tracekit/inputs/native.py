"""From native batches to the rows that the feature stage takes: decodes each new encoding once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from tracekit._core import EncodingTable, NativeBatch, NativeSource, Rows
from tracekit.isa.types import BRANCH_KINDS

_SYSCALL_FLAG: Final = "IsSyscall"
_FOUR: Final = 4
_BRANCH: Final = {name: i for i, name in enumerate(BRANCH_KINDS)}


class NativeConverter:
    """Rows of one stream of native batches that share ``table``.

    ``arch`` is "x86", "arm", "riscv", or "unknown" where the table holds no machine code;
    ``described`` tells what stands in for it ("branch_kind", "regdeps", "champsim";
    csrc/formats/native_rows/native_rows.hpp).  ``halves``: X86's vector registers are accessed
    8 bytes at a time, as in gem5; without, every access stays as the source gives it.
    """

    def __init__(
        self,
        table: EncodingTable,
        *,
        arch: str,
        described: str = "branch_kind",
        halves: bool = True,
    ) -> None:
        self.source = NativeSource(table, described, arch, halves and arch == "x86")
        self._table = table
        self._arch = arch
        #: Static x86 instructions longer than the four bytes of an execlog; invalid ones may be.
        self.longer_than_four = 0

    def convert(self, batch: NativeBatch) -> Rows:
        """The rows of ``batch``; a conditional branch at its end may wait for the next batch."""
        self._decode(batch)
        return self.source.convert(batch)

    def rows(self, batches: Iterable[NativeBatch]) -> Iterator[Rows]:
        """The rows of a whole stream."""
        for batch in batches:
            yield self.convert(batch)
        yield self.source.finish()

    def _decode(self, batch: NativeBatch) -> None:
        ids = self.source.meet(batch)
        if not ids:
            return
        from tracekit._core import FLAGS
        from tracekit.isa import decode_many

        syscall_bit = 1 << FLAGS.index(_SYSCALL_FLAG)
        codes = []
        for i in ids:
            _, length, _, raw = self._table[i]
            codes.append(raw[:length])
        arch: Any = self._arch
        for i, d in zip(ids, decode_many(arch, codes), strict=True):
            self.longer_than_four += d.length > _FOUR or not d.valid
            flags = d.flag_bits | (syscall_bit if d.syscall else 0)
            self.source.define(
                i,
                d.op_number,
                flags,
                _BRANCH[d.branch],
                d.access_size,
                d.src,
                d.dst,
                d.text,
                d.length,
            )
