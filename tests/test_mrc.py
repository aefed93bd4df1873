"""Miss ratio curves against simulated caches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import synthetic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.analysis import mrc
from tracekit.cli.main import main
from tracekit.errors import UsageError


def lru_misses(lines: list[int], size: int) -> int:
    cache: list[int] = []
    misses = 0
    for line in lines:
        if line in cache:
            cache.remove(line)
        else:
            misses += 1
        cache.append(line)
        del cache[:-size]
    return misses


@settings(max_examples=100)
@given(st.lists(st.integers(0, 12), max_size=120))
def test_against_simulated_caches(lines: list[int]) -> None:
    curve = tracekit.miss_ratio_curve(tracekit.stack_distance(lines))
    assert curve.accesses == len(lines)
    for size in range(1, 16):
        want = lru_misses(lines, size) / max(len(lines), 1)
        assert curve.at(size) == pytest.approx(want)
    sizes = [1, 3, 8]
    given_sizes = tracekit.miss_ratio_curve(tracekit.stack_distance(lines), sizes)
    assert given_sizes.ratios.tolist() == [float(curve.at(s)) for s in sizes]
    assert curve.at(0) == 1


def test_zeros_are_no_accesses_and_the_cap_is_a_miss() -> None:
    curve = mrc.miss_ratio_curve(np.array([0, 1, 0, 2, tracekit.NEVER, 2**32 - 1], np.uint32))
    assert (curve.accesses, curve.cold) == (4, 0.5)
    assert curve.lines.tolist() == [1, 2]
    assert curve.ratios.tolist() == [0.75, 0.5]


def test_no_accesses() -> None:
    curve = mrc.miss_ratio_curve(np.zeros(3, np.uint32))
    assert (curve.accesses, curve.cold, curve.lines.tolist()) == (0, 0.0, [1])


@pytest.mark.parametrize("sizes", [[0], [2, 1], [1, 1], [[1]]])
def test_bad_sizes(sizes: list[int]) -> None:
    with pytest.raises(UsageError):
        mrc.miss_ratio_curve([1], sizes)


def test_bad_distances() -> None:
    for bad in ([[1]], [0.5], [-1]):
        with pytest.raises(UsageError):
            mrc.miss_ratio_curve(bad)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(tmp_path, suffix: str) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve.{suffix}"
    mrc.plot({"data": mrc.miss_ratio_curve([1, 2, 5, tracekit.NEVER])}, path)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"<?xm")
    with pytest.raises(UsageError):
        mrc.plot({}, tmp_path / "curve.bmp")


def test_size_names() -> None:
    assert [mrc.size_name(s) for s in (64, 1024, 98304, 1 << 20)] == [
        "64 B",
        "1 KiB",
        "96 KiB",
        "1 MiB",
    ]


# ---- of files


def lackey(folder: Path, accesses: list[tuple[int, int]], **options: object) -> Path:
    """A file of one access a row: (address, size), whose instruction stands where its size says."""
    text = "".join(f"I  {0x400000 + 16 * s:x},4\n L {a:x},{s}\n" for a, s in accesses)
    (folder / "in").write_text("I  00400000,4\n" * 4 + text)
    tracekit.extract(folder / "in", folder / "f.zst", level="macro", force=True, **options)
    return folder / "f.zst"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0x10000, 0x10400), st.integers(1, 200)), min_size=4, max_size=60
    ),
    st.sampled_from([16, 64]),
    st.integers(1, 100),
)
def test_every_line_of_an_access_counts(
    tmp_path: Path, accesses: list[tuple[int, int]], line: int, at_once: int
) -> None:
    place = lackey(tmp_path, accesses, line_bytes=line)
    touched = [n for a, s in accesses for n in range(a // line, (a + s - 1) // line + 1)]
    with tracekit.open(place) as f, pytest.MonkeyPatch.context() as patch:
        patch.setattr(mrc, "_AT_ONCE", at_once)
        counts = mrc.data_counts(f)
    assert counts.accesses == len(touched)
    for size in (1, 2, 3, 5, 8, 16, 64):
        assert counts.curve([size]).ratios[0] * len(touched) == pytest.approx(
            lru_misses(touched, size)
        )


def test_an_access_at_the_end_of_the_addresses(tmp_path: Path) -> None:
    place = lackey(tmp_path, [(2**64 - 4, 8), (2**64 - 4, 4)] * 3)
    with tracekit.open(place) as f:
        assert mrc.data_counts(f).accesses == 6  # what is behind the end is nowhere


def test_fetches_are_those_of_the_column_over_chunks(tmp_path: Path) -> None:
    (tmp_path / "in").write_text(synthetic.text(2, 3000))
    tracekit.extract(tmp_path / "in", tmp_path / "f.zst", chunk_rows=256)
    with tracekit.open(tmp_path / "f.zst") as f:
        whole = mrc.miss_ratio_curve(f["fetch_distance"])
        pieces = mrc.fetch_counts(f).curve()
    assert whole.lines.tolist() == pieces.lines.tolist()
    assert whole.ratios.tolist() == pieces.ratios.tolist()
    assert (whole.accesses, whole.cold) == (pieces.accesses, pieces.cold)


def test_the_output_says_what_an_access_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = lackey(tmp_path, [(0x1003C, 8), (0x1003C, 8)])
    assert main(["mrc", str(place), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["data"]["accesses"] == 4 and out["data"]["cold"] == 0.5
    assert out["access"] == mrc.ACCESSES
    assert main(["mrc", str(place)]) == 0
    assert "an access is each line that a row's access touches" in capsys.readouterr().out
