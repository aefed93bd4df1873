"""gem5's own decoding of the shared traces' programs: which text belongs to which ELF file."""

from __future__ import annotations

import json
import lzma
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tracekit.isa.types import words

SHARED = Path(
    os.environ.get("TRACEKIT_SHARED", Path(__file__).resolve().parents[2] / "shared" / "traces")
)

# Kernels of kern.c; those of kern2.c and the rest are named in x86/programs.json or below.
_KERN = words(
    "mm mm_naive nbody stencil stencil_big spmv qsort msort hashjoin sha mandel chase chase_big lu "
    "blackscholes levenshtein bst life bytecode queens"
)
_ARM_ELF = {"bzip2": "bzip2", "bunzip2": "bzip2", "speedtest1": "speedtest1", "json": "kern2"}
_LINE = re.compile(
    rb"0x([0-9a-f]+)(?:\. ?(\d+)| +) : ?(.*?)(?: +: (\w+) :)   ?(?:flags=\((.*)\))?$"
)
_DYNAMIC = re.compile(rb"^ *\d+: system\.cpu: | A=0x[0-9a-f]+|  FetchSeq=\d+", re.M)


class Program(NamedTuple):
    arch: str
    elf: Path
    text: Path


class MicroOp(NamedTuple):
    upc: int
    disassembly: str
    op: str
    flags: frozenset[str]


def programs() -> Iterator[Program]:
    """Every text whose ELF file is there."""
    x86 = json.loads((SHARED / "x86/programs.json").read_text())
    for text in sorted((SHARED / "exec").glob("*.xz")):
        name = text.stem
        elf = _ARM_ELF.get(name)
        if name in _KERN:
            elf = "kern"
        elif name.startswith("lua_"):
            elf = "lua"
        elif name == "sqlite_cte":
            elf = "speedtest1"
        elif elf is None and x86.get(name, {}).get("elf") == "kern2":
            elf = "kern2"
        if elf is not None:
            yield Program("arm", SHARED / "elf/arm" / elf, text)
    for text in sorted((SHARED / "x86/exec").glob("*.xz")):
        yield Program("x86", SHARED / "x86/elf" / x86[text.stem]["elf"], text)
    for name, elf in (("lua_queens", "lua"), ("qsort", "kern")):
        yield Program("x86", SHARED / "elf/x86" / elf, SHARED / f"text/{name}.x86.8w.full.xz")
    yield Program("riscv", SHARED / "elf/riscv/kern2", SHARED / "text/strsort.riscv.8w.full.xz")


def instructions(program: Program) -> dict[int, tuple[list[MicroOp], int]]:
    """pc -> (its micro-ops, how often it ran), from the Exec lines."""
    data = lzma.decompress(program.text.read_bytes())
    if program.text.name.endswith(".full.xz"):
        data = b"\n".join(line for line in data.split(b"\n") if not line.startswith(b"O3"))
    found: dict[int, dict[int, tuple[MicroOp, int]]] = {}
    for line, n in Counter(_DYNAMIC.sub(b"", data).split(b"\n")).items():
        m = _LINE.match(line)
        if m is None:
            continue
        pc, upc, text, op, flags = m.groups()
        number = int(upc or 0)
        names = frozenset((flags or b"").decode().split("|")) - {""}
        micro = MicroOp(number, text.decode().strip(), op.decode(), names)
        found.setdefault(int(pc, 16), {})[number] = (micro, n)
    return {
        pc: ([ops[u][0] for u in sorted(ops)], ops.get(0, (None, 0))[1])
        for pc, ops in found.items()
    }
