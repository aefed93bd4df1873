"""What is written survives: whole files under their names, whatever ends a run."""

from __future__ import annotations

import os
import re
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tracekit.errors import TracekitError
from tracekit.io import leftovers
from tracekit.io.arrays import array_file, save_array, save_arrays
from tracekit.io.output import (
    Folder,
    OutputFile,
    append_line,
    check_folder,
    kept_folder,
    replacing,
    scratch,
    write_bytes,
)
from tracekit.text import counted


@pytest.fixture(autouse=True)
def fresh() -> None:
    leftovers._seen.clear()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_name_is_given_at_the_end_alone(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with replacing(target) as out:
        assert out.temporary is None and names(tmp_path) == []  # made with the first bytes
        out.write(b"ab")
        out.write(np.arange(2, dtype=np.uint8))
        assert names(tmp_path) == [out.temporary.name] and out.tell() == 4
    assert target.read_bytes() == b"ab\0\1" and names(tmp_path) == ["x"]
    with pytest.raises(RuntimeError), replacing(target, force=True) as out:
        out.write(b"cd")
        raise RuntimeError
    assert target.read_bytes() == b"ab\0\1" and names(tmp_path) == ["x"]


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    target = tmp_path / "x"
    write_bytes(target, b"old")
    with pytest.raises(TracekitError, match=r"exists already \(--force replaces it\)"):
        OutputFile(target)
    (tmp_path / "folder").mkdir()
    with pytest.raises(TracekitError, match="is no file that can be replaced"):
        OutputFile(tmp_path / "folder", force=True)
    with pytest.raises(TracekitError, match="is no file that can be replaced"):
        OutputFile("/dev/null", force=True)


def test_of_two_writers_the_second_is_refused_or_wins(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with OutputFile(target) as first, OutputFile(target) as second:
        first.write(b"first")
        second.write(b"second")
        first.commit()
        with pytest.raises(TracekitError, match="exists already"):
            second.commit()
    assert target.read_bytes() == b"first" and names(tmp_path) == ["x"]
    with OutputFile(target, force=True) as first, OutputFile(target, force=True) as second:
        first.write(b"FIRST")
        second.write(b"SECOND")
        first.commit()
        second.commit()
    assert target.read_bytes() == b"SECOND" and names(tmp_path) == ["x"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    link, dangling = tmp_path / "link", tmp_path / "dangling"
    link.symlink_to(victim)
    dangling.symlink_to(tmp_path / "nowhere")
    for path in (link, dangling):
        with pytest.raises(TracekitError, match="exists already"):
            write_bytes(path, b"new")
        write_bytes(path, b"new", force=True)
        assert not path.is_symlink() and path.read_bytes() == b"new"
    assert victim.read_bytes() == b"mine" and names(tmp_path) == ["dangling", "link", "victim"]


def test_mode_and_umask(tmp_path: Path) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "x", b"")
        assert mode(tmp_path / "x") == 0o640
        for kept in (0o400, 0o600, 0o666, 0o755):
            (tmp_path / "x").chmod(kept)
            with replacing(tmp_path / "x", force=True) as out:
                out.write(b"1")
                assert out.temporary is not None
                assert mode(out.temporary) & ~(kept | 0o600) == 0  # no wider meanwhile
            assert mode(tmp_path / "x") == kept
    finally:
        os.umask(before)


def test_long_names(tmp_path: Path) -> None:
    for name in ("n" * 255, "ü" * 127):
        write_bytes(tmp_path / name, b"1")
    assert len(names(tmp_path)) == 2


def test_a_folder_takes_the_place_of_another_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "f"
    for force, text in ((False, "1"), (True, "2")):
        with Folder(target, force=force) as f:
            write_bytes(f.temporary / "a", text.encode())
            assert target.exists() is force
            f.commit()
        assert names(tmp_path) == ["f"] and (target / "a").read_text() == text
    with pytest.raises(TracekitError, match="exists already"):
        Folder(target)
    with pytest.raises(RuntimeError), Folder(target, force=True) as f:
        raise RuntimeError
    told = f"^{re.escape(str(target / 'b' / 'c'))}: cannot write"
    with pytest.raises(TracekitError, match=told), Folder(target, force=True) as f:
        write_bytes(f.temporary / "b" / "c", b"")
    assert names(tmp_path) == ["f"] and (target / "a").read_text() == "2"


def test_a_folder_of_other_things_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    write_bytes(tmp_path / "home" / "a.npy", b"")
    check_folder(tmp_path / "home", True, ".npy")
    write_bytes(tmp_path / "home" / "thesis.tex", b"")
    with pytest.raises(TracekitError, match=r"holds thesis\.tex, too"):
        check_folder(tmp_path / "home", True, ".npy")


def test_empty_folders_do_not_stay(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), kept_folder(tmp_path / "a" / "b"):
        raise RuntimeError
    assert names(tmp_path) == []
    with kept_folder(tmp_path / "a" / "b") as folder:
        append_line(folder / "log", "1")
        append_line(folder / "log", "2")
    assert (folder / "log").read_text() == "1\n2\n"


def test_a_line_that_does_not_fit_leaves_no_half(tmp_path: Path) -> None:
    log, before = tmp_path / "log", resource.getrlimit(resource.RLIMIT_FSIZE)
    append_line(log, "first")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        with pytest.raises(TracekitError, match="cannot write: File too large"):
            append_line(log, "second")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    append_line(log, "third")
    assert log.read_text() == "first\nthird\n"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TracekitError, match="cannot write"):
        append_line(tmp_path / "pipe", "waits for no reader")


LEAVE = """
import os, signal, sys
from pathlib import Path
from tracekit.io.output import Folder, OutputFile
here = Path(sys.argv[1])
a, f = OutputFile(here / "a"), Folder(here / "f")
a.write(b"1")
a.flush()
(f.temporary / "inside").write_bytes(b"1")
print("made", flush=True)
sys.stdin.read()
"""


def test_what_killed_runs_left_is_collected_and_what_living_ones_write_is_not(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEAVE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        write_bytes(tmp_path / "b", b"2")
        assert len(names(tmp_path)) == 3, names(tmp_path)  # the living one's stay
        other.send_signal(signal.SIGKILL)
        other.wait()
    (tmp_path / ".x.tmp").write_bytes(b"other people's")
    (tmp_path / f".l.tracekit-{'0' * 16}.tmp").symlink_to(tmp_path / "b")
    leftovers._seen.clear()
    write_bytes(tmp_path / "c", b"3")
    assert names(tmp_path) == [f".l.tracekit-{'0' * 16}.tmp", ".x.tmp", "b", "c"]


def test_a_maker_that_is_not_yet_at_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector may come between a file's making and its locking; then another is made."""
    made, unlinking = threading.Event(), threading.Event()

    def make(path: Path) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if not made.is_set():
            made.set()
            assert unlinking.wait(60)
        return fd

    def slowly(self: Path, missing_ok: bool = False) -> None:
        unlinking.set()
        time.sleep(0.2)  # in which the maker would lock
        os.unlink(self)  # noqa: PTH108 (that is what stands in for it)

    leftovers._seen.add(str(tmp_path))
    monkeypatch.setattr(Path, "unlink", slowly)
    with ThreadPoolExecutor(1) as pool:
        claimed = pool.submit(leftovers.claim, tmp_path / "a", make, leftovers.temporary_name)
        assert made.wait(60)
        leftovers.collect(tmp_path, again=True)
        temporary, fd = claimed.result(60)
    os.close(fd)
    assert names(tmp_path) == [temporary.name]


def test_scratch_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch() as folder:
        write_bytes(folder / "x", b"1")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert names(tmp_path) == []
    (tmp_path / "large").mkdir()
    for room, parent in ((0, tmp_path / "large"), (1 << 62, tmp_path)):
        with scratch([tmp_path / "none", tmp_path / "large"], room) as folder:
            assert folder.parent == parent
    assert names(tmp_path) == ["large"] and names(tmp_path / "large") == []


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    """As a user other than root, for whom everything may be written."""
    tmp_path.chmod(0o555)
    code = (
        "import os, sys; from tracekit.io.output import write_bytes\n"
        "from tracekit.errors import TracekitError\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: write_bytes(sys.argv[1], b'1')\n"
        "except TracekitError as e: print(e)\n"
    )
    for parent in tmp_path.parents[:2]:
        parent.chmod(parent.stat().st_mode | 0o005)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True
    )
    assert done.stdout == f"{tmp_path}/x: cannot write: Permission denied\n", done.stderr
    tmp_path.chmod(0o755)


def test_arrays(tmp_path: Path) -> None:
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    save_array(tmp_path / "a", a)
    assert np.array_equal(np.load(tmp_path / "a.npy"), a)
    save_array(tmp_path / "t.npy", a.T)
    assert np.array_equal(np.load(tmp_path / "t.npy"), a.T)
    save_arrays(tmp_path / "z.npz", x=a, n=np.array(3))
    with np.load(tmp_path / "z.npz") as z:
        assert np.array_equal(z["x"], a) and int(z["n"]) == 3
    with array_file(tmp_path / "b.npy", np.float32, (4, 3)) as f:
        f.append(a[:1])
        f.append(a[1:])
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
    with (
        pytest.raises(ValueError, match="3 rows of 4"),
        array_file(tmp_path / "c.npy", np.float32, (4, 3)) as f,
    ):
        f.append(a[1:])
    assert not (tmp_path / "c.npy").exists()


def test_links_to_devices_and_open_files_stay(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    places = {"stdout": "/proc/self/fd/1", "null": "/dev/null", "fifo": str(tmp_path / "f")}
    os.mkfifo(tmp_path / "f")
    for name, to in places.items():
        (tmp_path / name).symlink_to(to)
        with pytest.raises(TracekitError, match="no file that can be replaced"):
            write_bytes(tmp_path / name, b"x", force=True)
        assert (tmp_path / name).readlink() == Path(to)
    with pytest.raises(TracekitError, match="is no file"):
        write_bytes("-", b"x")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    write_bytes(tmp_path / "link", b"new", force=True)
    assert (tmp_path / "link").read_bytes() == b"new" and (tmp_path / "kept").read_text() == "kept"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc")
def test_a_folder_that_holds_no_new_file_is_told() -> None:
    with pytest.raises(TracekitError, match=r"/proc/x: cannot write: "):
        write_bytes("/proc/x", b"x")


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (2, ("row",), "2 rows"),
        (12345, ("row",), "12,345 rows"),
        (1, ("access", "accesses"), "1 access"),
        (3, ("access", "accesses"), "3 accesses"),
    ],
)
def test_what_is_counted(count, words, text):
    assert counted(count, *words) == text
