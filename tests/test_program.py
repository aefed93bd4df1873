"""The program as a process: its exit codes, its one line of error, what reaches the terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic

import tracekit
from tracekit.cli import main as cli
from tracekit.store import reader
from tracekit.text import Escaped, shown

ROOT = Path(tracekit.__file__).parent.parent


@pytest.fixture(scope="module")
def feats(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "t").write_text(synthetic.text(11, 4000))
    tracekit.extract(folder / "t", folder / "f.zst", chunk_rows=256)
    return folder / "f.zst"


def run(*args: Any, shell: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """``tracekit ARGS``, with a redirection of the shell."""
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "tracekit"]
    return subprocess.run(
        [*command, *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("shell", [">&-", ">/dev/full"])
@pytest.mark.parametrize("buffered", ["", "1"])
def test_output_that_cannot_be_written(feats, shell, buffered):
    for args in (["info", feats], ["dump", feats], ["--help"], ["--version"], ["info", "--help"]):
        p = run(*args, shell=shell, PYTHONUNBUFFERED=buffered)
        assert (p.returncode, p.stderr.count("\n")) == (1, 1), (args, p.stderr)
        assert p.stderr.startswith("tracekit: ")


def test_closed_input_and_errors(feats):
    p = run("extract", "-", "-o", feats.parent / "x.zst", shell="<&-")
    assert p.returncode == 1 and p.stderr.count("\n") == 1 and "Bad file descriptor" in p.stderr
    assert run("info", feats, shell="2>&-").stdout == run("info", feats).stdout
    assert run("info", "nowhere", shell="2>&-").returncode == 1
    # A file that is opened must not get the number of standard output.
    assert run("verify", feats, shell=">&-").returncode == 1
    assert run("verify", feats).returncode == 0


def test_an_instruction_set_that_does_not_exist(feats):
    p = run("extract", feats.parent / "t", "-o", feats.parent / "y.zst", TRACEKIT_ISA="bogus")
    assert p.returncode == 2 and p.stderr.count("\n") == 1
    assert p.stderr.startswith("tracekit: TRACEKIT_ISA=bogus: not one of")


def test_packages_that_are_not_there(tmp_path):
    """Without numba: the extra that has it."""
    for name in ("numba", "llvmlite"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('none', name={name!r})")
    model = ROOT / "tracekit" / "mixture" / "default_arm"
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    for args in (["neutrino", model], ["quantize", model, "none.zst"]):
        p = run(*args, PYTHONPATH=path)
        assert p.returncode == 2 and p.stderr.count("\n") == 1, p.stderr
        assert "not installed" in p.stderr and "[infer]" in p.stderr


def test_the_last_resort(monkeypatch, capsys, feats):
    def fails(_: object) -> int:
        raise KeyError("a\nb\x1b[31m")

    import tracekit.cli.cmd_info as info

    monkeypatch.setattr(info, "run", fails)
    monkeypatch.delenv("TRACEKIT_DEBUG", raising=False)
    assert cli.main(["info", str(feats)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("tracekit: KeyError") and err.count("\n") == 1 and "\x1b" not in err
    monkeypatch.setenv("TRACEKIT_DEBUG", "1")
    assert cli.main(["info", str(feats)]) == 1
    assert "Traceback" in capsys.readouterr().err


#: Says when the program takes signals itself, whatever Python does before, and however slowly.
_STARTED = """
import os, signal
from tracekit.__main__ import run
set_handler = signal.signal
def told(*args):
    signal.signal = set_handler
    before = set_handler(*args)
    os.write(1, b"!")
    return before
signal.signal = told
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupted_at_any_moment(feats):
    """From the first moment in which it takes signals: 130 and one line, or all that was asked
    for."""
    model = ROOT / "tracekit" / "mixture" / "default_arm"
    commands = [["mrc", feats], ["predict", feats, "--model", model], ["hot", "--help"]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    codes = []
    for k in range(24):
        p = subprocess.Popen(
            [sys.executable, "-c", _STARTED, *map(str, commands[k % 3])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert p.stdout is not None and p.stdout.read(1) == b"!"
        time.sleep(0.4 * k / 24)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=60)
        # In the interpreter's own last moments the signal ends it, which a shell shows as 130.
        code = 130 if p.returncode == -signal.SIGINT else p.returncode
        codes.append(code)
        assert code in (0, 1, 130), (k, p.returncode, err)
        assert err in (b"", b"tracekit: interrupted\n") or code == 1, (k, err)
        assert b"Traceback" not in err and b"Exception ignored" not in err
    assert codes.count(130) > 4


def test_a_swallowed_interrupt_comes_again():
    code = (
        "import sys, time; from tracekit.cli import main\n"
        "sys.unraisablehook = main.retried\n"
        "class A:\n"
        "    def __del__(self): raise KeyboardInterrupt\n"
        "try:\n    A(); time.sleep(20)\nexcept KeyboardInterrupt: sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 7


def test_threads_share_a_file(feats, monkeypatch):
    monkeypatch.setattr(reader, "_KEPT_ROWS", 600)
    with tracekit.open(feats) as f:
        whole = {n: f[n].copy() for n in ("pc", "addr", "load_distance_ref", "taken")}
        sets = f.features("perfvec").copy()
    errors: list[BaseException] = []

    def read(shared: tracekit.TraceFile, seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(150):
                a, b = sorted(random.integers(0, len(shared) + 1, 2).tolist())
                name = list(whole)[int(random.integers(len(whole)))]
                assert np.array_equal(shared.column(name, (a, b)), whole[name][a:b])
                assert np.array_equal(shared.features("perfvec", (a, b)), sets[a:b])
        except BaseException as e:
            errors.append(e)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with tracekit.open(feats) as shared:
            threads = [threading.Thread(target=read, args=(shared, k)) for k in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors, errors[0]


HOSTILE = "a\x1b]0;owned\x07\x1b[2J\r\x9b31mb\u202ec\nd"


def test_what_is_shown_is_printable():
    assert shown("plain text é") == "plain text é"
    line = shown(HOSTILE)
    assert line.isprintable() and "\\x1b" in line and "\\n" in line and "\\u202e" in line

    class Terminal:
        text = ""

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

    to = Terminal()
    Escaped(to).write(f"{HOSTILE}\t.\n")  # type: ignore[arg-type]
    assert not set(to.text) & set("\x1b\x07\r\x9b\u202e")
    assert to.text.endswith("d\t.\n")
