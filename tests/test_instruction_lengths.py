"""Lengths of X86 instructions, and the wait of one in two fetch blocks (docs/simulator.md)."""

from __future__ import annotations

import core_pins as pins
import numpy as np
import pytest

import tracekit
from tracekit.sim import totals
from tracekit.sim.instruction_lengths import lengths, split

MACHINE = {**pins.MACHINES["ns_8w"], "name": "m"}
BRANCH = "IsInteger|IsControl|IsDirectControl|IsCondControl"


def written(tmp_path, instructions, level="macro"):
    """The trace of (pc, macro, micro-ops) one after another."""
    lines = []
    for pc, macro, uops in instructions:
        for upc, (uop, flags) in enumerate(uops):
            edge = ["IsMicroop"] + ["IsFirstMicroop"] * (upc == 0)
            edge += ["IsLastMicroop"] * (upc == len(uops) - 1)
            lines.append(
                f"{500 * len(lines):7d}: system.cpu: {pc:#x}.{upc:2d} :   {macro} : {uop}"
                f" : IntAlu :   flags=({'|'.join([flags, *edge])})\n"
            )
    path = tmp_path / "t.txt"
    path.write_text("".join(lines))
    tracekit.extract(path, tmp_path / "t.zst", level=level, force=True)
    return tracekit.open(tmp_path / "t.zst")


def plain(pc):
    return pc, "MOV_R_I", [("limm   rax, 0x1", "IsInteger")]


def jump(pc, to, size, name="JNZ_I"):
    uops = [
        ("rdip   t1, t1", "IsInteger"),
        (f"limm   t2, {(to - pc - size) % 2**64:#x}", "IsInteger"),
    ]
    kind = BRANCH if name == "JNZ_I" else BRANCH.replace("Cond", "Uncond")
    return pc, name, [*uops, ("wrip   t1, t2", kind)]


@pytest.mark.parametrize("level", ["macro", "micro"])
def test_lengths_follow_from_what_was_run_behind(tmp_path, level):
    code = [
        plain(0x400000), plain(0x400003), jump(0x40000A, 0x400030, 2), plain(0x400030),
        jump(0x400034, 0x400060, 6), plain(0x40003A),  # not taken: of six bytes
        jump(0x40003C, 0x400100, 5, "JMP_I"), plain(0x400100),
    ]  # fmt: skip
    with written(tmp_path, code, level) as trace:
        assert trace.arch == "x86"
        found = dict(zip(trace.statics.pc.tolist(), lengths(trace.statics).tolist(), strict=True))
    assert found == {
        0x400000: 3, 0x400003: 7, 0x40000A: 2, 0x400030: 4, 0x400034: 6, 0x40003A: 2,
        0x40003C: 2, 0x400100: 1,
    }  # fmt: skip


def loop(times, shift):
    """Seven instructions, the last of which, of two bytes, begins at 0x40000e + shift."""
    for _ in range(times):
        yield from (plain(0x400000 + shift + at) for at in (0, 2, 4, 6, 9, 12))
        yield jump(0x40000E + shift, 0x400000 + shift, 2)


@pytest.mark.parametrize("level", ["macro", "micro"])
def test_an_instruction_in_two_fetch_blocks_waits_for_both(tmp_path, level):
    cycles = []
    for shift in (0, 1):
        with written(tmp_path, loop(400, shift), level) as trace:
            assert bool(split(trace.statics, "x86").any()) == (shift == 1)
            machines = [{**MACHINE, "fetch_buffer": n} for n in (16, 32, 64)]
            cycles.append(totals(trace, machines)[0])
    small, *large = cycles[1] - cycles[0]
    assert small > 400 and np.abs(large).max() < 40
