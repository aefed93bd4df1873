"""Machine code to tracekit's instructions (capstone), and code bytes from ELF files.

    from tracekit.isa import decode, decode_many

    inst = decode("x86", bytes.fromhex("48034518"))      # add rax, [rbp + 0x18]
    inst.op            # 'MemRead': gem5's class of the macro-op
    inst.src, inst.dst # ((0, 5), (0, 0)), ((0, 0), (5, 0)): (class, number), tracekit's numbering
    inst.branch        # 'none'; one of BRANCH_KINDS
    inst.memory        # (MemOp(kind='load', size=8, times=1),)
    inst.flags         # frozenset({'IsInteger', 'IsLoad'}); inst.flag_bits for C++
    inst.length        # 4

For readers of native streams (recordings, drmemtrace): keep one table from (pc, bytes) to your
static id, and decode only what is new::

    fresh = decode_many("x86", codes)        # list of DecodedInst, in the order of codes

`decode_many` is memoised by the bytes alone: nothing in a `DecodedInst` depends on the pc.  A known
encoding costs a dictionary's look-up, a new one some tens of microseconds, and programs have 10^4
to 10^5 encodings (bench/bench_isa.py).  ``codes`` may hold exactly the instruction's bytes or more;
exact bytes are quickest, since they are the memo's key.  Bytes that do not decode give an
instruction whose ``valid`` is False (op No_OpClass, flags {IsInvalid}); its ``length`` is 4 on ARM,
what the encoding says on RISC-V, and 0 on x86.  A branch was taken if the next pc is not pc +
length.

What comes out is what gem5 has for the same instruction, at the macro level of features.md;
docs/isa.md tells how well that holds and why it does not always.  capstone and pyelftools are
imported at the first call.  `tracekit.isa.elf.ElfImage` reads code and symbols,
`tracekit.isa.binary.apply_binary` puts the machine code's operands over a gem5 trace's.
"""

from __future__ import annotations

from tracekit.isa.decoder import decode, decode_many
from tracekit.isa.types import BRANCH_KINDS, CC, Arch, DecodedInst, MemOp, Reg

__all__ = ["BRANCH_KINDS", "CC", "Arch", "DecodedInst", "MemOp", "Reg", "decode", "decode_many"]
