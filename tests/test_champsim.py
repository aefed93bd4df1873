"""ChampSim's records: read, written, read again."""

from __future__ import annotations

import gzip
import itertools
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit._core import ChampsimParser, EncodingTable, NativeBatch
from tracekit.cli.main import main
from tracekit.errors import TracekitError
from tracekit.exporting.champsim import RECORD, write_champsim
from tracekit.inputs.native import NativeConverter
from tracekit.inputs.native_sources import recognise

GOLDEN = Path(__file__).parent / "golden" / "drmemtrace"
SP, FLAGS, IP, RAX = 6, 25, 26, 10
CLOUDSUITE = np.dtype(
    [
        ("ip", "<u8"),
        ("is_branch", "u1"),
        ("taken", "u1"),
        ("dst", "u1", 4),
        ("src", "u1", 4),
        ("", "V6"),
        ("dst_mem", "<u8", 4),
        ("src_mem", "<u8", 4),
        ("asid", "u1", 2),
        ("", "V6"),
    ]
)
assert RECORD.itemsize == 64 and CLOUDSUITE.itemsize == 96


def read(
    data: bytes, cuts: list[int] | None = None, *, wide: bool = False
) -> tuple[EncodingTable, NativeBatch]:
    table = EncodingTable()
    parser = ChampsimParser(table, wide)
    batches = []
    edges = [0, *sorted(cuts or []), len(data)]
    for lo, hi in itertools.pairwise(edges):
        parser.feed(data[lo:hi])
        batches.append(parser.take())
    parser.finish()
    return table, NativeBatch.joined([(b, 0, len(b), False) for b in batches])


@st.composite
def traces(draw: st.DrawFn) -> np.ndarray:
    """Records whose registers stand at the front, each once, as every writer leaves them."""
    n = draw(st.integers(1, 20))
    out = np.zeros(n, RECORD)
    address = st.sampled_from([0, 0x7FFF0000, 0x1234567890])
    for i in range(n):
        r = out[i]
        r["ip"] = 0x400000 + 4 * draw(st.integers(0, 5))
        kind = draw(st.sampled_from(sorted(BRANCHES)))
        dst, src = BRANCHES[kind]
        if kind == "none":
            regs = st.lists(st.sampled_from([3, 10, 18, SP, FLAGS, 40, 200]), unique=True)
            dst, src = draw(regs)[:2], draw(regs)[:4]
        r["dst"][: len(dst)], r["src"][: len(src)] = dst, src
        r["is_branch"] = kind != "none"
        r["taken"] = kind not in ("none", "conditional") or (
            kind == "conditional" and draw(st.booleans())
        )
        for field in ("src_mem", "dst_mem"):
            values = [a for a in draw(st.lists(address, max_size=r[field].size)) if a]
            r[field][: len(values)] = values
    return out


BRANCHES: dict[str, tuple[list[int], list[int]]] = {
    "none": ([], []),
    "jump": ([IP], [IP]),
    "conditional": ([IP], [IP, FLAGS]),
    "indirect": ([IP], [RAX]),
    "call": ([IP, SP], [IP, SP]),
    "indirect_call": ([IP, SP], [IP, SP, RAX]),
    "ret": ([IP, SP], [SP]),
}


@settings(max_examples=60)
@given(traces(), st.lists(st.integers(0, 1200), max_size=6))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, trace: np.ndarray, cuts: list[int]
) -> None:
    data = trace.tobytes()
    folder = tmp_path_factory.mktemp("champsim")
    (folder / "a.champsim").write_bytes(data)
    written = write_champsim(folder / "a.champsim", folder / "b.champsim")
    assert (folder / "b.champsim").read_bytes() == data
    assert written.records == len(trace) and not written.dropped
    # What is read is what stands there, wherever the pieces are cut.
    table, batch = read(data, [c for c in cuts if c <= len(data)])
    assert (table.pcs()[batch.encoding] == trace["ip"]).all()
    assert batch.address.tolist() == [
        int(a) for r in trace for a in (*r["src_mem"], *r["dst_mem"]) if a
    ]
    assert ((batch.bits & 1) == trace["taken"]).all()


@pytest.mark.parametrize("kind", sorted(BRANCHES))
def test_kind_of_branch(kind: str) -> None:
    trace = np.zeros(1, RECORD)
    dst, src = BRANCHES[kind]
    trace["ip"], trace["dst"][0, : len(dst)], trace["src"][0, : len(src)] = 8, dst, src
    trace["is_branch"] = kind != "none"
    table, batch = read(trace.tobytes())
    converter = NativeConverter(table, arch="unknown", described="champsim")
    converter.convert(batch)
    columns = converter.source.table().columns()
    kinds = ("none", "conditional", "jump", "call", "indirect", "indirect_call", "ret")
    assert kinds[columns["branch"][0]] == kind
    # The instruction pointer is no operand; the others keep their meaning.
    want = {10: (0, 0), SP: (0, 4), FLAGS: (5, 0)}
    regs = zip(columns["src_class"][0].tolist(), columns["src_index"][0].tolist(), strict=True)
    assert [r for r in regs if r[0] != 255] == [want[r] for r in src if r != IP]


def kind_by_champsim(dst: set[int], src: set[int], marked: bool) -> str:
    """inc/instruction.h and src/champsim.cc's rules; what has no name there is conditional."""
    if IP not in dst:
        return "conditional" if marked else "none"
    sp, ip, flags, other = SP in src, IP in src, FLAGS in src, bool(src - {SP, IP, FLAGS})
    if not sp and not flags and not other:
        return "jump"
    if not sp and not ip and not flags and other:
        return "indirect"
    if not sp and ip and SP not in dst:
        return "conditional"
    if sp and ip and SP in dst and not flags:
        return "indirect_call" if other else "call"
    return "ret" if sp and not ip and SP in dst else "conditional"


def test_every_set_of_registers() -> None:
    cases = [
        (dst, src, marked)
        for n in range(3)
        for dst in itertools.combinations((IP, SP, RAX), n)
        for m in range(5)
        for src in itertools.permutations((SP, IP, FLAGS, RAX), m)
        for marked in (False, True)
    ]
    trace = np.zeros(len(cases), RECORD)
    for r, (dst, src, marked) in zip(trace, cases, strict=True):
        r["dst"][: len(dst)], r["src"][: len(src)], r["is_branch"] = dst, src, marked
    trace["ip"] = 16 * np.arange(1, len(cases) + 1)
    table, batch = read(trace.tobytes())
    converter = NativeConverter(table, arch="unknown", described="champsim")
    converter.convert(batch)
    kinds = ("none", "conditional", "jump", "call", "indirect", "indirect_call", "ret")
    columns = converter.source.table().columns()
    found = dict(zip(columns["pc"].tolist(), columns["branch"].tolist(), strict=True))
    for pc, (dst, src, marked) in zip(trace["ip"].tolist(), cases, strict=True):
        assert kinds[found[pc]] == kind_by_champsim(set(dst), set(src), marked), (dst, src, marked)


def test_cloudsuite() -> None:
    trace = np.zeros(3, CLOUDSUITE)
    trace["ip"] = [4, 8, 4]
    trace["dst"][0], trace["src"][0] = [3, 4, 5, 7], [8, 9, 10, 11]
    trace["dst_mem"][1], trace["src_mem"][1] = [1, 2, 3, 4], [5, 6, 7, 0]
    trace["asid"] = 1
    table, batch = read(trace.tobytes(), [95, 97], wide=True)
    assert table.pcs()[batch.encoding].tolist() == [4, 8, 4] and len(table) == 3
    assert batch.address.tolist() == [5, 6, 7, 1, 2, 3, 4]
    assert batch.is_store.tolist() == [0, 0, 0, 1, 1, 1, 1]
    source = recognise(trace.tobytes(), "x")
    assert source is not None and source.stats()["format"] == "cloudsuite"


def test_a_cut_record_is_counted() -> None:
    parser = ChampsimParser(EncodingTable(), False)
    parser.feed(bytes(100))
    parser.finish()
    assert len(parser.take()) == 1
    assert list(parser.anomalies) == ["the stream ends inside a record"]


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz", ".zst"])
def test_compressions(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"t.champsim{suffix}"
    write_champsim(GOLDEN, out)
    raw = out.read_bytes()
    if suffix == ".zst":
        import zstandard

        raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    elif suffix:
        raw = (lzma if suffix == ".xz" else gzip).decompress(raw)
    assert len(raw) == 64 * 36871
    write_champsim(out, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == raw


def test_from_a_feats_file_is_as_from_the_stream(tmp_path: Path) -> None:
    """At the macro level an instruction has its first address alone; all else is the same."""
    from tracekit.extraction import extract

    extract(GOLDEN, tmp_path / "f.zst", level="macro", threads="interleaved")
    write_champsim(GOLDEN, tmp_path / "a")
    from tracekit.exporting.columns import export

    export(tmp_path / "f.zst", tmp_path / "b", to="champsim")
    export(GOLDEN, tmp_path / "c", to="champsim")
    assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes()
    a, b = (np.frombuffer((tmp_path / n).read_bytes(), RECORD) for n in "ab")
    for field in ("ip", "is_branch", "taken", "dst", "src"):
        assert (a[field] == b[field]).all(), field
    loads = a["src_mem"][:, 0] != 0
    assert (a["src_mem"][loads, 0] == b["src_mem"][loads, 0]).all()


def test_features_of_a_champsim_file(tmp_path: Path) -> None:
    """Read back, a trace has the branches, addresses and distances of the stream it was made of."""
    from tracekit.extraction import extract
    from tracekit.store.reader import TraceFile

    extract(GOLDEN, tmp_path / "native", level="macro", threads="interleaved")
    write_champsim(GOLDEN, tmp_path / "t.champsim.xz")
    extract(tmp_path / "t.champsim.xz", tmp_path / "champsim", level="macro")
    with TraceFile(tmp_path / "native") as f, TraceFile(tmp_path / "champsim") as g:
        for name in (
            "pc",
            "taken",
            "fetch_distance",
            "branch",
            "window_before",
            "p_local",
            "p_global",
        ):
            assert (f[name] == g[name]).all(), name
        few = ~np.isin(f["pc"], f["pc"][f["addr"] != g["addr"]])
        assert (
            few.mean() > 0.9
        )  # `rep` strings and xsave have more accesses than a record has room for


def test_no_trace_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"some text that is no trace at all\n" * 9)
    with pytest.raises(TracekitError, match=r"neither a feats\.zst nor a native stream"):
        write_champsim(tmp_path / "x", tmp_path / "y")
    assert not (tmp_path / "y").exists()


def test_what_has_no_place_is_told(tmp_path, capsys):
    lines = ["I  1000,4", *(f" L 7ff{k}00,8" for k in range(6)), " S 7ff000,8", "I  1004,4", ""]
    (tmp_path / "t.lackey").write_text("\n".join(lines))
    out = tmp_path / "o.champsim"
    assert main(["export", str(tmp_path / "t.lackey"), "-o", str(out)]) == 0
    assert "o.champsim: 2 loads beyond four of an instruction" in capsys.readouterr().err
    assert len(out.read_bytes()) == 2 * 64
