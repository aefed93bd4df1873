"""The format of PerfVec's authors, on the first rows of their own trace: their own features come
out."""

from __future__ import annotations

import hashlib
import lzma

import numpy as np
import pytest

import tracekit
from tracekit.store.instruction_bounds import instruction_count

ENTROPIES = (16, 17)  # their logarithms round differently
#: Of columns of the file, as they are read: the start of the SHA-256.
COLUMNS = {
    "pc": "77f7a688cd9b",
    "op": "ce1ca9bc0a9b",
    "branch": "bef6ebeabf29",
    "taken": "dfd8071ea482",
    "fault": "1dc9ccbef792",
    "addr": "e9a1f00327d6",
    "access_size": "bc729bdf6b1b",
    "fetch": "472e14bacbcd",
    "retire": "3fba6dcbb4d0",
    "store": "fb5c0bfa3a78",
}


@pytest.fixture(scope="module")
def trace(golden, tmp_path_factory):
    folder = tmp_path_factory.mktemp("authors")
    for name in ("trace.txt", "trace.sq.txt"):
        packed = (golden / "perfvec_authors" / f"{name}.xz").read_bytes()
        (folder / name).write_bytes(lzma.decompress(packed))
    result = tracekit.extract(str(folder / "trace.txt"), str(folder / "feats.zst"))
    assert result.anomalies == {}
    with tracekit.open(str(folder / "feats.zst")) as f:
        yield f


def test_features_are_the_authors(golden, trace):
    text = lzma.decompress((golden / "perfvec_authors" / "trace.in.xz").read_bytes())
    want = np.array(text.split(), np.float64).reshape(-1, 51)
    got = trace.features("perfvec-ref").astype(np.float64)
    assert got.shape == want.shape == (1500, 51)
    exact = [k for k in range(51) if k not in ENTROPIES]
    assert np.array_equal(got[:, exact], want[:, exact])
    np.testing.assert_allclose(got[:, ENTROPIES], want[:, ENTROPIES], atol=1e-6, rtol=0)


def test_columns_are_what_they_were(trace):
    for name, want in COLUMNS.items():
        data = np.ascontiguousarray(trace[name]).tobytes()
        assert hashlib.sha256(data).hexdigest()[:12] == want, name


def test_blanks_of_every_kind(golden, trace, tmp_path):
    """Tabs between the numbers, and lines that end as on Windows."""
    for name in ("trace.txt", "trace.sq.txt"):
        text = lzma.decompress((golden / "perfvec_authors" / f"{name}.xz").read_bytes()).decode()
        lines = [line.split(" ", 12) for line in text.splitlines()]
        lines = [" ".join(w[:-1]) + " " + w[-1].replace(" ", "\t") for w in lines]
        (tmp_path / name).write_bytes("\r\n".join([*lines, ""]).encode())
    result = tracekit.extract(str(tmp_path / "trace.txt"), str(tmp_path / "f.zst"))
    assert result.anomalies == {}
    with tracekit.open(str(tmp_path / "f.zst")) as f:
        for name in COLUMNS:
            assert np.array_equal(f[name], trace[name]), name


def test_kinds_of_branches(golden, trace, tmp_path):
    """By the three flags that a line has; an indirect one that is conditional, too."""
    text = lzma.decompress((golden / "perfvec_authors" / "trace.txt.xz").read_bytes()).decode()
    lines, made = text.splitlines(), []
    kinds = {(1, 0, 1): "conditional", (0, 1, 1): "jump", (1, 0, 0): "indirect_conditional",
             (0, 1, 0): "indirect", (0, 0, 0): "none", (0, 0, 1): "none"}  # fmt: skip
    for k, line in enumerate(lines):
        words = line.split()
        if len(words) < 40:  # a store's: the rest is in the other file
            made.append(line)
            continue
        cond, uncond, direct = list(kinds)[k % len(kinds)]
        words[9 + 2 : 9 + 5] = str(cond), str(uncond), str(direct)
        words[9 + 27] = str(0x400000 + 4 * k)
        made.append(" ".join(words))
    (tmp_path / "trace.txt").write_text("\n".join([*made, ""]))
    stores = lzma.decompress((golden / "perfvec_authors" / "trace.sq.txt.xz").read_bytes())
    (tmp_path / "trace.sq.txt").write_bytes(stores)
    tracekit.extract(str(tmp_path / "trace.txt"), str(tmp_path / "f.zst"))
    with tracekit.open(str(tmp_path / "f.zst")) as f:
        assert not f["complete"].any()  # not in this format
        of = f["static_id"]
        indirect, control = (f.statics.has(n)[of] for n in ("IsIndirectControl", "IsControl"))
        for k in range(len(lines)):
            if len(lines[k].split()) >= 40:
                kind = list(kinds.values())[k % len(kinds)]
                assert tracekit.schema.BRANCH_KINDS[f["branch"][k]] == kind
                assert bool(control[k]) == (kind != "none")
                assert bool(indirect[k]) == kind.startswith("indirect")


def test_damage_has_its_place_in_the_file(golden, tmp_path):
    """Far behind the first block that was read."""
    for name in ("trace.txt", "trace.sq.txt"):
        packed = (golden / "perfvec_authors" / f"{name}.xz").read_bytes()
        text = lzma.decompress(packed)
        text *= (5 << 20) // len(text) if name == "trace.txt" else (1 << 20) // len(text)
        if name == "trace.txt":
            at = len(text)
            text += b"no row\n"
        (tmp_path / name).write_bytes(text)
    result = tracekit.extract(str(tmp_path / "trace.txt"), str(tmp_path / "f.zst"))
    assert result.anomalies["malformed_line"] == {"count": 1, "first_offset": at}


@pytest.mark.parametrize("lost", ["instruction", "store", "number"])
@pytest.mark.parametrize("at", [0, 17, 200])
def test_a_lost_line_costs_its_own_row_alone(golden, trace, tmp_path, lost, at):
    """Of the two lines of a store the other one is left out, too, and no pair is parted."""
    main, stores = (
        lzma.decompress((golden / "perfvec_authors" / f"{name}.xz").read_bytes()).splitlines()
        for name in ("trace.txt", "trace.sq.txt")
    )
    of_stores = [k for k, line in enumerate(main) if len(line.split()) < 40]
    row = of_stores[at]
    if lost == "instruction":
        del main[row]
    elif lost == "store":
        del stores[at]
    else:
        words = stores[at].split()
        stores[at] = b" ".join([*words[:2], b"9" * 18, *words[3:]])
    (tmp_path / "trace.txt").write_bytes(b"\n".join([*main, b""]))
    (tmp_path / "trace.sq.txt").write_bytes(b"\n".join([*stores, b""]))
    result = tracekit.extract(str(tmp_path / "trace.txt"), str(tmp_path / "f.zst"))
    found = {k: a["count"] for k, a in result.anomalies.items()}
    wanted = {"store_missing"} if lost != "instruction" else set()
    wanted |= {"store_without_instruction"} if lost != "store" else set()
    assert found == dict.fromkeys(wanted, 1)
    kept = np.arange(len(trace)) != row
    with tracekit.open(str(tmp_path / "f.zst")) as f:
        assert len(f) == len(trace) - 1
        for name in ("pc", "addr", "fetch", "store", "taken"):
            assert np.array_equal(f[name], trace[name][kept]), name


def test_micro_ops_of_one_pc_are_one_instruction(golden, trace, tmp_path):
    """The format numbers no micro-ops; the macro level and the count of instructions agree."""
    for name in ("trace.txt", "trace.sq.txt"):
        packed = (golden / "perfvec_authors" / f"{name}.xz").read_bytes()
        (tmp_path / name).write_bytes(lzma.decompress(packed))
    tracekit.extract(tmp_path / "trace.txt", tmp_path / "m.zst", level="macro")
    ids = trace["static_id"]
    micro, pc = trace.statics.has("IsMicroop")[ids], trace["pc"]
    same, taken, fault = pc[1:] == pc[:-1], trace["taken"][:-1] != 0, trace["fault"][:-1] != 0
    parts = same & (fault | (micro[1:] & micro[:-1] & ~taken))  # what trapped is tried again
    begins = np.append(True, ~parts)
    with tracekit.open(tmp_path / "m.zst") as macro:
        assert len(macro) == begins.sum() == instruction_count(trace) < len(trace)
        assert np.array_equal(macro["pc"], pc[begins])
