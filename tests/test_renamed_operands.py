"""Which registers gem5's X86 micro-ops read and write as they are renamed, from its sources
(src/arch/x86/isa): halves of vector registers, and groups of condition codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit import _core, schema
from tracekit.sim.core_instructions import NO_REGISTER, _Operands, _registers

CONDITIONAL = 1 << schema.FLAGS.index("IsCondControl")
CODES = {0: "zaps", 1: "cfof", 2: "ecf", 3: "ezf"}
ALL = "zaps cfof ecf ezf"

# micro-op | its place | sources > destinations: general registers by number, vectors by half
GOLDEN = """
MOVAPD_XMM_XMM : movfp   %xmm0_low, %xmm1_low | 0 | 0l 1l > 0l
MOVAPD_XMM_XMM : movfp   %xmm0_high, %xmm1_high | 1 | 0h 1h > 0h
MOVSD_XMM_M : lfpimm   %xmm3_high, 0 | 0 | > 3h
MOVSD_XMM_M : ldfp   %xmm3_low, SS:[rbp] | 1 | r5 > 3l
PXOR_XMM_XMM : mxor   %xmm7_high, %xmm7_high, %xmm7_high | 1 | 7h > 7h
PUNPCKLBW_XMM_XMM : unpack   %xmm0_high, %xmm0_low, %xmm1_low | 0 | 0l 1l > 0h
PSHUFD_XMM_XMM_I : shuffle   %xmm0_high, %xmm2_low, %xmm2_high | 1 | 0h 2l 2h > 0h
ADDSD_XMM_M : maddf   %xmm1_low, %xmm1_low, %ufp1 | 1 | 1l 17l > 1l
UCOMISD_XMM_XMM : mcmpf2rf   %xmm9_low, %xmm1_low | 0 | 9l 1l zaps cfof > zaps cfof
ADD_R_R : add   rax, rax, rbx | 0 | r0 r3 > r0 zaps cfof
INC_R : addi   rax, rax, 0x1 | 0 | r0 cfof > r0 zaps cfof
SAL_R_I : slli   rdi, rdi, 0x5 | 0 | r7 zaps > r7 zaps cfof
ROL_R_I : roli   rdx, rdx, 0x11 | 0 | r2 > r2 cfof
RCL_R_I : rcli   rdx, rdx, 0x1 | 0 | r2 cfof > r2 cfof
SBB_R_R : sbb   r8, r8, r8 | 0 | r8 cfof > r8 zaps cfof
MUL_R : mul1u   rax, rsi | 0 | r0 r6 r33 > r32 r33 cfof
IMUL_R_R : mul1s   rax, rsi | 0 | r0 r6 r32 r33 > r32 r33 cfof
LEA_R_M : lea   rax, DS:[rbx + 0x8] | 0 | r0 r3 > r0
MOVD_R_XMM : mov2int   rax, %xmm0_low, 0 | 0 | r0 0l > r0
BT_R_I : sexti   t0, rax, 0x5 | 0 | r0 cfof > cfof
CMOVZ_R_R : mov   rax, rax, rbx | 0 | r0 r3 zaps cfof ecf ezf > r0
IDIV_R : sub   t1d, t0d, eax | 0 | r0 > r17 ecf
IDIV_R : ruflag   t4d, 0x3 | 1 | zaps cfof ecf ezf > r20 ezf
IDIV_R : div2   t4d, t1d, t4d | 16 | r17 r20 r34 r35 r36 > r20 r34 r35 ezf
DIV_R : div2   t1, rax, t1 | 6 | r0 r17 r34 r35 r36 > r17 r34 r35 ezf
BSF_R_R : and   t1, rdx, rdx | 1 | r2 zaps > r17 zaps
BSF_R_R : srli   t3, t1, 0x20 | 6 | r17 > r19 ezf
SCAS_M : sub   t0, rax, t1 | 5 | r0 r17 > zaps cfof
SCAS_E_M : and   t0, rcx, rcx | 0 | r1 > ezf
LOOP_I : subi   rcx, rcx, 0x1 | 0 | r1 > r1 ezf
JZ_I : wrip   t1, t2 | 2 | r17 r18 zaps cfof ecf ezf >
JMP_I : wrip   t1, t2 | 2 | r17 r18 >
"""


def registers(classes: np.ndarray, indices: np.ndarray) -> str:
    names = []
    for cls, index in zip(classes.tolist(), indices.tolist(), strict=True):
        if cls == 5:
            names.append(CODES[index])
        elif cls == 2:
            names.append(f"{index % 128}{'lh'[index // 128]}")
        elif cls == 0:
            names.append(f"r{index}")
        else:
            assert (cls, index) == (255, 0)
    return " ".join(names)


@pytest.mark.parametrize("line", GOLDEN.strip().splitlines(), ids=lambda t: t.split("|")[0].strip())
def test_what_gem5_renames(line: str) -> None:
    text, upc, expected = (part.strip() for part in line.split("|"))
    flags = CONDITIONAL if text.startswith("JZ") else 0
    src_class, src_index, dst_class, dst_index = _core.renamed_operands(
        [text], np.array([upc], np.uint16), np.array([flags], np.uint64)
    )
    got = f"{registers(src_class[0], src_index[0])} > {registers(dst_class[0], dst_index[0])}"
    assert got.strip() == expected


@given(st.text(max_size=80), st.integers(0, 70), st.integers(0, 2**64 - 1))
def test_any_text_is_safe(text: str, upc: int, flags: int) -> None:
    found = _core.renamed_operands([text], np.array([upc], np.uint16), np.array([flags], np.uint64))
    assert [a.shape for a in found] == [(1, 8), (1, 8), (1, 6), (1, 6)]


def test_a_table_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="for each disassembly"):
        _core.renamed_operands(["NOP"], np.zeros(2, np.uint16), np.zeros(1, np.uint64))


def test_the_rarest_of_too_many_registers_are_left_out():
    most = _core.MOST_CORE_REGISTERS
    numbers = np.append(np.arange(most + 3), np.arange(most))[:, None].astype(np.uint16)
    none = np.full((len(numbers), 1), 255, np.uint8)
    operands = _Operands(np.zeros_like(none), numbers, none, np.zeros_like(numbers))
    src, dst = _registers(operands)
    assert sorted(src[most + 3 :, 0].tolist()) == list(range(most))
    assert (src[most : most + 3] == NO_REGISTER).all() and (dst == NO_REGISTER).all()
