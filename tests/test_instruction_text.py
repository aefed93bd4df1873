"""Direct branches of traces that capstone decoded name the address that they go to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tracekit
from tracekit.isa import decode
from tracekit.schema import BRANCH_KINDS
from tracekit.store.instruction_text import instruction_text

GOLDEN = Path(__file__).parent / "golden"


def shown(arch: str, code: str, pc: int, source: str = "tks") -> str:
    found = decode(arch, bytes.fromhex(code))
    statics = SimpleNamespace(
        disassembly=[found.text], pc=[pc], branch=[BRANCH_KINDS.index(found.branch)]
    )
    trace = SimpleNamespace(statics=statics, index={"source": {"format": source}})
    return instruction_text(trace, 0)


@pytest.mark.parametrize(
    ("arch", "code", "text"),
    [
        ("x86", "76e9", "jbe 0xfeb"),
        ("x86", "0f87c8030000", "ja 0x13ce"),
        ("x86", "e8f80b0000", "call 0x1bfd"),
        ("x86", "ffe0", "jmp rax"),
        ("x86", "83f810", "cmp eax, 0x10"),
        ("arm", "81ffff54", "b.ne #0xff0"),
        ("arm", "40001836", "tbz w0, #3, #0x1008"),
        ("riscv", "e31805fe", "bnez a0, 0xff0"),
        ("riscv", "d5bf", "c.j 0xff4"),
    ],
)
def test_targets(arch, code, text):
    assert shown(arch, code, 0x1000) == text
    assert shown(arch, code, 0x1000, "gem5") == decode(arch, bytes.fromhex(code)).text


def test_targets_are_where_the_next_row_is(tmp_path):
    """Of a recording: a taken direct branch's text is the next row's pc."""
    made = tmp_path / "f.zst"
    tracekit.extract(GOLDEN / "drmemtrace", made, threads="interleaved")
    with tracekit.open(made) as trace:
        ids, taken, pc = trace["static_id"], trace["taken"], trace["pc"]
        kinds = [BRANCH_KINDS[k] for k in trace.statics.branch[ids]]
        direct = [i for i in range(len(ids) - 1) if kinds[i] == "jump" and taken[i]]
        texts = [instruction_text(trace, int(ids[i])) for i in direct]
        named = np.array([int(t.split()[-1].lstrip("#"), 16) for t in texts], np.uint64)
        assert len(direct) > 0 and (named == pc[np.array(direct) + 1]).all()
