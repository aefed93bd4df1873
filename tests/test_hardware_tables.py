"""Instruction forms, the tables of real processors, and what a core is told of each instruction."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.errors import FormatError, UsageError
from tracekit.hardware.forms import decode_form, form, split_operands
from tracekit.hardware.hardware_ops import (
    LOAD,
    OPERATION,
    STORE_ADDRESS,
    STORE_DATA,
    _fields,
)
from tracekit.hardware.instruction_table import InstructionTable, Measured, table_names
from tracekit.hardware.llvm_tables import groups
from tracekit.hardware.nearest_form import nearest_form
from tracekit.hardware.op_flags import OpFlag, op_flags
from tracekit.isa import decode

FORMS = {
    "48034518": "add r64, m64",
    "480fafc3": "imul r64, r64",
    "f0480fb11f": "lock cmpxchg m64, r64",
    "f3a4": "rep movsb",
    "f3c3": "ret",
    "f2ff20": "jmp m64",
    "3effe0": "jmp r64",
    "7500": "jcc rel",
    "e800000000": "call rel",
    "0f4fc1": "cmovcc r32, r32",
    "0f47c1": "cmovbe r32, r32",
    "488d4c8308": "lea r64, [b+s+d]",
    "488d0500000000": "lea r64, [rip]",
    "d3e0": "shl r32, cl",
    "d1e0": "shl r32, 1",
    "c1e003": "shl r32, i",
    "0f1f440000": "nop",
    "88e0": "mov r8, r8h",
    "62f1744858c2": "vaddps zmm, zmm, zmm",
    "62f17cd95801": "vaddps zmm {k}, zmm, m32{1to}",
    "660fc2c102": "cmppd xmm, xmm, i",
    "f20f5803": "addsd xmm, m64",
    "f20f1103": "movsd m64, xmm",
    "a5": "movsd",
    "d9c1": "fld st",
    "ff": "(bad)",
}
ARM_FORMS = {
    0x8B020020: "add x, x, x",
    0xF8408C20: "ldr x, [x, #]!",
    0xF8627820: "ldr x, [x, x, lsl]",
    0xA9BF7BFD: "stp x, x, [x, #]!",
    0x4EA28420: "add v.4s, v.4s, v.4s",
    0x54000040: "b.cc rel",
    0x9A9F17E0: "cset x, cc",
    0x0D404020: "ld1 {v.h x1}[], [x]",
}


def test_forms() -> None:
    assert {code: form(bytes.fromhex(code), "x86") for code in FORMS} == FORMS
    found = {word: form(struct.pack("<I", word), "arm") for word in ARM_FORMS}
    assert found == ARM_FORMS


def test_forms_are_of_two_instruction_sets() -> None:
    with pytest.raises(UsageError, match="no instruction forms for 'riscv'"):
        form(b"\x13\0\0\0", "riscv")


@given(st.lists(st.text("ab[,]{} ", max_size=6), max_size=4))
def test_operands_split_at_outer_commas(parts: list[str]) -> None:
    whole = [p for p in parts if p.count("[") == p.count("]") and p.count("{") == p.count("}")]
    joined = ", ".join(p for p in whole if balanced(p) and "," not in outer(p))
    expected = [p.strip() for p in whole if balanced(p) and "," not in outer(p) and p.strip()]
    assert [p for p in split_operands(joined) if p] == expected


def balanced(text: str) -> bool:
    depth = 0
    for c in text:
        depth += (c in "[{") - (c in "]}")
        if depth < 0:
            return False
    return depth == 0


def outer(text: str) -> str:
    depth, out = 0, ""
    for c in text:
        depth += c in "[{"
        out += c if not depth else ""
        depth -= c in "]}"
    return out


@given(st.lists(st.tuples(st.integers(1, 15), st.integers(1, 4)), max_size=4))
def test_groups_give_back_the_shares(uses: list[tuple[int, int]]) -> None:
    """The shares of the groups found add up to those that they were found from."""
    pressure: dict[str, float] = {}
    for mask, cycles in uses:
        for i in range(4):
            if mask >> i & 1:
                share = cycles / mask.bit_count()
                pressure[f"p{i}"] = pressure.get(f"p{i}", 0.0) + share
    back: dict[str, float] = {}
    for ports, total in groups(pressure):
        for p in ports:
            back[p] = back.get(p, 0.0) + total / len(ports)
    assert back == pytest.approx(pressure, abs=5e-3)


@pytest.mark.parametrize("name", table_names())
def test_tables_are_whole(name: str) -> None:
    table = InstructionTable.load(name)
    everything = (1 << len(table.ports)) - 1
    for key, entry in table.entries.items():
        assert entry.uops >= 1 and entry.latency >= 0, key
        assert all(0 < m <= everything and c > 0 for m, c in entry.uses), key
    assert all(0 < m <= everything for m in table.memory[:5])
    assert table.source and "add" in " ".join(table)


def test_no_such_table() -> None:
    with pytest.raises(UsageError, match="no instruction table znver9"):
        InstructionTable.load("znver9")


def test_published_numbers() -> None:
    """Of vendors' guides: multiplication, fused multiply-add, ports of an addition."""
    zen4, skylake = InstructionTable.load("znver4"), InstructionTable.load("skylake-avx512")
    for table in (zen4, skylake):
        assert table["imul r64, r64"].latency == 3
        assert table["vfmadd231pd ymm, ymm, ymm"].latency == 4
        assert table.throughput("add r64, r64") == 0.25
        assert table["add r64, m64"].latency == 1
        assert table["mov r64, m64"].uses == ()
    assert skylake["add m64, r64"].uops == 2 and zen4["add m64, r64"].uops == 1
    assert InstructionTable.load("znver5").throughput("add r64, r64") == pytest.approx(1 / 6)
    assert InstructionTable.load("neoverse-n1")["madd x, x, x, x"].latency == 4


def test_measured_forms_replace_entries() -> None:
    table = InstructionTable.load("znver4")
    changed = table.override(
        {
            "div r64": Measured(9.05, 6.9),
            "sub r64, r64": Measured(1.0, 1 / 3),
            "imul r64, r64": Measured(3.0, 1 / 3),
            "and r64, r64": Measured(None, None),
            "add r64, m64": Measured(2.0, 0.4),
            "add r64, r64": Measured(1.0, 0.28),
            "bsf r64, r64": Measured(1.0, 0.34),
        }
    )
    assert changed["div r64"].latency == 9
    assert changed.throughput("div r64") == pytest.approx(6.9)
    # slower than its ports: on fewer of them; quicker than its port: on more of that kind
    assert changed["sub r64, r64"].uses == ((0b111, 1.0),)
    mask = table["imul r64, r64"].uses[0][0]
    assert changed["imul r64, r64"].uses[0][0] & mask == mask
    assert changed.throughput("imul r64, r64") == pytest.approx(1 / 3)
    assert changed["and r64, r64"] == table["and r64, r64"]
    # a loop's overhead, and what loads take, are no property of the operation
    assert changed["add r64, r64"] == table["add r64, r64"]
    assert changed["add r64, m64"] == table["add r64, m64"]._replace(latency=2.0)
    # six slots do not pass in a third of a cycle of a core that takes six a cycle
    assert (table["bsf r64, r64"].uops, changed["bsf r64, r64"].uops) == (6, 2)
    assert changed.measured >= {"div r64"} and not table.measured


def test_unmeasured_forms_follow_their_class() -> None:
    """Where those of its entry that were measured agree; not where they do not."""
    table = InstructionTable.load("znver4")
    alike = [
        f for f in table if table[f] == table["paddd xmm, xmm"] and "m" not in f.split()[1][:1]
    ]
    assert {"paddd xmm, xmm", "paddq xmm, xmm", "psubd xmm, xmm"} < set(alike)
    two = {f: Measured(2.0, 0.25) for f in ("paddd xmm, xmm", "psubd xmm, xmm")}
    changed = table.override(two)
    assert changed["paddq xmm, xmm"].latency == 2 and "paddq xmm, xmm" not in changed.measured
    apart = table.override({**two, "psubd xmm, xmm": Measured(3.0, 0.25)})
    assert apart["paddq xmm, xmm"] == table["paddq xmm, xmm"]
    assert apart["psubd xmm, xmm"].latency == 3


def test_zen5_is_measured() -> None:
    """LLVM 19 has a copy of Zen 4 for it; integer vectors take two cycles there, additions two."""
    table = InstructionTable.load("znver5")
    assert table["vpaddd ymm, ymm, ymm"].latency == 2 and table["addsd xmm, xmm"].latency == 2
    assert table.throughput("imul r64, r64") == pytest.approx(1 / 3)
    assert len(table.measured) > 500 and "measured" in table.source


def test_zen5_shifts_where_it_branches() -> None:
    table = InstructionTable.load("znver5")

    def units(form: str) -> int:
        ((mask, cycles),) = table[form].uses
        assert cycles == 1
        return mask

    branches = units("jcc rel")
    assert branches.bit_count() == 3
    for shift in ("sar r64, i", "shlx r64, r64, r64", "tzcnt r64, r64", "bt r64, i"):
        assert units(shift) == branches
    multiplies = units("imul r64, r64")
    assert multiplies.bit_count() == 3 and (multiplies | branches).bit_count() == 4
    assert units("lea r64, [b+s+d]").bit_count() == 2
    assert units("popcnt r64, r64") == units("add r64, r64")


def nearest(name: str, table: InstructionTable) -> str:
    return nearest_form(name, table.entries, table.isa)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("488b00", 0),  # mov rax, [rax]
        ("48034518", 1),  # add rax, [rbp + 0x18]
        ("488b048d10000000", 1),  # mov rax, [rcx*4 + 0x10]
        ("488d05ff000000", 1),  # lea rax, [rip + 0xff]
        ("8b042500000010", 1),  # mov eax, [0x10000000]
        ("48c70001000000", 1),  # mov qword ptr [rax], 1
        ("c7450801000000", 2),  # mov dword ptr [rbp + 8], 1
        ("4883c4f0", 1),  # add rsp, -0x10
        ("0f84ff000000", 1),  # je
        ("48b88877665544332211", 2),  # movabs
    ],
)
def test_displacements_and_immediates(code: str, fields: int) -> None:
    assert _fields(decode_form(bytes.fromhex(code), "x86")) == fields


def test_nearest_form() -> None:
    table = InstructionTable.load("znver4")
    assert nearest("add r64, m64", table) == "add r64, m64"
    assert nearest("lock add m16, r8", table).startswith("lock add m")
    assert nearest("vmulps xmm {k}, xmm, xmm", table).startswith("vmulps")
    assert nearest("vnothing ymm, ymm", table) == "vpaddd ymm, ymm, ymm"
    assert nearest("nothing r64", table) == "add r64, r64"


def flags(code: str, family: str = "znver4") -> OpFlag:
    return op_flags(decode_form(bytes.fromhex(code), "x86"), "x86", family)


def test_idioms_moves_and_fusion() -> None:
    assert OpFlag.ZERO_IDIOM in flags("31c0")  # xor eax, eax
    assert OpFlag.ZERO_IDIOM not in flags("31d8")  # xor eax, ebx
    assert OpFlag.ZERO_IDIOM not in flags("30c0")  # xor al, al
    assert OpFlag.ZERO_IDIOM in flags("c5f5efc9")  # vpxor ymm1, ymm1, ymm1
    assert OpFlag.ZERO_IDIOM in flags("c5edefca")  # vpxor ymm1, ymm2, ymm2
    assert OpFlag.ZERO_IDIOM not in flags("c5f5efca")  # vpxor ymm1, ymm1, ymm2
    assert OpFlag.DEPENDENCY_BREAKING in flags("660f76c0")  # pcmpeqd xmm0, xmm0
    assert OpFlag.VECTOR not in flags("488d4708")  # lea rax, [rdi + 8]: [b+d] is no register b
    assert OpFlag.VECTOR in flags("f20f104708")  # movsd xmm0, [rdi + 8]
    assert OpFlag.SCALED in flags("488b04c7") and OpFlag.SCALED not in flags("488b0407")
    assert OpFlag.ADDITION in flags("f20f58c1") and OpFlag.ADDITION not in flags("f20f59c1")
    # add rax, rbx; add rax, rax; add rax, [rbx]; shl rax, 3
    assert OpFlag.TAKES_MOVE in flags("4801d8", "zen5") and not flags("4801d8") & OpFlag.TAKES_MOVE
    for code in ("4801c0", "480303", "48c1e003"):
        assert OpFlag.TAKES_MOVE not in flags(code, "zen5")
    assert OpFlag.MOVES_STACK in flags("4883ec10") and OpFlag.MOVES_STACK not in flags("4829c4")
    assert OpFlag.ELIMINATED_MOVE in flags("4889c3")
    assert OpFlag.ELIMINATED_MOVE not in flags("4889c3", "intel-icelake")
    assert OpFlag.MOVE in flags("4889c3", "intel-icelake")
    assert OpFlag.ELIMINATED_MOVE not in flags("4889c0")  # mov rax, rax
    assert OpFlag.FUSES_WITH_BRANCH in flags("4801d8")  # add rax, rbx
    assert OpFlag.FUSES_WITH_BRANCH not in flags("4801d8", "zen2")
    assert OpFlag.FUSES_WITH_BRANCH in flags("4839d8", "zen2")  # cmp rax, rbx
    assert OpFlag.FUSES_WITH_BRANCH not in flags("833d0000000005")  # cmp [rip], 5
    assert OpFlag.FUSES_LIMITED in flags("48ffc8", "intel")  # dec rax
    assert OpFlag.FUSES_WITH_BRANCH not in flags("48ff08", "intel")  # dec [rax]
    assert OpFlag.READS_CARRY in flags("7200") and OpFlag.READS_CARRY not in flags("7500")
    assert OpFlag.LOCKED in flags("488703") and OpFlag.LOCKED in flags("f0480107")
    assert OpFlag.REP in flags("f3a4") and OpFlag.REP not in flags("f3c3")


def statics(codes: list[str], isa: str = "x86") -> Any:
    """Static instructions as a recording has them."""
    from tracekit._core import FLAGS

    found = [decode(isa, bytes.fromhex(c)) for c in codes]  # type: ignore[arg-type]
    n = len(found)
    arrays: dict[str, Any] = {
        "src_class": np.full((n, 8), 255, np.uint8),
        "src_index": np.zeros((n, 8), np.uint16),
        "dst_class": np.full((n, 6), 255, np.uint8),
        "dst_index": np.zeros((n, 6), np.uint16),
        "flags": np.array([sum(1 << FLAGS.index(f) for f in i.flags) for i in found], np.uint64),
        "access_size": np.array([i.access_size for i in found], np.uint16),
    }
    for k, i in enumerate(found):
        for kind, registers in (("src", i.src), ("dst", i.dst)):
            for j, (c, r) in enumerate(registers):
                arrays[f"{kind}_class"][k, j], arrays[f"{kind}_index"][k, j] = c, r

    class Statics(SimpleNamespace):
        def __len__(self) -> int:
            return n

    return Statics(
        arrays=arrays, bytes=[bytes.fromhex(c) for c in codes], count=np.arange(1, n + 1)
    )


def test_rows() -> None:
    codes = [
        "48034518",  # add rax, [rbp + 0x18]
        "480103",  # add [rbx], rax
        "31c0",  # xor eax, eax
        "50",  # push rax
        "58",  # pop rax
        "48f7f1",  # div rcx
        "62f17c481003",  # vmovups zmm0, [rbx]
        "c5fc1103",  # vmovups [rbx], ymm0
        "488b0400",  # mov rax, [rax + rax]
    ]
    table = InstructionTable.load("znver4")
    ops = table.rows(statics(codes), "x86")
    kinds = [k.tolist() for k in np.split(ops.use_kind, ops.use_begin[1:-1])]
    assert kinds[0] == [OPERATION, LOAD]
    assert kinds[1] == [OPERATION, LOAD, STORE_ADDRESS, STORE_DATA]
    assert kinds[2] == []
    assert kinds[3] == [STORE_ADDRESS, STORE_DATA] and kinds[4] == [LOAD]
    assert kinds[5] == [OPERATION, OPERATION] and ops.flags[5] & OpFlag.DIVIDER
    begin = ops.use_begin
    assert ops.use_cycles[begin[6]] == 2.0  # 64 bytes by 32
    assert ops.use_ports[begin[6]] == table.memory.load_vector
    assert ops.use_cycles[begin[7] + 1] == 1.0
    assert ops.latency[:3].tolist() == [1.0, 1.0, 0.0]
    assert ops.address_sources.tolist() == [1, 1, 0, 2, 1, 0, 1, 2, 1]
    assert ops.data_sources.tolist()[:6] == [2, 2, 1, 1, 0, 7]
    assert ops.early_destinations.tolist()[:5] == [0, 0, 0, 1, 1]
    assert ops.own.all() and ops.forms[ops.form[0]] == "add r64, m64"


def test_arm_rows() -> None:
    codes = ["208c40f8", "fd7bbfa9", "208440f8"]  # ldr!, stp!, ldr post
    ops = InstructionTable.load("neoverse-n2").rows(statics(codes, "arm"), "arm")
    assert ops.early_destinations.tolist() == [2, 1, 2]
    assert ops.address_sources.tolist() == [1, 1, 1] and ops.data_sources.tolist() == [0, 6, 0]


def test_coverage_names_what_is_missing() -> None:
    table = InstructionTable.load("znver1")
    zmm = "62f1744858c2"  # vaddps zmm, which Zen 1 does not have
    found = table.coverage(statics(["4801d8", zmm]), "x86")
    assert found.share == pytest.approx(1 / 3)
    assert list(found.missing) == ["vaddps zmm, zmm, zmm"]
    assert found.missing["vaddps zmm, zmm, zmm"][0] == 2
    told = found.told("znver1")
    assert told.startswith("the table znver1 lacks 1 instruction form, 0.67 of what was executed")
    assert "vaddps zmm, zmm, zmm (as vaddps " in told
    assert table.coverage(statics(["4801d8"]), "x86").told("znver1") == ""


def test_rows_of_another_instruction_set_or_without_code_are_refused() -> None:
    table = InstructionTable.load("znver4")
    with pytest.raises(
        UsageError, match="the rows are of arm, the instruction table znver4 of x86"
    ):
        table.rows(statics(["208c40f8"], "arm"), "arm")
    rows = statics(["4801d8", "4801d8"])
    rows.bytes[1] = b""
    with pytest.raises(FormatError, match="1 of 2 instructions have no machine code"):
        table.rows(rows, "x86")
