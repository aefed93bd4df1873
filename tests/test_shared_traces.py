"""The real traces: gem5's own counts, the authors' own features, sizes.  Skipped where they are
not."""

from __future__ import annotations

import lzma
import re

import numpy as np
import pytest
from oracles import latency

import tracekit
from tracekit.cli.main import main
from tracekit.store.verification import verify

TEXTS = [
    *("lua_mix.arm.8w.full", "lua_queens.x86.8w.full", "mm.arm.8w.full", "qsort.x86.8w.full"),
    *("speedtest1.arm.8w.full", "strsort.riscv.8w.full", "lua_mix.arm.small.o3"),
]


def committed(stats: str, cpu: str = "system.cpu") -> tuple[int, int]:
    """gem5's (numInsts, numOps) of a CPU."""
    names = (f"{cpu}.commitStats0.numInsts", f"{cpu}.commitStats0.numOps")
    found = [re.search(rf"^{re.escape(n)}\s+(\d+)", stats, re.M) for n in names]
    return tuple(int(m[1]) for m in found)  # type: ignore[return-value, index]


def is_syscall(t) -> np.ndarray:
    names = ("svc", "ecall", "syscall")
    return t.has("IsSyscall") | np.array([d.startswith(names) for d in t.disassembly])


@pytest.mark.parametrize("name", TEXTS)
def test_against_gem5(shared, tmp_path, name):
    out = tmp_path / "feats.zst"
    result = tracekit.extract(shared / "text" / f"{name}.xz", out)
    assert result.anomalies == {}
    insts, ops = committed((shared / "text" / f"{name}.stats").read_text())
    with tracekit.open(out) as f:
        assert verify(out) == []
        # blocks alone cannot show the trapped ones; two system calls are in numOps all the same
        assert len(f) == ops + int(f["fault"].sum()) - (2 if name.endswith(".o3") else 0)
        retire = f["retire"]
        timed = retire[retire > 0]
        assert f.targets("ticks").sum() == timed.max() - timed[0]
        assert f.targets("ticks").tolist() == latency.incremental(retire.tolist())
        assert f.clock_ps == (667 if "small" in name else 500)
        ticks = set(f.index["chunks"][0]["streams"]) & set(tracekit.schema.STAGES)
        sizes = dict.fromkeys(ticks, 0)
        for c in f.index["chunks"]:
            for n in ticks:
                sizes[n] += c["streams"][n][1]
        assert (f.size - sum(sizes.values())) / len(f) <= 2.5
        assert f.size / len(f) <= 4
        micro_ticks = f.targets("ticks").sum()
    macro = tmp_path / "macro.zst"
    tracekit.extract(shared / "text" / f"{name}.xz", macro, level="macro")
    with tracekit.open(macro) as g:
        calls = int(is_syscall(g.statics)[g["static_id"]].sum())
        assert len(g) == insts + (-2 if name.endswith(".o3") else calls)
        assert g.targets("ticks").sum() == micro_ticks


def test_two_cpus(shared, tmp_path):
    result = tracekit.extract(shared / "text" / "two.x86.8w.full.xz", tmp_path / "two.zst")
    assert result.anomalies == {}
    stats = (shared / "text" / "two.x86.8w.full.stats").read_text()
    for o in result.outputs:
        with tracekit.open(o.path) as f:
            assert len(f) == committed(stats, o.cpu)[1] + int(f["fault"].sum())
    assert len(result.outputs) == 2


def test_perfvec_ref_is_the_authors(shared, tmp_path):
    folder = shared / "perfvec-authors"
    tracekit.extract(folder / "trace.txt.zst", tmp_path / "f.zst")
    import zstandard

    packed = (folder / "trace.in.zst").read_bytes()
    text = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read()
    want = np.array(text.split(), np.float64).reshape(-1, 51)
    with tracekit.open(tmp_path / "f.zst") as f:
        got = f.features("perfvec-ref").astype(np.float64)
    assert got.shape == (10442, 51)
    entropies = [16, 17]
    exact = [k for k in range(51) if k not in entropies]
    assert np.array_equal(got[:, exact], want[:, exact])
    np.testing.assert_allclose(got[:, entropies], want[:, entropies], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["mm", "lua_mix"])
def test_functional_rows_are_the_lines(shared, tmp_path, name):
    path = shared / "exec" / f"{name}.xz"
    tracekit.extract(path, tmp_path / "f.zst")
    with lzma.open(path) as f:
        found = re.findall(rb"^ *\d+: [^ ]+: 0x(\w+)", f.read(), re.M)
    pcs = [int(m, 16) for m in found]
    with tracekit.open(tmp_path / "f.zst") as f:
        assert f["pc"].tolist() == pcs
        assert not f.timed and f.size / len(f) <= 2.5
        with pytest.raises(tracekit.TracekitError, match="no row of the trace has times"):
            f.targets()


def test_faults_from_text_are_those_of_the_blocks(shared, tmp_path):
    """features.md's rule, on a trace that has both: without its blocks the same rows fault."""
    source = shared / "text" / "qsort.x86.8w.full.xz"
    tracekit.extract(source, tmp_path / "full.zst")
    with lzma.open(source, "rt") as f:
        lines = f.read().splitlines(keepends=True)
    functional = (re.sub(r"  FetchSeq=\d+", "", x) for x in lines if not x.startswith("O3PipeView"))
    (tmp_path / "t").write_text("".join(functional))
    tracekit.extract(tmp_path / "t", tmp_path / "exec.zst")
    with tracekit.open(tmp_path / "full.zst") as f, tracekit.open(tmp_path / "exec.zst") as g:
        assert np.array_equal(f["fault"], g["fault"])
        assert np.array_equal(f["taken"], g["taken"])
        assert np.array_equal(f.features("perfvec"), g.features("perfvec"))


def test_jobs(shared, tmp_path, capsys):
    inputs = [str(shared / "text" / f"{n}.xz") for n in TEXTS[:2]]
    assert main(["extract", *inputs, "-o", f"{tmp_path}/out/", "--jobs", "2", "--quiet"]) == 0
    for n in TEXTS[:2]:
        one = tmp_path / "one.zst"
        tracekit.extract(shared / "text" / f"{n}.xz", one, force=True)
        with tracekit.open(one) as f, tracekit.open(tmp_path / "out" / f"{n}.feats.zst") as g:
            assert np.array_equal(f.features("perfvec"), g.features("perfvec"))
