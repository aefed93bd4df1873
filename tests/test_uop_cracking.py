"""An X86 instruction's parts: the same from gem5's text and from machine code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.sim import uop_table
from tracekit.sim.uop_cracking import BARRIER, LOAD, STORE, TRAPS, crack
from tracekit.sim.uop_forms import form_of
from tracekit.sim.uop_table import table
from tracekit.store import statics


@pytest.mark.parametrize(
    ("gem5", "assembly", "count"),
    [
        ("MOV_R_R", "mov rax, rcx", 1),
        ("MOV_R_M", "mov rax, qword ptr [rcx + 8]", 1),
        ("MOV_R_P", "mov rax, qword ptr [rip + 0x200]", 2),
        ("ADD_R_I", "add rcx, 4", 2),
        ("ADD_M_I", "add dword ptr [rax], 1", 4),
        ("CMP_M_R", "cmp byte ptr [rdi], al", 2),
        ("JNZ_I", "jne 0x401610", 3),
        ("JNBE_I", "ja 0x401610", 3),
        ("CMOVNLE_R_R", "cmovg eax, ecx", 2),
        ("SETNBE_R", "seta al", 2),
        ("CALL_NEAR_I", "call 0x401000", 5),
        ("CALL_NEAR_R", "call rax", 4),
        ("RET_NEAR", "ret", 3),
        ("PUSH_R", "push rbp", 2),
        ("POP_R", "pop rbp", 3),
        ("SAL_R_I", "shl rdx, 0xd", 1),
        ("LEA_R_P", "lea rdi, [rip + 0x10]", 2),
        ("MOVZX_B_R_M", "movzx eax, byte ptr [rdi]", 2),
        ("MOVSXD_R_R", "movsxd rax, edx", 1),
        ("IMUL_R_R", "imul rax, rcx", 3),
        ("BSF_R_R", "tzcnt eax, ecx", 30),
        ("HINT_NOP", "nop word ptr cs:[rax + rax]", 1),
        ("HINT_NOP", "endbr64", 1),
        ("MULSD_XMM_XMM", "mulsd xmm0, xmm1", 1),
        ("MULPD_XMM_XMM", "mulpd xmm0, xmm1", 2),
        ("MOVSD_XMM_M", "movsd xmm0, qword ptr [rax]", 2),
        ("MOVUPS_M_XMM", "movups xmmword ptr [rdi], xmm0", 2),
        ("MOVNTPS_M_XMM", "movntps xmmword ptr [rdi], xmm0", 3),
        ("MOVNTI_M_R", "movnti qword ptr [rdi], rax", 2),
        ("PCMPEQB_XMM_M", "pcmpeqb xmm0, xmmword ptr [rdi]", 4),
        ("CVTSI2SD_XMM_R", "cvtsi2sd xmm0, rax", 2),
        ("XCHG_M_R.mfence", "xchg dword ptr [rdx], eax", 5),
        ("CMPXCHG_LOCKED_P_R", "lock cmpxchg dword ptr [rip + 5], ecx", 8),
    ],
)
def test_text_and_machine_code_agree(gem5, assembly, count):
    if gem5 != "XCHG_M_R.mfence":
        assert form_of(gem5).name == form_of(assembly).name
    uops = crack(form_of(assembly))
    assert len(uops) == count
    if gem5.startswith("CMPXCHG"):
        assert len(crack(form_of(gem5))) == count
    else:
        assert crack(form_of(gem5)) == uops


def test_what_an_instruction_does_is_in_its_parts():
    update = crack(form_of("add dword ptr [rax], ecx"))
    assert [bool(p.flags & LOAD) for p in update] == [True, False, False]
    assert [bool(p.flags & STORE) for p in update] == [False, False, True]
    assert sum(p.branch for p in crack(form_of("call rax"))) == 1
    assert crack(form_of("mfence"))[0].flags & BARRIER
    hint = crack(form_of("movntdq xmmword ptr [rdi], xmm1"))
    assert [p.flags for p in hint] == [TRAPS, STORE, STORE]
    assert not any(p.flags for p in crack(form_of("lea rax, [rcx + rdx]")))


def test_strings_are_not_vectors():
    assert form_of("movsd dword ptr [rdi], dword ptr [rsi]").name == "movs"
    assert form_of("movsd xmm0, qword ptr [rsi]").name == "movsd"
    assert form_of("rep stosq qword ptr [rdi], rax").repeated
    assert form_of("STOS_E_M").repeated and form_of("STOS_E_M").name == "stos"
    assert not form_of("rep bsf eax, ecx").repeated


def test_nonsense_is_one_operation():
    assert len(crack(form_of("frobnicate rax, rcx"))) == 1
    assert crack(form_of(""))


TEXTS = ("mov rax, rcx", "ADD_R_M", "add dword ptr [rax], ecx", "addpd xmm0, xmmword ptr [rdi]",
         "MOVAPS_M_XMM", "ret", "call 0x401000", "rep stosq qword ptr [rdi], rax", "cpuid",
         "jne 0x4", "xorps xmm1, xmm1", "div rcx")  # fmt: skip
REGISTERS = st.lists(
    st.tuples(st.sampled_from([0, 2, 4, 5, statics.NO_REG]), st.integers(0, 3)), max_size=3
)


def static_table(instructions):
    n = len(instructions)
    arrays = {k: np.zeros((n, w) if w else n, d) for k, (d, w) in statics.ARRAYS.items()}
    for i, (_, src, dst, size) in enumerate(instructions):
        arrays["pc"][i], arrays["access_size"][i] = 64 * i, size
        for kind, given_ in (("src", src), ("dst", dst)):
            arrays[f"{kind}_class"][i] = statics.NO_REG
            for k, (c, number) in enumerate(given_):
                arrays[f"{kind}_class"][i, k], arrays[f"{kind}_index"][i, k] = c, number
    return statics.StaticTable(arrays, [text for text, *_ in instructions], [b""] * n)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from(TEXTS), REGISTERS, REGISTERS, st.sampled_from([0, 8, 16])),
        max_size=12,
    )
)
def test_an_instructions_parts_are_its_own_whatever_stands_beside_it(instructions):
    """Equal instructions are looked at once: the same as one by one."""
    both = table(static_table(instructions))
    assert both.begin[0] == 0 and len(both.begin) == len(instructions) + 1
    for i, one in enumerate(instructions):
        alone = table(static_table([one]))
        mine = slice(int(both.begin[i]), int(both.begin[i + 1]))
        for name in ("flags", "op", "branch", "size", "offset", "src", "dst"):
            assert np.array_equal(getattr(both, name)[mine], getattr(alone, name)), (name, one)
        assert (both.pc[mine] == 64 * i).all()


def test_parts_are_counted_without_making_them(monkeypatch):
    instructions = [(text, [(0, 1)], [(0, 2)], 8) for text in TEXTS]
    made = static_table(instructions)
    want = np.diff(uop_table.table(made).begin.astype(int))
    monkeypatch.setattr(uop_table, "_uops_of", None)
    assert uop_table.uop_counts(made).tolist() == want.tolist() and want.max() > 1
    assert uop_table.uop_counts(static_table([])).tolist() == []
