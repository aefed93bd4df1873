"""From capstone's RISC-V mnemonics to gem5's operation classes (src/arch/riscv/isa/decoder.isa,
v24.0).

By the mnemonic without its format suffix (fadd.d is fadd); loads and stores are added by the
decoder.
"""

from __future__ import annotations

from typing import Final

_BY_CLASS: Final = {
    "IntMult": "mul mulh mulhsu mulhu mulw c.mul",
    "IntDiv": "div divu divw divuw rem remu remw remuw",
    "FloatAdd": "fadd fsub",
    "FloatMult": "fmul",
    "FloatMultAcc": "fmadd fmsub fnmadd fnmsub",
    "FloatDiv": "fdiv",
    "FloatSqrt": "fsqrt",
    "FloatCmp": "fmin fmax feq flt fle",
    "FloatMisc": "fsgnj fsgnjn fsgnjx fclass",
    "FloatCvt": "fcvt fmv",
    "No_OpClass": """fence fence.i fence.tso ecall ebreak c.ebreak wfi sfence.vma csrrw csrrs
        csrrc csrrwi csrrsi csrrci uret sret mret""",
}
OPS: Final[dict[str, str]] = {m: op for op, names in _BY_CLASS.items() for m in names.split()}


def op_class(mnemonic: str) -> str:
    """The class of an instruction that does not access memory; IntAlu where the table says
    nothing."""
    op = OPS.get(mnemonic)
    if op is None and mnemonic.startswith("f"):
        op = OPS.get(mnemonic.split(".", 1)[0])
    return op or "IntAlu"
