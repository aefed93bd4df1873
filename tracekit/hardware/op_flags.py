"""What an instruction is to a real core beside its entry in the table: idioms, fusion, kinds.

The bits are those of csrc/hardware/op.hpp.  Rules are by family of processors, from the vendors'
optimization guides (AMD 56305, 57647, 58455; Intel 248966; Arm's guides of the Neoverse cores):
which instructions of one register twice give zero without executing, which moves renaming makes,
and which instructions are one with the conditional branch behind them.
"""

from __future__ import annotations

import re
from enum import IntFlag
from typing import Final

from tracekit.hardware.forms import Decoded

__all__ = ["OpFlag", "op_flags"]


class OpFlag(IntFlag):
    """Bits of `HardwareOps.flags`."""

    ZERO_IDIOM = 1 << 0
    ELIMINATED_MOVE = 1 << 1
    NO_OP = 1 << 2
    SERIALIZING = 1 << 3
    FUSES_WITH_BRANCH = 1 << 4
    CONDITIONAL_BRANCH = 1 << 5
    LOAD = 1 << 6
    STORE = 1 << 7
    LOCKED = 1 << 8
    VECTOR = 1 << 9
    STACK_ENGINE = 1 << 10
    DIVIDER = 1 << 11
    REP = 1 << 12
    FENCE = 1 << 13
    WIDE = 1 << 14
    FUSES_LIMITED = 1 << 15
    SOFTWARE_PREFETCH = 1 << 16
    MICROCODED = 1 << 17
    MOVE = 1 << 18
    SYSCALL = 1 << 19
    READS_CARRY = 1 << 20
    DEPENDENCY_BREAKING = 1 << 24
    SCALED = 1 << 25
    TAKES_MOVE = 1 << 26
    ADDITION = 1 << 27
    ALU = 1 << 28
    RENAMABLE = 1 << 29
    MOVES_STACK = 1 << 30


_F = OpFlag
_SERIALIZING: Final = frozenset(
    ["cpuid", "lfence", "rdtscp", "iretq", "wrmsr", "invd", "wbinvd", "serialize", "isb"]
)
_FENCES: Final = frozenset(["mfence", "sfence", "lfence", "dmb", "dsb"])
_NO_OPS: Final = frozenset(["nop", "endbr64", "endbr32", "fnop", "bti", "hint", "yield"])
_STACK: Final = frozenset(["push", "pop", "call", "ret", "pushfq", "popfq"])
_ADDRESS: Final = re.compile(r"\[[^]]*]")
_VECTOR_KINDS: Final = re.compile(r"(?<![a-z])(?:[xyz]?mm|st|k|[bhsdqv](?:\.\d*[bhsdq])?)(?![a-z])")
_X86_BRANCH: Final = re.compile(r"j(?:n?[osp]|n?[bl]|[agbl]e|a|g|e|ne)$")
_ARM_BRANCH: Final = re.compile(r"b\.|cbn?z$|tbn?z$")
_CARRY: Final = frozenset(["jb", "jae", "jbe", "ja", "b.hs", "b.lo", "b.hi", "b.ls"])

#: One register twice gives zero, and nothing executes.
_ZERO: Final = re.compile(r"xor|sub|v?p?xor(?:p[sd]|[dq])?|v?psub[bwdq]|v?pcmpgt[bwdq]")
_ZERO_PANDN: Final = re.compile(r"v?pandn[dq]?|v?andnp[sd]")
#: One register twice gives a constant; it executes but waits for nothing.
_BREAKING: Final = re.compile(r"v?pcmpeq[bwdq]")
_INTEGER_MOVE: Final = re.compile(r"mov r(?:32|64), r(?:32|64)")
_VECTOR_MOVE: Final = re.compile(
    r"v?mov(?:[au]p[sd]|dq[au](?:8|16|32|64)?) ([xyz]mm), \1|movq mm, mm"
)
_ARM_MOVE: Final = re.compile(r"mov (?:x, x|w, w)|mov v\.16b, v\.16b")

_SCALED: Final = re.compile(r"\*[248]")
_ADDITION: Final = re.compile(r"v?(?:add|sub)[sp][sd]")
_AFTER_MOVE: Final = frozenset(["add", "sub", "and", "or", "xor", "inc", "dec", "not"])
_WHOLE: Final = re.compile(r"\w+ r(?:32|64)(?:, (?:r32|r64|i))?")
_ARITHMETIC: Final = frozenset(["add", "sub", "and", "or", "xor"])
_COUNTS: Final = frozenset(["inc", "dec"])


def op_flags(d: Decoded, isa: str, family: str) -> OpFlag:
    """The flags of an instruction on a family of processors, but for those of its memory accesses
    (LOAD, STORE) and of its table entry (DIVIDER, MICROCODED)."""
    return _x86_flags(d, family) if isa == "x86" else _arm_flags(d, family)


def _common(d: Decoded, name: str) -> OpFlag:
    flags = _F(0)
    if name in _SERIALIZING:
        flags |= _F.SERIALIZING
    if name in _FENCES:
        flags |= _F.FENCE
    if name in _NO_OPS:
        flags |= _F.NO_OP
    if name in ("syscall", "sysenter", "svc"):
        flags |= _F.SYSCALL | _F.SERIALIZING
    if name.startswith("prefetch") or name == "prfm" or name == "prfum":
        flags |= _F.SOFTWARE_PREFETCH
    if _VECTOR_KINDS.search(_ADDRESS.sub("", d.form.partition(" ")[2])):
        flags |= _F.VECTOR
    if d.mnemonic in _CARRY:
        flags |= _F.READS_CARRY
    return flags


def _x86_flags(d: Decoded, family: str) -> OpFlag:
    prefix, _, name = d.mnemonic.rpartition(" ")
    flags = _common(d, name)
    if prefix == "lock" or (name == "xchg" and "[" in "".join(d.operands)):
        flags |= _F.LOCKED
    if prefix.startswith("rep") and name != "ret":
        flags |= _F.REP
    if name in _STACK:
        flags |= _F.STACK_ENGINE
    if _X86_BRANCH.match(name):
        flags |= _F.CONDITIONAL_BRANCH
    if "zmm" in d.form or "m512" in d.form:
        flags |= _F.WIDE
    if name != "lea" and _SCALED.search("".join(d.operands)):
        flags |= _F.SCALED
    if _ADDITION.fullmatch(name):
        flags |= _F.ADDITION
    if name in ("add", "sub") and d.operands[0] == "rsp" and d.operands[1][:1] in "-0123456789":
        flags |= _F.MOVES_STACK
    if family == "zen5" and _takes_move(d, name):
        flags |= _F.TAKES_MOVE
    return flags | _idiom(d, name, family) | _move(d, family) | _fusion(d, name, family)


def _takes_move(d: Decoded, name: str) -> bool:
    """Whether a move into its destination right before it is one slot with it (measured)."""
    operands = d.operands
    if name not in _AFTER_MOVE or "[" in "".join(operands) or not _WHOLE.fullmatch(d.form):
        return False
    return len(operands) == 1 or operands[0] != operands[1]


def _idiom(d: Decoded, name: str, family: str) -> OpFlag:
    operands = d.operands
    if len(operands) < 2 or operands[-1] != operands[-2] or "{" in operands[0]:
        return _F(0)
    if operands[0] != operands[1] and len(operands) == 2:
        return _F(0)
    if len(operands) == 2 and d.form.endswith(("r8, r8", "r16, r16", "r8h, r8h")):
        return _F(0)
    zen = family.startswith("zen")
    if _ZERO.fullmatch(name) or (zen and _ZERO_PANDN.fullmatch(name)):
        return _F.ZERO_IDIOM
    return _F.DEPENDENCY_BREAKING if _BREAKING.fullmatch(name) else _F(0)


def _move(d: Decoded, family: str) -> OpFlag:
    if _INTEGER_MOVE.fullmatch(d.form):
        # Ice Lake's microcode has taken elimination of general registers' moves back.
        gone = family == "intel-icelake" or d.operands[0] == d.operands[1]
        return _F.MOVE if gone else _F.MOVE | _F.ELIMINATED_MOVE
    return _F.MOVE | _F.ELIMINATED_MOVE if _VECTOR_MOVE.fullmatch(d.form) else _F(0)


def _fusion(d: Decoded, name: str, family: str) -> OpFlag:
    memory = next((o for o in d.operands if "[" in o), "")
    immediate = bool(d.operands) and d.operands[-1][:1] in "-0123456789"
    if family.startswith("zen"):
        if immediate and "rip" in memory:
            return _F(0)
        late = family not in ("zen1", "zen2")
        if name in ("cmp", "test") or (late and not memory and name in _ARITHMETIC | _COUNTS):
            return _F.FUSES_WITH_BRANCH
        return _F(0)
    if memory and (immediate or ("[" in d.operands[0] and name not in ("cmp", "test"))):
        return _F(0)
    if name in ("cmp", "test", "add", "sub", "and"):
        return _F.FUSES_WITH_BRANCH
    return _F.FUSES_WITH_BRANCH | _F.FUSES_LIMITED if name in _COUNTS else _F(0)


def _arm_flags(d: Decoded, family: str) -> OpFlag:
    name = d.mnemonic
    flags = _common(d, name)
    if _ARM_BRANCH.match(name):
        flags |= _F.CONDITIONAL_BRANCH
    if re.match(r"(?:ld|st)l?a?xp?r|cas|swp|ld(?:add|clr|set|eor|[su]max|[su]min)", name):
        flags |= _F.LOCKED if not name.startswith(("ldxr", "stxr", "ldaxr", "stlxr")) else _F(0)
    if family.startswith("neoverse"):
        if name in ("cmp", "tst", "cmn") and not any(" " in o for o in d.operands):
            flags |= _F.FUSES_WITH_BRANCH
        if family != "neoverse-n1":
            if _ARM_MOVE.fullmatch(d.form):
                flags |= _F.MOVE | _F.ELIMINATED_MOVE
            elif name in ("mov", "movz", "movi") and d.operands[-1] in ("#0", "xzr", "wzr"):
                flags |= _F.ZERO_IDIOM
    return flags
