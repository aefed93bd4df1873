"""Machine code decoded by capstone against gem5's own decoding, and what it does with any bytes.

The shipped samples (golden/isa_*.json, made by golden/make_isa.py) are compared one by one; where
the shared traces are at hand, every program is, and the agreement is printed, weighted by how often
each instruction ran (pytest -s shows it).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gem5_exec import SHARED, programs
from tests.oracles.macro_row import macro_row
from tracekit import _core, schema
from tracekit.errors import UsageError
from tracekit.isa import BRANCH_KINDS, CC, DecodedInst, MemOp, decode, decode_many
from tracekit.isa.types import BRANCH_FLAGS

GOLDEN = Path(__file__).parent / "golden"
ARCHES = ("arm", "x86", "riscv")

# What features.md and the models read; the rest (IsNop, …) describes gem5's implementation.
FLAGS = {
    *("IsLoad", "IsStore", "IsAtomic", "IsStoreConditional", "IsControl", "IsDirectControl"),
    *(
        "IsIndirectControl",
        "IsCondControl",
        "IsUncondControl",
        "IsCall",
        "IsReturn",
        "IsSerializing",
    ),
    *(
        "IsSerializeBefore",
        "IsSerializeAfter",
        "IsWriteBarrier",
        "IsReadBarrier",
        "IsNonSpeculative",
    ),
    *("IsSquashAfter", "IsSyscall", "IsQuiesce", "IsInteger", "IsFloating", "IsVector"),
}

# Where gem5's text, or gem5, is known to differ in the samples (docs/isa.md): mnemonic -> fields.
KNOWN: dict[str, dict[str, set[str]]] = {
    # The micro-ops of structure loads print no operands.
    "arm": {"ld1": {"src", "dst"}, "ld1r": {"src", "dst"}},
    "x86": {
        # gem5 inserts into the old vector register, and overwrites the rest at once.
        **{m: {"src"} for m in ("movd", "movq", "cvtdq2pd")},
        # gem5 writes one half only; capstone has the register that stays in part as a source.
        **{m: {"src"} for m in ("movlpd", "movhpd", "movhps", "movlhps", "punpcklqdq")},
    },
    "riscv": {},
}


# The same registers in another order than gem5's micro-ops first name them.
OTHER_ORDER: dict[str, set[str]] = {
    "arm": {"casa", "ld1b"},
    "x86": {"cpuid", "idiv", "lock", "setne", "shld"},
    "riscv": set(),
}


def differences(arch: str, inst: DecodedInst, row: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """field -> (gem5's, ours), for the fields that differ."""
    pairs: dict[str, tuple[Any, Any]] = {
        "op": (row["op"], inst.op),
        "branch": (BRANCH_KINDS[row["branch"]], inst.branch),
        "src": ({tuple(r) for r in row["src"]}, set(inst.src)),
        "dst": ({tuple(r) for r in row["dst"]}, set(inst.dst)),
        "flags": (set(row["flags"]) & FLAGS, set(inst.flags) & FLAGS),
    }
    return {k: (a, b) for k, (a, b) in pairs.items() if a != b}


@pytest.mark.parametrize("arch", ARCHES)
def test_sample_decodes_as_gem5_does(arch: str) -> None:
    rows = json.loads((GOLDEN / f"isa_{arch}.json").read_text())
    assert len(rows) > 60
    wrong, order = [], set()
    seen: dict[str, set[str]] = defaultdict(set)
    for pc, code, uops, _ in rows:
        inst = decode(arch, bytes.fromhex(code), int(pc, 16))
        assert inst.valid and inst.length == len(code) // 2
        texts = [
            _core.decode_text(arch, text, op, flags, int(pc, 16), i)
            for i, (text, op, flags) in enumerate(uops)
        ]
        row = macro_row(arch, texts, [" : br " in f"{t} " for t, _, _ in uops])
        found = differences(arch, inst, row)
        mnemonic = inst.text.split()[0]
        seen[mnemonic] |= found.keys()
        known = KNOWN[arch].get(mnemonic, set())
        left = {k: v for k, v in found.items() if k not in known}
        if left:
            wrong.append((pc, code, inst.text, uops[0][0], left))
        for which in ("src", "dst"):
            theirs, ours = [tuple(r) for r in row[which]], list(getattr(inst, which))
            if theirs != ours and set(theirs) == set(ours):
                order.add(mnemonic.partition(".")[0])
    assert not wrong, "\n".join(map(str, wrong))
    assert order == OTHER_ORDER[arch]
    assert KNOWN[arch] == {m: fields for m, fields in seen.items() if fields}


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(not (SHARED / "exec").is_dir(), reason="needs the shared traces")
@pytest.mark.parametrize("arch", ARCHES)
def test_agreement_over_whole_programs(arch: str, tmp_path: Path) -> None:
    import tracekit
    from tracekit.isa.elf import ElfImage

    total = 0
    differ: Counter[str] = Counter()
    mnemonics: Counter[str] = Counter()
    examples: dict[str, Counter[str]] = defaultdict(Counter)
    for p in (p for p in programs() if p.arch == arch):
        out = tmp_path / "f.zst"
        tracekit.extract(p.text, out, level="macro", force=True)
        with tracekit.open(out) as f, ElfImage(p.elf) as elf:
            table = list(f.statics)
            insts = decode_many(arch, [elf.code(s.pc) for s in table])
            for s, inst in zip(table, insts, strict=True):
                total += s.count
                row = _row(arch, s)
                found = differences(arch, inst, row)
                head = inst.text.split()[0]
                mnemonics[head] += s.count if found else 0
                for field, (gem5, ours) in found.items():
                    differ[field] += s.count
                    examples[field][f"{head} ({s.disassembly}): gem5 {gem5}, ours {ours}"] += (
                        s.count
                    )
    print(f"\n{arch}: {total} instructions")
    for field in ("op", "branch", "src", "dst", "flags"):
        print(f"  {field}: {100 - 100 * differ[field] / total:.3f} %")
        for text, n in examples[field].most_common(4):
            print(f"    {n}: {text}")
    print("  differ in one field at least, by mnemonic:")
    for mnemonic, n in mnemonics.most_common():
        if n >= 1e-5 * total:
            print(f"    {mnemonic}: {100 * n / total:.3f} %")
    assert differ["op"] <= 0.01 * total
    assert differ["branch"] <= 0.01 * total
    assert differ["src"] <= 0.02 * total
    assert differ["dst"] <= 0.02 * total


def _row(arch: str, s: Any) -> dict[str, Any]:
    """A row of the extracted table, without the micro-ops' temporaries and inner branches."""
    last = 16 if arch == "x86" else 32
    regs = {
        k: [r for r in v if r[0] not in (0, 2) or r[1] < last]
        for k, v in (("src", s.src), ("dst", s.dst))
    }
    return {"op": s.op, "branch": schema.BRANCH_KINDS.index(s.branch), "flags": s.flags, **regs}


@pytest.mark.skipif(not (SHARED / "elf").is_dir(), reason="needs the shared programs")
@pytest.mark.parametrize("program", ["elf/arm/kern2", "x86/elf/kern2", "elf/riscv/kern2"])
def test_every_function_of_a_program_decodes(program: str) -> None:
    """All of its code, run or not: the C library's variants for newer processors among it."""
    from tracekit.isa.elf import ElfImage

    seen = 0
    with ElfImage(SHARED / program) as elf:
        size = 15 if elf.arch == "x86" else 4
        for f in elf.symbols():
            pc = f.address
            while pc < f.address + f.size:
                inst = decode(elf.arch, elf.code(pc, size))
                assert inst.valid, f"{f.name}: {pc:#x} {elf.code(pc, size).hex()}"
                pc += inst.length
                seen += 1
            assert pc - f.address == f.size or not f.size, f.name
    assert seen > 50_000


# --- what single instructions do -----------------------------------------------------------------

LOAD8, STORE8 = MemOp("load", 8), MemOp("store", 8)
MEMORY = [
    ("x86", "55", (STORE8,)),  # push rbp
    ("x86", "6655", (MemOp("store", 2),)),  # push bp
    ("x86", "ff30", (LOAD8, STORE8)),  # push [rax]
    ("x86", "8f00", (LOAD8, STORE8)),  # pop [rax]
    ("x86", "e800000000", (STORE8,)),  # call
    ("x86", "ff10", (LOAD8, STORE8)),  # call [rax]
    ("x86", "c3", (LOAD8,)),  # ret
    ("x86", "c9", (LOAD8,)),  # leave
    ("x86", "a4", (MemOp("load", 1), MemOp("store", 1))),  # movsb
    ("x86", "f348a5", (MemOp("load", 8, 0), MemOp("store", 8, 0))),  # rep movsq
    ("x86", "f3ab", (MemOp("store", 4, 0),)),  # rep stosd
    ("x86", "f2ae", (MemOp("load", 1, 0),)),  # repne scasb
    ("x86", "f348a7", (MemOp("load", 8, 0), MemOp("load", 8, 0))),  # repe cmpsq
    ("x86", "8d4304", ()),  # lea
    ("x86", "0f1f440000", ()),  # nop [rax + rax]
    ("x86", "480103", (LOAD8, STORE8)),  # add [rbx], rax
    ("x86", "483903", (LOAD8,)),  # cmp [rbx], rax
    ("x86", "f0480fb10f", (LOAD8, STORE8)),  # lock cmpxchg [rdi], rcx
    ("x86", "488703", (LOAD8, STORE8)),  # xchg [rbx], rax
    ("x86", "0f1101", (MemOp("store", 16),)),  # movups [rcx], xmm0
    ("x86", "660f2f00", (LOAD8,)),  # comisd xmm0, [rax]
    ("x86", "0f1808", (MemOp("load", 1),)),  # prefetcht0
    ("x86", "c4e2e99214d0", (MemOp("load", 8, 2),)),  # vgatherdpd xmm2, [rax + xmm2*8], xmm2
    ("x86", "c4e26d9014d8", (MemOp("load", 4, 8),)),  # vpgatherdd ymm2, [rax + ymm3*8], ymm2
    ("x86", "62f17c481100", (MemOp("store", 64),)),  # vmovups [rax], zmm0
    ("x86", "d900", (MemOp("load", 4),)),  # fld dword [rax]
    ("x86", "dd18", (STORE8,)),  # fstp qword [rax]
    ("arm", "f35341a9", (MemOp("load", 16),)),  # ldp x19, x20, [sp, #16]
    ("arm", "fd7bbea9", (MemOp("store", 16),)),  # stp x29, x30, [sp, #-32]!
    ("arm", "600540ad", (MemOp("load", 32),)),  # ldp q0, q1, [x11]
    ("arm", "e49340b9", (MemOp("load", 4),)),  # ldr w4, [sp, #144]
    ("arm", "00004039", (MemOp("load", 1),)),  # ldrb w0, [x0]
    ("arm", "0000c079", (MemOp("load", 2),)),  # ldrsh w0, [x0]
    ("arm", "000080b9", (MemOp("load", 4),)),  # ldrsw x0, [x0]
    ("arm", "00000058", (LOAD8,)),  # ldr x0, literal
    ("arm", "00000018", (MemOp("load", 4),)),  # ldr w0, literal
    ("arm", "40404069", (LOAD8,)),  # ldpsw x0, x16, [x2]
    ("arm", "0000c03d", (MemOp("load", 16),)),  # ldr q0, [x0]
    ("arm", "21a0404c", (MemOp("load", 32),)),  # ld1 {v1.16b, v2.16b}, [x1]
    ("arm", "03cf404d", (LOAD8,)),  # ld1r {v3.2d}, [x24]
    ("arm", "0080400d", (MemOp("load", 4),)),  # ld1 {v0.s}[0], [x0]
    ("arm", "417ce0c8", (LOAD8, STORE8)),  # casa x0, x1, [x2]
    ("arm", "2000a0b8", (MemOp("load", 4), MemOp("store", 4))),  # ldadda w0, w0, [x1]
    ("arm", "407c5f88", (MemOp("load", 4),)),  # ldxr w0, [x2]
    ("arm", "407c01c8", (STORE8,)),  # stxr w1, x0, [x2]
    ("arm", "400821c8", (MemOp("store", 16),)),  # stxp w1, x0, x2, [x2]
    ("arm", "23740bd5", (MemOp("store", 64),)),  # dc zva, x3
    ("arm", "000080f9", (MemOp("load", 0),)),  # prfm pldl1keep, [x0]
    ("arm", "20a000a4", (MemOp("load", 1, 0),)),  # ld1b {z0.b}, p0/z, [x1]
    ("riscv", "23b80700", (STORE8,)),  # sd zero, 16(a5)
    ("riscv", "83470500", (MemOp("load", 1),)),  # lbu a5, 0(a0)
    ("riscv", "af27a70c", (MemOp("load", 4), MemOp("store", 4))),  # amoswap.w.aq a5, a0, (a4)
    ("riscv", "af270710", (MemOp("load", 4),)),  # lr.w a5, (a4)
    ("riscv", "af27a718", (MemOp("store", 4),)),  # sc.w a5, a0, (a4)
    ("riscv", "0245", (MemOp("load", 4),)),  # c.lwsp a0, 0(sp)
    ("riscv", "2ae0", (STORE8,)),  # c.sdsp a0, 0(sp)
]


@pytest.mark.parametrize(("arch", "code", "memory"), MEMORY)
def test_memory_accesses(arch: str, code: str, memory: tuple[MemOp, ...]) -> None:
    inst = decode(arch, bytes.fromhex(code))
    assert inst.memory == memory, inst
    assert inst.access_size == (memory[0].size if memory else 0)
    kinds = {m.kind for m in memory}
    if "IsAtomic" not in inst.flags:
        assert ("IsLoad" in inst.flags) == ("load" in kinds)
        assert ("IsStore" in inst.flags) == ("store" in kinds)


OPERANDS = [
    # arch, code, sources, destinations
    ("x86", "4801d8", {(0, 0), (0, 3)}, {(0, 0), CC}),  # add rax, rbx
    ("x86", "48f7f1", {(0, 0), (0, 2), (0, 1)}, {(0, 0), (0, 2), CC}),  # div rcx
    ("x86", "b401", {(0, 0)}, {(0, 0)}),  # mov ah, 1: the rest of rax stays
    ("x86", "c5f458c2", {(2, 1), (2, 2)}, {(2, 0)}),  # vaddps ymm0, ymm1, ymm2
    ("x86", "480f44c3", {(0, 0), (0, 3), CC}, {(0, 0)}),  # cmove rax, rbx
    ("x86", "48394308", {(0, 0), (0, 3)}, {CC}),  # cmp [rbx + 8], rax
    ("x86", "4899", {(0, 0)}, {(0, 2)}),  # cqo
    ("x86", "f0480fb10f", {(0, 7), (0, 1), (0, 0)}, {(0, 0), CC}),  # lock cmpxchg [rdi], rcx
    ("arm", "5f0001eb", {(0, 1), (0, 2)}, {CC}),  # cmp x2, x1
    ("arm", "e00301aa", {(0, 1)}, {(0, 0)}),  # mov x0, x1: xzr is no operand
    ("arm", "20fc9f52", set(), {(0, 0)}),  # movz w0
    ("arm", "2000a0f2", {(0, 0)}, {(0, 0)}),  # movk x0: the rest stays
    ("arm", "410440f8", {(0, 2)}, {(0, 1), (0, 2)}),  # ldr x1, [x2], #0
    ("arm", "20d4214e", {(2, 1)}, {(2, 0)}),  # fadd v0.4s, v1.4s, v1.4s
    ("arm", "a300669e", {(2, 5)}, {(0, 3)}),  # fmov x3, d5
    ("arm", "417ce0c8", {(0, 0), (0, 1), (0, 2)}, {(0, 0)}),  # casa x0, x1, [x2]
    ("arm", "407c01c8", {(0, 0), (0, 2)}, {(0, 1)}),  # stxr w1, x0, [x2]
    ("arm", "c0035fd6", {(0, 30)}, set()),  # ret
    ("arm", "e01f2225", {(0, 2)}, {(4, 0), CC}),  # whilelo p0.b, xzr, x2
    ("riscv", "23b80700", {(0, 15)}, set()),  # sd zero, 16(a5)
    ("riscv", "53f5c502", {(1, 11), (1, 12)}, {(1, 10)}),  # fadd.d fa0, fa1, fa2
    ("riscv", "5325b5a2", {(1, 10), (1, 11)}, {(0, 10)}),  # feq.d a0, fa0, fa1
    ("riscv", "8280", {(0, 1)}, set()),  # ret
]


@pytest.mark.parametrize(("arch", "code", "src", "dst"), OPERANDS)
def test_operands(arch: str, code: str, src: set[Any], dst: set[Any]) -> None:
    inst = decode(arch, bytes.fromhex(code))
    assert set(inst.src) == src, inst
    assert set(inst.dst) == dst, inst


BRANCHES = [
    ("x86", "7405", "conditional"),
    ("x86", "e2fe", "conditional"),  # loop
    ("x86", "eb00", "jump"),
    ("x86", "ffe0", "indirect"),
    ("x86", "e800000000", "call"),
    ("x86", "ff10", "indirect_call"),
    ("x86", "c3", "return"),
    ("x86", "0f05", "none"),
    ("arm", "00000054", "conditional"),  # b.eq
    ("arm", "00000034", "conditional"),  # cbz
    ("arm", "00000014", "jump"),
    ("arm", "00000094", "call"),
    ("arm", "20021fd6", "indirect"),  # br x17
    ("arm", "80003fd6", "indirect_call"),
    ("arm", "c0035fd6", "return"),
    ("riscv", "63040500", "conditional"),
    ("riscv", "6f000001", "jump"),
    ("riscv", "ef000001", "call"),
    ("riscv", "67800700", "indirect"),
    ("riscv", "e7800700", "indirect_call"),
    ("riscv", "67800000", "return"),
    ("riscv", "01a0", "jump"),
    ("riscv", "8287", "indirect"),
    ("riscv", "8297", "indirect_call"),
]


@pytest.mark.parametrize(("arch", "code", "kind"), BRANCHES)
def test_branch_kinds(arch: str, code: str, kind: str) -> None:
    inst = decode(arch, bytes.fromhex(code))
    assert inst.branch == kind, inst
    assert set(BRANCH_FLAGS.get(kind, ())) <= inst.flags


@pytest.mark.parametrize(
    ("arch", "code"), [("x86", "0f05"), ("x86", "cd80"), ("arm", "010000d4"), ("riscv", "73000000")]
)
def test_system_calls(arch: str, code: str) -> None:
    assert decode(arch, bytes.fromhex(code)).syscall
    assert not decode(
        arch,
        {"x86": b"\xcc", "arm": bytes.fromhex("000020d4"), "riscv": bytes.fromhex("73001000")}[
            arch
        ],
    ).syscall


# --- any bytes -----------------------------------------------------------------------------------


@given(st.sampled_from(ARCHES), st.binary(max_size=18))
def test_any_bytes_give_an_instruction_or_the_marker(arch: Any, code: bytes) -> None:
    inst = decode(arch, code)
    assert inst.op in _core.OP_CLASSES
    assert inst.flags <= set(_core.FLAGS)
    assert inst.branch in BRANCH_KINDS
    assert inst.length <= len(code)
    assert inst.op_number == _core.OP_CLASSES.index(inst.op)
    assert inst.flag_bits == sum(1 << _core.FLAGS.index(f) for f in inst.flags)
    assert all(0 <= c <= 6 and 0 <= n < 64 for c, n in inst.src + inst.dst)
    assert len(set(inst.src)) == len(inst.src) and len(set(inst.dst)) == len(inst.dst)
    if inst.valid:
        assert inst.length > 0
        assert decode(arch, code[: inst.length]) is inst
    else:
        assert inst[1:] == ("No_OpClass", {"IsInvalid"}, (), (), "none", 0, (), False, "(bad)")


@given(st.sampled_from(ARCHES), st.lists(st.binary(max_size=16), max_size=20))
def test_many_is_one_by_one(arch: Any, codes: list[bytes]) -> None:
    assert decode_many(arch, codes) == [decode(arch, c) for c in codes]


def test_repeated_encodings_are_one_object() -> None:
    code = bytes.fromhex("48034518")
    a, b, c = decode_many("x86", [code, code + b"\x90\x90", code])
    assert a is b and b is c


def test_unknown_architecture() -> None:
    with pytest.raises(UsageError, match="mips"):
        decode_many("mips", [b""])  # type: ignore[arg-type]
