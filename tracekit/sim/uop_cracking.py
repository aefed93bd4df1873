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
from tracekit.sim.microcode_loops import DIVISION_TURNS
from tracekit.sim.uop_forms import STRING, Form

__all__ = ["Uop", "crack"]

_BITS = _core.CORE_INST_BITS
LOAD, STORE, PREFETCH, NOP = (_BITS[k] for k in ("load", "store", "data_prefetch", "no_op"))
SERIALIZE_BEFORE, SERIALIZE_AFTER = _BITS["serialize_before"], _BITS["serialize_after"]
TRAPS: Final = _BITS["traps"]
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


class Uop(NamedTuple):
    """``reads``: a address, d data registers, f flags, z those but carry and overflow, o the
    latter, v and w low and high vector halves, s rsp, r what is written, p what is written alone,
    A rax, D rdx, e the others of d, t, u, 3 to 6 and x gem5's temporaries t1 to t7, U and V its
    ufp1 and ufp2, q, m and n its
    quotient, remainder and divisor, i and j its product, k and l its emulation flags ECF and
    EZF; ``writes``: r
    general registers, c flags and those of these that are registers."""

    op: str
    reads: str = ""
    writes: str = ""
    flags: int = 0
    high: bool = False  # the access to the second 8 bytes
    branch: bool = False
    back: int = 0  # of a microcode loop's branch: where it goes, so many parts in front of it


_FREE: Final = Uop("IntAlu", "", "t")
_FREE_2: Final = Uop("IntAlu", "", "u")
#: gem5 warns that it has no non-temporal accesses, by a fault.
_NO_HINT: Final = Uop("No_OpClass", flags=TRAPS)
#: gem5's rdip into t7.
_OWN_ADDRESS: Final = Uop("IntAlu", "", "x")
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
    if form.repeated or (STRING.fullmatch(name) and "X" not in form.operands):
        return tuple(_string(form))
    if any(c in form.operands for c in "XFK") or _real(name):
        return (*_relative(form), *_vector(form))
    uops = _integer(form)
    if form.narrow and name not in EXTENSIONS and not name.startswith("set"):
        uops = [_merged(u) for u in uops]
    return (*_relative(form), *uops)


def _merged(uop: Uop) -> Uop:
    """Of one byte or two: what it writes keeps its other bytes, so that they are read, too."""
    if uop.flags & STORE or not uop.writes or uop.op == "IntMult":
        return uop
    kept = "r" if "t" in uop.reads else "rtu"
    old = "".join("p" if w == "r" else w for w in uop.writes if w in kept)
    return uop._replace(reads=uop.reads + old)


def _real(name: str) -> bool:
    return OPS.get(name, "").startswith(("Simd", "Float")) or name in ("stmxcsr", "ldmxcsr")


def _relative(form: Form) -> list[Uop]:
    return [_OWN_ADDRESS] if "P" in form.operands else []


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
    push = [Uop("MemWrite", "sx", "", STORE), Uop("IntAlu", "s", "s")]
    if name == "call":
        if to == "I":
            return [_FREE, _OWN_ADDRESS, *push, Uop("IntAlu", "xt", branch=True)]
        if to == "R":
            push[0] = Uop("MemWrite", "st", "", STORE)
            return [_FREE, *push, Uop("IntAlu", "d", branch=True)]
        # The place on the stack is not the row's address.
        push[0] = Uop("MemWrite", "sx")
        own = [] if to == "P" else [_OWN_ADDRESS]
        place = "x" if to == "P" else "a"
        return [*own, Uop("MemRead", place, "t", LOAD), *push, Uop("IntAlu", "t", branch=True)]
    if to in ("M", "P"):
        return [Uop("MemRead", "a", "t", LOAD), Uop("IntAlu", "t", branch=True)]
    if to == "R":
        return [Uop("IntAlu", "d", branch=True)]
    counts = name.startswith(("loop", "jrcx", "jecx", "jcx"))
    reads = "d" if counts else "" if name in ("jmp", "ljmp") else "f"
    jump = Uop("IntAlu", reads + "tu", "r" if counts else "", branch=True)
    return [_FREE, _FREE_2, jump]


def _stack(form: Form) -> list[Uop]:
    name = form.name
    if name.startswith("push") or name == "enter":
        down = [Uop("MemWrite", "sd", "", STORE), Uop("IntAlu", "s", "s")]
        if _memory(form):
            return [Uop("MemRead", "a", "t", LOAD), Uop("MemWrite", "st"), down[1]]
        if "I" in form.operands:
            return [_FREE, Uop("MemWrite", "st", "", STORE), down[1]]
        return down
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
        return [Uop("IntAlu", "ap", "r")]
    memory = _memory(form)
    stores = memory and operands[:1] in ("M", "P")
    if form.locked or (name == "xchg" and memory):
        return _locked(form)
    if name in MOVES:
        if stores:
            value = "at" if immediate else "ad"
            hint = [_NO_HINT] if name == "movnti" else []
            return [*hint, *[_FREE] * immediate, Uop("MemWrite", value, "", STORE)]
        if memory:
            return [Uop("MemRead", "a", "r", LOAD)]
        return [Uop("IntAlu", "d", "r")]
    if name in EXTENSIONS:
        if memory:
            # What is narrower than 32 bits is put into the register's old value.
            if name == "movsx" and not form.byte:
                return [Uop("MemRead", "ap", "r", LOAD), Uop("IntAlu", "p", "r")]
            reads = "a" if name == "movsxd" else "at"
            return [Uop("MemRead", reads, "t", LOAD), Uop("IntAlu", "t", "r")]
        if form.byte:
            return [Uop("IntAlu", "dt", "t"), Uop("IntAlu", "t", "r")]
        return [Uop("IntAlu", "d", "r")]
    constant = [_FREE_2 if memory else _FREE] * immediate
    source = "d" + "t" * (memory or immediate) + "u" * (memory and immediate)
    load = [Uop("MemRead", "a", "t", LOAD)] if memory else []
    if name.startswith("set"):
        out = [Uop("IntAlu", "ft" if memory else "fd", "t" if memory else "r")] * 2
        return [*out, Uop("MemWrite", "at", "", STORE)] if memory else out
    if name.startswith("cmov"):
        return [*load, Uop("IntAlu", "pf", "r"), Uop("IntAlu", source + "pf", "r")]
    if name in ("mul", "imul", "mulx"):
        low, high = ("A", "D") if len(operands) == 1 else ("r", "")
        product = [
            Uop("IntMult", source + ("j" if name == "mul" else "ij"), "ijo"),
            Uop("IntAlu", "i", low),
        ]
        return [*constant, *load, *product, Uop("IntAlu", "j", high)]
    if name in DIVISION_TURNS:
        return _division(name, memory)
    if name in ("bsf", "bsr"):
        return _scan(name, load, source)
    if name == "popcnt":
        return [*load, Uop("IntAlu", source, "u"), _FREE, Uop("IntAlu", "u", "rc")]
    if name == "not":
        constant = [_FREE_2 if memory else _FREE]
        source = "dtu" if memory else "dt"
    if name == "xchg":
        return [Uop("IntAlu", "d", "r")] * 3
    if name == "bswap":
        return [Uop("IntAlu", "d", "u"), Uop("IntAlu", "u", "u"), Uop("IntAlu", "u", "r")]
    writes = "c"
    if name in _SHIFTS:  # those bits that a shift leaves are merged
        constant, source = [], "dt" if memory else "d"
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
    reads = source + ("o" if name in ("adc", "sbb", "rcl", "rcr") else "")
    if name == "cqo":
        return [Uop("IntAlu", "d", "r"), Uop("IntAlu", "p", "r")]
    if stores and not keeps:
        return [
            *constant,
            *load,
            Uop("IntAlu", reads, "u" + writes),
            Uop("MemWrite", "au", "", STORE),
        ]
    first = [*load, *constant] if name == "test" else [*constant, *load]
    return [*first, Uop("IntAlu", reads, writes if keeps else "r" + writes)]


def _steps(name: str, by: str) -> list[Uop]:
    """A division of rdx and rax by ``by``, whose sign is known: quotient and remainder."""
    begin, left, high = ("D", "t", "A") if name == "div" else ("u", "4", "t")
    out = [Uop("IntDiv", begin + by, "qmn"), Uop("IntDiv", high + "qmn", left + "qm")]
    step = Uop("IntDiv", high + left + "qmn", left + "qm")
    last = Uop("IntDiv", high + left + "qmn", left + "qml")
    again = Uop("IntAlu", "f", branch=True, back=4)
    return [*out, *[step] * 4, last, again]


def _division(name: str, memory: bool) -> list[Uop]:
    """gem5's microcode (insts/general_purpose/arithmetic/multiply_and_divide.py)."""
    load = [Uop("MemRead", "a", "u" if name == "div" else "3", LOAD)] if memory else []
    if name == "div":
        by = "u" if memory else "e"
        return [*load, *_steps(name, by), Uop("IntAlu", "q", "A"), Uop("IntAlu", "m", "D")]
    by = "3" if memory else "e"
    return [
        *load,
        Uop("IntAlu", "A", "tk"),
        Uop("IntAlu", "f", "4l"),
        Uop("IntAlu", "D", "u"),
        Uop("IntAlu", "u4", "u"),
        Uop("IntAlu", by, "k"),
        Uop("IntAlu", by, "3"),
        Uop("IntAlu", "f3" + by, "3"),
        Uop("IntAlu", "D", "k"),
        Uop("IntAlu", "Atf", "t"),
        Uop("IntAlu", "Duf", "u"),
        *_steps(name, "3"),
        Uop("IntAlu", "q", "5"),
        Uop("IntAlu", "m", "6"),
        Uop("IntAlu", "6", "4"),
        *[Uop("IntAlu", "Df" + part, "D") for part in "46"],
        Uop("IntAlu", "5", "4"),
        Uop("IntAlu", "f45", "5"),
        Uop("IntAlu", by, "k"),
        Uop("IntAlu", "5", "4"),
        *[Uop("IntAlu", "Af" + part, "A") for part in "45"],
    ]


def _scan(name: str, load: list[Uop], source: str) -> list[Uop]:
    """gem5's microcode (insts/general_purpose/compare_and_test/bit_scan.py): six halvings."""
    begin = [*load, Uop("IntAlu", "", "t"), Uop("IntAlu", source + "z", "tz")]
    begin += [Uop("IntAlu", "f", branch=True), Uop("IntAlu", "p", "r")]  # of a zero
    if name == "bsf":
        begin += [Uop("IntAlu", "t", "u"), Uop("IntAlu", "tu", "t")]
    half = [Uop("IntAlu", "t", "3k"), Uop("IntAlu", "p", "4"), Uop("IntAlu", "p4f", "r")]
    return [*begin, *[*half, Uop("IntAlu", "t3f", "t")] * 5, *half, Uop("No_OpClass")]


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
        return [_FREE, Uop("MemWrite", "at", "", STORE)]
    if bare in ("ldmxcsr", "fldcw"):
        return [Uop("MemRead", "a", "t", LOAD), Uop("IntAlu", "t")]
    if "F" in operands or (bare.startswith("f") and "X" not in operands):
        return _x87(form)
    if "K" in operands and "X" not in operands:
        return [*_vector_loads(memory, False), Uop("SimdPredAlu", "dU", "r")]
    wide = bool(_WIDE_MOVES.fullmatch(name))
    if wide or bare in _NARROW_MOVES:
        return _vector_move(form, bare, memory, stores, wide)
    op = op_class(name, vector=True, integer="R" in operands)
    scalar = bool(_SCALAR.fullmatch(bare)) or bare.startswith(("comis", "ucomis"))
    loads = _vector_loads(memory, not scalar)
    if "P" in operands and _ADDRESS_FIRST.fullmatch(bare):
        loads = [Uop("IntAlu", "x", "x"), *loads]
    low, high = ("vU", "wV") if memory else ("v", "w")
    if stores:  # extracts and the like
        return [Uop(op, "vw", "t"), Uop("MemWrite", "at", "", STORE)]
    if bare.startswith("cvtsi2s"):
        return [*(loads[:1] or [Uop("SimdMisc", "dU", "U")]), Uop("SimdFloatCvt", "Uv", "v")]
    if _TO_INTEGER.fullmatch(bare):
        return [*loads[:1], Uop(op, low + "V", "V"), Uop("SimdMisc", "Vp", "r")]
    if bare.startswith(("comis", "ucomis")):
        return [*loads[:1], Uop(op, low + "zo", "c")]
    if scalar:
        return [*loads[:1], Uop(op, low, "v")]
    if bare in ("pmovmskb", "movmskpd", "movmskps"):
        return [Uop("IntAlu", "", "r"), *[Uop("SimdMisc", half + "p", "r") for half in "vw"]]
    if bare.startswith("pextr"):
        return [Uop("SimdMisc", "vw", "t"), Uop("SimdMisc", "t", "r")]
    if bare.startswith("pinsr"):
        return [*loads[:1], Uop("SimdMisc", "dt", "u"), Uop("SimdMisc", "vu", "v")]
    if bare in _HALF:
        return [*loads[:1], Uop("IntAlu", "vwU", "w")]
    if bare in _BYTE_SHIFTS:
        around = [_FREE] * 4
        return [*around, Uop(op, "v", "U"), Uop(op, "w", "V"), Uop(op, "UV", "vw"), _FREE]
    if bare in _SHUFFLES:
        cross = "vwUV" if memory else "vw"
        return [*loads, Uop(op, cross, "V"), Uop(op, cross, "w"), Uop("IntAlu", "V", "v")]
    if bare in _FROM_LOW:
        return [*loads[:1], Uop(op, low, "w"), Uop(op, low, "v")]
    if bare.startswith(("punpckl", "unpckl")):
        return [*loads, Uop(op, low, "w"), Uop(op, low, "v")]
    if bare.startswith(("punpckh", "unpckh")):
        return [*loads, Uop(op, high, "v"), Uop(op, high, "w")]
    if "R" in operands and "X" not in operands[:1]:
        return [*loads, Uop(op, low, "t"), Uop("SimdMisc", "wt", "rc")]
    return [*loads, Uop(op, low, "v"), Uop(op, high, "wc")]


#: Of these gem5 computes the address beside the instruction in a step of its own.
_ADDRESS_FIRST: Final = re.compile(r"p?(and|or|andn)(p[sd])?|pxor|p?unpckh\w+")


def _vector_loads(memory: bool, wide: bool) -> list[Uop]:
    if not memory:
        return []
    low = Uop("FloatMemRead", "a", "U", LOAD)
    return [low, Uop("FloatMemRead", "a", "V", LOAD, True)] if wide else [low]


def _vector_move(form: Form, bare: str, memory: bool, stores: bool, wide: bool) -> list[Uop]:
    constant = Uop("FloatAdd", "", "w")
    if stores:
        low = Uop("FloatMemWrite", "aw" if bare in _TO_HIGH else "av", "", STORE)
        hint = [_NO_HINT] if bare.startswith("movnt") else []
        return [*hint, low, *[Uop("FloatMemWrite", "aw", "", STORE, True)] * wide]
    if memory:
        if wide:
            high = Uop("FloatMemRead", "a", "w", LOAD, True)
            return [Uop("FloatMemRead", "a", "v", LOAD), high]
        load = Uop("FloatMemRead", "a", "w" if bare in _TO_HIGH else "v", LOAD)
        if bare in ("movq", "movd"):
            return [load, constant]
        zeros = [Uop("FloatAdd", "", half) for half in {"movss": "vw", "movsd": "w"}.get(bare, "")]
        return [*zeros, load]
    if "R" in form.operands:
        if form.operands[0] == "R":
            return [Uop("SimdMisc", "vp", "r")]
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
