"""Commands do not replace unasked and leave no empty folders; recordings outlive their recorder."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from oracles.tks_blocks import code_block, epoch_block

from tracekit import _core
from tracekit.cli.main import main
from tracekit.dataset import load_manifest
from tracekit.errors import TracekitError
from tracekit.inputs.tks import EPOCH, TksWriter, summary
from tracekit.record.recorder import available

GOLDEN = Path(__file__).parent / "golden"
TRACE = str(GOLDEN / "feats-v1.zst")
N_FIELDS = len(_core.EPOCH_FIELDS)
TRACEKIT = [sys.executable, "-m", "tracekit"]
needs_record = pytest.mark.skipif(available() is not None, reason=str(available()))


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        ["record", "-o", "FILE", "--", "true"],
        ["tune", TRACE, "--name", "x", "-o", "FILE"],
        ["predict", TRACE, "--save", "FILE"],
        ["predict", "--plot", "FILE", "--", "true"],
        ["predict", "--record", "FILE", "--", "true"],
        ["mrc", TRACE, "--plot", "FILE"],
        ["export", TRACE, "--to", "champsim", "-o", "FILE"],
        ["export", TRACE, "--to", "npy", "-o", "FILE"],
        ["dse", "none.json", TRACE, "--plot", "FILE"],
        ["compare", "none", "--manifest", "none.json", "--plot", "FILE"],
        ["measure", "none.json", "--name", "x", "-o", "FILE"],
        ["cross-validate", "none.json", "--plot", "FILE"],
    ],
    ids=lambda c: " ".join(c[:2]) if isinstance(c, list) else None,
)
def test_an_existing_file_is_not_replaced(command, tmp_path, capsys) -> None:
    if "true" in command and available() is not None:
        pytest.skip(str(available()))
    plot = "--plot" in command
    target = tmp_path / ("x.png" if plot else "x.npy" if "--save" in command else "x")
    target.write_bytes(b"mine")
    assert main([str(target) if c == "FILE" else c for c in command]) == 1
    assert "exists already (--force replaces it)" in capsys.readouterr().err
    assert target.read_bytes() == b"mine" and names(tmp_path) == [target.name]


@needs_record
def test_a_guessed_name_of_a_part_is_not_followed(tmp_path: Path, tiny: str) -> None:
    """A link under every name that a recording by process number could have used."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    code = (
        "import os, sys; out = sys.argv[1]; os.symlink(sys.argv[2], f'{out}.{os.getpid()}.part')\n"
        "from tracekit.cli.main import main\n"
        "sys.exit(main(['record', '-q', '-o', out, '--full', '--', sys.argv[3]]))"
    )
    out = tmp_path / "s.tks"
    command = [sys.executable, "-c", code, str(out), str(victim), tiny]
    subprocess.run(command, check=True, timeout=120)
    assert victim.read_bytes() == b"mine" and summary(out)["epochs"] >= 1


def blocks() -> list[bytes]:
    """Code and an epoch of it."""
    return [
        code_block(0, [(0x1000, b"\x90"), (0x1001, b"\xc3")]),
        epoch_block([0] * N_FIELDS, [(0, 4, []), (1, 3, [(0x7FFF0000, 8, 0)])]),
    ]


def test_what_a_killed_recording_leaves(tmp_path: Path) -> None:
    out = tmp_path / "o.tks"
    code = (
        "import sys; from tracekit.inputs.tks import TksWriter\n"
        "w = TksWriter(sys.argv[1], arch='x86', meta={}, force=True)\n"
        "for b in sys.argv[2:]: w.block(bytes.fromhex(b)); w.flush()\n"
        "print('made', flush=True); sys.stdin.read()"
    )

    def killed(*blocks: bytes) -> Path:
        command = [sys.executable, "-c", code, str(out), *(b.hex() for b in blocks)]
        with subprocess.Popen(command, stdin=-1, stdout=-1) as p:
            assert p.stdout is not None
            p.stdout.readline()
            (part,) = tmp_path.glob("o.tks.*.part")
            with TksWriter(out, arch="x86", meta={}):  # a living one's part is left alone
                assert part.exists()
            p.send_signal(signal.SIGKILL)
        return part

    part = killed()
    assert summary(part)["epochs"] == 0 and part.stat().st_size > 0
    part = killed(*blocks())  # the first one is collected: it has no epoch
    assert names(tmp_path) == [part.name]
    found = summary(part)
    assert (found["epochs"], found["instructions"], found["complete"]) == (1, 2, False)
    with pytest.raises(TracekitError, match="is what a recording that was killed has saved"):
        TksWriter(out, arch="x86", meta={})
    assert names(tmp_path) == [part.name]
    with TksWriter(out, arch="x86", meta={}, force=True) as w:
        w.close({})
    assert names(tmp_path) == ["o.tks"]


def test_a_full_disk_keeps_the_epochs_of_a_recording(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    out = tmp_path / "o.tks"
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with TksWriter(out, arch="x86", meta={}) as w:
            for b in blocks():
                w.block(b)
            w.flush()
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
            noise = np.random.default_rng(1).bytes(200_000)
            with pytest.raises(TracekitError, match=r"cannot write: File too large \(all epochs"):
                w.block(bytes([EPOCH]) + noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    (part,) = tmp_path.iterdir()
    assert part.suffix == ".part" and summary(part)["epochs"] == 1


@needs_record
def test_a_recorder_that_is_killed_leaves_a_readable_part(tmp_path: Path) -> None:
    out = tmp_path / "o.tks"
    command = [*TRACEKIT, "record", "-q", "-o", str(out), "--period", "0.1", "--epoch", "500"]
    loop = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: sum(range(999))"
    with subprocess.Popen(
        [*command, "--", sys.executable, "-c", loop], start_new_session=True
    ) as p:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            parts = list(tmp_path.glob("o.tks.*.part"))
            if parts and parts[0].stat().st_size > 2000:
                break
            time.sleep(0.05)
        p.kill()
        p.wait()
        try:
            found = summary(parts[0])
            assert found["epochs"] >= 1 and not found["complete"]
            assert main(["info", str(parts[0])]) == 0
        finally:
            os.killpg(p.pid, signal.SIGKILL)


def test_failures_leave_no_empty_folders(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad"
    bad.write_bytes(b"no trace")
    (tmp_path / "m.json").write_text(
        '{"programs": [{"name": "a", "family": "a", "data": "none.zst"},'
        ' {"name": "b", "family": "b", "data": "none.zst"}]}'
    )
    assert load_manifest("m.json")
    before = names(tmp_path)
    assert main(["extract", str(bad), str(bad) + "2", "-o", "made/deep/"]) == 1
    for more in (["--machines", "bogus"], ["--preset", "paper"]):
        assert main(["train", "perfvec", "m.json", "-o", "model", "--quiet", *more]) in (1, 2)
        assert main(["train", "neuroscalar", "m.json", "-o", "model", "--quiet", *more]) in (1, 2)
    assert main(["cross-validate", "m.json"]) in (1, 2)
    assert names(tmp_path) == before
    capsys.readouterr()
