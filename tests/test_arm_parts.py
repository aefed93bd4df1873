"""ARM's instructions are walked in gem5's micro-ops: the same ones, from gem5's text of whole
instructions and from machine code, and the same cycles."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from shared_cycles import SHARED

import tracekit
from tracekit import isa
from tracekit.mixture.model import load_model
from tracekit.sim import KeptRows, totals
from tracekit.sim.arm_parts import arm_parts, micro_op_texts
from tracekit.sim.micro_ops import micro_ops
from tracekit.store.statics import StaticTable

GOLDEN = Path(__file__).parent / "golden" / "lua.arm.trace.xz"
LUA = SHARED / "elf" / "arm" / "lua"
NONE = 255


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The golden trace by level, and of instructions whose registers are the machine code's."""
    folder = tmp_path_factory.mktemp("arm")
    out = {level: folder / f"{level}.zst" for level in ("micro", "macro")}
    for level, path in out.items():
        tracekit.extract(GOLDEN, path, level=level)
    if LUA.exists():
        out["code"] = folder / "code.zst"
        tracekit.extract(GOLDEN, out["code"], level="macro", binary=LUA)
    return out


def registers(statics: StaticTable, kind: str, i: int) -> set[tuple[int, int]]:
    cls, index = statics.arrays[f"{kind}_class"][i], statics.arrays[f"{kind}_index"][i]
    pairs = zip(cls.tolist(), index.tolist(), strict=True)
    return {(c, k) for c, k in pairs if c != NONE}


def structure(statics: StaticTable, i: int) -> tuple[object, ...]:
    """What a core takes of a micro-op."""
    accesses = statics.has("IsLoad")[i], statics.has("IsStore")[i]
    own = int(statics.op[i]), int(statics.access_size[i]), *map(bool, accesses)
    return (*own, registers(statics, "src", i), registers(statics, "dst", i))


def by_pc(statics: StaticTable) -> dict[int, list[int]]:
    rows = defaultdict(list)
    for i in np.lexsort((statics.upc, statics.pc)).tolist():
        rows[int(statics.pc[i])].append(i)
    return rows


@pytest.mark.parametrize("level", ["macro", "code"])
def test_the_micro_ops_are_those_of_gem5(files: dict[str, Path], level: str) -> None:
    if level not in files:
        pytest.skip("the program is in the shared traces only")
    with tracekit.open(files["micro"]) as true, tracekit.open(files[level]) as trace:
        gem5, own = true.statics, arm_parts(trace.statics).statics
        theirs, ours = by_pc(gem5), by_pc(own)
        several = 0
        counts = np.diff(arm_parts(trace.statics).begin.astype(int))
        assert micro_ops(trace).tolist() == counts.tolist()
        assert len(theirs.keys() - ours.keys()) < 3  # the last instruction has not ended
        for pc, parts in theirs.items():
            if pc not in ours:
                continue
            if level == "macro":
                assert [own.disassembly[i] for i in ours[pc]] == [
                    gem5.disassembly[i].strip() for i in parts
                ] or len(parts) == 1
            assert len(ours[pc]) == len(parts), gem5.disassembly[parts[0]]
            if len(parts) == 1 or "neon" in gem5.disassembly[parts[0]]:
                continue  # gem5's text of a structure has no operands
            several += 1
            for a, b in zip(ours[pc], parts, strict=True):
                if "_uop" in gem5.disassembly[b]:  # the text of others tells no size
                    assert structure(own, a) == structure(gem5, b), gem5.disassembly[b]
        assert several > 100


@pytest.mark.parametrize("level", ["macro", "code"])
def test_cycles_are_those_of_micro_ops(files: dict[str, Path], level: str) -> None:
    if level not in files:
        pytest.skip("the program is in the shared traces only")
    machines = load_model(None, "arm", "micro").cores[::9]
    cycles = {}
    for name in ("micro", level):
        with tracekit.open(files[name]) as trace:
            cycles[name] = totals(KeptRows(trace, len(trace)), machines)[0]
    # The last instruction has not ended; machine code tells other registers than gem5's text.
    apart = 0.01 if level == "macro" else 0.02
    assert cycles[level] == pytest.approx(cycles["micro"], rel=apart)


def test_capstones_texts_tell_what_gem5s_do(files: dict[str, Path]) -> None:
    """A recording has them; wrong paths know as many registers by them, so cycles are the same."""
    if "code" not in files:
        pytest.skip("the program is in the shared traces only")
    machines = load_model(None, "arm", "micro").cores[::9]
    cycles = []
    with tracekit.open(files["code"]) as trace:
        cycles.append(totals(trace, machines)[0])
    with tracekit.open(files["code"]) as trace:
        decoded = isa.decode_many("arm", trace.statics.bytes)
        trace.statics.disassembly = [d.text for d in decoded]
        cycles.append(totals(trace, machines)[0])
    assert cycles[1] == pytest.approx(cycles[0], rel=1e-3)


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("ldp x19, x20, [sp, #0x10]", "addxi_uop ureg0, sp, #16; ldp_uop x19, x20, [ureg0]"),
        (
            "stp x29, x30, [sp, #-0xa0]!",
            "addxi_uop ureg0, sp, #-160; strxi_uop x29, [ureg0]; strxi_uop x30, [ureg0, #8]; "
            "addxi_uop sp, ureg0, #0",
        ),
        ("ldp x29, x30, [sp], #0x40", "ldp_uop x29, x30, [sp]; addxi_uop sp, sp, #64"),
        ("ldp w0, w1, [x2]", "addxi_uop ureg0, x2, #0; ldrduxi_uop x0, x1, [ureg0]"),
        ("ldpsw x0, x1, [x2, #8]", "addxi_uop ureg0, x2, #8; ldrdsxi_uop x0, x1, [ureg0]"),
        ("stp wzr, w1, [x2]", "addxi_uop ureg0, x2, #0; strdxi_uop xzr, x1, [ureg0]"),
        ("ldp d8, d9, [sp, #0x30]", "addxi_uop ureg0, sp, #48; ldp_fp8_uop x8, x9, [ureg0]"),
        ("stp s0, s1, [x2]", "addxi_uop ureg0, x2, #0; strdfpxi_uop x0, x1, [ureg0]"),
        (
            "ldp q0, q1, [x1], #0x20",
            "ldfp16_uop x0, [x1]; ldfp16_uop x1, [x1, #16]; addxi_uop x1, x1, #32",
        ),
        (
            "stp q0, q1, [x3, #0x20]",
            "addxi_uop ureg0, x3, #32; strqbfpxi_uop x0, [ureg0]; strqtfpxi_uop x0, [ureg0]; "
            "strqbfpxi_uop x1, [ureg0, #16]; strqtfpxi_uop x1, [ureg0, #16]",
        ),
        ("str q0, [x3, #0x10]", "strqbfpxi_uop w0, [x3, #16]; strqtfpxi_uop w0, [x3, #16]"),
        ("str q1, [x3, x18]", "strqbfpxr_uop w1, [x3, x18]; strqtfpxr_uop w1, [x3, x18]"),
        (
            "str q1, [x3], #0x10",
            "strqbfpxi_uop w1, [x3]; strqtfpxi_uop w1, [x3]; addxi_uop x3, x3, #16",
        ),
        ("ldr q1, [x3, #0x10]", "ldr q1, [x3, #0x10]"),
        ("ldr x1, [x0], #8", "ldr x1, [x0], #8; addxi_uop x0, x0, #8"),
        ("strb w1, [x0, #-1]!", "strb w1, [x0, #-1]!; addxi_uop x0, x0, #-1"),
        ("ldrsw x1, [x0, w2, sxtw #2]", "ldrsw x1, [x0, w2, sxtw #2]"),
        ("add x0, x1, x2", "add x0, x1, x2"),
    ],
)
def test_machine_code_in_words_of_gem5(code: str, texts: str) -> None:
    assert "; ".join(micro_op_texts(code)) == texts


def table(
    text: str, src: list[tuple[int, int]], dst: list[tuple[int, int]], size: int = 8
) -> StaticTable:
    """A table of one instruction."""

    def column(pairs: list[tuple[int, int]], part: int, fill: int, length: int) -> list[int]:
        return [p[part] for p in pairs] + [fill] * (length - len(pairs))

    arrays = {
        "pc": np.array([4096], np.uint64),
        "upc": np.zeros(1, np.uint16),
        "op": np.array([47], np.uint8),
        "branch": np.zeros(1, np.uint8),
        "access_size": np.array([size], np.uint16),
        "flags": np.zeros(1, np.uint64),
        "src_class": np.array([column(src, 0, NONE, 8)], np.uint8),
        "src_index": np.array([column(src, 1, 0, 8)], np.uint16),
        "dst_class": np.array([column(dst, 0, NONE, 6)], np.uint8),
        "dst_index": np.array([column(dst, 1, 0, 6)], np.uint16),
        "count": np.ones(1, np.uint64),
    }
    return StaticTable(arrays, [text], [b""])


@pytest.mark.parametrize(
    ("text", "names", "sizes", "offsets"),
    [
        ("ld1 {v0.16b, v1.16b}, [x0]", "load load put", [16, 16, 0], [0, 16, 0]),
        ("ld1 {v0.2d}, [x0], #0x10", "load add put", [16, 0, 0], [0, 0, 0]),
        ("ld1r {v3.4s}, [x1]", "load put", [4, 0], [0, 0]),
        ("ld1 {v3.s}[1], [x1]", "load put", [4, 0], [0, 0]),
        ("st1 {v0.16b, v1.16b, v2.16b}, [x0]", "put put store store store", [0, 0, 16, 16, 16],
         [0, 0, 0, 16, 32]),
        ("st2 {v0.4s, v1.4s}, [x0], x2", "put store store add", [0, 16, 16, 0], [0, 0, 16, 0]),
    ],
)  # fmt: skip
def test_structures(text: str, names: str, sizes: list[int], offsets: list[int]) -> None:
    parts = arm_parts(table(text, [(0, 0)], [(2, 0)]))
    s = parts.statics
    kinds = [
        "load" if load else "store" if store else "add" if added else "put"
        for load, store, added in zip(
            s.has("IsLoad"),
            s.has("IsStore"),
            [t == "addxi_uop" for t in s.disassembly],
            strict=True,
        )
    ]
    assert kinds == names.split()
    assert s.access_size.tolist() == sizes and parts.offset.tolist() == offsets
    assert parts.begin.tolist() == [0, len(kinds)]


def test_an_address_register_moves_on_in_a_micro_op_of_its_own() -> None:
    parts = arm_parts(table("ldr x1, [x0], #8", [(0, 0)], [(0, 1), (0, 0)]))
    s = parts.statics
    assert [registers(s, "dst", k) for k in range(2)] == [{(0, 1)}, {(0, 0)}]
    assert [registers(s, "src", k) for k in range(2)] == [{(0, 0)}, {(0, 0)}]
    assert s.access_size[0] == 8


def test_wide_offsets_are_of_the_first_access() -> None:
    text = "strqbfpxi_uop   w0, [w3, #16]; strqtfpxi_uop   w0, [w3, #16]"
    assert arm_parts(table(text, [(2, 0), (0, 3)], [])).offset.tolist() == [0, 8]


@pytest.mark.parametrize(
    "text",
    [
        "addxi_uop   ureg0, sp; strxi_uop   xq, [ureg0, #zz]",
        "a; addxi_uop  x1",
        "strxi_uop   x99999999, [x1]; nop",
        "strxi_uop   x1, [x1, lsl]; addxi_uop",
        "ldfp16_uop   wsp, [x1]; ldfp16_uop   xzr, [x1, #99999999]",
        "ld1 {v0.xx}, [x0]",
        "ld4 {v0.16d, v1.16d, v2.16d, v3.16d}, [x0]",
        "ldp x0, x1, [x2, #0xzz]",
        "stp q0, q1, [x2], #010",
        "str q1, [x3, #-0x99999999999]!",
    ],
)
def test_any_text_is_safe(text: str) -> None:
    parts = arm_parts(table(text, [(0, 0)], [(0, 1)]))
    assert parts.begin[-1] == len(parts.statics) >= 1
