"""Paths that are no files: refused in one line, at once, and not read to their end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import synthetic
from test_sim import MACHINE

import tracekit
from tracekit.errors import FormatError, TracekitError
from tracekit.inputs.blocks import Input
from tracekit.io import files

#: What a child may take of memory; reading /dev/zero without end runs into it.
LIMITED = "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 30, 1 << 30)); "
RUN = LIMITED + "import sys; from tracekit.cli.main import main; sys.exit(main(sys.argv[1:]))"


def cli(*args: object, wait: float = 60) -> tuple[int, str]:
    """Exit status and standard error of a command that has 1 GiB of addresses."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=wait,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    return done.returncode, done.stderr


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("command", ["info", "verify", "dump", "mrc", "epochs", "hot", "predict"])
def test_what_is_read_at_random_is_a_file(command: str, fifo: Path) -> None:
    start = time.monotonic()
    code, said = cli(command, fifo)
    assert (code in (1, 2), said.count("\n")) == (True, 1), said
    assert "pipe" in said
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("what", ["/dev/zero", "fifo"])
@pytest.mark.parametrize("kind", ["manifest", "toml", "space", "known", "card", "machine"])
def test_what_people_write_is_bounded(
    kind: str, what: str, fifo: Path, tmp_path: Path, golden: Path
) -> None:
    bad = Path("/dev/zero") if what == "/dev/zero" else fifo
    feats = golden / "feats-v1.zst"
    if kind in ("manifest", "toml"):
        place = tmp_path / ("m.toml" if kind == "toml" else "m.json")
        place.symlink_to(bad)
        args = ("train", "perfvec", place, "-o", tmp_path / "out")
    elif kind == "space":
        args = ("dse", bad, feats)
    elif kind == "known":
        space = tmp_path / "space.json"
        space.write_text(json.dumps({"base": MACHINE, "vary": {"rob": [64]}}))
        args = ("dse", space, feats, "--known", bad)
    elif kind == "card":
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "card.json").symlink_to(bad)
        args = ("predict", feats, "--model", tmp_path / "model")
    else:
        place = tmp_path / "m.json"
        place.write_text(
            json.dumps({"machines": {"a": str(bad)}, "programs": [{"name": "p", "data": "d"}]})
        )
        args = ("train", "perfvec", place, "-o", tmp_path / "out")
    code, said = cli(*args)
    assert (code in (1, 2), said.count("\n")) == (True, 1), said
    assert ("device" if what == "/dev/zero" else "pipe") in said


def test_every_kind_is_named(fifo: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp_path / "socket"))
        for path, word in ((tmp_path, "a folder"), ("/dev/zero", "a device"), (fifo, "a pipe")):
            with pytest.raises(TracekitError, match=f"is {word}; a file is needed"):
                files.open_descriptor(path)
        with pytest.raises(TracekitError):
            files.open_stream(tmp_path / "socket")
    with pytest.raises(TracekitError, match="cannot open: No such file"):
        files.open_file(tmp_path / "none")
    assert files.first_bytes(fifo, 4) == files.first_bytes(tmp_path / "none", 4) == b""


def test_a_pipe_is_read(fifo: Path) -> None:
    def write(delay: float) -> None:
        time.sleep(delay)
        with fifo.open("wb", 0) as f:
            time.sleep(0.2)  # it has a writer, who has nothing to say yet
            f.write(b'{"a"')
            time.sleep(0.1)
            f.write(b": 1}")

    for delay in (0.0, 0.3):
        thread = threading.Thread(target=write, args=(delay,))
        thread.start()
        assert files.read_json(fifo) == {"a": 1}
        thread.join()


def test_a_pipe_that_nobody_writes(fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.inputs.blocks.TRACE_PATIENCE", 0.2)
    with pytest.raises(TracekitError, match=r"nobody writes \(waited 0.2 s\)"):
        Input(fifo)
    with pytest.raises(TracekitError, match="nobody writes"):
        files.open_stream(fifo, 0.1)


def test_a_trace_through_a_pipe_comes_whole(fifo: Path) -> None:
    text = bytes(range(256)) * 9999

    def write() -> None:
        with fifo.open("wb") as f:
            f.write(text)

    thread = threading.Thread(target=write)
    thread.start()
    with Input(fifo) as blocks:
        assert b"".join(bytes(b) for b in blocks) == text
        assert blocks.position == len(text)
    thread.join()


def test_a_pipe_is_opened_once(fifo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens it lets its writer go on; what that writes before a second opening is lost."""
    opened = []

    def counted(path: object, *args: int, **kwargs: int) -> int:
        opened.append(path)
        return os_open(path, *args, **kwargs)  # type: ignore[call-overload, no-any-return]

    os_open = os.open
    text = synthetic.text(3, 300).encode()
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(os, "open", counted)
        done = pool.submit(tracekit.extract, fifo, tmp_path / "f.zst", quiet=True)
        with fifo.open("wb", 0) as pipe:
            pipe.write(text)
        assert done.result(60).rows == 300
    assert [str(p) for p in opened if str(p) == str(fifo)] == [str(fifo)]


def test_limits_hold_whatever_the_size_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10)
    assert files.read_limited(path, 10) == b"x" * 10
    with pytest.raises(FormatError, match="more than 9 bytes"):
        files.read_limited(path, 9)
    assert Path("/proc/self/status").stat().st_size == 0  # says 0 and holds more
    with pytest.raises(FormatError, match="more than 9 bytes"):
        files.read_limited("/proc/self/status", 9)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"[]," * files.MAX_VALUES + b"1]", "values"),
        (b"\xff", "codec"),
        (b"{", "Expecting"),
    ],
)
def test_json_that_is_none(tmp_path: Path, text: bytes, why: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(FormatError, match=why):
        files.read_json(path)


def test_toml_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"a = " + b"[" * 100_000)
    with pytest.raises(FormatError, match="not TOML"):
        files.read_toml(path)


# ---- files that nobody else may read


def test_a_private_file_is_the_one_that_was_opened(tmp_path: Path, monkeypatch) -> None:
    """Its mode is asked of the descriptor: where a name leads meanwhile changes nothing."""
    private, public = tmp_path / "private", tmp_path / "public"
    name = tmp_path / "name"
    private.write_bytes(b"secret")
    private.chmod(0o600)
    public.write_bytes(b"known")
    public.chmod(0o644)
    opened = files.open_stream

    def then(other: Path):
        def open_stream(path):
            found = opened(path)
            name.unlink()
            name.symlink_to(other)
            return found

        return open_stream

    name.symlink_to(private)
    monkeypatch.setattr(files, "open_stream", then(public))
    assert files.read_private(name, 100) == b"secret"
    monkeypatch.setattr(files, "open_stream", then(private))
    with pytest.raises(TracekitError, match=r"name: others may read it \(mode 0644\)"):
        files.read_private(name, 100)
    monkeypatch.undo()
    with pytest.raises(FormatError, match="more than 3 bytes"):
        files.read_private(private, 3)
    with pytest.raises(TracekitError, match="a folder"):
        files.read_private(tmp_path, 100)
    with pytest.raises(TracekitError, match="cannot be read"):
        files.read_private(tmp_path / "none", 100)


def test_a_private_file_of_another_user(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"secret")
    path.chmod(0o600)
    if os.getuid() == 0:
        try:
            os.chown(path, 4711, -1)
        except OSError:
            pytest.skip("no other user here")
    monkeypatch.setattr(files.os, "geteuid", lambda: 4712)
    for of_others in (False, True):
        with pytest.raises(TracekitError, match="another user's"):
            files.read_private(path, 100, of_others=of_others)
    monkeypatch.setattr(files.os, "geteuid", lambda: 0)
    with pytest.raises(TracekitError, match="another user's"):
        files.read_private(path, 100)
    assert files.read_private(path, 100, of_others=True) == b"secret"
