"""The parts that an abstract X86 core works on, from what is known of whole instructions.

A simulated core does not see an instruction's text from gem5 or its machine code: it sees loads,
operations, stores and branches.  What they are follows here from the instruction's name and the
kinds of its operands, which are the same whether gem5's text gives them (``ADD_R_M``) or a
recording's machine code (``add rax, qword ptr [rcx]``).  How many there are is that of gem5's
decoder (src/arch/x86/isa/insts), whose machines these cores are like: immediates and addresses
relative to the instruction take an operation of their own, 16 bytes go as two halves.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from tracekit import _core
from tracekit.isa.types import words
from tracekit.isa.x86_ops import OPS, op_class

__all__ = ["Form", "Uop", "crack", "form_of"]

_BITS = _core.CORE_INST_BITS
LOAD, STORE, PREFETCH, NOP = (_BITS[k] for k in ("load", "store", "data_prefetch", "no_op"))
SERIALIZE_BEFORE, SERIALIZE_AFTER = _BITS["serialize_before"], _BITS["serialize_after"]
IN_ORDER, BARRIER = _BITS["in_order"], _BITS["barrier"]

_NO_WIDTH: Final = words("nop endbr32 pause")
MOVES: Final = words("mov movabs movnti movbe")
EXTENSIONS: Final = words("movzx movsx movsxd movsxl")
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


class Uop(NamedTuple):
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


_FREE: Final = Uop("IntAlu", "", "t")
BITWISE: Final = re.compile(r"v?p?(xor|or|andn?)(p[sd]|d|q)?")


@lru_cache(maxsize=1 << 12)
def crack(form: Form) -> tuple[Uop, ...]:
    """The parts in the order in which a core works on them."""
    name = form.name
    if name in _NO_WIDTH:
        return (Uop("No_OpClass", flags=NOP),)
    if name in _SERIAL:
        return (Uop("IntAlu", "d", "r", SERIALIZE_AFTER),)
    if name.startswith("rdtsc"):
        return (Uop("IntAlu", "", "r", SERIALIZE_BEFORE | BARRIER), *[_FREE] * 4)
    if name in ("mfence", "lfence", "sfence"):
        return (Uop("IntAlu", flags=BARRIER),)
    if name.startswith(("prefetch", "clflush", "clwb")):
        return (*_relative(form), Uop("MemRead", "a", "", LOAD | PREFETCH))
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


def _relative(form: Form) -> list[Uop]:
    return [_FREE] if "P" in form.operands else []


def _memory(form: Form) -> bool:
    return any(c in form.operands for c in "MP") and form.name != "lea"


def _branch(form: Form) -> list[Uop]:
    name, to = form.name, form.operands[:1]
    if name.startswith("ret"):
        return [
            Uop("MemRead", "s", "t", LOAD),
            Uop("IntAlu", "s", "s"),
            Uop("IntAlu", "t", branch=True),
        ]
    push = [Uop("MemWrite", "s", "", STORE), Uop("IntAlu", "s", "s")]
    if name == "call":
        if to == "I":
            return [_FREE, _FREE, *push, Uop("IntAlu", branch=True)]
        if to == "R":
            return [_FREE, *push, Uop("IntAlu", "d", branch=True)]
        # The place on the stack is not the row's address.
        push[0] = Uop("MemWrite", "s")
        free = [] if to == "P" else [_FREE]
        return [*free, Uop("MemRead", "a", "t", LOAD), *push, Uop("IntAlu", "t", branch=True)]
    if to in ("M", "P"):
        return [Uop("MemRead", "a", "t", LOAD), Uop("IntAlu", "t", branch=True)]
    if to == "R":
        return [Uop("IntAlu", "d", branch=True)]
    counts = name.startswith(("loop", "jrcx", "jecx", "jcx"))
    reads = "d" if counts else "" if name in ("jmp", "ljmp") else "f"
    return [_FREE, _FREE, Uop("IntAlu", reads, "r" if counts else "", branch=True)]


def _stack(form: Form) -> list[Uop]:
    name = form.name
    if name.startswith("push") or name == "enter":
        down = [Uop("MemWrite", "sd", "", STORE), Uop("IntAlu", "s", "s")]
        if _memory(form):
            return [Uop("MemRead", "a", "t", LOAD), Uop("MemWrite", "st"), down[1]]
        return [_FREE, *down] if "I" in form.operands else down
    up = [Uop("MemRead", "s", "t", LOAD), Uop("IntAlu", "s", "s")]
    if name == "leave":
        return [Uop("IntAlu", "d", "s"), *up, Uop("IntAlu", "t", "r")]
    if _memory(form):
        return [*up, Uop("MemWrite", "t")]
    return [*up, Uop("IntAlu", "t", "r")]


def _string(form: Form) -> list[Uop]:
    """One turn; what a repeated one does beside it stands around."""
    reads = [Uop("MemRead", "a", "t", LOAD)] if form.name != "stos" else []
    writes = [Uop("MemWrite", "at", "", STORE)] if form.name in ("movs", "stos") else []
    steps = [Uop("IntAlu", "d", "r")] * (3 if form.repeated else 2)
    around = [Uop("IntAlu", "d", "t")] * (6 if form.repeated else 1)
    return [*around, *reads, *writes, *steps]


def _integer(form: Form) -> list[Uop]:
    name, operands = form.name, form.operands
    immediate = "I" in operands
    if name == "lea":
        return [Uop("IntAlu", "ad", "r")]
    memory = _memory(form)
    stores = memory and operands[:1] in ("M", "P")
    if form.locked or (name == "xchg" and memory):
        return _locked(form)
    if name in MOVES:
        if stores:
            return [*[_FREE] * immediate, Uop("MemWrite", "ad", "", STORE)]
        if memory:
            return [Uop("MemRead", "a", "r", LOAD)]
        return [Uop("IntAlu", "d", "r")]
    if name in EXTENSIONS:
        if memory:
            # What is narrower than 32 bits is put into the temporary's old value.
            reads = "a" if name == "movsxd" else "at"
            return [Uop("MemRead", reads, "t", LOAD), Uop("IntAlu", "t", "r")]
        if form.byte:
            return [Uop("IntAlu", "dt", "t"), Uop("IntAlu", "t", "r")]
        return [Uop("IntAlu", "d", "r")]
    source = "dt" if memory else "d"
    load = [Uop("MemRead", "a", "t", LOAD)] if memory else []
    if name.startswith("set"):
        out = [Uop("IntAlu", "ft" if memory else "fd", "t" if memory else "r")] * 2
        return [*out, Uop("MemWrite", "at", "", STORE)] if memory else out
    if name.startswith("cmov"):
        return [*load, *[Uop("IntAlu", source + "f", "r")] * 2]
    if name in ("mul", "imul", "mulx"):
        product = [Uop("IntMult", source, "u"), *[Uop("IntAlu", "u", "ro")] * 2]
        return [*[_FREE] * immediate, *load, *product]
    if name in _DIV_TURNS:
        turns = _DIV_TURNS[name] + 2
        rest = _DIV_REST[name]
        chain = [Uop("IntDiv", source + "u", "u")] * turns
        around = [Uop("IntAlu", source, "v")] * (rest - 2)
        return [*around, *load, *chain, *[Uop("IntAlu", "u", "rc")] * 2]
    if name in _SCANS:
        n = _SCANS[name]
        chain = [Uop("IntAlu", "u", "u"), _FREE] * ((n - 2) // 2)
        return [*load, Uop("IntAlu", source, "u"), *chain, Uop("IntAlu", "u", "rc")]
    if name == "not":
        immediate = True
    if name == "xchg":
        return [Uop("IntAlu", "d", "r")] * 3
    if name == "bswap":
        return [Uop("IntAlu", "d", "u"), Uop("IntAlu", "u", "u"), Uop("IntAlu", "u", "r")]
    writes = "c"
    if name in _SHIFTS:  # those bits that a shift leaves are merged
        immediate = False
        source += "" if name.startswith("r") else "z"
        writes = "o" if name.startswith("r") else "c"
    if name in ("inc", "dec"):
        source += "o"
    keeps = name in _COMPARES
    if name in ("bts", "btr", "btc"):
        chain = [Uop("IntAlu", "u", "u")] * 2
        return [_FREE, *load, Uop("IntAlu", source, "u"), *chain[1:], Uop("IntAlu", "u", "rc")]
    if name in ("shld", "shrd"):
        return [*load, Uop("IntAlu", "d", "u"), Uop("IntAlu", source + "u", "rc")]
    reads = source + ("f" if name in ("adc", "sbb", "rcl", "rcr") else "")
    free = [_FREE] * immediate
    if name == "cqo":
        free = [_FREE]
    if stores and not keeps:
        return [
            *free,
            *load,
            Uop("IntAlu", reads, "u" + writes),
            Uop("MemWrite", "au", "", STORE),
        ]
    return [*free, *load, Uop("IntAlu", reads, writes if keeps else "r" + writes)]


def _locked(form: Form) -> list[Uop]:
    fence = Uop("IntAlu", flags=BARRIER)
    middle = {"xchg": 0, "cmpxchg": 2}.get(form.name, 1)
    return [
        *[_FREE] * ("I" in form.operands),
        fence,
        Uop("MemRead", "a", "t", LOAD | IN_ORDER),
        *[Uop("IntAlu", "dt", "uc")] * middle,
        Uop("MemWrite", "adtu", "", STORE),
        fence,
        *[Uop("IntAlu", "t", "r")] * (form.name in ("xchg", "cmpxchg", "xadd")),
    ]


def _vector(form: Form) -> list[Uop]:
    name, operands = form.name, form.operands
    bare = name[1:] if name.startswith("v") and name not in OPS else name
    memory = _memory(form)
    stores = memory and operands[:1] in ("M", "P")
    if bare in ("stmxcsr", "fnstcw", "fnstsw"):
        return [_FREE, Uop("MemWrite", "a", "", STORE)]
    if bare in ("ldmxcsr", "fldcw"):
        return [Uop("MemRead", "a", "t", LOAD), Uop("IntAlu", "t")]
    if "F" in operands or (bare.startswith("f") and "X" not in operands):
        return _x87(form)
    if "K" in operands and "X" not in operands:
        return [*_vector_loads(memory, False), Uop("SimdPredAlu", "dt", "r")]
    wide = bool(_WIDE_MOVES.fullmatch(name))
    if wide or bare in _NARROW_MOVES:
        return _vector_move(form, bare, memory, stores, wide)
    op = op_class(name, vector=True, integer="R" in operands)
    scalar = bool(_SCALAR.fullmatch(bare)) or bare.startswith(("comis", "ucomis"))
    loads = _vector_loads(memory, not scalar)
    low, high = ("vt", "wu") if memory else ("v", "w")
    if stores:  # extracts and the like
        return [Uop(op, "vw", "t"), Uop("MemWrite", "at", "", STORE)]
    if bare.startswith("cvtsi2s"):
        return [*(loads[:1] or [Uop("SimdMisc", "dt", "t")]), Uop("SimdFloatCvt", "tv", "v")]
    if _TO_INTEGER.fullmatch(bare):
        return [*loads[:1], Uop(op, low, "u"), Uop("SimdMisc", "u", "r")]
    if bare.startswith(("comis", "ucomis")):
        return [*loads[:1], Uop(op, low + "f", "c")]
    if scalar:
        return [*loads[:1], Uop(op, low, "v")]
    if bare in ("pmovmskb", "movmskpd", "movmskps"):
        return [_FREE, Uop("SimdMisc", "v", "t"), Uop("SimdMisc", "wt", "r")]
    if bare.startswith("pextr"):
        return [Uop("SimdMisc", "vw", "t"), Uop("SimdMisc", "t", "r")]
    if bare.startswith("pinsr"):
        return [*loads[:1], Uop("SimdMisc", "dt", "u"), Uop("SimdMisc", "vu", "v")]
    if bare in _HALF:
        return [*loads[:1], Uop("IntAlu", "vwt", "w")]
    if bare in _BYTE_SHIFTS:
        around = [_FREE] * 4
        return [*around, Uop(op, "v", "t"), Uop(op, "w", "u"), Uop(op, "tu", "vw"), _FREE]
    if bare in _SHUFFLES:
        cross = "vwtu" if memory else "vw"
        return [*loads, Uop(op, cross, "u"), Uop(op, cross, "w"), Uop("IntAlu", "u", "v")]
    if bare in _FROM_LOW:
        return [*loads[:1], Uop(op, low, "w"), Uop(op, low, "v")]
    if bare.startswith(("punpckl", "unpckl")):
        return [*loads, Uop(op, low, "w"), Uop(op, low, "v")]
    if bare.startswith(("punpckh", "unpckh")):
        return [*loads, Uop(op, high, "v"), Uop(op, high, "w")]
    if "R" in operands and "X" not in operands[:1]:
        return [*loads, Uop(op, low, "t"), Uop("SimdMisc", "wt", "rc")]
    return [*loads, Uop(op, low, "v"), Uop(op, high, "wc")]


def _vector_loads(memory: bool, wide: bool) -> list[Uop]:
    if not memory:
        return []
    low = Uop("FloatMemRead", "a", "t", LOAD)
    return [low, Uop("FloatMemRead", "a", "u", LOAD, True)] if wide else [low]


def _vector_move(form: Form, bare: str, memory: bool, stores: bool, wide: bool) -> list[Uop]:
    constant = Uop("FloatAdd", "", "w")
    if stores:
        low = Uop("FloatMemWrite", "aw" if bare in _TO_HIGH else "av", "", STORE)
        return [low, Uop("FloatMemWrite", "aw", "", STORE, True)] if wide else [low]
    if memory:
        if wide:
            high = Uop("FloatMemRead", "a", "w", LOAD, True)
            return [Uop("FloatMemRead", "a", "v", LOAD), high]
        load = Uop("FloatMemRead", "a", "w" if bare in _TO_HIGH else "v", LOAD)
        zeros = {"movss": 2, "movsd": 1, "movq": 1, "movd": 1}.get(bare, 0)
        return [*[constant] * zeros, load]
    if "R" in form.operands:
        if form.operands[0] == "R":
            return [Uop("SimdMisc", "v", "r")]
        return [Uop("SimdMisc", "dv", "v"), constant]
    if wide:
        return [Uop("IntAlu", "v", "v"), Uop("IntAlu", "w", "w")]
    return [Uop("IntAlu", "v", "v"), *[constant] * (bare in ("movq", "movd"))]


def _x87(form: Form) -> list[Uop]:
    name = form.name
    op = OPS.get(name, "FloatMisc")
    if _memory(form) and re.match(r"fi?stt?p?", name):
        return [Uop("FloatMisc", "v", "t"), Uop("FloatMemWrite", "at", "", STORE)]
    load = [Uop("FloatMemRead", "a", "t", LOAD)] if _memory(form) else []
    if name in ("fld", "fild", "movd", "movq"):
        return [*load, Uop("FloatMisc", "t" if load else "vd", "vr")]
    return [*load, Uop(op, "vt" if load else "v", "vc")]
