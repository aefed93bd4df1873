"""Whether an ELF file is the program that was traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit._core import FLAGS
from tracekit.errors import UsageError
from tracekit.isa.decoder import decode_many
from tracekit.isa.elf import ElfImage

_TOLD: Final = {name: FLAGS.index(name) for name in ("IsControl", "IsLoad", "IsStore")}
#: Of the addresses that lie in the file, the part at which it may have another instruction (code
#: that the program changed, instructions that the decoder does not know).  Of the right program's
#: it is 0; of another one's about 0.7.
MOST_WRONG: Final = 0.1
_HINT: Final = "give the program that was traced"


def check_isa(elf: ElfImage, arch: str) -> None:
    """`UsageError` where the file's architecture is not ``arch``, the trace's ("unknown" fits)."""
    if arch not in ("", "unknown", elf.arch):
        raise UsageError(
            f"is a program for {elf.arch}, the trace is of {arch}", path=elf.path, hint=_HINT
        )


def check_instructions(
    elf: ElfImage,
    pcs: npt.NDArray[np.uint64],
    flags: npt.NDArray[np.uint64],
    codes: Sequence[bytes],
) -> None:
    """`UsageError` where the instructions of the file do not begin at the trace's pcs.

    One element for each static instruction: ``pcs`` as the file has them, ``flags`` bits of
    `tracekit.schema.FLAGS`, ``codes`` the machine code where the trace has it (else b"").  Parts of
    one instruction have one pc.  What the file has not got (libraries, the kernel) does not count.
    """
    if not len(pcs):
        return
    places, which = np.unique(pcs, return_inverse=True)
    joined = np.zeros(len(places), np.uint64)
    np.bitwise_or.at(joined, which, flags.astype(np.uint64))
    known = dict(zip(which.tolist(), codes, strict=True))
    here = [elf.code(pc) for pc in places.tolist()]
    inside = [k for k, code in enumerate(here) if code]
    if not inside:
        raise UsageError(
            f"none of the trace's {len(places):,} addresses lies in this file",
            path=elf.path,
            hint=_HINT,
        )
    bits = joined.tolist()
    decoded = decode_many(elf.arch, [here[k] for k in inside])
    wrong = sum(
        not (here[k].startswith(known[k]) if known[k] else _alike(inst, bits[k]))
        for k, inst in zip(inside, decoded, strict=True)
    )
    if wrong > max(MOST_WRONG * len(inside), min(1, len(inside) - 1)):  # one of a few: no proof
        raise UsageError(
            f"at {wrong:,} of the trace's {len(inside):,} addresses in this file no such "
            "instruction begins",
            path=elf.path,
            hint=_HINT,
        )


def _alike(inst: Any, bits: int) -> bool:
    """Whether it is a branch, a load, a store, as the trace says."""
    return inst.valid and all((n in inst.flags) == bool(bits >> b & 1) for n, b in _TOLD.items())
