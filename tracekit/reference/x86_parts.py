"""The parts that an abstract X86 core works on, from what is known of whole instructions.

A reference core does not see an instruction's text from gem5 or its machine code: it sees loads,
operations, stores and branches.  What they are follows here from the instruction's name and the
kinds of its operands, which are the same whether gem5's text gives them (``ADD_R_M``) or a
recording's machine code (``add rax, qword ptr [rcx]``).  How many there are is that of gem5's
decoder (src/arch/x86/isa/insts), whose machines these cores are like: immediates and addresses
relative to the instruction take an operation of their own, 16 bytes go as two halves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.isa.types import words
from tracekit.isa.x86_ops import OPS, op_class

__all__ = ["Form", "Part", "form_of", "parts_of", "table"]

LOAD, STORE, SERIALIZE_BEFORE, SERIALIZE_AFTER, IN_ORDER, BARRIER = 1, 2, 4, 8, 16, 32
PREFETCH, NOP, WRITES_INT, WRITES_VEC = 128, 256, 1024, 2048
NO_REGISTER = 0xFFFF

#: A register's number in the cores: the halves of a vector register are two.
_CC, _LOW, _HIGH, _STACK, _MASK, _TEMPORARY = 32, 64, 128, 192, 224, 240  # flags: two
_RSP: Final = 4

_NO_WIDTH: Final = words("nop endbr32 pause")
_MOVES: Final = words("mov movabs movnti movbe")
_EXTENSIONS: Final = words("movzx movsx movsxd movsxl")
_COMPARES: Final = words("cmp test bt")
_SERIAL: Final = words("syscall sysenter cpuid")
_SHIFTS: Final = words("sal shl shr sar rol ror rcl rcr")
_WIDE_MOVES: Final = re.compile(r"v?(mov[au]p[sd]|movdq[au]\d*|movnt(dq|dqa|p[sd])|lddqu)")
_NARROW_MOVES: Final = words("movss movsd movq movd movlps movlpd movhps movhpd")
_TO_HIGH: Final = words("movhps movhpd")
_HALF: Final = words("unpcklpd unpckhpd punpcklqdq punpckhqdq movlhps movhlps movddup")
_SHUFFLES: Final = words("pshufd pshufb shufps shufpd pshufhw pshuflw palignr")
_BYTE_SHIFTS: Final = words("psrldq pslldq")
_FROM_LOW: Final = words("cvtdq2pd cvtps2pd")
_TO_INTEGER: Final = re.compile(r"cvtt?s[sd]2si")
_SCALAR: Final = re.compile(r"(?!p).*s[sd]|cmps[sd]_xmm")
#: Divisions and bit scans are loops of microcode; the turns depend on values, which nobody records:
#: what they were on average in 53 programs (64-bit numbers mostly for div, 32-bit ones for idiv).
_DIV_TURNS: Final = {"div": 27, "idiv": 5}
_DIV_REST: Final = {"div": 8, "idiv": 22}
_SCANS: Final = {"bsf": 30, "bsr": 28, "popcnt": 3}
_STRING: Final = re.compile(r"(movs|stos|lods|cmps|scas)[bwdq]?")


class Form(NamedTuple):
    """An instruction without its registers: ``operands`` are letters: R general register, X vector,
    F x87 or MMX, K mask, I immediate, M memory, P memory relative to the instruction."""

    name: str
    operands: str
    byte: bool  # a byte is extended
    locked: bool
    repeated: bool


class Part(NamedTuple):
    """``reads``: a address, d data registers, f flags, z those but carry and overflow, o the
    latter, v and w low and high vector halves, s rsp, t and u temporaries; ``writes``: r general
    registers, c flags, z, o, v, w, s, t, u."""

    op: str
    reads: str = ""
    writes: str = ""
    flags: int = 0
    high: bool = False  # the access to the second 8 bytes
    branch: bool = False


_GEM5: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*(?:\.\w+)?|syscall|sysenter")
_GEM5_LETTERS: Final = {"R": "R", "M": "M", "P": "P", "I": "I", "XMM": "X", "MMX": "F", "ST": "F"}
_PREFIXES: Final = words(
    "lock rep repe repz repne repnz bnd notrack data16 xacquire xrelease cs ds es ss"
)
_NARROW: Final = re.compile(r"[abcd][lh]|[sd]il|[sb]pl|r\d+b")


@lru_cache(maxsize=1 << 16)
def form_of(text: str) -> Form:
    """The form of an instruction, from gem5's macro name or capstone's text."""
    text = text.strip()
    if _GEM5.fullmatch(text):
        return _gem5_form(text.partition(".")[0])
    head, _, rest = text.lower().partition(" ")
    prefixes: list[str] = []
    while head in _PREFIXES and rest:
        prefixes.append(head)
        head, _, rest = rest.strip().partition(" ")
    operands = [o.strip() for o in rest.split(",")] if rest.strip() else []
    letters = "".join(map(_letter, operands))
    byte = "byte ptr" in rest or bool(len(operands) > 1 and _NARROW.fullmatch(operands[1]))
    repeated = any(p.startswith("rep") for p in prefixes)
    name = _same_name(head)
    if (m := _STRING.fullmatch(name)) and "X" not in letters:
        return Form(m[1], letters, False, False, repeated)
    if name == "nop":
        letters, byte = "", False
    if name == "movq" and "R" in letters:
        name = "movd"
    return Form(name, letters, byte, "lock" in prefixes, False)


#: gem5's names where the assembler's differ; conditions stand behind j, set and cmov.
_CONDITIONS: Final = {"e": "z", "ne": "nz", "ae": "nb", "a": "nbe", "ge": "nl", "g": "nle"}
_CONDITIONAL: Final = re.compile(r"(j|set|cmov)(e|ne|ae|a|ge|g)")
_SAME: Final = {
    "movsxl": "movsxd",
    "retq": "ret",
    "callq": "call",
    "shl": "sal",
    "movabs": "mov",
    "cdq": "cqo",
    "cwd": "cqo",
    "cwde": "cdqe",
    "cbw": "cdqe",
    "endbr64": "nop",
    # Without its extension a scan's prefix means nothing, as on gem5's X86.
    "tzcnt": "bsf",
    "lzcnt": "bsr",
}


def _same_name(name: str) -> str:
    if m := _CONDITIONAL.fullmatch(name):
        return m[1] + _CONDITIONS[m[2]]
    return _SAME.get(name, name)


def _letter(operand: str) -> str:
    if "[" in operand:
        return "P" if "rip" in operand else "M"
    if operand.startswith(("xmm", "ymm", "zmm")):
        return "X"
    if operand.startswith(("st", "mm")):
        return "F"
    if re.match(r"k\d", operand):
        return "K"
    return "I" if operand[:1].isdigit() or operand.startswith("-") else "R"


def _gem5_form(text: str) -> Form:
    name, *tokens = text.split("_")
    name = name.lower()
    letters = "".join(_GEM5_LETTERS.get(t, "") for t in tokens)
    if name == "hint":
        return Form("nop", "", False, False, False)
    if (m := _STRING.fullmatch(name)) and "X" not in letters:
        return Form(m[1], letters, False, False, "E" in tokens or "N" in tokens)
    if "1" in tokens:  # a shift by one
        letters += "I"
    return Form(name, letters, "B" in tokens, "LOCKED" in tokens, False)


_FREE: Final = Part("IntAlu", "", "t")
_BITWISE: Final = re.compile(r"v?p?(xor|or|andn?)(p[sd]|d|q)?")


@lru_cache(maxsize=1 << 12)
def parts_of(form: Form) -> tuple[Part, ...]:
    """The parts in the order in which a core works on them."""
    name = form.name
    if name in _NO_WIDTH:
        return (Part("No_OpClass", flags=NOP),)
    if name in _SERIAL:
        return (Part("IntAlu", "d", "r", SERIALIZE_AFTER),)
    if name.startswith("rdtsc"):
        return (Part("IntAlu", "", "r", SERIALIZE_BEFORE | BARRIER), *[_FREE] * 4)
    if name in ("mfence", "lfence", "sfence"):
        return (Part("IntAlu", flags=BARRIER),)
    if name.startswith(("prefetch", "clflush", "clwb")):
        return (*_relative(form), Part("MemRead", "a", "", LOAD | PREFETCH))
    if name.startswith(("j", "loop")) or name in ("call", "ret", "retf"):
        return (*_relative(form), *_branch(form))
    if name in ("push", "pop", "leave", "pushfq", "popfq", "pushf", "popf", "enter"):
        return (*_relative(form), *_stack(form))
    if form.repeated or (_STRING.fullmatch(name) and "X" not in form.operands):
        return tuple(_string(form))
    if any(c in form.operands for c in "XFK") or _real(name):
        return (*_relative(form), *_vector(form))
    return (*_relative(form), *_integer(form))


def _real(name: str) -> bool:
    return OPS.get(name, "").startswith(("Simd", "Float")) or name in ("stmxcsr", "ldmxcsr")


def _relative(form: Form) -> list[Part]:
    return [_FREE] if "P" in form.operands else []


def _memory(form: Form) -> bool:
    return any(c in form.operands for c in "MP") and form.name != "lea"


def _branch(form: Form) -> list[Part]:
    name, to = form.name, form.operands[:1]
    if name.startswith("ret"):
        return [
            Part("MemRead", "s", "t", LOAD),
            Part("IntAlu", "s", "s"),
            Part("IntAlu", "t", branch=True),
        ]
    push = [Part("MemWrite", "s", "", STORE), Part("IntAlu", "s", "s")]
    if name == "call":
        if to == "I":
            return [_FREE, _FREE, *push, Part("IntAlu", branch=True)]
        if to == "R":
            return [_FREE, *push, Part("IntAlu", "d", branch=True)]
        # The place on the stack is not the row's address.
        push[0] = Part("MemWrite", "s")
        free = [] if to == "P" else [_FREE]
        return [*free, Part("MemRead", "a", "t", LOAD), *push, Part("IntAlu", "t", branch=True)]
    if to in ("M", "P"):
        return [Part("MemRead", "a", "t", LOAD), Part("IntAlu", "t", branch=True)]
    if to == "R":
        return [Part("IntAlu", "d", branch=True)]
    counts = name.startswith(("loop", "jrcx", "jecx", "jcx"))
    reads = "d" if counts else "" if name in ("jmp", "ljmp") else "f"
    return [_FREE, _FREE, Part("IntAlu", reads, "r" if counts else "", branch=True)]


def _stack(form: Form) -> list[Part]:
    name = form.name
    if name.startswith("push") or name == "enter":
        down = [Part("MemWrite", "sd", "", STORE), Part("IntAlu", "s", "s")]
        if _memory(form):
            return [Part("MemRead", "a", "t", LOAD), Part("MemWrite", "st"), down[1]]
        return [_FREE, *down] if "I" in form.operands else down
    up = [Part("MemRead", "s", "t", LOAD), Part("IntAlu", "s", "s")]
    if name == "leave":
        return [Part("IntAlu", "d", "s"), *up, Part("IntAlu", "t", "r")]
    if _memory(form):
        return [*up, Part("MemWrite", "t")]
    return [*up, Part("IntAlu", "t", "r")]


def _string(form: Form) -> list[Part]:
    """One turn; what a repeated one does beside it stands around."""
    reads = [Part("MemRead", "a", "t", LOAD)] if form.name != "stos" else []
    writes = [Part("MemWrite", "at", "", STORE)] if form.name in ("movs", "stos") else []
    steps = [Part("IntAlu", "d", "r")] * (3 if form.repeated else 2)
    around = [Part("IntAlu", "d", "t")] * (6 if form.repeated else 1)
    return [*around, *reads, *writes, *steps]


def _integer(form: Form) -> list[Part]:
    name, operands = form.name, form.operands
    immediate = "I" in operands
    if name == "lea":
        return [Part("IntAlu", "ad", "r")]
    memory = _memory(form)
    stores = memory and operands[:1] in ("M", "P")
    if form.locked or (name == "xchg" and memory):
        return _locked(form)
    if name in _MOVES:
        if stores:
            return [*[_FREE] * immediate, Part("MemWrite", "ad", "", STORE)]
        if memory:
            return [Part("MemRead", "a", "r", LOAD)]
        return [Part("IntAlu", "d", "r")]
    if name in _EXTENSIONS:
        if memory:
            # What is narrower than 32 bits is put into the temporary's old value.
            reads = "a" if name == "movsxd" else "at"
            return [Part("MemRead", reads, "t", LOAD), Part("IntAlu", "t", "r")]
        if form.byte:
            return [Part("IntAlu", "dt", "t"), Part("IntAlu", "t", "r")]
        return [Part("IntAlu", "d", "r")]
    source = "dt" if memory else "d"
    load = [Part("MemRead", "a", "t", LOAD)] if memory else []
    if name.startswith("set"):
        out = [Part("IntAlu", "ft" if memory else "fd", "t" if memory else "r")] * 2
        return [*out, Part("MemWrite", "at", "", STORE)] if memory else out
    if name.startswith("cmov"):
        return [*load, *[Part("IntAlu", source + "f", "r")] * 2]
    if name in ("mul", "imul", "mulx"):
        product = [Part("IntMult", source, "u"), *[Part("IntAlu", "u", "ro")] * 2]
        return [*[_FREE] * immediate, *load, *product]
    if name in _DIV_TURNS:
        turns = _DIV_TURNS[name] + 2
        rest = _DIV_REST[name]
        chain = [Part("IntDiv", source + "u", "u")] * turns
        around = [Part("IntAlu", source, "v")] * (rest - 2)
        return [*around, *load, *chain, *[Part("IntAlu", "u", "rc")] * 2]
    if name in _SCANS:
        n = _SCANS[name]
        chain = [Part("IntAlu", "u", "u"), _FREE] * ((n - 2) // 2)
        return [*load, Part("IntAlu", source, "u"), *chain, Part("IntAlu", "u", "rc")]
    if name == "not":
        immediate = True
    if name == "xchg":
        return [Part("IntAlu", "d", "r")] * 3
    if name == "bswap":
        return [Part("IntAlu", "d", "u"), Part("IntAlu", "u", "u"), Part("IntAlu", "u", "r")]
    writes = "c"
    if name in _SHIFTS:  # those bits that a shift leaves are merged
        immediate = False
        source += "" if name.startswith("r") else "z"
        writes = "o" if name.startswith("r") else "c"
    if name in ("inc", "dec"):
        source += "o"
    keeps = name in _COMPARES
    if name in ("bts", "btr", "btc"):
        chain = [Part("IntAlu", "u", "u")] * 2
        return [_FREE, *load, Part("IntAlu", source, "u"), *chain[1:], Part("IntAlu", "u", "rc")]
    if name in ("shld", "shrd"):
        return [*load, Part("IntAlu", "d", "u"), Part("IntAlu", source + "u", "rc")]
    reads = source + ("f" if name in ("adc", "sbb", "rcl", "rcr") else "")
    free = [_FREE] * immediate
    if name == "cqo":
        free = [_FREE]
    if stores and not keeps:
        return [
            *free,
            *load,
            Part("IntAlu", reads, "u" + writes),
            Part("MemWrite", "au", "", STORE),
        ]
    return [*free, *load, Part("IntAlu", reads, writes if keeps else "r" + writes)]


def _locked(form: Form) -> list[Part]:
    fence = Part("IntAlu", flags=BARRIER)
    middle = {"xchg": 0, "cmpxchg": 2}.get(form.name, 1)
    return [
        *[_FREE] * ("I" in form.operands),
        fence,
        Part("MemRead", "a", "t", LOAD | IN_ORDER),
        *[Part("IntAlu", "dt", "uc")] * middle,
        Part("MemWrite", "adtu", "", STORE),
        fence,
        *[Part("IntAlu", "t", "r")] * (form.name in ("xchg", "cmpxchg", "xadd")),
    ]


def _vector(form: Form) -> list[Part]:
    name, operands = form.name, form.operands
    bare = name[1:] if name.startswith("v") and name not in OPS else name
    memory = _memory(form)
    stores = memory and operands[:1] in ("M", "P")
    if bare in ("stmxcsr", "fnstcw", "fnstsw"):
        return [_FREE, Part("MemWrite", "a", "", STORE)]
    if bare in ("ldmxcsr", "fldcw"):
        return [Part("MemRead", "a", "t", LOAD), Part("IntAlu", "t")]
    if "F" in operands or (bare.startswith("f") and "X" not in operands):
        return _x87(form)
    if "K" in operands and "X" not in operands:
        return [*_vector_loads(memory, False), Part("SimdPredAlu", "dt", "r")]
    wide = bool(_WIDE_MOVES.fullmatch(name))
    if wide or bare in _NARROW_MOVES:
        return _vector_move(form, bare, memory, stores, wide)
    op = op_class(name, vector=True, integer="R" in operands)
    scalar = bool(_SCALAR.fullmatch(bare)) or bare.startswith(("comis", "ucomis"))
    loads = _vector_loads(memory, not scalar)
    low, high = ("vt", "wu") if memory else ("v", "w")
    if stores:  # extracts and the like
        return [Part(op, "vw", "t"), Part("MemWrite", "at", "", STORE)]
    if bare.startswith("cvtsi2s"):
        return [*(loads[:1] or [Part("SimdMisc", "dt", "t")]), Part("SimdFloatCvt", "tv", "v")]
    if _TO_INTEGER.fullmatch(bare):
        return [*loads[:1], Part(op, low, "u"), Part("SimdMisc", "u", "r")]
    if bare.startswith(("comis", "ucomis")):
        return [*loads[:1], Part(op, low + "f", "c")]
    if scalar:
        return [*loads[:1], Part(op, low, "v")]
    if bare in ("pmovmskb", "movmskpd", "movmskps"):
        return [_FREE, Part("SimdMisc", "v", "t"), Part("SimdMisc", "wt", "r")]
    if bare.startswith("pextr"):
        return [Part("SimdMisc", "vw", "t"), Part("SimdMisc", "t", "r")]
    if bare.startswith("pinsr"):
        return [*loads[:1], Part("SimdMisc", "dt", "u"), Part("SimdMisc", "vu", "v")]
    if bare in _HALF:
        return [*loads[:1], Part("IntAlu", "vwt", "w")]
    if bare in _BYTE_SHIFTS:
        around = [_FREE] * 4
        return [*around, Part(op, "v", "t"), Part(op, "w", "u"), Part(op, "tu", "vw"), _FREE]
    if bare in _SHUFFLES:
        cross = "vwtu" if memory else "vw"
        return [*loads, Part(op, cross, "u"), Part(op, cross, "w"), Part("IntAlu", "u", "v")]
    if bare in _FROM_LOW:
        return [*loads[:1], Part(op, low, "w"), Part(op, low, "v")]
    if bare.startswith(("punpckl", "unpckl")):
        return [*loads, Part(op, low, "w"), Part(op, low, "v")]
    if bare.startswith(("punpckh", "unpckh")):
        return [*loads, Part(op, high, "v"), Part(op, high, "w")]
    if "R" in operands and "X" not in operands[:1]:
        return [*loads, Part(op, low, "t"), Part("SimdMisc", "wt", "rc")]
    return [*loads, Part(op, low, "v"), Part(op, high, "wc")]


def _vector_loads(memory: bool, wide: bool) -> list[Part]:
    if not memory:
        return []
    low = Part("FloatMemRead", "a", "t", LOAD)
    return [low, Part("FloatMemRead", "a", "u", LOAD, True)] if wide else [low]


def _vector_move(form: Form, bare: str, memory: bool, stores: bool, wide: bool) -> list[Part]:
    constant = Part("FloatAdd", "", "w")
    if stores:
        low = Part("FloatMemWrite", "aw" if bare in _TO_HIGH else "av", "", STORE)
        return [low, Part("FloatMemWrite", "aw", "", STORE, True)] if wide else [low]
    if memory:
        if wide:
            high = Part("FloatMemRead", "a", "w", LOAD, True)
            return [Part("FloatMemRead", "a", "v", LOAD), high]
        load = Part("FloatMemRead", "a", "w" if bare in _TO_HIGH else "v", LOAD)
        zeros = {"movss": 2, "movsd": 1, "movq": 1, "movd": 1}.get(bare, 0)
        return [*[constant] * zeros, load]
    if "R" in form.operands:
        if form.operands[0] == "R":
            return [Part("SimdMisc", "v", "r")]
        return [Part("SimdMisc", "dv", "v"), constant]
    if wide:
        return [Part("IntAlu", "v", "v"), Part("IntAlu", "w", "w")]
    return [Part("IntAlu", "v", "v"), *[constant] * (bare in ("movq", "movd"))]


def _x87(form: Form) -> list[Part]:
    name = form.name
    op = OPS.get(name, "FloatMisc")
    if _memory(form) and re.match(r"fi?stt?p?", name):
        return [Part("FloatMisc", "v", "t"), Part("FloatMemWrite", "at", "", STORE)]
    load = [Part("FloatMemRead", "a", "t", LOAD)] if _memory(form) else []
    if name in ("fld", "fild", "movd", "movq"):
        return [*load, Part("FloatMisc", "t" if load else "vd", "vr")]
    return [*load, Part(op, "vt" if load else "v", "vc")]


@dataclass(frozen=True)
class Table:
    """Arrays of the parts, and where each static instruction's begin."""

    pc: npt.NDArray[np.uint64]
    flags: npt.NDArray[np.uint16]
    op: npt.NDArray[np.uint8]
    branch: npt.NDArray[np.uint8]
    size: npt.NDArray[np.uint16]
    offset: npt.NDArray[np.uint8]
    src: npt.NDArray[np.uint16]
    dst: npt.NDArray[np.uint16]
    begin: npt.NDArray[np.uint32]


_OP: Final = {n: i for i, n in enumerate(schema.OP_CLASSES)}
_KIND: Final = {n: i for i, n in enumerate(schema.BRANCH_KINDS)}


def table(statics: Any) -> Table:
    """The parts of every static instruction of a trace at the macro level."""
    n = len(statics)
    begin = np.zeros(n + 1, np.uint32)
    forms = [form_of(text) for text in statics.disassembly]
    lists = [parts_of(f) for f in forms]
    begin[1:] = np.cumsum([len(p) for p in lists])
    total = int(begin[-1])
    of = np.repeat(np.arange(n), [len(p) for p in lists])
    flat = [p for parts in lists for p in parts]
    src = np.full((total, 8), NO_REGISTER, np.uint16)
    dst = np.full((total, 6), NO_REGISTER, np.uint16)
    flags = np.array([p.flags for p in flat], np.uint16)
    sources = _pairs(statics, "src")
    targets = _pairs(statics, "dst")
    at = 0
    for i, parts in enumerate(lists):
        reads, writes = _roles(forms[i], sources[i], targets[i])
        for p in parts:
            for k, r in enumerate(_numbers(p.reads, reads)[:8]):
                src[at, k] = r
            found = _numbers(p.writes, writes)[:6]
            for k, r in enumerate(found):
                dst[at, k] = r
            if any(r < _CC for r in found):
                flags[at] |= WRITES_INT
            if any(_LOW <= r < _STACK for r in found):
                flags[at] |= WRITES_VEC
            at += 1
    size = statics.access_size[of].astype(np.uint16)
    memory = np.array([bool(p.flags & (LOAD | STORE)) for p in flat])
    wide = np.array([p.high for p in flat])
    halves = wide | np.roll(wide, -1)
    size = np.where(memory, np.where(halves, 8, size), 0).astype(np.uint16)
    kinds = np.array([_branch_kind(f) for f in forms], np.uint8)
    branch = np.where(np.array([p.branch for p in flat]), kinds[of], 0).astype(np.uint8)
    return Table(
        np.ascontiguousarray(statics.pc[of], np.uint64),
        flags,
        np.array([_OP[p.op] for p in flat], np.uint8),
        branch,
        size,
        np.where(wide, 8, 0).astype(np.uint8),
        src,
        dst,
        begin,
    )


def _branch_kind(form: Form) -> int:
    name = form.name
    if name.startswith(("ret", "iret")):
        return _KIND["return"]
    direct = form.operands[:1] == "I"
    if name == "call":
        return _KIND["call" if direct else "indirect_call"]
    if name in ("jmp", "ljmp"):
        return _KIND["jump" if direct else "indirect"]
    if name.startswith(("j", "loop")):
        return _KIND["conditional"]
    return _KIND["none"]


def _pairs(statics: Any, kind: str) -> list[list[tuple[int, int]]]:
    classes = statics.arrays[f"{kind}_class"].tolist()
    numbers = statics.arrays[f"{kind}_index"].tolist()
    return [
        [(c, k) for c, k in zip(cs, ks, strict=True) if c != 255]
        for cs, ks in zip(classes, numbers, strict=True)
    ]


def _roles(
    form: Form, src: list[tuple[int, int]], dst: list[tuple[int, int]]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Which registers each letter of a part stands for."""
    general = [k & 31 for c, k in src if c == 0]
    written = [k & 31 for c, k in dst if c == 0]
    address = general
    data: list[int] = general
    if any(c in form.operands for c in "MP") and general:
        # Address registers come before the data's, each once (tracekit.isa.x86).
        if form.name in ("div", "idiv", "mul", "imul") and len(form.operands) == 1:
            data = [r for r in general if r in (0, 2)]
            address = [r for r in general if r not in data] or general
        elif "R" in form.operands and form.name not in _MOVES | _EXTENSIONS:
            data = general[-1:]
            address = general[:-1] or general
        elif "X" not in form.operands:
            data = general if "R" in form.operands and form.operands[:1] in "MP" else []
    vectors = [k & 31 for c, k in src if c in (1, 2, 3)]
    outs = [k & 31 for c, k in dst if c in (1, 2, 3)]
    # A vector operation is merged into its destination's old value, but for the bitwise ones.
    merges = not _BITWISE.fullmatch(form.name)
    masks = [_MASK + (k & 7) for c, k in src if c == 4]
    temporary = {"t": [_TEMPORARY], "u": [_TEMPORARY + 1], "s": [_RSP]}
    lanes = outs + [r for r in vectors if r not in outs] if merges else vectors
    reads = {
        "a": address,
        "d": data + masks,
        "f": [_CC, _CC + 1],
        "z": [_CC],
        "o": [_CC + 1],
        "v": [_LOW + r for r in lanes],
        "w": [_HIGH + r for r in lanes],
        **temporary,
    }
    flags = any(c == 5 for c, _ in dst)
    out_general = written + [_MASK + (k & 7) for c, k in dst if c == 4]
    stack = form.name in ("push", "pop", "call", "ret", "leave", "enter")
    writes = {
        "r": [r for r in out_general if not (stack and r == _RSP)],
        "c": [_CC, _CC + 1] if flags else [],
        "o": [_CC + 1] if flags else [],
        "v": [_LOW + r for r in outs],
        "w": [_HIGH + r for r in outs],
        **temporary,
    }
    return reads, writes


def _numbers(letters: str, roles: dict[str, list[int]]) -> list[int]:
    return list(dict.fromkeys(r for c in letters for r in roles[c]))
