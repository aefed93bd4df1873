"""Small random ARM traces in gem5's format: a random walk over a random program."""

from __future__ import annotations

import random
from dataclasses import dataclass

KINDS = {
    "alu": ("add   x1, x2, x3", "IntAlu", "IsInteger"),
    "load": ("ldr   x1, [x2]", "MemRead", "IsInteger|IsLoad"),
    "float_load": ("ldr   d1, [x2]", "FloatMemRead", "IsFloating|IsLoad"),
    "store": ("str   x1, [x2]", "MemWrite", "IsInteger|IsStore"),
    "branch": ("b.ne   0x1000", "IntAlu", "IsInteger|IsControl|IsDirectControl|IsCondControl"),
    "jump": ("b   0x1000", "IntAlu", "IsInteger|IsControl|IsDirectControl|IsUncondControl"),
    "micro": ("addxi_uop   ureg0, sp, #16", "IntAlu", "IsInteger|IsMicroop|IsDelayedCommit"),
    "last": ("strxi_uop   x1, [ureg0]", "MemWrite", "IsInteger|IsStore|IsMicroop|IsLastMicroop"),
}


@dataclass
class Inst:
    pc: int
    upc: int
    kind: str


def program(r: random.Random, size: int) -> list[list[Inst]]:
    """Instructions; a macro-op is two micro-ops."""
    out = []
    for i in range(size):
        pc = 0x400000 + 4 * i
        kind = r.choice(["alu", "load", "float_load", "store", "branch", "branch", "jump", "macro"])
        out.append(
            [Inst(pc, 0, "micro"), Inst(pc, 1, "last")] if kind == "macro" else [Inst(pc, 0, kind)]
        )
    return out


def walk(r: random.Random, code: list[list[Inst]], rows: int) -> list[tuple[Inst, int | None]]:
    """(instruction, address), `rows` of them or a few more."""
    out: list[tuple[Inst, int | None]] = []
    at = 0
    while len(out) < rows:
        for inst in code[at]:
            memory = KINDS[inst.kind][1] in ("MemRead", "MemWrite", "FloatMemRead")
            out.append((inst, 0x10000 + 8 * r.randrange(60) if memory else None))
        kind = code[at][-1].kind
        away = kind == "jump" or (kind == "branch" and r.random() < 0.6)
        at = r.randrange(len(code)) if away else (at + 1) % len(code)
    return out


def text(
    seed: int, rows: int, *, exec_lines: bool = True, blocks: bool = True, size: int = 24
) -> str:
    """A trace: blocks are late by a random time, some belong to squashed instructions, the last few
    never come."""
    r = random.Random(seed)
    code = program(r, size)
    events: list[tuple[float, int, str]] = []
    seq, tick, retire = 1, 1000, 0
    stream = walk(r, code, rows)
    for n, (inst, addr) in enumerate(stream):
        shown, op, flags = KINDS[inst.kind]
        tick += 500 * r.randrange(3)
        upc = f".{inst.upc:2d}" if "IsMicroop" in flags else "   "
        fields = f" A={addr:#x}" if addr is not None else ""
        fields += f"  FetchSeq={seq}" if blocks else ""
        head = f"{tick:7d}: system.cpu: {inst.pc:#x}{upc} :   {shown:<24} : {op} : "
        line = f"{head}{fields}  flags=({flags})\n"
        if exec_lines:
            events.append((n, 0, line))
        retire = max(retire, tick + 3000) + 500 * r.randrange(4)
        trapped = "IsStore" in flags and r.random() < 0.05 and exec_lines
        late = n < len(stream) - 3 or not exec_lines
        if blocks and late:
            events.append(
                (n + 12 * r.random(), 1, _block(inst, seq, tick, 0 if trapped else retire, shown))
            )
        seq += 1
        for _ in range(r.choice([0, 0, 0, 2])):
            if blocks:
                wrong = r.choice(r.choice(code))
                events.append(
                    (n + 5 * r.random(), 1, _block(wrong, seq, tick, 0, KINDS[wrong.kind][0]))
                )
                seq += 1
    return "".join(e[2] for e in sorted(events, key=lambda e: e[:2]))


def _block(inst: Inst, seq: int, fetch: int, retire: int, shown: str) -> str:
    reached = [fetch + 500 * k if retire else 0 for k in (1, 2, 3, 4, 5)]
    names = ("decode", "rename", "dispatch", "issue", "complete")
    store = retire + 501 if retire and "str" in shown else 0
    return (
        f"O3PipeView:fetch:{fetch}:{inst.pc:#010x}:{inst.upc}:{seq}:  {shown}\n"
        + "".join(f"O3PipeView:{s}:{t}\n" for s, t in zip(names, reached, strict=True))
        + f"O3PipeView:retire:{retire}:store:{store}\n"
    )


def lackey_loops(rounds: int) -> str:
    """Lackey's text of a program of loops over two arrays, one of which no first cache holds."""
    import numpy as np  # csrc/fuzz/samples.py imports this file where there is no numpy

    r, lines = np.random.default_rng(3), []
    for k in range(rounds):
        lines += ["I  00401000,4", f" L {0x10000000 + 64 * int(r.integers(2000)):08x},8"]
        lines += ["I  00401004,4", f" S {0x20000000 + 8 * (k % 400):08x},8", "I  00401008,4"]
        lines += ["I  0040100c,2" if k % 7 else "I  00401010,2"]
    return "\n".join(lines) + "\n"
