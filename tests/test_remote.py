"""Files elsewhere: the same bytes as from this computer, by ranges, whole or not at all, through a
server's bad moments, and never a password in what is said."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import lzma
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import synthetic
from faulty_server import FaultyServer

import tracekit
from tracekit.cli.main import main
from tracekit.errors import TracekitError, UsageError
from tracekit.inputs.blocks import Input
from tracekit.io import remote
from tracekit.io.output import OutputFile, check_output, write_bytes
from tracekit.io.remote import RemoteFile, open_remote, public_name, remote_url, upload

GOLDEN = Path(__file__).resolve().parent / "golden"
TRACE = GOLDEN / "strsort.riscv.trace.xz"
FEATS = GOLDEN / "feats-v1.zst"


# ---- addresses


@pytest.mark.parametrize(
    "given, url",
    [
        ("s3://traces/x.zst", "s3://traces/x.zst"),
        (Path("s3://traces/x.zst"), "s3://traces/x.zst"),
        ("simplecache::https://h/x", "simplecache::https://h/x"),
        (Path("gs://b/a/b"), "gs://b/a/b"),
        ("/tmp/x", None),
        ("a:b/c", None),
        ("x.zst", None),
        ("-", None),
        ("S3:/x", None),
        (Path("odd:/x"), None),
    ],
)
def test_what_is_an_address(given, url):
    assert remote_url(given) == url


def test_nothing_secret_is_shown():
    url = "https://user:pass@host/a/b.zst?X-Amz-Signature=secret#pass"
    assert public_name(url) == "https://host/a/b.zst?..."
    assert remote.redacted(f"failed for url ('{url}') twice") == (
        "failed for url ('https://host/a/b.zst?...') twice"
    )
    assert public_name("/a?b@c") == "/a?b@c"
    assert public_name("sftp://user:p@ss@host/a@b.zst") == "sftp://host/a@b.zst"


def test_without_fsspec_it_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match=r"\[cluster\]"):
        RemoteFile("s3://traces/x")


def test_a_store_of_another_package_names_it(monkeypatch):
    fsspec = pytest.importorskip("fsspec", reason="needs the extra cluster")

    def missing(url):
        raise ImportError("Please install gcsfs to access Google Storage")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(UsageError, match="install gcsfs") as e:
        RemoteFile("gs://traces/x")
    assert "[cluster]" not in str(e.value)
    with pytest.raises(UsageError, match=r"\[cluster\]"):
        RemoteFile("s3://traces/x")


# ---- reading and writing


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec", reason="needs the extra cluster")
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pipe("/t/a.xz", TRACE.read_bytes())
    fs.pipe("/t/a.out", lzma.decompress(TRACE.read_bytes()))
    fs.pipe("/t/f.zst", FEATS.read_bytes())
    yield fs
    fs.store.clear()


def same(a, b) -> bool:
    return all(np.array_equal(a[n], b[n]) for n in ("pc", "addr", "data_distance"))


def test_features_are_read_from_elsewhere(memory):
    with tracekit.open("memory://t/f.zst") as f, tracekit.open(FEATS) as local:
        assert same(f, local) and f.path == "memory://t/f.zst"
        assert type(f).__reduce__(f) == (tracekit.TraceFile, ("memory://t/f.zst",))
    assert repr(f) == "memory://t/f.zst: closed"


@pytest.mark.parametrize("name", ["a.xz", "a.out"])
def test_an_extraction_from_elsewhere_to_elsewhere(memory, name, tmp_path):
    local = tmp_path / name
    local.write_bytes(memory.cat(f"/t/{name}"))
    tracekit.extract(local, tmp_path / "x.zst")
    result = tracekit.extract(f"memory://t/{name}", "memory://out/x.zst")
    assert result.outputs[0].path == "memory://out/x.zst"
    assert result.input["path"] == f"memory://t/{name}"
    with tracekit.open("memory://out/x.zst") as a, tracekit.open(tmp_path / "x.zst") as b:
        assert same(a, b)
        assert a.index["input"]["xxh3_128"] == b.index["input"]["xxh3_128"]
    with pytest.raises(TracekitError, match="exists already"):
        tracekit.extract(f"memory://t/{name}", "memory://out/x.zst")
    tracekit.extract(f"memory://t/{name}", "memory://out/x.zst", force=True, count=100)
    with tracekit.open("memory://out/x.zst") as a:
        assert len(a) == 100


def test_recordings_and_archives_from_elsewhere(memory, tmp_path):
    recording = next(iter(sorted(GOLDEN.glob("*.tks"))), None)
    if recording is None:
        pytest.skip("no recording among the golden files")
    memory.pipe("/t/r.tks", recording.read_bytes())
    tracekit.extract(recording, tmp_path / "a.zst", level="macro", threads="interleaved")
    tracekit.extract("memory://t/r.tks", tmp_path / "b.zst", level="macro", threads="interleaved")
    with tracekit.open(tmp_path / "a.zst") as a, tracekit.open(tmp_path / "b.zst") as b:
        assert same(a, b)


def test_a_report_of_features_from_elsewhere(memory, tmp_path, monkeypatch):
    """It has their checksum, and no secret of its own command."""
    words = ["report", "memory://t/f.zst?secret=s3cr3t", "-o", str(tmp_path / "r.html")]
    memory.pipe("/t/f.zst?secret=s3cr3t", FEATS.read_bytes())
    monkeypatch.setattr("sys.argv", ["tracekit", *words])
    assert main(words) == 0
    page = (tmp_path / "r.html").read_text()
    assert hashlib.sha256(FEATS.read_bytes()).hexdigest() in page
    assert "memory://t/f.zst?..." in page and "s3cr3t" not in page


def test_commands_take_addresses(memory, tmp_path, capsys):
    assert main(["info", "memory://t/f.zst", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == "memory://t/f.zst"
    assert main(["verify", "memory://t/f.zst"]) == 0
    run = str(tmp_path / "run")
    memory.pipe("/t/b.xz", TRACE.read_bytes())
    command = ["extract", "memory://t/*.xz", "-o", "memory://many/", "--run", run, "-q"]
    assert main(command) == 0
    assert memory.ls("/many", detail=False) == ["/many/a.feats.zst", "/many/b.feats.zst"]
    stamps = [memory.info(p)["created"] for p in memory.ls("/many", detail=False)]
    assert main(command) == 0
    assert [memory.info(p)["created"] for p in memory.ls("/many", detail=False)] == stamps
    capsys.readouterr()
    assert main(["runs", run]) == 0
    assert "2 done" in capsys.readouterr().out


def test_blocks_are_fetched_once_and_ahead(memory, monkeypatch):
    monkeypatch.setattr(remote, "BLOCK", 1000)
    data = bytes(np.random.default_rng(1).integers(0, 256, 10_500, np.uint8))
    memory.pipe("/t/x", data)
    asked: list[int] = []
    real = type(memory).cat_file

    def cat_file(self, path, start=None, end=None, **more):
        asked.append(start)
        return real(self, path, start=start, end=end, **more)

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    file = RemoteFile("memory://t/x")
    assert b"".join(file.read_at(a, 700) for a in range(0, 11_000, 700)) == data
    assert sorted(asked) == list(range(0, 10_500, 1000))
    asked.clear()
    assert file.read_at(10_400, 500) == data[10_400:] and file.read_at(20_000, 5) == b""
    assert file.read_at(1990, 20) == data[1990:2010]  # across two blocks, long forgotten
    assert {1000, 2000} <= set(asked)
    file.close()
    with open_remote("memory://t/x") as f:
        assert f.read() == data and f.seek(-3, 2) == 10_497 and f.read() == data[-3:]


def test_what_fails_leaves_nothing(memory, tmp_path):
    with pytest.raises(RuntimeError), OutputFile("memory://w/x") as out:
        out.write(b"half")
        raise RuntimeError
    assert not memory.exists("/w/x") and list(tmp_path.iterdir()) == []
    write_bytes("memory://w/x", b"whole")
    assert memory.cat("/w/x") == b"whole"
    with pytest.raises(TracekitError, match="exists already"):
        check_output("memory://w/x", False)
    with pytest.raises(TracekitError, match="no such file"):
        open_remote("memory://w/none")


def test_where_files_grow_they_get_their_name_in_the_end(memory, tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    local = tmp_path / "local"
    local.write_bytes(b"new")
    with pytest.raises(TracekitError, match="exists already"):
        upload(local, f"file://{tmp_path}/x")
    assert (tmp_path / "x").read_bytes() == b"old"
    upload(local, f"file://{tmp_path}/x", force=True)
    assert (tmp_path / "x").read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["local", "x"]


@pytest.mark.parametrize(
    ("status", "told", "requests"),
    [(500, "500", 4), (403, "access is denied", 1), (404, "no such file", 1), (0, "connect", 0)],
)
def test_what_an_http_server_answers_is_told(status, told, requests, monkeypatch):
    """Only 404 and 410 are files that are missing; what may pass is asked for again."""
    pytest.importorskip("aiohttp", reason="needs the extra cluster")
    monkeypatch.setattr(remote, "PAUSE", 0.01)
    asked = []

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.command)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, *_) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port if status else 1}/x.zst"
    try:
        with pytest.raises(TracekitError, match=told):
            open_remote(url)
    finally:
        server.shutdown()
        server.server_close()
    assert asked.count("HEAD") == requests


class _Plain(http.server.SimpleHTTPRequestHandler):
    """Python's own server, which gives no ranges."""

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def plain_server(tmp_path) -> Iterator[str]:
    pytest.importorskip("aiohttp", reason="needs the extra cluster")
    pytest.importorskip("fsspec", reason="needs the extra cluster")
    shutil.copy(TRACE, tmp_path / "a.xz")
    shutil.copy(FEATS, tmp_path / "f.zst")
    handler = functools.partial(_Plain, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_server_without_ranges(plain_server, tmp_path):
    tracekit.extract(f"{plain_server}/a.xz?token=secret", tmp_path / "a.zst")
    tracekit.extract(TRACE, tmp_path / "b.zst")
    with tracekit.open(tmp_path / "a.zst") as a, tracekit.open(tmp_path / "b.zst") as b:
        assert same(a, b) and "secret" not in json.dumps(a.index)
        assert a.index["input"]["path"] == f"{plain_server}/a.xz?..."
    with pytest.raises(TracekitError, match="gives no ranges"):
        tracekit.open(f"{plain_server}/f.zst")
    with pytest.raises(TracekitError) as e:
        tracekit.extract(f"{plain_server}/none.xz?token=secret", tmp_path / "c.zst")
    assert "secret" not in str(e.value) and "no such file" in str(e.value)


# ---- S3


@pytest.fixture(scope="module")
def store():
    """A bucket ``traces`` behind a server that misbehaves when told to."""
    pytest.importorskip("s3fs", reason="needs the extra cluster")
    server = pytest.importorskip("moto.server", reason="needs moto")
    own = server.ThreadedMotoServer(port=0)
    own.start()
    _, port = own.get_host_and_port()
    faulty = FaultyServer(port, lambda method, path: path.startswith("/traces/"))
    yield faulty
    faulty.close()
    own.stop()


@pytest.fixture
def s3(store, monkeypatch):
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": store.url,
        "AWS_ACCESS_KEY_ID": "key-that-is-secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    fs = s3fs.S3FileSystem()
    if not fs.exists("traces"):
        fs.mkdir("traces")
    monkeypatch.setattr(remote, "PATIENCE", 1.0)
    monkeypatch.setattr(remote, "PAUSE", 0.05)
    store.faults.clear()
    fs.pipe("traces/t/a.xz", TRACE.read_bytes())
    fs.pipe("traces/t/f.zst", FEATS.read_bytes())
    store.seen.clear()
    yield fs
    store.faults.clear()
    s3fs.S3FileSystem.clear_instance_cache()


quiet = pytest.mark.filterwarnings("ignore")  # botocore's and aiohttp's, of connections left open


@quiet
@pytest.mark.parametrize("fault", ["503", "hang", "cut"])
def test_a_bad_moment_of_a_store_passes(store, s3, fault, tmp_path):
    with Input("s3://traces/t/a.xz") as source:
        store.faults.extend([fault])
        assert b"".join(map(bytes, source)) == lzma.decompress(TRACE.read_bytes())
    assert not store.faults and len([1 for m, _ in store.seen if m == "GET"]) >= 2
    store.faults.extend([fault, fault])
    with tracekit.open("s3://traces/t/f.zst") as f, tracekit.open(FEATS) as local:
        assert same(f, local)
    tracekit.extract(TRACE, tmp_path / "x.zst")
    if fault != "cut":  # of an answer to a PUT there is no body
        store.faults.extend([fault])
    upload(tmp_path / "x.zst", "s3://traces/out/x.zst", force=True)
    assert not store.faults
    assert s3.cat("traces/out/x.zst") == (tmp_path / "x.zst").read_bytes()


@quiet
@pytest.mark.parametrize("fault", ["503", "hang", "cut"])
def test_a_store_that_stays_bad_ends_in_a_line(store, s3, fault, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(remote, "PATIENCE", 0.5)
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    file = RemoteFile("s3://traces/t/a.xz")
    store.faults.extend([fault] * 200)
    with pytest.raises(TracekitError) as e:
        file.read_at(0, 100)
    assert str(e.value).startswith("s3://traces/t/a.xz:byte 0: cannot read: ")
    assert "2 attempts" in str(e.value) and "secret" not in str(e.value)
    file.close()
    if fault != "cut":
        assert main(["extract", str(TRACE), "-o", "s3://traces/never.zst", "-q"]) == 1
        err = capsys.readouterr().err
        assert "s3://traces/never.zst: cannot" in err and "secret" not in err
    store.faults.clear()
    assert not s3.exists("traces/never.zst")


@quiet
def test_what_is_denied_or_there_already(store, s3, tmp_path):
    local = tmp_path / "x"
    local.write_bytes(b"new")
    upload(local, "s3://traces/once")
    local.write_bytes(b"newer")
    with pytest.raises(TracekitError, match="exists already"):
        upload(local, "s3://traces/once")
    assert s3.cat("traces/once") == b"new"
    with pytest.raises(TracekitError, match="no such file"):
        RemoteFile("s3://traces/none")


@quiet
def test_a_change_while_it_is_read(store, s3):
    file = RemoteFile("s3://traces/t/a.xz")
    file.check_unchanged()
    s3.pipe("traces/t/a.xz", b"other" * 7000)
    with pytest.raises(TracekitError, match="changed while it was read"):
        file.check_unchanged()
    file.close()


LOADED = """
import sys
from torch.utils.data import DataLoader
from tracekit.train.torch_windows import TorchWindows


def batches(data, epoch, had, workers):
    data.go_on(epoch, had, 4, workers)
    loader = DataLoader(data, batch_size=4, num_workers=workers)
    return [[(x.tolist(), y.tolist()) for x, y in zip(*b)] for b in loader]


if __name__ == "__main__":
    folder = sys.argv[1]
    for rank in range(2):
        how = dict(length=16, shuffle=3, rank=rank, ranks=2)
        there, here = (
            TorchWindows([f"{place}/{k}.zst" for k in range(3)], **how)
            for place in ("s3://traces/w", folder)
        )
        for epoch, had, workers in ((0, 0, 0), (1, 0, 2), (1, 3, 2)):
            found = batches(there, epoch, had, workers)
            assert found == batches(here, epoch, had, workers) and len(found) > 3
    print("the same")
"""


@quiet
def test_torch_reads_windows_from_a_store(store, s3, tmp_path):
    """Shuffled, of two ranks, by a loader's own processes, from the middle of a pass on; the store
    has bad moments."""
    pytest.importorskip("torch", reason="torch is not installed")
    for k, rows in enumerate((1500, 900, 700)):
        (tmp_path / "t").write_text(synthetic.text(k, rows))
        tracekit.extract(tmp_path / "t", tmp_path / f"{k}.zst", chunk_rows=256)
        s3.put_file(str(tmp_path / f"{k}.zst"), f"traces/w/{k}.zst")
    script = tmp_path / "script.py"
    script.write_text(LOADED)
    store.seen.clear()
    store.faults.extend(["503", "cut"])
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr
    assert not store.faults and len([1 for m, _ in store.seen if m == "GET"]) > 12
