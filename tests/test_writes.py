"""Every way to write through every failure: strace fails or kills each system call in turn, and
under the target's name there is the old content or the new, whole, each time.

The plain run fails a few calls of one command of each kind; ``-m slow`` all calls of all commands,
and kills at 50 random moments.
"""

from __future__ import annotations

import ast
import json
import lzma
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import column_pins
import numpy as np
import pytest

import tracekit
from tracekit.dataset.joining import join
from tracekit.inputs.tks import TksWriter, summary
from tracekit.model import load_card
from tracekit.model.card import load_file

PACKAGE = Path(tracekit.__file__).parent
GOLDEN = Path(__file__).parent / "golden"
FORBIDDEN = {"write_text", "savefig", "save", "savez", "savez_compressed", "savetxt", "tofile"}
FORBIDDEN |= {"open_memmap", "memmap", "mkdtemp", "mkstemp", "NamedTemporaryFile"}
FORBIDDEN |= {"TemporaryDirectory", "TemporaryFile", "mkdir", "makedirs", "touch", "symlink_to"}
HELPERS = {"output.py", "leftovers.py", "arrays.py"}


def _writes(call: ast.Call) -> bool:
    """Whether a call makes a file in another way than by the helper."""
    f = call.func
    name = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
    of = f.value.id if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) else ""
    if name in ("open", "fdopen"):
        modes = (*call.args, *(k.value for k in call.keywords))
        texts = [a.value for a in modes if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value in (0, 1, 2):
            return False  # a standard stream by its number
        # lzma.open over an OutputFile compresses, and makes nothing.
        return any(re.fullmatch(r"[rbt]*[wxa+][bt+]*", t) for t in texts) and of != "lzma"
    if name == "write_bytes":
        return isinstance(f, ast.Attribute)
    if name in ("save", "savez", "savez_compressed") and of not in ("np", "numpy"):
        return False  # torch.save into memory, models' own methods
    return name in FORBIDDEN


def test_nothing_is_written_past_the_helper() -> None:
    seen = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        calls = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
        seen += len(calls)
        if path.parent.name == "io" and path.name in HELPERS:
            continue
        found = [c.lineno for c in calls if _writes(c)]
        assert not found, f"{path}: lines {found} write past tracekit/io/output.py"
    assert seen > 5000
    for bad in ("open(p, 'w')", "p.open('wb')", "p.write_text('')", "np.save(p, a)", "p.mkdir()"):
        call = ast.parse(bad).body[0]
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        assert _writes(call.value), bad


# ---- each command through each failure

TRACE = GOLDEN / "feats-v1.zst"
SCRIPTS = {
    "model": (
        "import sys, numpy as np\n"
        "from tracekit.model import load_card, load_tensors, save_model\n"
        "source, out = sys.argv[1:]\n"
        "card = load_card(source)\n"
        "t = {k: v * 2 for k, v in load_tensors(source, card).items()}\n"
        "save_model(out, card, t, {'input': np.zeros((2, 2), np.float32)})\n"
    ),
    "machine": (
        "import sys\nfrom tracekit.calibration.machine_rows import write_machine\n"
        "write_machine(sys.argv[1], {'name': 'new' * 40000}, force=True)\n"
    ),
    "recording": (
        "import sys\nfrom tracekit.inputs.tks import TksWriter\n"
        "with TksWriter(sys.argv[1], arch='x86', meta={'command': ['new']}, force=True) as w:\n"
        "    w.close({'end': 'x'})\n"
    ),
    "cache": (
        "import sys\nfrom pathlib import Path\nfrom tracekit.dataset import load_manifest\n"
        "from tracekit.neuroscalar.program_rows import read_paper\n"
        "read_paper(load_manifest(sys.argv[1]).programs, 'm', Path(sys.argv[2]))\n"
    ),
    "arrays": (
        "import sys, numpy as np\nfrom tracekit.io.arrays import save_array\n"
        "save_array(sys.argv[1], np.ones(100000), force=True)\n"
    ),
}
SHIPPED = PACKAGE / "mixture" / "default_x86"


def _npy(folder: Path) -> object:
    return {p.name: np.load(p).tobytes() for p in sorted(folder.glob("*.npy"))}


def _model(folder: Path) -> object:
    card = load_card(folder)
    return {n: {k: v.tobytes() for k, v in load_file(folder, card, n).items()} for n in card.files}


def _cache(folder: Path) -> object:
    """What the next run would take for whole."""
    return {p.name: _npy(p) for p in folder.iterdir() if p.name[0] != "." and (p / "done").exists()}


def _files(folder: Path) -> object:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _features(path: Path) -> object:
    with tracekit.open(path) as f:
        return {n: f.column(n).tobytes() for n in ("pc", "addr")}


#: What is run (its last argument the target), the target's name, and how its content is read whole.
CASES: dict[str, tuple[list[str], str, Callable[[Path], object]]] = {
    "extract": (
        ["-m", "tracekit", "extract", "--force", "TRACE", "-o"],
        "x.zst",
        _features,
    ),
    "npy": (
        ["-m", "tracekit", "export", str(TRACE), "--force", "--to", "npy", "-o"],
        "folder",
        _npy,
    ),
    "champsim": (
        ["-m", "tracekit", "export", str(TRACE), "--force", "--to", "champsim", "-o"],
        "x.gz",
        Path.read_bytes,
    ),
    **{
        to: (["-m", "tracekit", "export", str(TRACE), "--force", "-o"], f"x.{to}", Path.read_bytes)
        for to in ("parquet", "arrow")
    },
    "join": (
        ["-m", "tracekit", "join", str(TRACE), "--force", "--target", "CYCLES", "-o"],
        "j.zst",
        Path.read_bytes,
    ),
    "plot": (["-m", "tracekit", "mrc", str(TRACE), "--force", "--plot"], "m.png", Path.read_bytes),
    "save": (
        ["-m", "tracekit", "predict", str(TRACE), "--force", "--save"],
        "p.npy",
        Path.read_bytes,
    ),
    "simulate": (
        ["-m", "tracekit", "simulate", str(TRACE), "-m", "ns_8w", "--force", "-o"],
        "s.npy",
        Path.read_bytes,
    ),
    "report": (
        ["-m", "tracekit", "report", str(TRACE), "--force", "-o"],
        "r.html",
        Path.read_bytes,
    ),
    "view": (["-m", "tracekit", "view", str(TRACE), "--force", "-o"], "v.log", Path.read_bytes),
    "folded": (
        ["-m", "tracekit", "why", str(TRACE), "--machine", "ns_8w", "--force", "--folded"],
        "f.txt",
        Path.read_bytes,
    ),
    "json": (["-m", "tracekit", "predict", str(TRACE), "--json-file"], "p.json", Path.read_bytes),
    "drmemtrace": (
        ["-m", "tracekit", "export", "TKS", "--force", "--to", "drmemtrace", "-o"],
        "x",
        _files,
    ),
    "plugin": (["-m", "tracekit", "plugin", "--force", "-o"], "plugin", _files),
    "model": (["-c", SCRIPTS["model"], str(SHIPPED)], "model", _model),
    "machine": (["-c", SCRIPTS["machine"]], "m.json", lambda p: json.loads(p.read_text())),
    "recording": (["-c", SCRIPTS["recording"]], "r.tks", summary),
    "cache": (["-c", SCRIPTS["cache"], "MANIFEST"], "cache", _cache),
    "arrays": (["-c", SCRIPTS["arrays"]], "a.npy", lambda p: np.load(p).tobytes()),
}
#: Files and folders by the same helper as others: under ``-m slow`` alone.
LATER = {"simulate", "report", "view", "folded", "json", "champsim", "drmemtrace", "plugin"}
LATER |= {"arrays", "recording"}
#: What a case needs beside the package.
NEEDS = {"parquet": "pyarrow", "arrow": "pyarrow", "plot": "matplotlib"}
#: A start of Python for each call and way: minutes on a busy machine.
LONG = [pytest.mark.slow, pytest.mark.timeout(1800)]
CALLS = ("write", "fsync", "rename", "renameat2", "linkat", "link")


@pytest.fixture
def old(tmp_path: Path) -> Callable[[str], tuple[list[str], Path, Callable[[Path], object]]]:
    """A case with something older under the target's name."""

    def make(name: str) -> tuple[list[str], Path, Callable[[Path], object]]:
        command, target, read = CASES[name]
        trace = tmp_path / "trace.out"
        if not trace.exists():
            trace.write_bytes(lzma.decompress((GOLDEN / "strsort.riscv.trace.xz").read_bytes()))
        cycles, manifest = tmp_path / "cycles.npy", tmp_path / "manifest.json"
        if name == "join" and not cycles.exists():
            with tracekit.open(TRACE) as f:
                np.save(cycles, np.arange(len(f), dtype=np.uint16).reshape(1, -1))
        if name == "cache" and not manifest.exists():
            tracekit.extract(trace, tmp_path / "macro.zst", level="macro")
            with tracekit.open(tmp_path / "macro.zst") as f:
                np.save(cycles, np.arange(len(f), dtype=np.uint16).reshape(1, -1))
            join(str(tmp_path / "macro.zst"), [f"m={cycles}"], str(tmp_path / "joined.zst"))
            program = {"name": "a", "family": "a", "data": "joined.zst"}
            manifest.write_text(json.dumps({"programs": [program]}))
        if name == "drmemtrace":
            column_pins._tks(tmp_path)
        if name in NEEDS:
            pytest.importorskip(NEEDS[name])
        named = {
            "TKS": str(tmp_path / "made.tks"),
            "TRACE": str(trace),
            "CYCLES": f"m={cycles}",
            "MANIFEST": str(manifest),
        }
        command = [named.get(c, c) for c in command]
        place = tmp_path / "out" / target
        shutil.rmtree(place.parent, ignore_errors=True)
        place.parent.mkdir()
        if name == "npy":
            place.mkdir()
            np.save(place / "old.npy", np.zeros(3))
        elif name == "cache":
            place.mkdir()
        elif name in ("plugin", "drmemtrace"):
            place.mkdir()
            (place / "drmemtrace.1.1.trace.gz").write_text("old")
        elif name == "model":
            shutil.copytree(SHIPPED, place)
        elif name == "extract":
            shutil.copy(TRACE, place)
        elif name == "recording":
            with TksWriter(place, arch="x86", meta={"command": ["old"]}) as w:
                w.close({"end": "old"})
        elif name == "arrays":
            np.save(place, np.zeros(5))
        else:
            place.write_bytes(b'"old"')
        return [sys.executable, *command, str(place)], place, read

    return make


def failing(
    command: list[str], kinds: Sequence[str], log: Path, folder: Path, inject: str = ""
) -> tuple[subprocess.CompletedProcess[str], list[tuple[str, int]]]:
    """A command under strace, in the folder: what became of it, and each of these system calls into
    the folder, as the how manieth of its kind (strace counts in each thread) it was."""
    strace = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "4096", "-o", str(log)]
    strace += ["-e", f"trace={','.join(kinds)}", *(["-e", f"inject={inject}"] if inject else [])]
    done = subprocess.run(
        [*strace, *command], capture_output=True, text=True, timeout=120, cwd=folder,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    seen: dict[tuple[str, str], int] = {}
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if (m := re.match(r"(\d+) +(\w+)\((.*)", line)) is None:
            continue
        key = m[1], m[2]
        seen[key] = seen.get(key, 0) + 1
        on = re.match(r"\d+<(.*?)>", m[3])  # a file's name, not what is written into it
        names = [on[1]] if on else re.findall(r'"(.*?)"', m[3])
        inside = [n for n in names if n.startswith(str(folder)) or re.match(r"[^/:]+(/|$)", n)]
        if inside:  # no pipe:[1]
            found.append((m[2], seen[key]))
    return done, found


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize(
    ("every", "name"),
    [(False, n) for n in CASES if n not in LATER]
    + [pytest.param(True, n, marks=LONG) for n in CASES],
)
def test_each_call_that_fails_or_kills(name, every, old, tmp_path) -> None:
    log = tmp_path / "log"
    command, place, read = old(name)
    if name == "plot":  # matplotlib's first run writes its own cache, too, and counts would differ
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        command, place, read = old(name)
    before = read(place)
    done, calls = failing(command, CALLS, log, place.parent)
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    after = read(place)
    assert before != after and sum(c == "fsync" for c, _ in calls) >= 2, calls
    ways = [("error=ENOSPC", 1), ("error=EIO", 1), ("signal=KILL", -9)]
    moments = [(*call, way) for call in calls for way in ways]
    if not every:
        moments = [*random.Random(name).sample(moments, 2), (*calls[0], ways[0])]
    told = 0
    for call, n, (what, code) in moments:
        command, place, read = old(name)
        done, _ = failing(command, CALLS, log, place.parent, f"{call}:{what}:when={n}")
        assert read(place) in (before, after), (call, what, n, done.stderr)
        if code == 1 and done.returncode:
            line = done.stderr.strip().splitlines()[-1]
            told += "No space left on device" in line or "Input/output error" in line
            assert str(place.parent) in line, done.stderr
        # What is left is collected, and the next run succeeds.
        if code == -9:
            again = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert again.returncode == 0 and read(place) == after, again.stderr
        assert [p.name for p in place.parent.iterdir()] == [place.name], (call, n)
        assert not list(place.parent.rglob(".*")), (call, n)
    assert told


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_fifty_kills_at_random_moments(name, old) -> None:
    rng = random.Random(name)
    command, place, read = old(name)
    before = read(place)
    begin = time.monotonic()
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    took, after = time.monotonic() - begin, read(place)
    for _ in range(50):
        command, place, read = old(name)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
            time.sleep(rng.random() * took * 1.1)
            p.kill()
        assert read(place) in (before, after)
