"""Windows for other people's training code: plain, torch's, Hugging Face's; the page's own code."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.dataset import Windows
from tracekit.dataset.shards import taken
from tracekit.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("windows")
    out = []
    for seed, rows in ((1, 1500), (2, 900), (3, 70)):
        (folder / "t").write_text(synthetic.text(seed, rows))
        out.append(folder / f"{seed}.zst")
        tracekit.extract(folder / "t", out[-1], chunk_rows=256)
    return out


def keys(windows) -> Counter[bytes]:
    return Counter(x.tobytes() + y.tobytes() for x, y in windows)


def expected(files: list[Path], length: int, stride: int) -> Counter[bytes]:
    """By brute force."""
    out: Counter[bytes] = Counter()
    for path in files:
        with tracekit.open(path) as t:
            x, y = t.features("perfvec"), t.targets("cycles")
            edges = t.starts.tolist()
        for begin, end in itertools.pairwise(edges):
            for a in range(begin, end - length + 1, stride):
                out[x[a : a + length].tobytes() + y[a : a + length].tobytes()] += 1
    return out


@pytest.mark.parametrize(("length", "stride"), [(16, None), (16, 5), (200, None), (1, None)])
@pytest.mark.parametrize("shards", [1, 2, 5, 40])
def test_shards_have_every_window_once(files, length, stride, shards):
    w = Windows.of(files, length=length, stride=stride, shuffle=7)
    found = sum((keys(w.shard(3, k, shards)) for k in range(shards)), Counter())
    assert found == expected(files, length, stride or length)
    assert found.total() == w.count()


@pytest.mark.parametrize("shards", [1, 3])
def test_an_epoch_goes_on_anywhere(files, shards, monkeypatch):
    w = Windows.of(files, length=16, shuffle=7)
    for number in range(shards):
        whole = [x.tobytes() for x, _ in w.shard(2, number, shards)]
        assert len(whole) == w.counts(2, shards)[number]
        for skip in (0, 1, len(whole) // 2, len(whole) - 1, len(whole), len(whole) + 3):
            rest = [x.tobytes() for x, _ in w.shard(2, number, shards, skip)]
            assert rest == whole[skip:]
    read: list[object] = []
    real = tracekit.TraceFile.features
    monkeypatch.setattr(
        tracekit.TraceFile, "features", lambda *a, **k: read.append(a) or real(*a, **k)
    )
    assert sum(1 for _ in w.shard(2, skip=w.count() - 1)) == 1 and len(read) == 1


@settings(max_examples=60)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=4), st.integers(0, 30), st.integers(1, 5))
def test_what_a_loader_has_had_of_each_worker(counts, batches, size):
    """Against the loader's own loop: workers in turn, those that have ended left out."""
    left = [[min(size, n - a) for a in range(0, n, size)] for n in counts]
    had = [0] * len(counts)
    for _ in range(10_000):
        if not batches or not any(left):
            break
        for w, queue in enumerate(left):
            if queue and batches:
                had[w] += queue.pop(0)
                batches -= 1
    assert taken(counts, *_asked(counts, had, size, batches)) == had


def _asked(counts, had, size, left):
    """The batches that were asked for, of which ``left`` could not be had."""
    return sum(-(-h // size) for h in had) + left, size


def test_many_files_are_not_all_open(tmp_path, files):
    import shutil

    paths = []
    for k in range(40):
        paths.append(tmp_path / f"{k}.zst")
        shutil.copy(files[2], paths[-1])
    most = 0
    for _ in Windows.of(paths, length=16, shuffle=1).shard():
        fds = [os.path.realpath(n) for n in Path("/proc/self/fd").iterdir()]
        most = max(most, sum(f.startswith(str(tmp_path)) for f in fds))
    assert 1 <= most <= 17


@pytest.mark.parametrize("number", [0, 1])
def test_windows_of_files_elsewhere(files, number):
    """By address, as on this computer, also from the middle of a pass on."""
    fsspec = pytest.importorskip("fsspec", reason="needs the extra cluster")
    fs = fsspec.filesystem("memory")
    there = [f"memory://windows/{p.name}" for p in files]
    for p in files:
        fs.pipe(f"/windows/{p.name}", p.read_bytes())
    how = {"length": 16, "shuffle": 5}
    local, remote = Windows.of(files, **how), Windows.of(there, **how)
    assert remote.counts(2, 2) == local.counts(2, 2)
    here = [(x.tobytes(), y.tobytes()) for x, y in local.shard(2, number, 2)]
    for skip in (0, 7, len(here) - 1):
        found = remote.shard(2, number, 2, skip)
        assert [(x.tobytes(), y.tobytes()) for x, y in found] == here[skip:]
    fs.rm("/windows", recursive=True)


RESUMED = """
import importlib.util
from pathlib import Path
from torch.utils.data import DataLoader
from tracekit.train.torch_windows import TorchWindows

def key(batch):
    return [(float(x.sum()), float(y.sum())) for x, y in zip(*batch)]

if __name__ == "__main__":
    elsewhere = importlib.util.find_spec("fsspec") is not None
    for workers, path in ((0, "feats.zst"), (2, Path("feats.zst").resolve().as_uri())):
        if not elsewhere:
            path = "feats.zst"
        for ranks in (1, 2):
            for rank in range(ranks):
                how = dict(length=64, shuffle=1, rank=rank, ranks=ranks)
                make = lambda: TorchWindows([path], **how)
                data = make()
                loader = DataLoader(data, batch_size=4, num_workers=workers)
                data.set_epoch(3)
                whole = [key(b) for b in loader]
                for had in (0, 1, 5, len(whole) - 1):
                    again = make()
                    loader = DataLoader(again, batch_size=4, num_workers=workers)
                    again.go_on(3, had, 4, workers)
                    rest = [key(b) for b in loader]
                    flat = lambda bs: sorted(k for b in bs for k in b)
                    assert flat(rest) == flat(whole[had:]), (workers, ranks, had)
                    if had <= 5:
                        assert rest[0] == whole[had]
                    again.set_epoch(3)
                    assert [key(b) for b in loader] == whole
    print("resumed")
"""


def test_a_worker_s_place_is_kept_and_restored(files):
    pytest.importorskip("torch", reason="torch is not installed")
    from tracekit.train.torch_windows import TorchWindows

    data = TorchWindows(files, length=16, shuffle=7)
    data.set_epoch(2)
    whole = [x.numpy().tobytes() for x, _ in data]
    assert data.state_dict() == {"epoch": 2, "taken": len(whole)}
    some = iter(data)
    for _ in range(5):
        next(some)
    place = data.state_dict()
    assert [x.numpy().tobytes() for x, _ in data] == whole  # a pass that was left is no place
    other = TorchWindows(files, length=16, shuffle=7)
    other.load_state_dict(place)
    assert [x.numpy().tobytes() for x, _ in other] == whole[5:]
    assert [x.numpy().tobytes() for x, _ in other] == whole
    with pytest.raises(UsageError, match="go_on"):
        data.go_on(0, -1, 4)


def test_torch_goes_on_in_the_middle_of_a_pass(feats):
    pytest.importorskip("torch", reason="torch is not installed")
    assert run_code(feats, RESUMED) == "resumed\n"


def test_orders(files):
    w = Windows.of(files, length=16, shuffle=7)

    def order(windows: Windows, epoch: int) -> list[bytes]:
        return [x.tobytes() for x, _ in windows.shard(epoch)]

    first = order(w, 0)
    assert order(w, 0) == first != order(w, 1)
    assert order(Windows.of(files, length=16, shuffle=8), 0) != first
    plain = order(Windows.of(files, length=16), 0)
    assert plain == order(Windows.of(files, length=16), 5) != first
    assert sorted(plain) == sorted(first)


def test_arrays_may_be_written_to(files):
    for x, y in Windows.of(files, length=16).shard():
        x[:], y[:] = 1, 2
    with tracekit.open(files[0]) as t:
        for name in ("pc", "taken", "op", "retire"):
            plain, mine = t[name], t.column(name, writable=True)
            assert not plain.flags.writeable and mine.flags.writeable
            mine[:] = 0
            assert np.array_equal(t[name], plain)
        for unit in ("cycles", "ticks"):
            plain, mine = t.targets(unit), t.targets(unit, writable=True)
            assert not plain.flags.writeable and mine.flags.writeable
            assert np.array_equal(plain, mine)
        for x, y in t.windows("perfvec", 16, target="cycles", stride=3):
            x[:], y[:] = 1, 2


def test_wrong_calls(files):
    for bad in ({"length": 0}, {"stride": 0}):
        with pytest.raises(UsageError, match="at least 1"):
            Windows.of(files, **bad)
    with pytest.raises(UsageError, match="no file"):
        Windows.of([])
    with pytest.raises(UsageError, match="worker 2 of 2"):
        next(Windows.of(files).shard(0, 2, 2))
    for bad in ({"target": "cycle"}, {"features": "perf"}, {"shuffle": -1}):  # at once
        with pytest.raises(UsageError):
            Windows.of(files, **bad)


def page_code(*containing: str) -> str:
    page = (ROOT / "docs" / "training-elsewhere.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.S | re.M)
    return next(b for b in blocks if all(c in b for c in containing))


def run_code(folder: Path, code: str) -> str:
    """In a process of its own, as a script: workers are started."""
    script = folder / "script.py"
    script.write_text(code)
    paths = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "PYTHONPATH": paths, "HF_HOME": str(folder / "hf")}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def feats(tmp_path, golden) -> Path:
    tracekit.extract(golden / "lua.arm.trace.xz", tmp_path / "feats.zst", chunk_rows=1024)
    return tmp_path


def test_arrays_of_the_page(feats):
    code = page_code("tracekit.open", "writable=True")
    said = run_code(feats, f"{code}print(x.shape, y.flags.writeable, pc.flags.writeable)\n")
    assert said == "(1000, 51) True True\n"


def test_torch_of_the_page(feats):
    """Two workers, two epochs: every window once in each, in another order."""
    pytest.importorskip("torch", reason="torch is not installed")
    lines = run_code(feats, page_code("TorchWindows")).splitlines()
    sums = {0: [], 1: []}
    for line in lines:
        epoch, total = line.split(" (")[0], line.rsplit(" ", 1)[1]
        sums[int(epoch)].append(float(total))
    assert sums[0] != sums[1]
    assert (
        sum(sums[0])
        == pytest.approx(sum(sums[1]))
        == pytest.approx(sum(y.sum() for _, y in Windows.of([feats / "feats.zst"]).shard()))
    )


def test_torch_windows_are_the_windows(files):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from tracekit.train.torch_windows import TorchWindows

    data = TorchWindows(files, length=16, shuffle=7, target="ticks")
    data.set_epoch(2)
    plain = Windows.of(files, length=16, shuffle=7, target="ticks")
    for (x, y), (a, b) in zip(data, plain.shard(2), strict=True):
        assert x.dtype == torch.float32 and y.dtype == torch.int64
        assert np.array_equal(x.numpy(), a) and np.array_equal(y.numpy(), b)
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=2, persistent_workers=True
    )
    for epoch in (0, 5):
        data.set_epoch(epoch)
        found = Counter(x.numpy().tobytes() + y.numpy().tobytes() for x, y in loader)
        assert found == keys(plain.shard(epoch))
        first = next(iter(plain.shard(epoch, 0, 2)))[0]
        assert any(np.array_equal(x.numpy(), first) for x, _ in [next(iter(loader))])
    ranks = [TorchWindows(files, length=16, rank=k, ranks=3) for k in range(3)]
    both = sum((Counter(x.numpy().tobytes() for x, _ in r) for r in ranks), Counter())
    assert both == Counter(x.tobytes() for x, _ in Windows.of(files, length=16).shard())


def test_datasets_of_the_page(feats):
    pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    code = page_code("from_generator")
    said = run_code(feats, f"{code}print(len(data), sum(map(sum, data['cycles'])))\n")
    with tracekit.open(feats / "feats.zst") as t:
        windows = [y for _, y in t.windows("perfvec", 256, target="cycles")]
    count, total = said.splitlines()[-1].split()
    assert int(count) == len(windows)
    assert float(total) == pytest.approx(sum(y.sum() for y in windows))


def test_windows_that_no_chunk_has_are_refused(files):
    for windows in (Windows.of(files, length=10**9), Windows.of(files[0], length=10**9)):
        with pytest.raises(UsageError, match="no window of 1,000,000,000 rows: the longest chunk"):
            windows.count()
    assert Windows.of(files[0], length=16).paths == (os.fspath(files[0]),)
