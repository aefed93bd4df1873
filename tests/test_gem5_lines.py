"""Lines of gem5's text at the edges of what a number and a field are."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

import tracekit

LINE = "{tick:7}: system.cpu: 0x{pc:x}    : add x1, x2, x3   : IntAlu : {more}  flags=(IsInteger)\n"


def extracted(folder: Path, text: str) -> tuple[tracekit.TraceFile, dict[str, object]]:
    path = folder / "trace.out"
    path.write_text(text + "\n" * 5000)  # so far from the end lines are read the fast way
    result = tracekit.extract(path, folder / "f.zst", force=True)
    return tracekit.open(folder / "f.zst"), result.anomalies


@pytest.mark.parametrize("name", ["main+4", "a.part.0+12", "_Z3fooi.cold", "x", "operator.+8"])
@pytest.mark.parametrize("upc", [None, 0, 7, 10, 123])
def test_names_of_functions(tmp_path: Path, name: str, upc: int | None) -> None:
    """Behind the address, and in front of the number of a micro-op."""
    what = "    " if upc is None else f".{upc:2d} "
    text = "".join(
        f"{500 * k}: system.cpu: T0 : 0x{0x400000 + 4 * k:x} @{name}{what}: add x1, x2, x3   : "
        "IntAlu :  D=0x1  flags=(IsInteger)\n"
        for k in range(1, 9)
    )
    trace, anomalies = extracted(tmp_path, text)
    with trace:
        assert trace["pc"].tolist() == [0x400000 + 4 * k for k in range(1, 9)] and not anomalies
        assert set(trace["upc"].tolist()) == {upc or 0}
        assert set(trace.statics.disassembly) == {"add x1, x2, x3"}


def test_a_row_that_comes_again_is_a_fault_where_it_touches_memory(tmp_path: Path) -> None:
    """A branch onto itself is none."""
    line = "{tick:7}: system.cpu: 0x{pc:x}    : {text}   : {op} : {more}  flags=({flags})\n"
    jump = {"text": "b 0x400004", "op": "IntAlu", "more": "",
            "flags": "IsControl|IsDirectControl|IsUncondControl"}  # fmt: skip
    load = {"text": "ldr x1, [x2]", "op": "MemRead", "more": " A=0x10", "flags": "IsLoad"}
    rows = [(0x400000, load), (0x400004, jump), (0x400004, jump), (0x400008, load),
            (0x400008, load), (0x40000C, jump)]  # fmt: skip
    text = "".join(line.format(tick=500 * k, pc=pc, **what) for k, (pc, what) in enumerate(rows, 1))
    trace, _ = extracted(tmp_path, text)
    with trace:
        assert trace["fault"].tolist() == [False] * 3 + [True, False, False]
        assert trace["taken"].tolist() == [False, True, True, False, False, True]


STAGES = ("decode", "rename", "dispatch", "issue", "complete")


@pytest.mark.parametrize("lost", [None, *STAGES])
def test_a_block_without_a_stage_s_line_is_told(tmp_path: Path, lost: str | None) -> None:
    """Its other ticks are kept."""
    text = ""
    for seq in (1, 2, 3):
        lines = [f"O3PipeView:fetch:{500 * seq}:0x00400000:0:{seq}:  nop"]
        lines += [f"O3PipeView:{s}:{900 * seq}" for s in STAGES if seq != 2 or s != lost]
        text += "\n".join([*lines, f"O3PipeView:retire:{1000 * seq}:store:0\n"])
    trace, anomalies = extracted(tmp_path, text)
    with trace:
        assert trace["retire"].tolist() == [1000, 2000, 3000]
        for stage in STAGES:
            assert trace[stage].tolist() == [900, 0 if stage == lost else 1800, 2700]
    assert list(anomalies) == (["incomplete_block"] if lost else [])


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        ("", "macro_op_line"),  # ExecMacro's own line
        (" : MemR", "malformed_line"),
        (" : MemRead :  A=0x1x", "malformed_line"),
        (" : MemRead :  A=0x1  flags=(IsLoad", "malformed_line"),
        (" : MemRead :  A=0x1  flags=(IsLoad) x", "malformed_line"),
        (" : MemRead :  A=0x10000000000000000  flags=(IsLoad)", "malformed_line"),
        (" : A=0x1  FetchSeq=x", "malformed_line"),
    ],
)
def test_a_damaged_line_is_no_macro_op_s(tmp_path: Path, end: str, kind: str) -> None:
    """Of which its micro-ops would repeat all: --strict takes no notice of those."""
    rows = [LINE.format(tick=500 * k, pc=0x400000 + 4 * k, more="") for k in (1, 3)]
    text = f"{rows[0]}   1000: system.cpu: 0x400008    :   ldr   x1, [x2]{end}\n{rows[1]}"
    trace, anomalies = extracted(tmp_path, text)
    with trace:
        assert trace["pc"].tolist() == [0x400004, 0x40000C]
    assert list(anomalies) == [kind]


def test_a_branch_whose_length_nothing_tells(tmp_path: Path) -> None:
    """X86 without its displacement: not taken where the next row is up to 15 bytes on."""
    line = "{tick:7}: system.cpu: 0x{pc:x}    : {text}   : IntAlu :   flags=({flags})\n"
    steps = {1: False, 4: False, 15: False, 16: True, -4: True, 4096: True, -(1 << 20): True}
    rows = []
    for k, step in enumerate(steps):
        pc = 0x400000 + 0x4000 * k
        rows += [(pc, "JNZ_I : wrip   , t1, t2", "IsControl|IsDirectControl|IsCondControl"),
                 (pc + step, "ADD_R_R : add   rax, rax, rbx", "IsInteger")]  # fmt: skip
    text = "".join(
        line.format(tick=500 * k, pc=pc, text=what, flags=flags)
        for k, (pc, what, flags) in enumerate(rows, 1)
    )
    trace, _ = extracted(tmp_path, text)
    with trace:
        assert trace["taken"].tolist()[::2] == list(steps.values())
        assert not trace["taken"][1::2].any()


def test_a_false_predicate(tmp_path: Path) -> None:
    fields = ["", "Predicated False", " D=0x5", "Predicated False D=0x5"]
    text = "".join(
        LINE.format(tick=500 * k, pc=0x400000 + 4 * k, more=m) for k, m in enumerate(fields, 1)
    )
    trace, anomalies = extracted(tmp_path, text)
    with trace:
        assert trace["predicated_off"].tolist() == [False, True, False, True] and not anomalies


def pipeline(first: int, rows: int = 60) -> list[str]:
    """Blocks of O3PipeView alone, a cycle of 500 ticks apart."""
    out = []
    for k in range(rows):
        ticks = [first + 500 * (k + stage) for stage in range(7)]
        names = ("decode", "rename", "dispatch", "issue", "complete")
        pc = 0x40ABC000 + 4 * k
        lines = [f"O3PipeView:fetch:{ticks[0]}:0x{pc:08x}:0:{k + 1}:  add x1, x2, x3"]
        lines += [f"O3PipeView:{n}:{t}" for n, t in zip(names, ticks[1:], strict=False)]
        out.append("\n".join([*lines, f"O3PipeView:retire:{ticks[6]}:store:0", ""]))
    return out


@pytest.mark.parametrize("place", [3, -1])
@pytest.mark.parametrize("wrong", "g`G@/~\x7f")
def test_what_is_no_hexadecimal_digit(tmp_path: Path, wrong, place) -> None:
    blocks = pipeline(12_340_000)
    whole, anomalies = extracted(tmp_path, "".join(blocks))
    assert not anomalies
    with whole:
        pcs = whole["pc"].tolist()
    parts = blocks[30].split(":")
    pc = list(parts[3])
    pc[place] = wrong
    parts[3] = "".join(pc)
    damaged, anomalies = extracted(tmp_path, "".join([*blocks[:30], ":".join(parts), *blocks[31:]]))
    with damaged:
        assert damaged["pc"].tolist() == pcs[:30] + pcs[31:] and anomalies


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("digits", range(5, 18))
def test_ticks_that_carry(tmp_path: Path, digits, times) -> None:
    """Words of digits are read while those in front, and how many there are, do not change."""
    first = times * 10**digits - 500 * 30
    first = first if first > 0 else 500
    trace, anomalies = extracted(tmp_path, "".join(pipeline(first)))
    with trace:
        for stage, name in enumerate(("fetch", "decode", "rename", "dispatch", "issue")):
            want = [first + 500 * (k + stage) for k in range(60)]
            assert trace[name].tolist() == want and not anomalies


@pytest.mark.parametrize("length", [15, 16, 17, 31, 32, 33, 34, 48, 49, 65])
def test_texts_that_differ_in_one_byte(tmp_path: Path, length) -> None:
    """What stood at a pc before is known again by its bytes, all of them."""
    plain = "add x1, x2, #" + "1" * (length - 13)
    texts = [plain]
    for k in range(13, length):
        texts += [plain[:k] + "2" + plain[k + 1 :], plain]
    line = "{:7}: system.cpu: 0x400000    :   {}   : IntAlu :   flags=(IsInteger)\n"
    trace, _ = extracted(tmp_path, "".join(line.format(500 * k, t) for k, t in enumerate(texts, 1)))
    with trace:
        assert [trace.statics.disassembly[i] for i in trace["static_id"]] == texts


@pytest.mark.parametrize("kind", ["both", "Exec lines"])
def test_runs_one_after_another_are_told(tmp_path: Path, kind: str) -> None:
    """Where ticks begin anew the later run's rows take no cycles; where they go on, as from a later
    checkpoint, the cycles in between count."""
    golden = Path(__file__).parent / "golden" / "strsort.riscv.trace.xz"
    lines = lzma.decompress(golden.read_bytes()).decode().splitlines(keepends=True)
    if kind != "both":
        lines = [x for x in lines if not x.startswith("O3PipeView")]
    text = "".join(lines)
    trace, anomalies = extracted(tmp_path, text)
    with trace:
        rows = len(trace)
    assert not anomalies
    trace, anomalies = extracted(tmp_path, text + text)
    with trace:
        assert len(trace) == 2 * rows
    told = {"another_run": {"count": 1, "first_offset": len(text)}}
    assert anomalies == told
    later = re.sub(r"(?m)^ *(\d+)(?=: )", lambda m: str(int(m[1]) + 10**9), text)
    later = re.sub(r":([1-9]\d{4,})(?=$|:)", lambda m: f":{int(m[1]) + 10**9}", later, flags=re.M)
    trace, anomalies = extracted(tmp_path, text + later)
    with trace:
        assert len(trace) == 2 * rows
    assert anomalies == told


def test_each_cpu_has_ticks_of_its_own(tmp_path: Path) -> None:
    """A run that switches CPUs prints one behind the other, and one may lag."""
    lines = [LINE.format(tick=500 * k, pc=0x400000 + 4 * k, more="") for k in range(1, 40)]
    other = [x.replace("system.cpu:", "system.switch_cpus:") for x in lines]
    for text in (lines + other, [x for pair in zip(lines[9:], other, strict=False) for x in pair]):
        (tmp_path / "t").write_text("".join(text))
        assert not tracekit.extract(tmp_path / "t", tmp_path / "f.zst", force=True).anomalies


def test_a_tick_beyond_what_counts(tmp_path: Path) -> None:
    lines = [LINE.format(tick=t, pc=0x400000, more="") for t in (1, 2**61 - 1, 2**61, 2**64)]
    trace, anomalies = extracted(tmp_path, "".join(lines))
    with trace:
        assert len(trace) == 2
    at = len(lines[0] + lines[1])
    assert anomalies["malformed_line"] == {"count": 1, "first_offset": at}


def test_where_a_row_is_given_up_for_its_block(tmp_path: Path) -> None:
    """The oldest of 262,144 rows that wait leaves as the next line comes."""
    window, more = 1 << 18, 5
    line = "{k:7}: system.cpu: 0x400000    : nop   : IntAlu :   FetchSeq={k}  flags=(IsNop)\n"
    lines = [line.format(k=k) for k in range(1, window + more + 1)]
    last = window + more
    stages = "".join(f"O3PipeView:{s}:{last}\n" for s in ("decode", "rename", "dispatch"))
    stages += f"O3PipeView:issue:{last}\nO3PipeView:complete:{last}\nO3PipeView:retire:{last}\n"
    block = f"O3PipeView:fetch:{last}:0x00400000:0:{last}:  nop\n{stages}"
    trace, anomalies = extracted(tmp_path, "".join(lines) + block)
    with trace:
        assert len(trace) == window + more
    at = len("".join(lines[:window]))
    assert anomalies == {"block_missing": {"count": more, "first_offset": at}}
