"""Extraction against a reader of a line at a time and the oracles, on random traces."""

from __future__ import annotations

import gzip
import itertools
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import synthetic
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import branch_entropy, gem5_text, latency, macro, memory

import tracekit
from tracekit import _core
from tracekit.store.verification import verify

GOLDEN = Path(__file__).parent / "golden"
MEMORY = ("MemRead", "MemWrite", "FloatMemRead")
SLOW = settings(max_examples=25)
seeds = st.integers(0, 2**32)


def streams(text: bytes, cuts: list[int]) -> dict:
    """What the pipeline makes of a text that comes in pieces."""
    source, stage = _core.Gem5Text(), _core.FeatureStage(8, 6, False, chunk_rows=1 << 20)
    at = 0
    for size in [*cuts, len(text)]:
        source.feed(text[at : at + size])
        at += size
        for i in range(len(source.cpus())):
            assert not stage.add(source.take(i))
    source.finish()
    for i in range(len(source.cpus())):
        assert not stage.add(source.take(i))
    stage.finish()
    return {**stage.chunk(), "counters": source.counters(), "stats": source.stats()}


@SLOW
@given(
    seeds,
    st.integers(1, 300),
    st.lists(st.integers(0, 400), max_size=60),
    st.booleans(),
    st.booleans(),
)
def test_pieces_do_not_matter(seed, rows, cuts, exec_lines, blocks):
    text = synthetic.text(seed, rows, exec_lines=exec_lines or not blocks, blocks=blocks).encode()
    assert streams(text, cuts) == streams(text, [])


@SLOW
@given(
    seeds,
    st.integers(1, 400),
    st.sampled_from(["both", "exec", "o3"]),
    st.sampled_from([256, 65536]),
)
def test_rows_and_features(tmp_path_factory, seed, n, kind, chunk_rows):
    text = synthetic.text(seed, n, exec_lines=kind != "o3", blocks=kind != "exec")
    path = tmp_path_factory.mktemp("x") / "trace.out"
    path.write_text(text)
    out = path.with_name("feats.zst")
    tracekit.extract(path, out, chunk_rows=chunk_rows)
    rows = gem5_text.read(text)
    with tracekit.open(out) as f:
        assert len(f) == len(rows)
        assert f["pc"].tolist() == [r["pc"] for r in rows]
        assert f["upc"].tolist() == [r["upc"] for r in rows]
        shown = [f.statics.disassembly[i] for i in f["static_id"]]
        assert shown == [r["text"] for r in rows]
        assert f["addr"].tolist() == [r["addr"] or 0 for r in rows]
        assert f["is_mem"].tolist() == [r["addr"] is not None for r in rows]
        assert f.timed == any(r.get("retire") or r.get("trapped") for r in rows)
        if f.timed:
            for stage in (
                "fetch",
                "decode",
                "rename",
                "dispatch",
                "issue",
                "complete",
                "retire",
                "store",
            ):
                # an untimed row keeps the fetch tick of its Exec line
                want = [
                    r[stage] or (int(r["when"]) if stage == "fetch" and "when" in r else 0)
                    for r in rows
                ]
                assert f[stage].tolist() == want
            ticks = latency.incremental([r["retire"] for r in rows])
            assert f.targets("ticks").tolist() == ticks
        if kind == "both" and f.timed:
            assert f["untimed"].tolist() == [r["untimed"] for r in rows]
            timed = ~f["untimed"]
            assert f["fault"][timed].tolist() == [r["trapped"] for r in rows if not r["untimed"]]
        if kind != "o3":
            check_features(f, rows)


def check_features(f, rows):
    taken = []
    for r, after in zip(rows, [*rows[1:], None], strict=True):
        conditional = "IsCondControl" in r["flags"]
        jumped = after is not None and after["pc"] != r["pc"] + 4
        taken.append(jumped if conditional else "IsControl" in r["flags"])
    assert f["taken"].tolist() == taken
    at = [i for i, r in enumerate(rows) if "IsCondControl" in r["flags"]]
    want = branch_entropy.branch_features([(rows[i]["pc"], taken[i]) for i in at], 8)
    for k, name in enumerate(("window_before", "window_now", "p_local", "p_global")):
        np.testing.assert_allclose(
            f[name][at], np.array([w[k] for w in want], np.float32), rtol=1e-6
        )
    at = [i for i, r in enumerate(rows) if r["addr"] is not None]
    accesses = [(i, rows[i]["addr"], rows[i]["op"]) for i in at]
    for suffix, is_load in (
        ("", lambda op: op.endswith("MemRead")),
        ("_ref", lambda op: op == "MemRead"),
    ):
        want = memory.memory_features(accesses, is_load)
        assert f[f"load_distance{suffix}"][at].tolist() == [w[0] for w in want]
        assert f[f"store_distance{suffix}"][at].tolist() == [w[1] for w in want]
    assert f["data_distance"][at].tolist() == [w[2] for w in want]
    assert f["data_reuse"][at].tolist() == [w[3] for w in want]
    lines = [r["pc"] >> 6 for r in rows]
    assert f["fetch_distance"].tolist() == [
        memory.distance(lines[:i], lines[i]) for i in range(len(lines))
    ]


@SLOW
@given(seeds, st.integers(1, 400), st.booleans())
def test_macro_level(tmp_path_factory, seed, n, blocks):
    path = tmp_path_factory.mktemp("x") / "trace.out"
    path.write_text(synthetic.text(seed, n, blocks=blocks))
    tracekit.extract(path, path.with_name("micro"))
    tracekit.extract(path, path.with_name("macro"), level="macro")
    with tracekit.open(path.with_name("micro")) as f, tracekit.open(path.with_name("macro")) as g:
        last = f.statics.has("IsLastMicroop") | ~f.statics.has("IsMicroop")
        want = macro.groups(
            [
                (int(pc), bool(last[s]), bool(x), False)
                for pc, s, x in zip(f["pc"], f["static_id"], f["fault"], strict=True)
            ]
        )
        if want and not last[f["static_id"][want[-1][-1]]] and g.index["source"]["unfinished"]:
            want.pop()  # the trace ends inside it
        assert len(g) == len(want)
        first = [w[0] for w in want]
        assert g["pc"].tolist() == f["pc"][first].tolist()
        assert g["fetch_distance"].tolist() == f["fetch_distance"][first].tolist()
        assert g["fault"].tolist() == [bool(f["fault"][w].any()) for w in want]
        accesses = [next((i for i in w if f["is_mem"][i]), None) for w in want]
        for name in ("addr", "load_distance", "store_distance", "data_distance"):
            assert g[name].tolist() == [0 if i is None else int(f[name][i]) for i in accesses]
        # Instructions since the last access to the byte: neither micro-ops nor retries.
        seen, reuse = {}, {}
        for number, members in enumerate(want):
            for i in members:
                if f["is_mem"][i]:
                    byte = int(f["addr"][i])
                    reuse[i] = min(number - seen.get(byte, -1000), 1000)
                    seen[byte] = number
        assert g["data_reuse"].tolist() == [0 if i is None else reuse[i] for i in accesses]
        if f.timed:
            sums = [int(f.targets("ticks")[w].sum()) for w in want]
            assert g.targets("ticks").tolist() == sums


BIT_SCAN = """\
100: system.cpu: 0x1000. 0 :   BSF_R_R : and   t1d, edx, edx : IntAlu :   flags=(IsInteger|IsMicroop|IsDelayedCommit|IsFirstMicroop)
100: system.cpu: 0x1000. 1 :   BSF_R_R : br   0x3      : IntAlu :   flags=(IsControl|IsDirectControl|IsCondControl|IsMicroop|IsDelayedCommit)
{skipped}100: system.cpu: 0x1000. 3 :   BSF_R_R : movi   eax, eax, 0 : IntAlu :   flags=(IsInteger|IsMicroop|IsLastMicroop)
100: system.cpu: 0x1003. 0 :   JNZ_I : rdip   t1, %ctrl153 : IntAlu :  D=0x0 flags=(IsInteger|IsMicroop|IsDelayedCommit|IsFirstMicroop)
100: system.cpu: 0x1003. 1 :   JNZ_I : limm   t2, {back} : IntAlu :  D=0x0 flags=(IsInteger|IsMicroop|IsDelayedCommit)
100: system.cpu: 0x1003. 2 :   JNZ_I : wrip   t1, t2 : IntAlu :   flags=(IsInteger|IsControl|IsDirectControl|IsCondControl|IsMicroop|IsLastMicroop)
"""  # noqa: E501
SKIPPED = """\
100: system.cpu: 0x1000. 2 :   BSF_R_R : subi   t2d, t1d, 0x1 : IntAlu :   flags=(IsInteger|IsMicroop|IsDelayedCommit)
"""  # noqa: E501


def test_a_branch_inside_the_microcode_is_none_of_the_instruction(tmp_path):
    """X86's `br` leads to another micro-op: the instruction cannot go elsewhere by it."""
    text = "".join(
        BIT_SCAN.format(back="0xfffffffffffffffb", skipped=SKIPPED if i % 3 else "")
        for i in range(8)
    )
    (tmp_path / "t").write_text(text)
    for level in ("micro", "macro"):
        tracekit.extract(tmp_path / "t", tmp_path / level, level=level)
    with tracekit.open(tmp_path / "micro") as f, tracekit.open(tmp_path / "macro") as g:
        assert f.statics.has("IsControl").tolist() == [
            " : br" in t or "wrip" in t for t in f.statics.disassembly
        ]
        names = g.statics.disassembly
        assert len(g) == 16 and set(names) == {"BSF_R_R", "JNZ_I"}
        jumps = [n == "JNZ_I" for n in names]
        assert (
            g.statics.has("IsCondControl").tolist() == g.statics.has("IsControl").tolist() == jumps
        )
        assert (g.statics.branch != 0).tolist() == jumps
        assert g["taken"].tolist() == [False, True] * 7 + [False, False]
        # Nor has it a place in the history of the branches around it.
        want = branch_entropy.branch_features([(0x1003, t) for t in g["taken"][1::2]], 8)
        for k, name in enumerate(("window_before", "window_now", "p_local", "p_global")):
            assert g[name][1::2].tolist() == pytest.approx([w[k] for w in want])
            assert not g[name][::2].any()


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "gzip", "zstd", "xz"])
def test_compression(tmp_path, kind, members):
    text = synthetic.text(7, 2000).encode()
    pack = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.compress, "xz": lzma.compress}[
        kind
    ]
    cuts = [len(text) * k // members for k in range(members + 1)]
    path = tmp_path / "trace"
    path.write_bytes(b"".join(pack(text[a:b]) for a, b in itertools.pairwise(cuts)))
    result = tracekit.extract(path, tmp_path / "out.zst")
    assert result.rows == len(gem5_text.read(text.decode()))
    assert result.input["compression"] == (None if kind == "plain" else kind)
    assert result.input["bytes"] == path.stat().st_size


def test_pipe(tmp_path):
    text = synthetic.text(8, 3000).encode()
    (tmp_path / "t").write_bytes(text)
    tracekit.extract(tmp_path / "t", tmp_path / "a.zst")
    command = [sys.executable, "-m", "tracekit", "extract", "-", "-o", str(tmp_path / "b.zst")]
    done = subprocess.run(command, input=text, capture_output=True, check=True)
    assert b"rows" in done.stderr and b"\r" not in done.stderr
    with tracekit.open(tmp_path / "a.zst") as f, tracekit.open(tmp_path / "b.zst") as g:
        for name in f.columns:
            assert np.array_equal(f[name], g[name])


@given(seeds, st.integers(0, 500), st.integers(1, 500))
@SLOW
def test_start_and_count(tmp_path_factory, seed, start, count):
    path = tmp_path_factory.mktemp("x") / "trace"
    path.write_text(synthetic.text(seed, 600))
    tracekit.extract(path, path.with_name("all"))
    tracekit.extract(path, path.with_name("part"), start=start, count=count, chunk_rows=256)
    with tracekit.open(path.with_name("all")) as f, tracekit.open(path.with_name("part")) as g:
        rows = f.range(slice(start, start + count))
        assert len(g) == rows[1] - rows[0]
        for name in ("pc", "addr", "data_distance", "p_global", "retire", "fault"):
            assert np.array_equal(f.column(name, rows), g[name])
        assert g.targets("ticks").tolist() == latency.incremental(f.column("retire", rows).tolist())


@pytest.mark.parametrize("level", ["micro", "macro"])
def test_count_leaves_no_trace_of_what_was_read_beyond_it(tmp_path, monkeypatch, level):
    """However far another thread has parsed by then."""
    path = tmp_path / "trace"
    path.write_bytes(lzma.decompress((GOLDEN / "lua.x86.trace.xz").read_bytes()))
    monkeypatch.setattr("tracekit.inputs.blocks.BLOCK", 1 << 14)
    made = []
    for overlap in (False, True):
        out = tmp_path / f"{overlap}.zst"
        tracekit.extract(path, out, level=level, start=20, count=100, overlap=overlap)
        with tracekit.open(out) as f:
            assert not verify(out)
            assert len(f) == 100 and f["static_id"].max() + 1 == len(f.statics)
            made.append(([list(f[c]) for c in ("pc", "retire", "taken")], f.statics.disassembly))
    assert made[0] == made[1]


@given(seeds, st.integers(0, 500), st.sampled_from(["micro", "macro"]))
@SLOW
def test_cold_start(tmp_path_factory, seed, start, level):
    """As if the trace began there (without blocks: those of the rows before would be unknown)."""
    path = tmp_path_factory.mktemp("x") / "trace"
    path.write_text(synthetic.text(seed, 600, blocks=False))
    tracekit.extract(path, path.with_name("micro"))
    with tracekit.open(path.with_name("micro")) as f:
        last = f.statics.has("IsLastMicroop") | ~f.statics.has("IsMicroop")
        ends = np.cumsum(last[f["static_id"]]) if level == "macro" else np.arange(1, len(f) + 1)
        first = int(np.searchsorted(ends, start)) + 1 if start else 0
    lines = [n for n in path.read_text().splitlines(keepends=True) if "system.cpu" in n]
    if len(lines) != len(ends) or first >= len(lines):
        return
    path.with_name("part").write_text("".join(lines[first:]))
    tracekit.extract(path, path.with_name("cold"), start=start, cold=True, level=level)
    tracekit.extract(path.with_name("part"), path.with_name("want"), level=level)
    with tracekit.open(path.with_name("cold")) as f, tracekit.open(path.with_name("want")) as g:
        for name in f.columns:
            if name != "static_id" and f.statics is not None and name not in tracekit.schema.STAGES:
                assert f[name].tolist() == g[name].tolist(), name


def test_two_cpus(tmp_path):
    one = synthetic.text(3, 500)
    other = synthetic.text(4, 500).replace("system.cpu:", "system.cpu1:")
    lines = [*one.splitlines(keepends=True)]
    blocks_and_lines = other.splitlines(keepends=True)
    mixed, i, j = [], 0, 0
    while i < len(lines) or j < len(blocks_and_lines):  # whole blocks in turn
        for source, at in ((lines, i), (blocks_and_lines, j)):
            end = at
            while end < len(source):
                end += 7 if source[end].startswith("O3PipeView:fetch") else 1
                if end - at >= 9:
                    break
            mixed += source[at:end]
            if source is lines:
                i = max(end, i)
            else:
                j = max(end, j)
    (tmp_path / "mixed").write_text("".join(mixed))
    (tmp_path / "one").write_text(one)
    tracekit.extract(tmp_path / "one", tmp_path / "one.zst")
    result = tracekit.extract(tmp_path / "mixed", tmp_path / "m.zst")
    assert {o.cpu for o in result.outputs} == {"system.cpu", "system.cpu1"}
    tracekit.extract(tmp_path / "mixed", tmp_path / "chosen.zst", cpu="system.cpu")
    for name in ("m.system.cpu.zst", "chosen.zst"):
        with tracekit.open(tmp_path / "one.zst") as f, tracekit.open(tmp_path / name) as g:
            assert np.array_equal(f["pc"], g["pc"])
            assert np.array_equal(f["retire"], g["retire"])
    with pytest.raises(tracekit.UsageError, match=r"no CPU 'x'.*system\.cpu1"):
        tracekit.extract(tmp_path / "mixed", tmp_path / "none.zst", cpu="x")
    assert not Path(tmp_path / "none.zst").exists()
