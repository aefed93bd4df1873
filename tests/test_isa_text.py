"""Disassembly text to operands: goldens of real lines, and any text is safe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit import _core

CLASSES = {0: "i", 1: "f", 2: "v", 3: "e", 4: "p", 5: "cc", 6: "m"}
Golden = tuple[str, str, str, list[str], int, str, int, int]

# disassembly | op class | flags that matter, without "Is" | micro-pc | sources > destinations by
# class and number | bytes accessed | kind of branch
ARM = """
nop | IntAlu |  | 0 | > | 0 | 0
movz   w1, #0, #0 | IntAlu | Integer | 0 | > i1 | 0 | 0
orr   x0, xzr, x24 | IntAlu | Integer | 0 | i24 > i0 | 0 | 0
ldr   x0, [x19] | MemRead | Integer Load | 0 | i19 > i0 | 0 | 0
add   x0, x0, #1632 | IntAlu | Integer | 0 | i0 > i0 | 0 | 0
adrp   x3, #839680 | IntAlu | Integer | 0 | > i3 | 0 | 0
bl   <strcmp> | IntAlu | Integer Control DirectControl Call | 0 | > i30 | 0 | 3
addxi_uop   ureg0, sp, #48 | IntAlu | Integer Microop | 0 | i31 > i32 | 0 | 0
strxi_uop   x30, [ureg0, #8] | MemWrite | Integer Store Microop | 2 | i30 i32 > | 8 | 0
str   x1, [x21, #8] | MemWrite | Integer Store | 0 | i1 i21 > | 0 | 0
cbnz   w0, <sqlite3VdbeExec+15000> | IntAlu | Integer Control DirectControl CondControl | 0 | i0 > | 0 | 1
sub   w2, w2, #1 | IntAlu | Integer | 0 | i2 > i2 | 0 | 0
subs   x5, x7 | IntAlu | Integer | 0 | i5 i7 > cc | 0 | 0
b.ne   <sqlite3WhereBegin+7200> | IntAlu | Control DirectControl CondControl | 0 | cc > | 0 | 1
cbz   x21, <_IO_default_xsputn+236> | IntAlu | Integer Control DirectControl CondControl | 0 | i21 > | 0 | 1
ret | IntAlu | Integer Control IndirectControl Return | 0 | i30 > | 0 | 6
ldrh   w25, [w0, w24] | MemRead | Integer Load | 0 | i0 i24 > i25 | 2 | 0
b   <__fstat> | IntAlu | Control DirectControl | 0 | > | 0 | 2
ldp_uop   x19, x20, [ureg0] | MemRead | Integer Load Microop | 1 | i32 > i19 i20 | 16 | 0
ubfm   x4, x2, #59, #58 | IntAlu | Integer | 0 | i2 > i4 | 0 | 0
csinc   w3, wzr, wzr, le | IntAlu | Integer | 0 | cc > i3 | 0 | 0
ldrb   w0, [w1, #9] | MemRead | Integer Load | 0 | i1 > i0 | 1 | 0
ands   w0, #24 | IntAlu | Integer | 0 | i0 > cc | 0 | 0
and   w3, w5, #65535 | IntAlu | Integer | 0 | i5 > i3 | 0 | 0
tbz   w1, #0x80000000, 0x408adc | IntAlu | Integer Control DirectControl CondControl | 0 | i1 > | 0 | 1
mrs   x0, tpidr_el0 | IntAlu | Integer | 0 | > i0 | 0 | 0
tbnz   w22, #0x2, <sqlite3VdbeExec+33076> | IntAlu | Integer Control DirectControl CondControl | 0 | i22 > | 0 | 1
lslv   w9, w3, w9 | IntAlu | Integer | 0 | i3 i9 > i9 | 0 | 0
strb   w0, [w24, #14] | MemWrite | Integer Store | 0 | i0 i24 > | 1 | 0
csel   x0, x22, x19, ne | IntAlu | Integer | 0 | i22 i19 cc > i0 | 0 | 0
blr   x5 | IntAlu | Integer Control IndirectControl Call | 0 | i5 > i30 | 0 | 5
sbfm   x1, x21, #0, #31 | IntAlu | Integer | 0 | i21 > i1 | 0 | 0
udiv   x2, x1, x0 | IntDiv | Integer | 0 | i1 i0 > i2 | 0 | 0
madd   x0, x6, x0, x3 | IntMult | Integer | 0 | i6 i0 i3 > i0 | 0 | 0
svc   #0x0 | IntAlu | Syscall | 0 | > | 0 | 0
br   x2 | IntAlu | Integer Control IndirectControl | 0 | i2 > | 0 | 4
whilelo   p0, xzr, x2 | SimdCmp | Integer | 0 | i2 > p0 cc | 0 | 0
cntb   x6 | SimdAlu | Integer | 0 | > i6 | 0 | 0
ld1   {z1}, p1/z, , [x1, #1, mul vl] | MemRead | Integer Vector Load | 0 | p1 i1 > v1 | 0 | 0
st1   {z1}, p1/z, , [x0, #1, mul vl] | MemWrite | Integer Vector Store | 0 | v1 p1 i0 > | 0 | 0
msr   tpidr_el0, x19 | IntAlu | Integer | 0 | i19 > | 0 | 0
movn   w0, #0, #0 | IntAlu | Integer | 0 | > i0 | 0 | 0
movk   w27, #25697, #16 | IntAlu | Integer | 0 | i27 > i27 | 0 | 0
adds   w1, #10 | IntAlu | Integer | 0 | i1 > cc | 0 | 0
ccmp   x20, #0, #4, ne | IntAlu | Integer | 0 | i20 cc > cc | 0 | 0
bti        (unimplemented) | No_OpClass |  | 0 | > | 0 | 0
ldaxr   x0, xzr, [x2] | MemRead | Integer Load | 0 | i2 > i0 | 0 | 0
stxr   x1, x17, [x2] | MemWrite | Integer Store StoreConditional | 0 | i1 i2 > i17 | 0 | 0
ldxr   x0, xzr, [x1] | MemRead | Integer Load | 0 | i1 > i0 | 0 | 0
dup   w4, w3 | SimdMisc | Integer Vector | 0 | i3 > v4 | 0 | 0
strqbfpxi_uop   x0, [ureg0, #16] | MemWrite | Integer Vector Store Microop | 3 | v0 i32 > | 8 | 0
strqtfpxi_uop   x1, [ureg0, #16] | MemWrite | Integer Vector Store Microop | 4 | v1 i32 > | 8 | 0
dc zva   , x3 | MemWrite | Integer Store | 0 | i3 > | 0 | 0
strh   w12, [w28, w8] | MemWrite | Integer Store | 0 | i12 i28 i8 > | 2 | 0
bics   w22, w12, w1 | IntAlu | Integer | 0 | i12 i1 > i22 cc | 0 | 0
bic   x5, x6, x7 | IntAlu | Integer | 0 | i6 i7 > i5 | 0 | 0
rev   x0, x0 | IntAlu | Integer | 0 | i0 > i0 | 0 | 0
clz   x3, x3 | IntAlu | Integer | 0 | i3 > i3 | 0 | 0
stur   xzr, [x0, #-40] | MemWrite | Integer Store | 0 | i0 > | 0 | 0
mvni   w0, #0 | SimdAlu | Vector | 0 | > v0 | 0 | 0
umaddl   x25, x23, x1, x0 | IntMult | Integer | 0 | i23 i1 i0 > i25 | 0 | 0
ldfp16_uop   x1, [ureg0, #16] | MemRead | Integer Vector Load Microop | 2 | i32 > v1 | 16 | 0
ldur   x5, [x7, #-4] | MemRead | Integer Load | 0 | i7 > i5 | 0 | 0
mem_neon_uopld | MemRead | Integer Vector Load Microop | 0 | > | 0 | 0
deint_neon_uop | No_OpClass | Vector Microop | 2 | > | 0 | 0
cmeq   w2, w1 | SimdCmp | Vector | 0 | v1 > v2 | 0 | 0
bit   w2, w3, w4 | SimdAlu | Vector | 0 | v2 v3 v4 > v2 | 0 | 0
and   w2, w2, w5 | SimdAlu | Vector | 0 | v2 v5 > v2 | 0 | 0
addp   w5, w2, w2 | SimdAdd | Vector | 0 | v2 > v5 | 0 | 0
fmov   f2, f0 | FloatMisc | Integer Vector | 0 | i0 > v2 | 0 | 0
lsrv   x3, x3, x4 | IntAlu | Integer | 0 | i3 i4 > i3 | 0 | 0
bic   w2, #1080880403494997760 | SimdAlu | Vector | 0 | v2 > v2 | 0 | 0
eor   w5, w5, w11 | IntAlu | Integer | 0 | i5 i11 > i5 | 0 | 0
stlr   x0, [x3] | MemWrite | Integer Store | 0 | i0 i3 > | 0 | 0
strfpxi_uop   w11, [ureg0, #8] | MemWrite | Integer Vector Store Microop | 2 | v11 i32 > | 8 | 0
Ext   w0, w0, w0, #8 | SimdMisc | Vector | 0 | v0 > v0 | 0 | 0
movi   w0, #0 | SimdMisc | Vector | 0 | > v0 | 0 | 0
ldr   x9, [x1, #3560] | MemRead | Integer Vector Load | 0 | i1 > v9 | 0 | 0
stur   x1, [x6, #-8] | MemWrite | Integer Vector Store | 0 | v1 i6 > | 0 | 0
smaddl   x0, x25, x0, x2 | IntMult | Integer | 0 | i25 i0 i2 > i0 | 0 | 0
dup   w0, w0, #0 | SimdMisc | Vector | 0 | v0 > v0 | 0 | 0
msub   w1, w4, w1, w28 | IntMult | Integer | 0 | i4 i1 i28 > i1 | 0 | 0
csneg   w1, w22, w22, ge | IntAlu | Integer | 0 | i22 cc > i1 | 0 | 0
str   x0, [x22, #16] | MemWrite | Integer Vector Store | 0 | v0 i22 > | 0 | 0
fmov   f8, #4602678819172646912 | FloatMisc | Vector | 0 | > v8 | 0 | 0
fcmp   f8, #0 | FloatCmp | Vector | 0 | v8 > cc | 0 | 0
ldurb   w2, [w0, #-8] | MemRead | Integer Load | 0 | i0 > i2 | 1 | 0
ldrsb   w0, [w1, #1] | MemRead | Integer Load | 0 | i1 > i0 | 1 | 0
ldrduxi_uop   w2, w22, [ureg0] | MemRead | Integer Load Microop | 1 | i32 > i2 i22 | 8 | 0
umulh   x2, x3, x6 | IntMult | Integer | 0 | i3 i6 > i2 | 0 | 0
orn   w2, wzr, w2 | IntAlu | Integer | 0 | i2 > i2 | 0 | 0
ldrsh   w7, [w8, #2] | MemRead | Integer Load | 0 | i8 > i7 | 2 | 0
strdxi_uop   w1, wzr, [ureg0] | MemWrite | Integer Store Microop | 1 | i1 i32 > | 8 | 0
ldp_fp8_uop   w8, w9, [ureg0] | MemRead | Integer Vector Load Microop | 1 | i32 > v8 v9 | 16 | 0
uminp   w0, w0, w0 | SimdCmp | Vector | 0 | v0 > v0 | 0 | 0
ushr   w2, w1, #17 | SimdShift | Vector | 0 | v1 > v2 | 0 | 0
scvtf   w25, w25 | SimdCvt | Vector | 0 | v25 > v25 | 0 | 0
fmul   f1, f13, f0 | FloatMult | Vector | 0 | v13 v0 > v1 | 0 | 0
ldur   x6, [x10, #-8] | MemRead | Integer Vector Load | 0 | i10 > v6 | 0 | 0
ldfp16reg_uop   w9, [w12, w4] | MemRead | Integer Vector Load | 0 | i12 i4 > v9 | 16 | 0
fmla   w5, w21, w22 | SimdFloatMultAcc | Vector | 0 | v5 v21 v22 > v5 | 0 | 0
strqbfpxr_uop   w0, [w3, w22] | MemWrite | Integer Vector Store Microop | 0 | v0 i3 i22 > | 8 | 0
strqtfpxr_uop   w0, [w3, w4] | MemWrite | Integer Vector Store Microop | 1 | v0 i3 i4 > | 8 | 0
unpack_neon_uop | SimdAdd | Vector Microop | 1 | > | 0 | 0
casa   x1, x0, [x2] | MemWrite | Integer Atomic | 0 | i1 i0 i2 > i0 | 0 | 0
umov   w3, w2, #0 | SimdMisc | Integer Vector | 0 | v2 > i3 | 0 | 0
swpl   x0, x0, [x1] | MemWrite | Integer Atomic | 0 | i0 i1 > i0 | 4 | 0
csinv   w0, w0, wzr, hi | IntAlu | Integer | 0 | i0 cc > i0 | 0 | 0
adr   x1, #12 | IntAlu | Integer | 0 | > i1 | 0 | 0
asrv   w0, w3, w7 | IntAlu | Integer | 0 | i3 i7 > i0 | 0 | 0
sdiv   x1, x2, x0 | IntDiv | Integer | 0 | i2 i0 > i1 | 0 | 0
ldrsw   x6, [sp, #184] | MemRead | Integer Load | 0 | i31 > i6 | 4 | 0
bfm   w0, w1, #0, #1 | IntAlu | Integer | 0 | i0 i1 > i0 | 0 | 0
smulh   x1, x2, x1 | IntMult | Integer | 0 | i2 i1 > i1 | 0 | 0
ins   w0, w1, #0, #0 | SimdMisc | Vector | 0 | v0 v1 > v0 | 0 | 0
ins   w0, w3, #2 | SimdMisc | Integer Vector | 0 | v0 i3 > v0 | 0 | 0
Xtn   w0, w0 | SimdMisc | Vector | 0 | v0 > v0 | 0 | 0
add   w13, w13, w29 | SimdAdd | Vector | 0 | v13 v29 > v13 | 0 | 0
rev32   w0, w0 | SimdAlu | Vector | 0 | v0 > v0 | 0 | 0
swpa64   x0, x0, [x1] | MemWrite | Integer Atomic | 0 | i0 i1 > i0 | 8 | 0
extr   w9, w9, w9, #16 | IntAlu | Integer | 0 | i9 > i9 | 0 | 0
orr   w6, w0, w0 | SimdAlu | Vector | 0 | v0 > v6 | 0 | 0
Uzp1   w1, w1, w3 | SimdAlu | Vector | 0 | v1 v3 > v1 | 0 | 0
shl   w2, w13, #4 | SimdShift | Vector | 0 | v13 > v2 | 0 | 0
sub   w6, w14, w6 | SimdAdd | Vector | 0 | v14 v6 > v6 | 0 | 0
ldadda   x0, x0, [x1] | MemWrite | Integer Atomic | 0 | i0 i1 > i0 | 4 | 0
ldadda64   x0, x0, [x1] | MemWrite | Integer Atomic | 0 | i0 i1 > i0 | 8 | 0
fmadd   f0, f2, f3, f0 | FloatMultAcc | Vector | 0 | v2 v3 v0 > v0 | 0 | 0
fdiv   w20, w0, w20 | SimdFloatDiv | Vector | 0 | v0 v20 > v20 | 0 | 0
scvtf   f0, f0 | FloatCvt | Integer Vector | 0 | i0 > v0 | 0 | 0
fadd   f2, f2, f6 | FloatAdd | Vector | 0 | v2 v6 > v2 | 0 | 0
fsqrt   f0, f8 | FloatSqrt | Vector | 0 | v8 > v0 | 0 | 0
frinta   f3, f1 | FloatMisc | Vector | 0 | v1 > v3 | 0 | 0
fcvtAs   f4, f1 | FloatCvt | Integer Vector | 0 | v1 > i4 | 0 | 0
fmsub   f0, f0, f0, f1 | FloatMultAcc | Vector | 0 | v0 v1 > v0 | 0 | 0
ccmn   x0, #1, #0, eq | IntAlu | Integer | 0 | i0 cc > cc | 0 | 0
ushll   w9, w9, #0 | SimdShift | Vector | 0 | v9 > v9 | 0 | 0
sminv   w2, w2 | SimdCmp | Vector | 0 | v2 > v2 | 0 | 0
uaddw2   w0, w0, w2 | SimdAddAcc | Vector | 0 | v0 v2 > v0 | 0 | 0
addv   w2, w2 | SimdAdd | Vector | 0 | v2 > v2 | 0 | 0
saddl   w22, w16, w18 | SimdAddAcc | Vector | 0 | v16 v18 > v22 | 0 | 0
shrn2   w3, w4, #15 | SimdShift | Vector | 0 | v3 v4 > v3 | 0 | 0
bsl   w7, w2, w1 | SimdAlu | Vector | 0 | v7 v2 v1 > v7 | 0 | 0
ldrdsxi_uop   w3, w4, [ureg0] | MemRead | Integer Load Microop | 1 | i32 > i3 i4 | 8 | 0
fcvtn   w25, w23 | SimdCvt | Vector | 0 | v23 > v25 | 0 | 0
zip1   w0, w3, w8 | SimdAlu | Vector | 0 | v3 v8 > v0 | 0 | 0
fcvt   f9, f9 | FloatCvt | Vector | 0 | v9 > v9 | 0 | 0
eor   w0, w0, w6 | SimdAlu | Vector | 0 | v0 v6 > v0 | 0 | 0
fcvtZs   f0, f0 | FloatCvt | Integer Vector | 0 | v0 > i0 | 0 | 0
strdfpxi_uop   w12, w13, [ureg0] | MemWrite | Integer Vector Store Microop | 1 | v12 v13 i32 > | 8 | 0
mla   w0, w3, w1, #0 | SimdMultAcc | Vector | 0 | v0 v3 v1 > v0 | 0 | 0
ldrdfpxi_uop   w5, w4, [ureg0] | MemRead | Integer Vector Load Microop | 1 | i32 > v5 v4 | 8 | 0
fcsel   w1, w1, w0, mi | FloatCvt | Vector | 0 | v1 v0 cc > v1 | 0 | 0
sshll   w6, w0, #0 | SimdShift | Vector | 0 | v0 > v6 | 0 | 0
int_neon_uop | No_OpClass | Vector Microop | 0 | > | 0 | 0
mem_neon_uopst | MemWrite | Integer Vector Store Microop | 1 | > | 0 | 0
prfm   PLDL1KEEP, [x14, x5] | MemRead | Integer Load DataPrefetch | 0 | i14 i5 > | 0 | 0
rorv   x5, x4, x15 | IntAlu | Integer | 0 | i4 i15 > i5 | 0 | 0
fcvtZu   f3, f0 | FloatCvt | Integer Vector | 0 | v0 > i3 | 0 | 0
umax   w0, w0, w1 | SimdCmp | Vector | 0 | v0 v1 > v0 | 0 | 0
umaxv   w0, w0 | SimdCmp | Vector | 0 | v0 > v0 | 0 | 0
cmtst   w1, w1, w1 | SimdAlu | Vector | 0 | v1 > v1 | 0 | 0
clz   w2, w0 | SimdAlu | Vector | 0 | v0 > v2 | 0 | 0
fmov   f0, f31 | FloatMisc | Integer Vector | 0 | > v0 | 0 | 0
ldr   x1, [x0], #8] | MemRead | Integer Load Microop | 0 | i0 > i1 | 0 | 0
ldr   x1, [x0, #8]! | MemRead | Integer Load Microop | 0 | i0 > i1 | 0 | 0
addxi_uop   x0, x0, #8 | IntAlu | Integer Microop | 1 | i0 > i0 | 0 | 0
stlxp   w5, x2, x3, [x0] | MemWrite | Integer Store StoreConditional | 0 | i2 i3 i0 > i5 | 0 | 0
ldxp   x2, x3, [x0] | MemRead | Integer Load | 0 | i0 > i2 i3 | 0 | 0
caspal   x2, x3, x4, x5, [x0] | MemWrite | Integer Atomic | 0 | i2 i3 i4 i5 i0 > i4 i5 | 0 | 0
prfm   PLDL1KEEP, [x10, x6] | MemRead | Integer Load DataPrefetch | 0 | i10 i6 > | 0 | 0
mrs   x0, nzcv | IntAlu | Integer | 0 | cc > i0 | 0 | 0
msr   nzcv, x0 | IntAlu | Integer | 0 | i0 > cc | 0 | 0
ret   x5 | IntAlu | Integer Control IndirectControl Return | 0 | i5 > | 0 | 6
subs   w0, w1, w2, LSL #3 | IntAlu | Integer | 0 | i1 i2 > i0 cc | 0 | 0
adc   x0, x1, x2 | IntAlu | Integer | 0 | i1 i2 cc > i0 | 0 | 0
fmadd   f0, f2, f3, f1 | FloatMultAcc | Vector | 0 | v2 v3 v1 > v0 | 0 | 0
ldr   x1, [sp, #12] | MemRead | Integer Load | 0 | i31 > i1 | 4 | 0
ldr   x1, [x0, x2, LSL #3] | MemRead | Integer Load | 0 | i0 i2 > i1 | 8 | 0
str   x1, [x0, x2, SXTW #2] | MemWrite | Integer Store | 0 | i1 i0 i2 > | 4 | 0
ldr   x1, [x0, x2, LSL #3] | MemRead | Integer Vector Load | 0 | i0 i2 > v1 | 8 | 0
ldur   x1, [x0, #12] | MemRead | Integer Load | 0 | i0 > i1 | 0 | 0
fmla   z0, p1/m, z2, z3 | SimdFloatMultAcc | Vector | 0 | v0 p1 v2 v3 > v0 | 0 | 0
fadd   z0, p1/m, z0, z3 | SimdFloatAdd | Vector | 0 | v0 p1 v3 > v0 | 0 | 0
ands   z1, p0/z, p2, p3 | SimdPredAlu |  | 0 | p0 p2 p3 > p1 cc | 0 | 0
cmpeq   p0, p1/z, z0, z1 | SimdCmp | Vector | 0 | p1 v0 v1 > p0 cc | 0 | 0
faddv   f0, p1, z3 | SimdFloatReduceAdd | Vector | 0 | p1 v3 > v0 | 0 | 0
incb   x0 | SimdAlu | Integer | 0 | i0 > i0 | 0 | 0
"""  # noqa: E501

X86 = """
XOR_R_R : xor   eax, eax, eax | IntAlu | Integer Microop | 0 | i0 > i0 cc | 0 | 0
MOV_R_R : mov   r13, r13, rsi | IntAlu | Integer Microop | 0 | i6 > i13 | 0 | 0
MOV_R_M : ld   ecx, SS:[rbp + 0x20] | MemRead | Integer Load Microop | 0 | i5 > i1 | 4 | 0
POP_R : addi   rsp, rsp, 0x8 | IntAlu | Integer Microop | 1 | i4 > i4 | 0 | 0
CALL_NEAR_I : limm   t1, 0x5229e | IntAlu | Integer Microop | 0 | > i17 | 0 | 0
TEST_R_R : and   t0d, edx, edx | IntAlu | Integer Microop | 0 | i2 > cc | 0 | 0
CALL_NEAR_I : st   t7, SS:[rsp + 0xfffffffffffffff8] | MemWrite | Integer Store Microop | 2 | i23 i4 > | 8 | 0
CALL_NEAR_I : subi   rsp, rsp, 0x8 | IntAlu | Integer Microop | 3 | i4 > i4 | 0 | 0
JMP_I : rdip   t1, t1 | IntAlu | Integer Microop | 0 | > i17 | 0 | 0
JZ_I : wrip   t1, t2 | IntAlu | Integer Control DirectControl CondControl Microop | 2 | i17 i18 cc > | 0 | 1
MOVSXD_R_M : sexti   rax, t1, 0x1f | IntAlu | Integer Microop | 1 | i17 > i0 | 0 | 0
CMP_M_I : sub   t0, t1, t2 | IntAlu | Integer Microop | 2 | i17 i18 > cc | 0 | 0
LEA_R_M : lea   rcx, DS:[rbx + 0x3b8] | IntAlu | Integer Microop | 0 | i3 > i1 | 0 | 0
NOP | IntAlu |  | 0 | > | 0 | 0
ADD_R_I : add   rcx, rcx, t1 | IntAlu | Integer Microop | 1 | i1 i17 > i1 cc | 0 | 0
PXOR_XMM_XMM : mxor   %xmm0_low, %xmm0_low, %xmm0_low | SimdAlu | Floating Microop | 0 | v0 > v0 | 0 | 0
HINT_NOP : fault   NoFault | No_OpClass | Microop | 0 | > | 0 | 0
MOVUPS_M_XMM : stfp   %xmm0_low, DS:[rbx + 0x2e0] | FloatMemWrite | Integer Floating Store Microop | 0 | v0 i3 > | 8 | 0
MOVZX_B_R_M : zexti   eax, t1d, 0x7 | IntAlu | Integer Microop | 1 | i17 > i0 | 0 | 0
RET_NEAR : wripi   t1, 0 | IntAlu | Integer Control IndirectControl Return Microop | 2 | i17 > | 0 | 6
CPUID | IntAlu | Integer | 0 | i0 i1 > i0 i1 i2 i3 | 0 | 0
SHR_R_I : srli   edx, edx, 0x4 | IntAlu | Integer Microop | 0 | i2 > i2 cc | 0 | 0
ADD_M_R : ldst   t1d, DS:[r8] | MemRead | Integer Load Microop | 0 | i8 > i17 | 4 | 0
OR_R_R : or   esi, esi, ecx | IntAlu | Integer Microop | 0 | i6 i1 > i6 cc | 0 | 0
MOVD_XMM_R : mov2fp   %xmm0_low, esi, 0 | SimdMisc | Integer Floating Microop | 0 | v0 i6 > v0 | 0 | 0
MOVD_XMM_R : lfpimm   %xmm0_high, 0 | FloatAdd | Floating Microop | 1 | > v0 | 0 | 0
PUNPCKLBW_XMM_XMM : unpack   %xmm0_high, %xmm0_low, %xmm0_low | SimdMisc | Floating Microop | 0 | v0 > v0 | 0 | 0
SAR_R_I : srai   rdx, rdx, 0x4 | IntAlu | Integer Microop | 0 | i2 > i2 cc | 0 | 0
SBB_R_R : sbb   r8d, r8d, r8d | IntAlu | Integer Microop | 0 | i8 cc > i8 cc | 0 | 0
SAL_R_I : slli   rdi, rdi, 0x5 | IntAlu | Integer Microop | 0 | i7 > i7 cc | 0 | 0
SETNZ_R : movi   dl, dl, 0 | IntAlu | Integer Microop | 1 | i2 cc > i2 | 0 | 0
MOVHPS_XMM_M : ldfp   %xmm1_high, DS:[t0 + r12 + 0x8] | FloatMemRead | Integer Floating Load Microop | 0 | i12 > v1 | 8 | 0
ANDPS_XMM_P : mand   %xmm0_low, %xmm0_low, %ufp1 | SimdAlu | Floating Microop | 4 | v0 v17 > v0 | 0 | 0
MOVAPS_XMM_XMM : movfp   %xmm7_low, %xmm5_low | IntAlu | Floating Microop | 0 | v5 > v7 | 0 | 0
DIV_M : div1   rdx, t2 | IntDiv | Integer Microop | 1 | i2 i18 > i34 i35 i36 | 0 | 0
DIV_M : div2i   t1, rax, 0x40 | IntDiv | Integer Microop | 2 | i0 i34 i35 i36 > i17 i34 i35 | 0 | 0
DIV_R : div2   t1, rax, t1 | IntDiv | Integer Microop | 2 | i0 i17 i34 i35 i36 > i17 i34 i35 | 0 | 0
PSLLDQ_XMM_I : br   0xc | IntAlu | Control DirectControl CondControl Microop | 2 | cc > | 0 | 1
DIV_M : divq   rax, rax | IntAlu | Integer Microop | 9 | i34 > i0 | 0 | 0
DIV_R : divr   rdx, rdx | IntAlu | Integer Microop | 9 | i35 > i2 | 0 | 0
syscall | IntAlu |  | 0 | > | 0 | 0
CMPXCHG_LOCKED_M_R.mfence | IntAlu | Microop | 0 | > | 0 | 0
XADD_LOCKED_P_R : ldstl   t1, DS:[t0 + t7 + 0x10d275] | MemRead | Integer Load Microop | 2 | i23 > i17 | 8 | 0
CMPXCHG_LOCKED_P_R : stul   t1d, DS:[t0 + t7 + 0xf1501] | MemWrite | Integer Store Microop | 5 | i17 i23 > | 4 | 0
SAL_R_R : sll   ebp, ebp, ecx | IntAlu | Integer Microop | 0 | i5 i1 > i5 cc | 0 | 0
STOS_E_M : ruflag   t0, 0xa | IntAlu | Integer Microop | 2 | cc > | 0 | 0
PCMPEQB_XMM_M : mcmpi2r   %xmm2_low, %xmm2_low, %ufp1 | SimdCvt | Floating Microop | 2 | v2 v17 > v2 | 0 | 0
PMOVMSKB_R_XMM : movsign   r9b, %xmm2_high | SimdMisc | Integer Floating Microop | 2 | i9 v2 > i9 | 0 | 0
BSF_R_R : ori   t4, rdx, 0x10 | IntAlu | Integer Microop | 11 | i2 > i20 | 0 | 0
MUL_R : mul1u   rax, rsi | IntMult | Integer Microop | 0 | i0 i6 > i32 i33 cc | 0 | 0
MUL_R : mulel   rax, rax | IntAlu | Integer Microop | 1 | i32 > i0 | 0 | 0
MUL_R : muleh   rdx, rdx | IntAlu | Integer Microop | 2 | i33 > i2 | 0 | 0
PSHUFD_XMM_XMM_I : shuffle   %xmm0_high, %xmm2_low, %xmm2_high | SimdMisc | Floating Microop | 1 | v0 v2 > v0 | 0 | 0
IMUL_R_R : mul1s   r13d, ecx | IntMult | Integer Microop | 0 | i13 i1 > i32 i33 cc | 0 | 0
SAR_R_R : sra   rdx, rdx, rcx | IntAlu | Integer Microop | 0 | i2 i1 > i2 cc | 0 | 0
ROL_R_I : roli   rdx, rdx, 0x11 | IntAlu | Integer Microop | 0 | i2 > i2 cc | 0 | 0
PSUBB_XMM_XMM : msubi   %xmm1_high, %xmm1_high, %xmm0_high | SimdAdd | Floating Microop | 1 | v1 v0 > v1 | 0 | 0
PSRLD_XMM_I : msrli   %xmm4_high, %xmm4_high, 0x12 | SimdShift | Floating Microop | 1 | v4 > v4 | 0 | 0
PSLLD_XMM_I : mslli   %xmm4_high, %xmm4_high, 0x19 | SimdShift | Floating Microop | 1 | v4 > v4 | 0 | 0
POR_XMM_XMM : mor   %xmm2_low, %xmm2_low, %xmm3_low | SimdAlu | Floating Microop | 0 | v2 v3 > v2 | 0 | 0
SHR_R_R : srl   edx, edx, ecx | IntAlu | Integer Microop | 0 | i2 i1 > i2 cc | 0 | 0
COMISS_XMM_P : mcmpf2rf   %xmm0_low, %ufp1 | SimdFloatCvt | Floating Microop | 2 | v0 v17 > cc | 0 | 0
PMINUB_XMM_M : mmini   %xmm0_low, %xmm0_low, %ufp1 | SimdCmp | Floating Microop | 2 | v0 v17 > v0 | 0 | 0
PALIGNR_XMM_XMM_I : palignr   %xmm2_high, %ufp1, %xmm0_low, %xmm0_high, 0xc | SimdMisc | Floating Microop | 2 | v2 v17 v0 > v2 | 0 | 0
CVTSI2SD_XMM_R : cvti2f   %xmm2_low, %ufp1 | SimdFloatCvt | Floating Microop | 1 | v2 v17 > v2 | 0 | 0
MULSD_XMM_XMM : mmulf   %xmm2_low, %xmm2_low, %xmm3_low | SimdFloatMult | Floating Microop | 0 | v2 v3 > v2 | 0 | 0
ADDPD_XMM_XMM : maddf   %xmm1_low, %xmm1_low, %xmm3_low | SimdFloatAdd | Floating Microop | 0 | v1 v3 > v1 | 0 | 0
MOVD_R_XMM : mov2int   r14d, %xmm0_low, 0 | SimdMisc | Integer Floating Microop | 0 | v0 > i14 | 0 | 0
SHLD_R_R : mdbi   r9, 0 | IntAlu | Integer Microop | 0 | i9 > i37 | 0 | 0
SHLD_R_R : sld   rax, rax, rcx | IntAlu | Integer Microop | 1 | i0 i1 i37 > i0 cc | 0 | 0
ADC_R_I : adc   edx, edx, t1d | IntAlu | Integer Microop | 1 | i2 i17 cc > i2 cc | 0 | 0
STMXCSR_M : rdval   t1d, %ctrl192 | IntAlu | Integer Microop | 0 | > i17 | 0 | 0
PADDW_XMM_XMM : maddi   %xmm0_high, %xmm0_high, %xmm1_high | SimdAdd | Floating Microop | 1 | v0 v1 > v0 | 0 | 0
ROR_R_I : rori   eax, eax, 0x2 | IntAlu | Integer Microop | 0 | i0 > i0 cc | 0 | 0
SUBSD_XMM_M : msubf   %xmm2_low, %xmm2_low, %ufp1 | SimdFloatAdd | Floating Microop | 1 | v2 v17 > v2 | 0 | 0
SQRTSD_XMM_XMM : msqrt   %xmm0_low, %xmm0_low | SimdFloatSqrt | Floating Microop | 0 | v0 > v0 | 0 | 0
DIVSD_XMM_XMM : mdivf   %xmm0_low, %xmm0_low, %xmm1_low | SimdFloatDiv | Floating Microop | 0 | v0 v1 > v0 | 0 | 0
BT_R_R : sext   t0, r15, r13 | IntAlu | Integer Microop | 0 | i15 i13 > cc | 0 | 0
CVTSS2SD_XMM_M : cvtf2f   %xmm0_low, %ufp1 | SimdFloatCvt | Floating Microop | 1 | v0 v17 > v0 | 0 | 0
CVTTSD2SI_R_XMM : cvtf2i   %ufp1, %xmm0_low | SimdFloatCvt | Floating Microop | 0 | v17 v0 > v17 | 0 | 0
ANDNPD_XMM_XMM : mandn   %xmm0_high, %xmm0_high, %xmm4_high | SimdAlu | Floating Microop | 1 | v0 v4 > v0 | 0 | 0
CMPSD_XMM_XMM_I : mcmpf2r   %xmm1_low, %xmm1_low, %xmm2_low | SimdFloatCvt | Floating Microop | 0 | v1 v2 > v1 | 0 | 0
CALL_NEAR_I : wrip   t7, t1 | IntAlu | Integer Control DirectControl Call Microop | 4 | i23 i17 > | 0 | 3
CALL_NEAR_R : wripi   rax, 0 | IntAlu | Integer Control IndirectControl Call Microop | 3 | i0 > | 0 | 5
JMP_R : wripi   rcx, 0 | IntAlu | Integer Control IndirectControl Microop | 0 | i1 > | 0 | 4
JMP_I : wrip   t1, t2 | IntAlu | Integer Control DirectControl Microop | 2 | i17 i18 > | 0 | 2
CMOVZ_R_R : mov   esi, esi, eax | IntAlu | Integer Microop | 1 | i6 i0 cc > i6 | 0 | 0
MOV_R_R : mov   al, al, bl | IntAlu | Integer Microop | 0 | i0 i3 > i0 | 0 | 0
ADD_M_I : add   t1w, t1w, t2w | IntAlu | Integer Microop | 2 | i17 i18 > i17 cc | 0 | 0
MOV_R_M : ld   ah, DS:[8*rcx + rbx + 0x10] | MemRead | Integer Load Microop | 0 | i0 i1 i3 > i0 | 1 | 0
STOS_E_M : subi   rcx, rcx, 0x1 | IntAlu | Integer Microop | 7 | i1 > i1 cc | 0 | 0
STOS_E_M : subi   t4, t0, 0x8 | IntAlu | Integer Microop | 4 | > i20 | 0 | 0
STOS_E_M : mov   t3, t3, t4 | IntAlu | Integer Microop | 5 | i19 i20 cc > i19 | 0 | 0
CMPXCHG16B_M : ldsplit   t2, t3, DS:[t1] | MemRead | Integer Load Microop | 1 | i17 > i18 i19 | 16 | 0
CMPXCHG16B_M : stsplit   t2, t3, DS:[t1] | MemWrite | Integer Store Microop | 9 | i18 i19 i17 > | 16 | 0
MOVSS_M_XMM : stfp   %xmm0_low, DS:[rax] | FloatMemWrite | Integer Floating Store Microop | 0 | v0 i0 > | 4 | 0
MOVQ_MMX_M : ldfp   %mmx3, DS:[rax] | FloatMemRead | Integer Floating Load Microop | 0 | i0 > f3 | 8 | 0
FADD1_R : addfp   %st(0), %st(0), %st(3) | FloatAdd | Floating Microop | 0 | f0 f3 > f0 | 0 | 0
DIV_R : div2   t1, rax, t1 | IntDiv | Integer Microop | 6 | i0 i17 i34 i35 i36 > i17 i34 i35 cc | 0 | 0
DIV_R : br   0x3 | IntAlu | Control DirectControl CondControl Microop | 7 | cc > | 0 | 1
BSF_R_R : srli   t3, t1, 0x20 | IntAlu | Integer Microop | 6 | i17 > i19 cc | 0 | 0
BSF_R_R : mov   eax, eax, t4d | IntAlu | Integer Microop | 8 | i0 i20 cc > i0 | 0 | 0
BSF_R_R : mov   t1, t1, t0 | IntAlu | Integer Microop | 0 | > i17 | 0 | 0
"""  # noqa: E501

RISCV = """
jal zero, -8452 | IntAlu | Integer Control DirectControl | 0 | > | 0 | 2
auipc a5, 89 | IntAlu | Integer | 0 | > i15 | 0 | 0
addi a2, a2, 1674 | IntAlu | Integer | 0 | i12 > i12 | 0 | 0
c_jr ra | IntAlu | Integer Control IndirectControl Return | 0 | i1 > | 0 | 6
c_mv a5, a0 | IntAlu | Integer | 0 | i10 > i15 | 0 | 0
c_ldsp a7, 8(sp) | MemRead | Integer Load | 0 | i2 > i17 | 8 | 0
c_addi4spn s0, sp, 48 | IntAlu | Integer | 0 | i2 > i8 | 0 | 0
andi a5, a5, 18446744073709551360 | IntAlu | Integer | 0 | i15 > i15 | 0 | 0
c_li a7, 0 | IntAlu | Integer | 0 | > i17 | 0 | 0
c_addi16sp sp, -128 | IntAlu | Integer | 0 | i2 > i2 | 0 | 0
c_slli a1, 24 | IntAlu | Integer | 0 | i11 > i11 | 0 | 0
c_sdsp s1, 296(sp) | MemWrite | Integer Store | 0 | i9 i2 > | 8 | 0
c_add s7, s1 | IntAlu | Integer | 0 | i23 i9 > i23 | 0 | 0
sd ra, 1448(sp) | MemWrite | Integer Store | 0 | i1 i2 > | 8 | 0
c_ld a4, 48(s1) | MemRead | Integer Load | 0 | i9 > i14 | 8 | 0
c_addi s0, -1 | IntAlu | Integer | 0 | i8 > i8 | 0 | 0
c_bnez a5, 14 | IntAlu | Integer Control DirectControl CondControl | 0 | i15 > | 0 | 1
c_sd s1, 24(s0) | MemWrite | Integer Store | 0 | i9 i8 > | 8 | 0
bne a0, a1, 12 | IntAlu | Integer Control DirectControl CondControl | 0 | i10 i11 > | 0 | 1
c_lui a5, 1048575 | IntAlu | Integer | 0 | > i15 | 0 | 0
c_beqz a5, 160 | IntAlu | Integer Control DirectControl CondControl | 0 | i15 > | 0 | 1
slli a5, t1, 32 | IntAlu | Integer | 0 | i6 > i15 | 0 | 0
bltu a1, a0, -938 | IntAlu | Integer Control DirectControl CondControl | 0 | i11 i10 > | 0 | 1
c_lwsp a3, 144(sp) | MemRead | Integer Load | 0 | i2 > i13 | 4 | 0
c_sw a5, 100(s1) | MemWrite | Integer Store | 0 | i15 i9 > | 4 | 0
sw a4, -60(s0) | MemWrite | Integer Store | 0 | i14 i8 > | 4 | 0
lhu a2, 56(a4) | MemRead | Integer Load | 0 | i14 > i12 | 2 | 0
beq a2, a3, 392 | IntAlu | Integer Control DirectControl CondControl | 0 | i12 i13 > | 0 | 1
c_j 2 | IntAlu | Control DirectControl | 0 | > | 0 | 2
ld a5, -1144(a5) | MemRead | Integer Load | 0 | i15 > i15 | 8 | 0
lw a5, 1436(a5) | MemRead | Integer Load | 0 | i15 > i15 | 4 | 0
sub a3, s4, a3 | IntAlu | Integer | 0 | i20 i13 > i13 | 0 | 0
bgeu s2, a5, -202 | IntAlu | Integer Control DirectControl CondControl | 0 | i18 i15 > | 0 | 1
c_sub a5, a0 | IntAlu | Integer | 0 | i15 i10 > i15 | 0 | 0
c_lw a4, 0(a5) | MemRead | Integer Load | 0 | i15 > i14 | 4 | 0
c_srli a5, 32 | IntAlu | Integer | 0 | i15 > i15 | 0 | 0
add a4, s2, s10 | IntAlu | Integer | 0 | i18 i26 > i14 | 0 | 0
lbu a5, 822(a0) | MemRead | Integer Load | 0 | i10 > i15 | 1 | 0
c_addw a5, a4 | IntAlu | Integer | 0 | i15 i14 > i15 | 0 | 0
addiw s0, a0, 0 | IntAlu | Integer | 0 | i10 > i8 | 0 | 0
slliw a5, a5, 7 | IntAlu | Integer | 0 | i15 > i15 | 0 | 0
divu a3, s1, s8 | IntDiv | Integer | 0 | i9 i24 > i13 | 0 | 0
mul a7, a2, a7 | IntMult | Integer | 0 | i12 i17 > i17 | 0 | 0
ecall | No_OpClass | Syscall | 0 | > | 0 | 0
c_and a5, a4 | IntAlu | Integer | 0 | i15 i14 > i15 | 0 | 0
c_andi a5, 8 | IntAlu | Integer | 0 | i15 > i15 | 0 | 0
srli a5, a4, 30 | IntAlu | Integer | 0 | i14 > i15 | 0 | 0
fence iorw, iorw | No_OpClass |  | 0 | > | 0 | 0
sb a3, -846(tp) | MemWrite | Integer Store | 0 | i13 i4 > | 1 | 0
c_addiw a5, 1 | IntAlu | Integer | 0 | i15 > i15 | 0 | 0
remu a3, a5, a2 | IntDiv | Integer | 0 | i15 i12 > i13 | 0 | 0
or a3, a3, a6 | IntAlu | Integer | 0 | i13 i16 > i13 | 0 | 0
c_or a4, a3 | IntAlu | Integer | 0 | i14 i13 > i14 | 0 | 0
lui a1, 512 | IntAlu | Integer | 0 | > i11 | 0 | 0
c_xor a5, a4 | IntAlu | Integer | 0 | i15 i14 > i15 | 0 | 0
bge a7, zero, 38 | IntAlu | Integer Control DirectControl CondControl | 0 | i17 > | 0 | 1
amoswap_w[l] zero, zero, (a5) | MemRead | Integer Atomic Microop | 0 | i15 > | 4 | 0
lr_w a5, (s0) | MemRead | Integer Load Microop | 0 | i8 > i15 | 4 | 0
sc_w a2, a4, (a1) | MemWrite | Integer Store StoreConditional Microop | 0 | i14 i11 > i12 | 4 | 0
0x1ce426af fence | No_OpClass | Microop | 1 | > | 0 | 0
sltiu a3, a3, 1 | IntAlu | Integer | 0 | i13 > i13 | 0 | 0
blt a1, zero, 1198 | IntAlu | Integer Control DirectControl CondControl | 0 | i11 > | 0 | 1
srliw a5, s0, 4 | IntAlu | Integer | 0 | i8 > i15 | 0 | 0
sllw a5, a5, a4 | IntAlu | Integer | 0 | i15 i14 > i15 | 0 | 0
and s7, s4, a4 | IntAlu | Integer | 0 | i20 i14 > i23 | 0 | 0
ori a5, a5, 1 | IntAlu | Integer | 0 | i15 > i15 | 0 | 0
sltu a5, zero, a5 | IntAlu | Integer | 0 | i15 > i15 | 0 | 0
sh zero, 128(a0) | MemWrite | Integer Store | 0 | i10 > | 2 | 0
xori a2, a2, 18446744073709551615 | IntAlu | Integer | 0 | i12 > i12 | 0 | 0
c_jalr a5 | IntAlu | Integer Control IndirectControl Call | 0 | i15 > i1 | 0 | 5
amoswap_d[l] zero, a4, (a5) | MemRead | Integer Atomic Microop | 0 | i14 i15 > | 8 | 0
xor a2, a2, a7 | IntAlu | Integer | 0 | i12 i17 > i12 | 0 | 0
0x1ce5a62f fence | No_OpClass | Microop | 1 | > | 0 | 0
srai s5, s5, 3 | IntAlu | Integer | 0 | i21 > i21 | 0 | 0
c_srai a1, 1 | IntAlu | Integer | 0 | i11 > i11 | 0 | 0
c_fsd fs0, 112(a0) | FloatMemWrite | Integer Floating Store | 0 | f8 i10 > | 8 | 0
fsd fs5, 152(a0) | FloatMemWrite | Integer Floating Store | 0 | f21 i10 > | 8 | 0
subw s3, a7, s10 | IntAlu | Integer | 0 | i17 i26 > i19 | 0 | 0
remw a3, s11, s7 | IntDiv | Integer | 0 | i27 i23 > i13 | 0 | 0
slti a6, s3, 0 | IntAlu | Integer | 0 | i19 > i16 | 0 | 0
addw s8, s3, a3 | IntAlu | Integer | 0 | i19 i13 > i24 | 0 | 0
jalr ra, 0(a5) | IntAlu | Integer Control IndirectControl Call | 0 | i15 > i1 | 0 | 5
fmadd_d fa0, fa1, fa2, ft11 | FloatMultAcc | Floating | 0 | f11 f12 f31 > f10 | 0 | 0
fld fa5, 8(sp) | FloatMemRead | Integer Floating Load | 0 | i2 > f15 | 8 | 0
vfmacc_vv_micro v2, v4, v6, v0.t | SimdFloatMultAcc | Vector | 0 | v2 v4 v6 v0 > v2 | 0 | 0
vle32_v_micro v1, 0(a0), v1 | SimdUnitStrideLoad | Integer Vector Load | 0 | v1 i10 > v1 | 0 | 0
vse32_v_micro v1, 0(a0) | SimdUnitStrideStore | Integer Vector Store | 0 | v1 i10 > | 0 | 0
csrrw a0, fcsr, a1 | No_OpClass | Integer | 0 | i11 > i10 | 0 | 0
ret | IntAlu | Integer Control IndirectControl Return | 0 | i1 > | 0 | 6
c.addi  a0, 1 | IntAlu | Integer | 0 | i10 > i10 | 0 | 0
c.ldsp  a0, 8(sp) | MemRead | Integer Load | 0 | i2 > i10 | 8 | 0
amoadd.w.aqrl a0, a1, (a2) | MemRead | Integer Atomic | 0 | i11 i12 > i10 | 4 | 0
beqz    a0, pc + 8 | IntAlu | Integer Control DirectControl CondControl | 0 | i10 > | 0 | 1
j       pc - 0x8 | IntAlu | Control DirectControl | 0 | > | 0 | 2
jal     pc + 0x10 | IntAlu | Integer Control DirectControl Call | 0 | > i1 | 0 | 3
jalr    a5 | IntAlu | Integer Control IndirectControl Call | 0 | i15 > i1 | 0 | 5
jalr    zero, ra, 0 | IntAlu | Integer Control IndirectControl Return | 0 | i1 > | 0 | 6
sext.w  a0, a1 | IntAlu | Integer | 0 | i11 > i10 | 0 | 0
fmv.d   fa0, fa1 | FloatMisc | Floating | 0 | f11 > f10 | 0 | 0
csrw    mstatus, a0 | No_OpClass | Integer | 0 | i10 > | 0 | 0
"""


def goldens(arch: str, table: str) -> list[Golden]:
    rows = []
    for line in table.strip().splitlines():
        text, op, flags, upc, regs, size, branch = (f.strip() for f in line.split(" | "))
        names = ["Is" + f for f in flags.split()]
        rows.append((arch, text, op, names, int(upc), regs, int(size), int(branch)))
    return rows


GOLDENS = goldens("arm", ARM) + goldens("x86", X86) + goldens("riscv", RISCV)


def registers(pairs: list[tuple[int, int]]) -> str:
    return " ".join(CLASSES[c] + ("" if c == 5 else str(n)) for c, n in pairs)


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda g: f"{g[0]}-{g[1]}")
def test_golden(golden: Golden) -> None:
    arch, text, op, names, upc, expected, size, branch = golden
    got = _core.decode_text(arch, text, op, names, upc=upc)
    assert f"{registers(got['src'])} > {registers(got['dst'])}".strip() == expected
    assert (got["access_size"], got["branch"]) == (size, branch)
    assert got["op"] == op and sorted(got["flags"]) == sorted(names)


# What text alone cannot tell: which of general registers and vectors these names mean.
AMBIGUOUS = {
    *("and", "bic", "add", "sub", "orr", "eor", "clz", "rev32", "fmov"),
    *("ldr", "ldur", "str", "stur", "nop"),
}


CLEAR = [g for g in GOLDENS if g[0] != "arm" or g[1].split()[0] not in AMBIGUOUS]


@pytest.mark.parametrize("golden", CLEAR, ids=lambda g: f"{g[0]}-{g[1]}")
def test_inference_from_the_mnemonic(golden: Golden) -> None:
    arch, text, op, names, upc, expected, _, branch = golden
    got = _core.decode_text(arch, text, upc=upc)
    assert got["op"] == op
    assert set(names) <= set(got["flags"])
    assert f"{registers(got['src'])} > {registers(got['dst'])}".strip() == expected
    assert got["branch"] == branch


def test_what_the_trace_printed_stands() -> None:
    op_only = _core.decode_text("arm", "add   w0, w1, w2", "SimdAdd", infer_flags=True)
    assert (op_only["op"], op_only["flags"]) == ("SimdAdd", ["IsVector"])
    assert op_only["src"] == [(2, 1), (2, 2)] and op_only["dst"] == [(2, 0)]
    flags_only = _core.decode_text("arm", "str   x0, [x1]", None, ["IsVector", "IsStore"])
    assert (flags_only["op"], flags_only["src"]) == ("MemWrite", [(2, 0), (0, 1)])
    assert sorted(flags_only["flags"]) == ["IsStore", "IsVector"]


@pytest.mark.parametrize(
    ("raw", "arch"),
    [
        ("  ldr   x0, [x19]", "arm"),
        ("  ret   ", "arm"),
        ("  Uzp1   w1, w1, w3", "arm"),
        ("  bti        (unimplemented)", "arm"),
        ("  MOV_R_R : mov   r9, r9, rdx", "x86"),
        ("  CPUID   ", "x86"),
        ("\tXCHG_M_R.mfence", "x86"),
        ("  syscall   ", "x86"),
        ("c_ldsp a1, 0(sp)", "riscv"),
        ("ecall", "riscv"),
        ("c.addi  sp, -32", "riscv"),
        ("0x1ce426af fence", "riscv"),
        ("  nop   ", "unknown"),
        ("", "unknown"),
        ("%%%", "unknown"),
    ],
)
def test_detect_arch(raw: str, arch: str) -> None:
    assert _core.detect_arch(raw) == arch


@pytest.mark.parametrize(
    ("arch", "text", "syscall"),
    [
        ("arm", "svc   #0x0", True),
        ("riscv", "ecall", True),
        ("x86", "syscall", True),
        ("x86", "int   0x80", True),
        ("arm", "sub   w2, w2, #1", False),
        ("x86", "MOV_R_R : mov   r9, r9, rdx", False),
    ],
)
def test_syscall(arch: str, text: str, syscall: bool) -> None:
    assert _core.decode_text(arch, text)["syscall"] is syscall


@pytest.mark.parametrize(
    ("text", "displacement"),
    [
        ("JZ_I : limm   t2, 0x7", 7),
        ("JNZ_I : limm   t2, 0xffffffffffffffd6", -42),
        ("JMP_I : limm   t2, 0", 0),
        ("LOOP_I : wripi   t1, 0xf0", -16),
        ("CALL_NEAR_I : limm   t1, 0x5229e", None),
        ("JZ_I : wrip   t1, t2", None),
        ("JZ_I : limm   t2, 0x10000000000000000", None),
        ("JZ_I : limm   t2, junk", None),
        ("limm   t2, 0x7", None),
    ],
)
def test_x86_displacement(text: str, displacement: int | None) -> None:
    assert _core.decode_text("x86", text)["displacement"] == displacement


TEXT = st.text(
    st.sampled_from("[]{}#,():.%+*<>!_ \t0xwvzpfrst123456789abcdefABXMRmov"), max_size=60
) | st.text(max_size=40)


@given(
    st.sampled_from(["arm", "x86", "riscv", "unknown"]),
    TEXT,
    st.none() | st.sampled_from(_core.OP_CLASSES),
    st.lists(st.sampled_from(_core.FLAGS), max_size=4),
    st.integers(0, 65535),
)
def test_any_text_is_safe(arch: str, text: str, op: str | None, flags: list[str], upc: int) -> None:
    got = _core.decode_text(arch, text, op, flags, upc=upc)
    _core.detect_arch(text)
    for regs, most in ((got["src"], 8), (got["dst"], 6)):
        assert len(regs) == len(set(regs)) <= most
    assert (got["branch"] == 0) == ("IsControl" not in got["flags"])


@given(st.sampled_from(GOLDENS), st.data())
def test_damaged_lines_are_safe(golden: Golden, data: st.DataObject) -> None:
    arch, text = golden[:2]
    at = data.draw(st.integers(0, len(text)))
    n = data.draw(st.integers(0, 6))
    damaged = text[:at] + data.draw(TEXT) + text[at + n :]
    got = _core.decode_text(arch, damaged, upc=3)
    assert len(got["src"]) <= 8 and len(got["dst"]) <= 6
