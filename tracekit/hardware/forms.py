"""Instruction forms: the mnemonic with kinds and widths of operands, the key of instruction tables.

    form(bytes.fromhex("48034518"), "x86")   # 'add r64, m64'
    form(bytes.fromhex("f3a4"), "x86")       # 'rep movsb'
    form(bytes.fromhex("8b0000f9"), "arm")   # 'str x, [x]'

Two instructions have one form where a processor treats them alike but for which registers they
name.  Conditions are left out where they do not matter (``jcc rel``, ``cmovcc r64, r64``; the two
that read carry and zero are ``cmovbe``), an immediate is ``i``, a shift by the register ``cl`` says
so, and ``lea`` says what its address is made of: base, index, scaled index, displacement.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any, Final, NamedTuple

from tracekit.errors import TracekitError, UsageError
from tracekit.extras import install_command
from tracekit.io.files import open_file

__all__ = ["INVALID", "Decoded", "decode_form", "form", "sweep"]

#: The form of bytes that are no instruction.
INVALID: Final = "(bad)"
_MEMO_LIMIT: Final = 1 << 20
_PIECE: Final = 1 << 16
_NO_EFFECT: Final = re.compile(r"(?:(?:bnd|notrack|data16|xacquire|xrelease|[cdefgs]s) )+")


class Decoded(NamedTuple):
    """One instruction as text: ``form``, ``mnemonic`` with its prefixes and condition, ``operands``
    as the assembler writes them, ``length`` in bytes (0 where they are no instruction)."""

    form: str
    mnemonic: str
    operands: tuple[str, ...]
    length: int


@cache
def _engine(isa: str) -> Any:
    try:
        import capstone
    except ImportError:
        raise TracekitError(
            "instruction forms need capstone", hint=install_command("binary")
        ) from None
    if isa == "x86":
        return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    if isa == "arm":
        return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    raise UsageError(f"no instruction forms for {isa!r}", hint="one of x86, arm")


_memo: dict[tuple[str, bytes], Decoded] = {}


def decode_form(code: bytes, isa: str) -> Decoded:
    """The instruction that starts ``code`` with its form; memoised by the bytes.

    ``isa`` is "x86" or "arm" (AArch64); others raise `UsageError`, a missing capstone
    `TracekitError`.  Bytes that are no instruction have the form `INVALID`.
    """
    found = _memo.get((isa, code))
    if found is None:
        if len(_memo) >= _MEMO_LIMIT:
            _memo.clear()
        found = _memo[isa, code] = _decode(bytes(code[:15]), isa)
    return found


def form(code: bytes, isa: str) -> str:
    """The key of an instruction's form (see `decode_form`): ``add r64, m64``."""
    return decode_form(code, isa).form


def _decode(code: bytes, isa: str) -> Decoded:
    for _, size, mnemonic, text in _engine(isa).disasm_lite(code, 0, 1):
        mnemonic = _NO_EFFECT.sub("", mnemonic)
        operands = tuple(split_operands(text))
        make = _x86_form if isa == "x86" else _arm_form
        return Decoded(make(mnemonic, operands), mnemonic, operands, size)
    return Decoded(INVALID, INVALID, (), 0)


def split_operands(text: str) -> list[str]:
    """Operands of an assembler's line, apart at the commas outside of brackets."""
    out, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "[{":
            depth += 1
        elif c in "]}":
            depth -= 1
        elif c == "," and not depth:
            out.append(text[start:i].strip())
            start = i + 1
    if last := text[start:].strip():
        out.append(last)
    return out


# --- x86-64

_GENERAL: Final = {
    **dict.fromkeys(
        ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp"] + [f"r{i}" for i in range(8, 16)],
        "r64",
    ),
    **dict.fromkeys(
        ["eax", "ebx", "ecx", "edx", "esi", "edi", "ebp", "esp"] + [f"r{i}d" for i in range(8, 16)],
        "r32",
    ),
    **dict.fromkeys(
        ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"] + [f"r{i}w" for i in range(8, 16)], "r16"
    ),
    **dict.fromkeys(
        ["al", "bl", "cl", "dl", "sil", "dil", "bpl", "spl"] + [f"r{i}b" for i in range(8, 16)],
        "r8",
    ),
    **dict.fromkeys(("ah", "bh", "ch", "dh"), "r8h"),
}
_OTHERS: Final = {
    **{f"{k}{i}": k for k in ("xmm", "ymm", "zmm") for i in range(32)},
    **{f"mm{i}": "mm" for i in range(8)},
    **{f"st({i})": "st" for i in range(8)},
    **{f"k{i}": "k" for i in range(8)},
    **dict.fromkeys(("cs", "ds", "es", "fs", "gs", "ss"), "sreg"),
    **{f"{k}r{i}": "creg" for k in "cd" for i in range(16)},
    "st": "st",
}
_SIZES: Final = {
    "byte": 8, "word": 16, "dword": 32, "fword": 48, "qword": 64, "tbyte": 80, "xword": 80,
    "xmmword": 128, "ymmword": 256, "zmmword": 512,
}  # fmt: skip
_CONDITION: Final = [
    "o",
    "no",
    "b",
    "ae",
    "e",
    "ne",
    "be",
    "a",
    "s",
    "ns",
    "p",
    "np",
    "l",
    "ge",
    "le",
    "g",
]
_CONDITIONAL: Final = re.compile(rf"(j|cmov|set)({'|'.join(_CONDITION)})")
_CARRY_AND_ZERO: Final = ("be", "a")
_COUNTERS: Final = frozenset(["jcxz", "jecxz", "jrcxz", "loop", "loope", "loopne"])
_COMPARE: Final = re.compile(
    r"(v?cmp)(?:eq|lt|le|unord|neq|nlt|nle|ord|nge|ngt|false|ge|gt|true)(?:_?[osuq]{1,2})?(p[sdh]|s[sdh])"
)
_COMPARE_MASK: Final = re.compile(r"(vpcmp)(?:eq|lt|le|neq|nlt|nle)(u?[bwdq])")
_STRINGS: Final = re.compile(r"(?:rep(?:n?[ez])? )?(?:movs|stos|lods|cmps|scas|ins|outs)[bwdq]")
_SHIFTS: Final = frozenset(["shl", "shr", "sar", "sal", "rol", "ror", "rcl", "rcr", "shld", "shrd"])
_NO_OPERANDS: Final = frozenset(("nop", "repz ret", "ret", "retf"))


def _x86_form(mnemonic: str, operands: tuple[str, ...]) -> str:
    if m := _CONDITIONAL.fullmatch(mnemonic):
        if m[1] == "j":
            return "jcc rel"
        mnemonic = m[1] + ("be" if m[2] in _CARRY_AND_ZERO else "cc")
    elif mnemonic in _COUNTERS:
        return f"{mnemonic} rel"
    elif m := _COMPARE.fullmatch(mnemonic):
        if not (m[0] in ("cmpsd", "cmpss") or _STRINGS.fullmatch(mnemonic)):
            operands = (*operands, "0")  # the predicate, as an immediate
        mnemonic = m[1] + m[2]
    elif operands[:1] and operands[0][:1] == "k" and (m := _COMPARE_MASK.fullmatch(mnemonic)):
        mnemonic, operands = m[1] + m[2], (*operands, "0")
    if mnemonic in _NO_OPERANDS:
        return mnemonic.removeprefix("repz ")
    if _STRINGS.fullmatch(mnemonic) and not any(o.startswith("xmm") for o in operands):
        return mnemonic
    if mnemonic in ("jmp", "call", "xbegin") and operands and operands[0][:1] in "-0123456789":
        return f"{mnemonic} rel"
    kinds = [_x86_kind(o) for o in operands]
    if mnemonic == "lea" and len(operands) == 2:
        kinds[1] = _address(operands[1])
    elif mnemonic in _SHIFTS and len(operands) > 1 and operands[-1] == "cl":
        kinds[-1] = "cl"
    elif mnemonic in _SHIFTS and len(operands) == 2 and operands[-1] == "1":
        kinds[-1] = "1"
    return f"{mnemonic} {', '.join(kinds)}".rstrip()


def _x86_kind(operand: str) -> str:
    name, _, decoration = operand.partition(" {")
    kind = _GENERAL.get(name) or _OTHERS.get(name)
    if kind is None:
        if "[" not in operand:
            return "i"
        size = _SIZES.get(operand.partition(" ")[0])
        kind = f"m{size}" if size else "m"
        if "{1to" in operand:
            kind += "{1to}"
        decoration = operand
    if decoration and re.search(r"k\d}", decoration):
        kind += " {k}"
    return kind


def _address(operand: str) -> str:
    """What an address is made of: base, index, scaled index, displacement, or rip."""
    inside = operand[operand.index("[") + 1 : operand.rindex("]")].replace(" - ", " + ")
    parts = []
    for part in inside.split(" + "):
        if part == "rip":
            return "[rip]"
        if "*" in part:
            parts.append("i" if part.endswith("*1") else "s")
        elif part in _GENERAL or part in ("riz", "eiz"):
            parts.append("i" if "b" in parts else "b")
        else:
            parts.append("d")
    return f"[{'+'.join(parts)}]"


# --- AArch64

_ARM_REGISTER: Final = re.compile(r"([wxbhsdqvzp])(\d+)(\.\d*[bhsdq])?(\[\d+\])?(/[mz])?")
_ARM_NAMED: Final = {"sp": "x", "wsp": "w", "xzr": "x", "wzr": "w", "fp": "x", "lr": "x"}
_ARM_CONDITIONS: Final = frozenset(
    [
        "eq",
        "ne",
        "cs",
        "hs",
        "cc",
        "lo",
        "mi",
        "pl",
        "vs",
        "vc",
        "hi",
        "ls",
        "ge",
        "lt",
        "gt",
        "le",
        "al",
        "nv",
    ]
)


def _arm_form(mnemonic: str, operands: tuple[str, ...]) -> str:
    if mnemonic.startswith("b."):
        return "b.cc rel"
    if mnemonic in ("b", "bl"):
        return f"{mnemonic} rel"
    if mnemonic in ("nop", "hint", "bti", "paciasp", "autiasp", "xpaclri", "yield"):
        return mnemonic
    kinds = [_arm_kind(o) for o in operands]
    if mnemonic in ("cbz", "cbnz", "tbz", "tbnz"):
        kinds[-1] = "rel"
    if mnemonic in ("adr", "adrp"):
        kinds[-1] = "rel"
    return f"{mnemonic} {', '.join(kinds)}".rstrip()


def _arm_kind(operand: str) -> str:
    operand = operand.strip()
    if operand in _ARM_NAMED:
        return _ARM_NAMED[operand]
    if operand.startswith("["):
        inside = operand[1 : operand.index("]")]
        back = "!" if operand.endswith("!") else ""
        return f"[{', '.join(_arm_kind(o) for o in split_operands(inside))}]{back}"
    if operand.startswith("{"):
        inner, _, behind = operand[1:].partition("}")
        kinds = [_arm_kind(o) for o in split_operands(inner)]
        lane = "[]" if behind.startswith("[") else ""
        return f"{{{kinds[0]} x{len(kinds)}}}{lane}"
    if m := _ARM_REGISTER.fullmatch(operand):
        return m[1] + (m[3] or "") + ("[]" if m[4] else "") + (m[5] or "")
    if operand in _ARM_CONDITIONS:
        return "cc"
    head = operand.split(" ", 1)[0]
    if head in ("lsl", "lsr", "asr", "ror", "msl") or head[:3] in ("uxt", "sxt"):
        return head
    return "#" if operand[:1] in "#-0123456789" else "sys"


def sweep(path: str) -> tuple[str, Counter[bytes]]:
    """The instruction set of an ELF file, and how often each encoding stands in its code, in the
    order of addresses; bytes between that are no instruction are skipped."""
    from elftools.elf.elffile import ELFFile

    found: Counter[bytes] = Counter()
    with open_file(path) as f:
        elf = ELFFile(f)
        isa = {"EM_X86_64": "x86", "EM_AARCH64": "arm"}.get(elf["e_machine"])
        if isa is None:
            raise UsageError(f"no instruction forms for {elf['e_machine']}", path=path)
        engine, step = _engine(isa), 1 if isa == "x86" else 4
        for section in elf.iter_sections():
            if not section["sh_flags"] & 4 or section["sh_type"] != "SHT_PROGBITS":
                continue
            data, at = section.data(), 0
            while at < len(data):
                end = at
                for address, size, _, _ in engine.disasm_lite(data[at : at + _PIECE], at):
                    end = address + size
                    found[data[address:end]] += 1
                at = max(end, at + step)
    return isa, found
