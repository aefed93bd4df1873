"""Joined files: one copy of the features, targets on many machines, batches of windows."""

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pytest
import synthetic
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.cli.main import main
from tracekit.dataset import Dataset, batches, read_cycles
from tracekit.dataset.joining import join
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.store import targets

ROWS = 700


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Timed traces x, y of one program (y is shorter), another program z, and arrays for x."""
    folder = tmp_path_factory.mktemp("dataset")
    for name, seed, rows in (("x", 3, ROWS), ("y", 3, 400), ("z", 4, ROWS)):
        (folder / f"{name}.txt").write_text(synthetic.text(seed, rows))
        tracekit.extract(str(folder / f"{name}.txt"), str(folder / f"{name}.zst"), chunk_rows=256)
    with tracekit.open(folder / "x.zst") as t:
        n = len(t)
    r = np.random.default_rng(0)
    cycles = r.integers(0, 300, (3, n)).astype(np.uint16)
    np.save(folder / "three.npy", cycles)
    buffer = io.BytesIO()
    np.save(buffer, cycles)
    (folder / "three.npy.zst").write_bytes(zstandard.compress(buffer.getvalue()))
    return folder


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.integers(1, 50),
    st.integers(1, 6),
    st.sampled_from([10, 255, 256, 70_000, 2**32 - 1]),
    st.sampled_from(["u1", "u2", "u4", "f8", "fraction"]),
)
def test_blocks_decode_to_what_was_encoded(seed, rows, machines, largest, kind):
    r = np.random.default_rng(seed)
    values = r.integers(0, largest + 1, (rows, machines)).astype(np.float64)
    if kind == "fraction":
        values = (values / 3).astype(np.float32).astype(np.float64)
    elif kind != "f8":
        values = np.minimum(values, np.iinfo(kind).max).astype(kind)
    found, streams = targets.encode(values)
    plane = targets.plane(found, streams, values.size, "here")
    length = int(r.integers(1, rows + 1))
    starts = r.integers(0, rows - length + 1, 5)
    out = np.empty((5, length, machines), "f4" if found == "f4" else "u4")
    plane.take(starts, out)
    assert all(np.array_equal(o, values[a : a + length]) for o, a in zip(out, starts, strict=True))
    for bad in (-1, rows - length + 1):
        with pytest.raises(IndexError):
            plane.take(np.array([bad]), out[:1])
    with pytest.raises(FormatError):
        targets.plane(found, streams, values.size + 1, "here")
    if found == "u1":
        with pytest.raises(FormatError):
            targets.plane(found, {**streams, "far": streams["far"] + bytes(4)}, values.size, "here")


def test_arrays_beside_the_features(data, tmp_path):
    for name in ("three.npy", "three.npy.zst"):
        out = tmp_path / f"{name}.zst"
        report = join(str(data / "x.zst"), [f"a,b,c={data / name}"], str(out))
        want = np.load(data / "three.npy").T
        with Dataset(out) as d, tracekit.open(data / "x.zst") as x:
            assert report["rows"] == len(d) == len(x) and d.machines == ("a", "b", "c")
            assert d.blocks == x.chunks > 1 and d.dtype == np.uint16
            assert np.array_equal(d.cycles(), want)
            assert np.array_equal(d.cycles((200, 600)), want[200:600])
            assert np.array_equal(d.features("perfvec"), x.features("perfvec"))
            breaks = np.array([0, 3, 300, 300, len(d)])
            sums = [want[a:b].sum(axis=0) for a, b in itertools.pairwise(breaks)]
            assert np.array_equal(d.sums(breaks), sums)
            assert np.array_equal(d.trace["pc"], x["pc"])  # it still is a trace
        assert main(["verify", str(out)]) == 0


def test_traces_are_compared_pc_by_pc(data, tmp_path, capsys):
    x, y, z = (str(data / f"{n}.zst") for n in "xyz")
    out = str(tmp_path / "j.zst")
    assert main(["join", x, "--target", f"u={x}", "-o", out]) == 0
    with Dataset(out) as d, tracekit.open(x) as t:
        assert d.cycles()[:, 0] == pytest.approx(t.targets("cycles"))
    assert main(["join", x, "--target", f"u={x}", "-o", out]) == 1  # it exists
    capsys.readouterr()
    arguments = ["join", x, "--target", f"u={x}", "--target", f"v={y}", "-o", out, "--force"]
    assert main([*arguments, "--json"]) == 0
    said = capsys.readouterr()
    report = json.loads(said.out)
    with tracekit.open(x) as t, tracekit.open(y) as s, Dataset(out) as d:
        n = min(len(t), len(s))
        same = (t["pc"][:n] == s["pc"][:n]) & (t["upc"][:n] == s["upc"][:n])
        common = n if same.all() else int(same.argmin())
        assert report["rows"] == len(d) == common < report["feature_rows"] == len(t)
        assert f"part from the features' at row {common}" in said.err
        assert np.array_equal(d.cycles()[:, 1], s.targets("cycles", (0, common)))
        with pytest.raises(UsageError, match="are not within"):
            d.features("perfvec", (0, common + 1))
    assert main(["verify", out]) == 0
    capsys.readouterr()
    assert main(["info", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"]["machines"] == ["u", "v"]
    assert main([*arguments, "--strict"]) == 1
    assert main(["join", x, "--target", f"v={z}", "-o", out, "--force", "--strict"]) == 1
    assert main(["join", out, "--target", f"v={x}", "-o", str(tmp_path / "k.zst")]) == 2
    assert main(["join", x, "--target", f"u={x}", "--target", f"u={x}", "-o", out]) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["j.zst"]


def test_bad_cycles_are_found_before_training(data, tmp_path):
    good = np.load(data / "three.npy").astype(np.float32)
    rows = good.shape[1]
    names = ("a", "b", "c")

    def refuse(match: str, array: np.ndarray, machines: tuple[str, ...] = names) -> None:
        np.save(tmp_path / "t.npy", array)
        with pytest.raises(FormatError, match=match):
            read_cycles(tmp_path / "t.npy", machines, rows)

    for value in (np.nan, np.inf, -1.0):
        bad = good.copy()
        bad[1, 300] = value
        refuse(f"b, row 300: target {value}", bad)
    refuse("c: every target is 0", good * [[1], [1], [0]])
    refuse("rows; the features have", good[:, 1:])
    refuse(r"cycles of 3 machines; 2 are named: a, b$", good, ("a", "b"))
    refuse(r"3 machines; 1 is named: a \(the cycles.* row K of it: array\[K\]\)", good, ("a",))
    refuse(r"1 is named: a \(it is rows x.* column K of it: array\[:, K\]\)", good.T, ("a",))
    refuse(r"2 are named: a, b \(it is rows x machines, as .* writes it\)$", good.T, ("a", "b"))
    refuse("machines x rows .*transpose", good.T)
    refuse("array of numbers", np.zeros((3, rows), bool))
    refuse("array of numbers", np.zeros(3, "U3"))
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(FormatError):
        read_cycles(tmp_path / "o.npy", ("a",), 1)
    (tmp_path / "bomb.npy.zst").write_bytes(zstandard.compress(bytes(1 << 22)))
    with pytest.raises(FormatError, match="more than"):
        read_cycles(tmp_path / "bomb.npy.zst", ("a",), 100)
    with pytest.raises(FormatError, match="no targets"):
        Dataset(data / "x.zst")


def test_a_damaged_index_of_targets_is_refused(data, tmp_path):
    out = tmp_path / "d.zst"
    join(str(data / "x.zst"), [f"a,b,c={data / 'three.npy'}"], str(out))
    whole = out.read_bytes()
    with Dataset(out) as d:
        index, at = d.trace.index, d.trace.index_offset
    from tracekit.store import frames

    def refuse(change) -> None:
        broken = json.loads(json.dumps(index))
        change(broken["targets"])
        frame = frames.json_frame(frames.INDEX, broken)
        out.write_bytes(whole[:at] + frame + frames.trailer_frame(at, len(frame)))
        with pytest.raises(TracekitError):
            Dataset(out).cycles()

    refuse(lambda t: t.update(machines=["a", "a", "c"]))
    refuse(lambda t: t.update(machines=["a", "b"]))
    refuse(lambda t: t.update(machines=[]))
    refuse(lambda t: t.update(rows=10**9))
    refuse(lambda t: t.update(rows=1))
    refuse(lambda t: t.update(dtype="O"))
    refuse(lambda t: t["blocks"].pop())
    refuse(lambda t: t["blocks"][0].update(kind="f4"))
    refuse(lambda t: t["blocks"][0].pop("far"))
    refuse(lambda t: t["blocks"][0].update(far=t["blocks"][1]["far"]))
    refuse(lambda t: t["blocks"][0]["cycles"].__setitem__(0, 10**12))
    refuse(lambda t: t["blocks"][0]["cycles"].__setitem__(2, 10**12))
    for position in range(at - 60, at, 7):
        out.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        assert main(["verify", str(out)]) == 1


def test_batches_hold_every_window_once(data, tmp_path):
    paths = []
    for name in ("x", "x2"):
        paths.append(tmp_path / f"{name}.zst")
        join(str(data / "x.zst"), [f"a,b,c={data / 'three.npy'}"], str(paths[-1]))
    files = [Dataset(p) for p in paths]
    want = {}
    for k in range(files[0].blocks):
        begin, end = files[0].block_range(k)
        for a in range(begin, end - 31, 32):
            key = files[0].cycles((a, a + 32)).tobytes()
            want[key] = files[0].features("perfvec", (a, a + 32)).tobytes()
    orders = []
    for shuffle in (None, 1, 1, 2):
        found = []
        for x, y in batches(files, "perfvec", 32, 5, shuffle=shuffle):
            assert x.shape[1:] == (32, 51) and y.shape[1:] == (32, 3) and len(x) == len(y) <= 5
            found += [(b.tobytes(), a.tobytes()) for a, b in zip(x, y, strict=True)]
        assert len(found) == 2 * len(want)
        assert all(want[y] == x for y, x in found)
        orders.append([y for y, _ in found])
    assert orders[1] == orders[2] != orders[0] and orders[3] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    # What is held, or a view of it, stays what it is; what is not is written again.
    places, held = set(), []
    for k, (x, y) in enumerate(batches(files, "perfvec", 32, 1)):
        places.add(x.ctypes.data)
        if k < 3:
            held.append((x[0, 3:], x[0, 3:].copy(), y[:, :, 1], y[:, :, 1].copy()))
    assert all(np.array_equal(a, b) and np.array_equal(c, d) for a, b, c, d in held)
    assert len(places) <= 3 + 3
    with pytest.raises(UsageError):
        next(batches(files, "perfvec", 0))
    with pytest.raises(UsageError, match="no window of 100,000 rows: the longest chunk has"):
        next(batches(files, "perfvec", 100_000))
    with pytest.raises(UsageError, match="a seed"):
        next(batches(files, "perfvec", 32, shuffle=-1))
