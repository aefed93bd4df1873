"""The format of PerfVec's authors, on the first rows of their own trace: their own features come
out."""

from __future__ import annotations

import hashlib
import lzma

import numpy as np
import pytest

import tracekit

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
