"""``tracekit extract --binary ELF``: machine code against what gem5's text said.

gem5's text is wrong about some operands (ARM's vector and float registers) and silent about most
sizes (features.md), so the machine code wins for registers and sizes.  The operation class and the
flags, and so the kind of branch, are gem5's own where the trace printed them; only where they were
guessed from the mnemonic (``inferred``) does the machine code win there too.  Each static
instruction is compared once, and disagreements are counted.

At the micro level an instruction of several micro-ops has no single row to compare with: such rows
get their machine code and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tracekit.errors import UsageError
from tracekit.isa.decoder import decode_many
from tracekit.isa.elf import ElfImage
from tracekit.isa.types import CC, DecodedInst, Reg

_MICRO_FLAGS: Final = frozenset(("IsMicroop", "IsFirstMicroop", "IsLastMicroop", "IsDelayedCommit"))


class Static(NamedTuple):
    """One static instruction (a micro-op, at the micro level) as the trace's text has it.

    Fields as in csrc/core/static_inst.hpp; registers are (class, number), ``flags`` and ``op``
    gem5's names, ``branch`` one of `tracekit.isa.BRANCH_KINDS`, ``code`` the machine code where
    known.
    """

    pc: int
    upc: int
    op: str
    flags: frozenset[str]
    src: tuple[Reg, ...]
    dst: tuple[Reg, ...]
    branch: str
    access_size: int
    inferred: bool = False
    code: bytes = b""


class BinaryCounts(NamedTuple):
    """What `apply_binary` saw, in static instructions.

    ``statics`` = ``no_code`` (the ELF has nothing at that pc: another binary, the kernel, a JIT) +
    ``undecodable`` + ``micro`` (parts of a cracked instruction) + ``compared``.  The others are of
    ``compared``: where text and machine code differ.  ``condition_codes`` are differences in the
    condition codes alone, which are not in ``src`` and ``dst``; ``sizes_filled`` had no size in the
    text.
    """

    statics: int
    compared: int
    micro: int
    no_code: int
    undecodable: int
    op: int
    flags: int
    branch: int
    src: int
    dst: int
    condition_codes: int
    access_size: int
    sizes_filled: int


def apply_binary(
    statics: Sequence[Static], elf: ElfImage, *, macro: bool = False
) -> tuple[list[Static], BinaryCounts]:
    """``statics`` with what the machine code in ``elf`` says, in the same order, and the counts.

    ``macro``: the rows are whole instructions already (extraction at the macro level).

    Raises `UsageError` if hardly any pc lies in the file: then it is not the program that was
    traced.
    """
    codes = [elf.code(s.pc, 16) for s in statics]
    known = sum(1 for c in codes if c)
    if statics and known * 2 < len(statics):
        raise UsageError(
            f"only {known} of {len(statics)} instructions lie in this file",
            path=elf.path,
            hint="give the program that was traced",
        )
    decoded = decode_many(elf.arch, codes)
    cracked = {s.pc for s in statics if s.upc}
    counts = dict.fromkeys(BinaryCounts._fields, 0)
    counts["statics"] = len(statics)
    result = []
    for static, code, inst in zip(statics, codes, decoded, strict=True):
        if not code:
            counts["no_code"] += 1
            result.append(static)
        elif not inst.valid:
            counts["undecodable"] += 1
            result.append(static)
        elif not (macro or _whole(static, cracked)):
            counts["micro"] += 1
            result.append(static._replace(code=code[: inst.length]))
        else:
            counts["compared"] += 1
            _compare(static, inst, counts)
            result.append(_merge(static, inst, code))
    return result, BinaryCounts(**counts)


def _whole(static: Static, cracked: set[int]) -> bool:
    """Whether the row is a whole instruction.  ``IsLastMicroop`` is not printed where flags are
    inferred."""
    if static.upc or static.pc in cracked:
        return False
    return "IsMicroop" not in static.flags or "IsLastMicroop" in static.flags or static.inferred


def _compare(static: Static, inst: DecodedInst, counts: dict[str, int]) -> None:
    counts["op"] += static.op != inst.op
    counts["flags"] += static.flags - _MICRO_FLAGS != inst.flags - _MICRO_FLAGS
    counts["branch"] += static.branch != inst.branch
    cc = False
    for name, text, machine in (("src", static.src, inst.src), ("dst", static.dst, inst.dst)):
        counts[name] += {*text} - {CC} != {*machine} - {CC}
        cc = cc or (CC in text) != (CC in machine)
    counts["condition_codes"] += cc
    if static.access_size == 0:
        counts["sizes_filled"] += inst.access_size != 0
    else:
        counts["access_size"] += inst.access_size not in (0, static.access_size)


def _merge(static: Static, inst: DecodedInst, code: bytes) -> Static:
    merged = static._replace(
        src=inst.src,
        dst=inst.dst,
        access_size=inst.access_size or static.access_size,
        code=code[: inst.length],
    )
    if static.inferred:
        merged = merged._replace(
            op=inst.op, branch=inst.branch, flags=inst.flags | (static.flags & _MICRO_FLAGS)
        )
    return merged
