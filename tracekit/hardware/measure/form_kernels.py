"""Kernels of instruction forms of x86-64 as assembler text: a chain and independent copies.

A form is `tracekit.hardware.forms`' key, ``vpaddd ymm, ymm, m256``.  A chain's every instruction
reads what the one before it wrote, so its time is the latency; the copies share nothing, so theirs
is the reciprocal throughput.  This module imports nothing of the package: the build runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Text", "form_texts", "include_text"]


class Text(NamedTuple):
    """Assembler text of one kernel: what runs once, the loop's body, how many instances of the form
    the body has, and the cycles of other instructions in one step of a chain."""

    setup: str
    body: str
    instances: int
    others: float = 0.0


_INT = ("a", "b", "c", "d", "bp", *(str(i) for i in range(8, 15)))
_WIDTHS = {"r64": 64, "r32": 32, "r16": 16, "r8": 8}
_SIZE = {
    "m8": "byte", "m16": "word", "m32": "dword", "m64": "qword", "m80": "tbyte",
    "m128": "xmmword", "m256": "ymmword", "m512": "zmmword",
}  # fmt: skip
#: With one register twice they are known to be zero (or ones) before they run.
_IDIOMS = re.compile(r"v?(p?xor[dq]?|xorp[sd]|psub\w+|pcmp(eq|gt)\w|p?andn\w*|sub|xor|sbb|cmp)")
#: Nothing is measured of these: they end a block, are no work, stop, wait, or need privileges.
_NOT = re.compile(
    r"(rep\w* |bnd |xacquire |xrelease )?(j|call|ret|loop|push\b|pushf|pop\b|popf|enter|leave|nop|"
    r"endbr|int|iret|"
    r"hlt|cli|sti|in$|out|ins[bwd]|outs|movs[bwq]$|cmps[bwq]$|stos|scas|lods|cpuid|rd|wr|sys|x(save|"
    r"rstor|getbv|setbv|test|begin|end|abort|lat|crypt|sha|store)|f|v?(ld|st)mxcsr|clflush|clwb|"
    r"prefetch|pause|mfence|lfence|sfence|emms|vzero|ud|cl[dct]|st[cd]|cmc|lahf|sahf|bound|arpl|"
    r"vp?gather|vp?scatter|lar|lsl|l[fgs]s|verr|verw|str$|sldt|smsw|lmsw|lgdt|lidt|sgdt|sidt|"
    r"monitor|mwait|incssp|wait|wbinvd|inv|vmaskmov|vpmaskmov|maskmov|movabs|bnd|ljmp|lcall|"
    r"v?movnt|enq|tpause|umwait|setssbsy|vcmp\w+ k|daa|das|aaa|aas)"
)
#: Both registers of these are both read and written.
_WRITES_ONLY_FLAGS = (
    "cmp", "test", "bt", "comiss", "comisd", "ucomiss", "ucomisd",
    "vcomiss", "vcomisd", "vucomiss", "vucomisd",
)  # fmt: skip
_FLAG_CHAINS = ("adc", "sbb", "rcl", "rcr", "adcx", "adox")


def _register(kind: str, i: int) -> str:
    """The ``i``-th register of this kind that a kernel may use."""
    if kind in _WIDTHS:
        n, width = _INT[i % len(_INT)], _WIDTHS[kind]
        if n.isdigit():
            return f"r{n}" + {64: "", 32: "d", 16: "w", 8: "b"}[width]
        if n == "bp":
            return {64: "rbp", 32: "ebp", 16: "bp", 8: "bpl"}[width]
        return {64: f"r{n}x", 32: f"e{n}x", 16: f"{n}x", 8: f"{n}l"}[width]
    return f"{kind}{i % 8 if kind in ('k', 'mm') else i}"


def _registers(kind: str) -> int:
    return len(_INT) - 1 if kind in _WIDTHS else {"mm": 6, "k": 5}.get(kind, 13)


def _value(mnemonic: str) -> int:
    """What vector registers hold: numbers near one, so that nothing becomes slow."""
    return 0x3F8000013F800001 if mnemonic.endswith(("ps", "ss")) else 0x3FF0000000000001


def _setup(mnemonic: str, kinds: Iterable[str], operands: str) -> str:
    lines = [f"mov {_register('r64', i)}, {3 + i}" for i in range(len(_INT))]
    text = " ".join(kinds)
    if "mm" in text:
        wide = "ymm" if "ymm" in text or "zmm" in text or mnemonic[0] == "v" else "xmm"
        lines += [f"movabs rax, {_value(mnemonic):#x}"]
        lines += [f"mov [rdi + {4032 + 8 * i}], rax" for i in range(8)]
        if re.search(r"\bmm", text):
            lines += [f"movq mm{i}, rax" for i in range(8)]
        else:
            move = {"xmm": "movaps", "ymm": "vmovaps"}[wide]
            if "zmm" in text:
                wide, move = "zmm", "vmovaps"
            lines += [f"{move} {wide}{i}, [rdi + 4032]" for i in range(16)]
        lines += ["mov eax, 3"]
    if "k" in kinds or "{k}" in operands:
        lines += [f"kxnorw k{i}, k{i}, k{i}" for i in range(1, 8)]
    return "\n".join(lines)


def _memory(kind: str, i: int, base: str, vector: str) -> str:
    size = kind.partition("{")[0]
    step = 64 if base == "rsi" else max(int(size[1:] or 64) // 8, 4)  # stores side by side
    place = f"[{base} + {step * (i % 24)}]"
    if "{1to" in kind:
        lanes = {"xmm": 128, "ymm": 256, "zmm": 512}[vector] // int(size[1:])
        return f"{_SIZE[size]} ptr {place}{{1to{lanes}}}"
    return f"{_SIZE[size]} ptr {place}" if size in _SIZE else place


def _address(kind: str, i: int, chain: bool) -> str:
    base = _register("r64", i if chain else 13) if chain else "rsi"
    parts = kind.strip("[]").split("+")
    out = []
    for p in parts:
        if p == "b":
            out.append(base)
        elif p == "i":
            out.append("rsi" if chain else "rdi")
        elif p == "s":
            out.append(f"{base if parts[0] == 's' else 'rdi'}*4")
        elif p == "d":
            out.append("8")
        else:
            return ""
    return f"[{' + '.join(out)}]"


def _split(form: str) -> tuple[str, list[str]]:
    words = form.split(" ")
    prefix = []
    while words[0] in ("lock", "rep", "repe", "repne"):
        prefix.append(words.pop(0))
    mnemonic, _, rest = " ".join(words).partition(" ")
    return " ".join([*prefix, mnemonic]), [k.strip() for k in rest.split(",")] if rest else []


_IMMEDIATE = {"pclmulqdq": "0", "vpclmulqdq": "0", "vpternlogd": "0x96", "vpternlogq": "0x96"}
_ONE = re.compile(r"v(extract|insert)[fi](128|64x|32x)")


def _line(mnemonic: str, names: list[str]) -> str:
    return f"{mnemonic} {', '.join(names)}".rstrip()


def _operands(
    mnemonic: str, kinds: list[str], i: int, *, chain: bool, same: bool
) -> list[str] | None:
    """The operands of the ``i``-th instance: its own destination, sources that stay, and with
    ``chain`` the destination as first source (``same``: as every one)."""
    vector = next((k[:3] for k in reversed(kinds) if k[:3] in ("xmm", "ymm", "zmm")), "zmm")
    if vector != "zmm" and any(k.startswith("zmm") for k in kinds):
        vector = "zmm"
    names: list[str] = []
    memory_first = kinds[0][0] == "m" and kinds[0][:2] != "mm"
    used, other = not chain, 0
    for at, whole in enumerate(kinds):
        kind, _, mask = whole.partition(" ")
        if kind in ("i", "1", "cl"):
            name = {"1": "1", "cl": "cl"}.get(kind)
            name = name or _IMMEDIATE.get(mnemonic, "1" if _ONE.match(mnemonic) else "3")
        elif kind[0] == "[":
            name = _address(kind, i, chain)
            if not name:
                return None
        elif kind[0] == "m" and kind != "mm":
            name = _memory(kind, i, "rdi" if memory_first else "rsi", vector)
        elif kind in _WIDTHS or kind in ("xmm", "ymm", "zmm", "mm", "k"):
            first = 1 if kind == "k" else 0
            last = {"mm": 7, "k": 7}.get(kind, 15 if kind not in _WIDTHS else 11)
            if at == 0:
                name = _register(kind, first + i)
            elif not used:
                name, used = _register(kind, first + i), same
                used = not same
            else:  # each source a register of its own: x - x, say, is known before it runs
                name, other = _register(kind, last - other), other + 1
        else:
            return None
        if mask:
            if mask == "{k}":
                name += " {k1}"
            elif mask == "{k}{z}" or mask == "{k} {z}":
                name += " {k1}{z}"
            else:
                return None
        names.append(name)
    return names


def form_texts(form: str) -> tuple[Text | None, Text | None]:
    """The latency chain and the independent copies of a form; None where there is none that is
    sound: a chain needs a destination that can be read again."""
    mnemonic, kinds = _split(form)
    if _NOT.match(form) or "r8h" in kinds or "sreg" in kinds or "creg" in kinds or "st" in kinds:
        return None, None
    if special := _special(mnemonic, kinds):
        return special
    if not kinds:
        return None, None
    return _chain(mnemonic, kinds), _copies(mnemonic, kinds)


def _class(kind: str) -> str:
    kind = kind.partition(" ")[0]
    return "int" if kind in _WIDTHS else "vector" if kind in ("xmm", "ymm", "zmm") else kind


def _chain(mnemonic: str, kinds: list[str]) -> Text | None:
    setup = _setup(mnemonic, kinds, " ".join(kinds))
    target = _class(kinds[0])
    if target not in ("int", "vector", "mm", "k") or mnemonic.startswith("lock"):
        return None
    flags = mnemonic in _WRITES_ONLY_FLAGS
    if flags and target == "int":
        names = _operands(mnemonic, kinds, 0, chain=False, same=False)
        if names is None or "m" in kinds[-1][0]:
            return None
        last = "cmovc" if mnemonic == "bt" else "cmovz"
        return Text(setup, f"{_line(mnemonic, names)}\n{last} rax, r8\n" * 4, 4, 1.0)
    if flags or mnemonic.startswith(("set", "v?ptest", "kortest", "ktest", "ptest", "vtest")):
        return None
    sources = [k for k in kinds[1:] if _class(k) == target]
    two = len([k for k in kinds if k not in ("i", "1", "cl")]) == 2
    loads = any(k[0] == "m" and k != "mm" for k in kinds[1:])
    if kinds[-1].startswith("["):
        names = _operands(mnemonic, kinds, 0, chain=True, same=False)
        return Text(setup, "\n".join([_line(mnemonic, names)] * 8), 8) if names else None
    if two and loads and (len(kinds) > 2 or not _reads_target(mnemonic)):
        return None
    if len(kinds) > 1 and not sources and not (two and loads) and kinds[1] not in ("i", "1", "cl"):
        return _round_trip(mnemonic, kinds, setup)
    if kinds[1:] and kinds[1] == "i" and not _reads_target(mnemonic):
        return None
    same = two and not _IDIOMS.match(mnemonic)
    names = _operands(mnemonic, kinds, 0, chain=True, same=same)
    if two and _IDIOMS.match(mnemonic):
        names = _operands(mnemonic, kinds, 0, chain=False, same=False)
    if names is None:
        return None
    return Text(setup, "\n".join([_line(mnemonic, names)] * 8), 8)


_READS = re.compile(
    r"(add|sub|and|or|xor|adc|sbb|imul|sh[lr]|sar|sal|ro[lr]|rc[lr]|inc|dec|neg|not|bswap|bt[crs]|"
    r"cmov|xchg|xadd|shld|shrd|p(?!ab|sh|mov|ext|h?min)\w+|(add|sub|mul|div|min|max|and|andn|or|xor|cmp|hadd|"
    r"unpck[lh]|shuf|blend|blendv|insert|dp)[ps][sd]|v?fn?m(add|sub)\w+|movhlps|movlhps|mov[hl]p[sd]|aes(enc|dec)\w*|"
    r"sha\w+|crc32|mpsadbw|vpdp\w+)"
)


def _reads_target(mnemonic: str) -> bool:
    """Whether an instruction of two operands reads its destination, too."""
    return bool(_READS.fullmatch(mnemonic)) and mnemonic not in ("popcnt", "pextrb", "pextrd")


def _round_trip(mnemonic: str, kinds: list[str], setup: str) -> Text | None:
    """A chain from one kind of register to the other and back by a plain move, whose share is half
    of what two plain moves take (``others`` < 0 says so)."""
    a, b = _class(kinds[0]), _class(kinds[1])
    if {a, b} != {"int", "vector"}:
        return None
    names = _operands(mnemonic, kinds, 0, chain=False, same=False)
    if names is None:
        return None
    vex = "v" if mnemonic[0] == "v" else ""
    if a == "int":
        names[1] = f"{kinds[1].partition(' ')[0]}0"
        back = f"{vex}movd xmm0, eax"
    else:
        names[1] = _register(kinds[1].partition(" ")[0], 0)
        back = f"{vex}movd eax, xmm0"
    return Text(setup, f"{_line(mnemonic, names)}\n{back}\n" * 4, 4, -1.0)


def _copies(mnemonic: str, kinds: list[str]) -> Text | None:
    if mnemonic in _FLAG_CHAINS:
        return None
    setup = _setup(mnemonic, kinds, " ".join(kinds))
    first = kinds[0].partition(" ")[0]
    store = first[0] == "m" and first != "mm"
    n = 24 if store else _registers(first)
    n -= 2 * (first in _WIDTHS and sum(k in _WIDTHS for k in kinds[1:]) > 1)
    if mnemonic.startswith("lock"):
        n = 1
    lines = []
    for i in range(n):
        if "cl" in kinds and _INT[i % len(_INT)] == "c" and not store:
            continue
        names = _operands(mnemonic, kinds, i, chain=False, same=False)
        if names is None:
            return None
        lines.append(_line(mnemonic, names))
    return Text(setup, "\n".join(lines), len(lines))


def _special(mnemonic: str, kinds: list[str]) -> tuple[Text | None, Text | None] | None:
    """Those that read or write registers that they do not name."""
    setup = _setup(mnemonic, kinds, "")
    if mnemonic in ("div", "idiv", "mul") or (mnemonic == "imul" and len(kinds) == 1):
        if kinds[0] not in ("r64", "r32"):
            return None, None
        by, a, wide = ("rbx", "rax", "r8") if kinds[0] == "r64" else ("ebx", "eax", "r8d")
        if mnemonic in ("mul", "imul"):
            chain = Text(setup, f"{mnemonic} {by}\n" * 8, 8)
            return chain, Text(setup, f"mov {a}, {wide}\n{mnemonic} {by}\n" * 8, 8)
        setup += "\nmov r8d, 1234567891\nmov eax, r8d\nmov ebx, 7"
        step = f"xor edx, edx\n{mnemonic} {by}\n"
        chain = Text(setup, f"{step}and {a}, 0\nor {a}, {wide}\n" * 8, 8, 2.0)
        return chain, Text(setup, f"mov {a}, {wide}\n{step}" * 8, 8)
    if mnemonic == "xchg" and "m" not in kinds[0][0]:
        return None, _copies(mnemonic, kinds)
    if mnemonic in ("cdq", "cqo", "cwd"):
        return None, Text(setup, f"{mnemonic}\n" * 8, 8)
    if mnemonic in ("cdqe", "cwde", "cbw"):
        return Text(setup, f"{mnemonic}\n" * 8, 8), Text(
            setup, f"mov eax, r8d\n{mnemonic}\n" * 8, 8
        )
    if mnemonic in ("cmovcc", "cmovbe", "setcc", "setbe"):
        real = {"cmovcc": "cmovs", "cmovbe": "cmovbe", "setcc": "sets", "setbe": "setbe"}[mnemonic]
        moves = kinds[0][0] != "m" and real[0] == "c"
        return _chain(real, kinds) if moves else None, _copies(real, kinds)
    if mnemonic in ("mulx", "cmpxchg", "lock cmpxchg", "pcmpestri", "pcmpistri", "cmpxchg16b"):
        return None, _copies(mnemonic, kinds) if mnemonic != "pcmpestri" else None
    if mnemonic in ("mov", "movq", "movdqa", "movaps", "movapd", "movups", "movupd", "movdqu") or (
        mnemonic.startswith("vmov") and len(kinds) == 2
    ):
        registers = [k for k in kinds if _class(k) in ("int", "vector", "mm", "k")]
        if len(registers) == 2 and _class(kinds[0]) == _class(kinds[1]):
            return None, None  # moves between registers are eliminated, or not: see the machine
        if len(registers) == 2:
            return _round_trip(mnemonic, kinds, setup), _copies(mnemonic, kinds)
        return None, _copies(mnemonic, kinds)
    return None


def _quoted(text: str) -> str:
    return '"' + text.strip().replace("\n", "\\n") + '"'


_ARM_NOT = re.compile(
    r"(b|bl|blr|br|ret\w*|cb|tb|b\.|adr|bti|aut|pac|xpac|brk|svc|hint|nop|isb|dmb|dsb|dc|ic|mrs|msr|"
    r"yield|sb|udf|cas\w*|ld[acegnox]\w*|ld\d\w*|st[cegloxz]\w*|st\d\w*|sw[pap]\w*|prf\w*|irg|gmi|adcs?|"
    r"sbcs?|ngc\w*|movk|mov|fmov|movi|mvni|movz|movn|subg|addg|subps?|cnt[bdhw]|rdvl|ptrue|while\w*|"
    r"fcc\w*|ccm\w*|sha\w*|tbl|tbx|ins|eretaa|rev32)\b"
)
_ARM_EXTENDS = ("sxtb", "sxth", "sxtw", "sxtx", "uxtb", "uxth", "uxtw", "uxtx")
_ARM_INTS = (*range(3, 8), *range(10, 16))
_ARM_VECTORS = (*range(8), *range(16, 20))


def _arm_register(kind: str, i: int, source: int | None = None) -> str | None:
    """Destination ``i`` of this kind, or the ``source``-th register that stays."""
    if kind in ("w", "x"):
        return f"{kind}{_ARM_INTS[i] if source is None else 20 + source}"
    number = _ARM_VECTORS[i] if source is None else 24 + source
    if kind in ("b", "h", "s", "d", "q"):
        return f"{kind}{number}"
    if re.fullmatch(r"v\.\d+[bhsd]", kind):
        return f"v{number}{kind[1:]}"
    return None


def _arm_line(mnemonic: str, kinds: list[str], i: int, chain: bool) -> str | None:
    names: list[str] = []
    compares = mnemonic in ("cmp", "cmn", "tst", "fcmp", "fcmpe")
    sources = 0
    for at, kind in enumerate(kinds):
        if kind == "#":
            number = {"fcmp": "0.0", "fcmpe": "0.0"}.get(
                mnemonic, "0" if mnemonic[:2] == "cm" else "1"
            )
            names.append(f"#{number}")
        elif kind == "cc":
            names.append("eq")
        elif kind in ("lsl", "lsr", "asr", "ror"):
            names[-1] += f", {kind} #{12 if kinds[at - 1] == '#' else 2}"
        elif kind in _ARM_EXTENDS:
            names[-1] += f", {kind}"
        elif kind[0] == "[":
            base, step = ("x0", 16) if mnemonic[:2] == "st" else ("x1", 16)
            places = {"[x]": f"[{base}]", "[x, #]": f"[{base}, #{step * i + 16}]"}
            places["[x, x]"] = f"[{base}, x27]"
            if kind not in places:
                return None
            names.append(places[kind])
        else:
            store = mnemonic[:2] == "st"
            first = (at == 0 and not compares and not store) or (chain and at == 1)
            second = at == 1 and mnemonic[:3] == "ldp"
            source = None if first or second else sources
            name = _arm_register(kind, (i + 5) % 11 if second else i, source)
            if name is None:
                return None
            sources += source is not None
            names.append(name)
    return f"{mnemonic} {', '.join(names)}"


def _arm_split(form: str) -> tuple[str, list[str]]:
    mnemonic, _, rest = form.partition(" ")
    return mnemonic, re.findall(r"\[[^\]]*\]!?|[^,\s]+", rest)


def arm_form_texts(form: str) -> tuple[Text | None, Text | None]:
    """`form_texts` of AArch64: instructions on registers, and plain loads and stores."""
    mnemonic, kinds = _arm_split(form)
    if _ARM_NOT.match(form) or not kinds or form.endswith(("!", "], #")) or "{" in form:
        return None, None
    one = "s" if re.search(r"\bs\b|\d[hsb]\b", " ".join(kinds)) else "d"
    lanes = {"s": "4s", "d": "2d"}[one]
    setup = [f"mov x{n}, #{n}" for n in (*_ARM_INTS, *range(20, 28))]
    setup += ["mov x27, #64"]
    setup += [f"fmov v{n}.{lanes}, #1.0" for n in (*_ARM_VECTORS, *range(24, 31))]
    lines = [_arm_line(mnemonic, kinds, i, False) for i in range(11)]
    known = [line for line in lines if line is not None]
    if len(known) < 11:
        return None, None
    text = "\n".join(setup)
    chains = len(kinds) > 1 and kinds[0] == kinds[1] and mnemonic[:2] not in ("ld", "st")
    chains = chains and mnemonic not in ("cmp", "cmn", "tst", "fcmp", "fcmpe")
    step = _arm_line(mnemonic, kinds, 0, True) if chains else None
    chain = Text(text, "\n".join([step] * 8), 8) if step else None
    return chain, Text(text, "\n".join(known), 11)


def include_text(forms: Iterable[str], isa: str) -> str:
    """The C include that csrc/hardware/measure/forms.c takes: every distinct set-up once as
    SETUP(name, text), and FORM(name, form, chain, count, others, setup, body) of each kernel."""
    setups: dict[str, str] = {}
    lines = []
    texts = form_texts if isa == "x86" else arm_form_texts
    for number, form in enumerate(forms):
        for chain, text in zip((1, 0), texts(form), strict=True):
            if text:
                setup = setups.setdefault(text.setup, f"setup{len(setups)}")
                lines.append(
                    f'FORM({"chain" if chain else "copies"}{number}, "{form}", {chain}, '
                    f"{text.instances}, {text.others}, {setup}, {_quoted(text.body)})"
                )
    head = [f"SETUP({name}, {_quoted(text)})" for text, name in setups.items()]
    return "\n".join([*head, *lines, ""])
