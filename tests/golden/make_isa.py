"""Makes isa_arm.json, isa_x86.json and isa_riscv.json from the shared traces and ELF files.

    PYTHONPATH=. python tests/golden/make_isa.py [arch]

One example or two of each (mnemonic of the machine code, mnemonics of gem5's micro-ops, op
classes): those that ran most often.  Each is [pc, bytes, [[disassembly, op class, flags] of each
micro-op], times run].
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from tests.gem5_exec import MicroOp, instructions, programs
from tracekit.isa import decode
from tracekit.isa.elf import ElfImage

EXAMPLES = 2


def _cut(ops: list[MicroOp]) -> bool:
    """Whether the micro-ops are a part of the instruction only.

    Cut by the window, or by a jump in the microcode (a ``rep`` string of no elements).
    """
    last = ops[-1]
    unfinished = "IsMicroop" in last.flags and "IsLastMicroop" not in last.flags
    return unfinished or (len(ops) > 1 and "fault   NoFault" in last.disassembly)


def main() -> None:
    for arch in sys.argv[1:] or ("arm", "riscv", "x86"):
        best: dict[tuple[str, ...], dict[str, tuple[int, list[object]]]] = defaultdict(dict)
        for p in programs():
            if p.arch != arch:
                continue
            with ElfImage(p.elf) as elf:
                for pc, (ops, n) in instructions(p).items():
                    if not n or _cut(ops):
                        continue
                    inst = decode(elf.arch, elf.code(pc))
                    code = elf.code(pc, inst.length).hex()
                    heads = [o.disassembly.split(" : ")[-1].split()[0] for o in ops]
                    key = (inst.text.split()[0], *(o.op for o in ops), *heads[:2])
                    old = best[key].get(code, (0, []))
                    row = [hex(pc), code, [[o.disassembly, o.op, sorted(o.flags)] for o in ops]]
                    best[key][code] = (old[0] + n, row)
        rows = []
        for key in sorted(best):
            for n, row in sorted(best[key].values(), key=lambda v: -v[0])[:EXAMPLES]:
                rows.append([*row, n])
        text = ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows)
        (Path(__file__).parent / f"isa_{arch}.json").write_text(f"[\n{text}\n]\n")
        print(arch, len(rows))


main()
