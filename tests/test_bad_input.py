"""Damaged, foreign and hostile inputs: one clear line, an exit code, nothing left behind."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import synthetic
import zstandard
from oracles import gem5_text

import tracekit
from tracekit.cli.main import main

PACK = {"gz": gzip.compress, "zst": zstandard.compress, "xz": lzma.compress}
GARBAGE = bytes(range(256)) * 20
_BLOCK_LINE = re.compile(r"^O3PipeView:", re.M)


@pytest.fixture
def cli(capfd, tmp_path):
    """Runs a command line; checks what every failure must look like; returns (code, its line,
    stdout)."""

    def run(*args: object) -> tuple[int, str, str]:
        capfd.readouterr()
        before = {p for p in tmp_path.rglob("*") if p.suffix == ".zst"}
        code = main([str(a) for a in args])
        out, err = capfd.readouterr()
        assert "Traceback" not in err + out
        if code:
            assert err.startswith("tracekit: ") and err.count("\n") == 1, err
            assert {p for p in tmp_path.rglob("*") if p.suffix == ".zst"} <= before
        assert not list(tmp_path.rglob("*.tmp"))
        return code, err, out

    return run


@pytest.fixture
def trace(tmp_path) -> Path:
    path = tmp_path / "trace.out"
    path.write_text(synthetic.text(1, 3000))
    return path


def extract_rows(path: Path, text: str | bytes, **options: object) -> tracekit.ExtractionResult:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tracekit.extract(path, path.with_name("feats.zst"), force=True, **options)


def columns(path: Path) -> dict[str, list]:
    with tracekit.open(path) as f:
        names = [n for n in f.columns if f.timed or n not in tracekit.schema.STAGES]
        return {n: f[n].tolist() for n in names} | {
            "text": [f.statics.disassembly[i] for i in f["static_id"]]
        }


def same_as(path: Path, text: str, reference: str, **anomalies: int) -> None:
    """``text`` gives the rows of ``reference`` and exactly these anomalies."""
    extract_rows(path, reference)
    want = columns(path.with_name("feats.zst"))
    result = extract_rows(path, text)
    assert {k: a["count"] for k, a in result.anomalies.items()} == anomalies
    assert columns(path.with_name("feats.zst")) == want


# ---- what is no trace, or cannot be read


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", r"empty input"),
        (b"\n" * 5, r"no trace that tracekit knows"),
        (b"hello\nworld\n" * 1000, r"no trace that tracekit knows"),
        (GARBAGE, r"no trace that tracekit knows"),
        (b"\x1f\x8b" + GARBAGE, r"gzip"),
        (b"\x28\xb5\x2f\xfd" + GARBAGE, r"zstd"),
        (b"\xfd7zXZ\0" + GARBAGE, r"xz"),
        (gzip.compress(b"", mtime=0), r"empty input"),
        (zstandard.compress(b"nothing\n" * 100), r"no trace that tracekit knows"),
        (b"O3PipeView:fetch:1\n" * 1000, r"no committed instruction.*1000 x malformed_line"),
    ],
)
def test_no_trace(cli, tmp_path, content, said):
    (tmp_path / "in").write_bytes(content)
    code, line, _ = cli("extract", tmp_path / "in", "-o", tmp_path / "feats.zst")
    assert code == 1
    assert re.search(said, line) and "in" in line


def test_paths(cli, tmp_path, trace):
    assert cli("extract", tmp_path / "absent", "-o", tmp_path / "f.zst")[:1] == (1,)
    assert "No such file" in cli("extract", tmp_path / "absent", "-o", tmp_path / "f.zst")[1]
    (tmp_path / "folder").mkdir()
    code, line, _ = cli("extract", tmp_path / "folder", "-o", tmp_path / "f.zst")
    assert code == 1 and "folder" in line
    code, line, _ = cli("extract", trace, "-o", tmp_path / "absent" / "f.zst")
    assert code == 1 and "cannot write: No such file" in line
    for command in ("info", "verify", "dump"):
        assert cli(command, tmp_path / "absent")[0] == 1
        assert cli(command, tmp_path / "folder")[0] == 1
        assert cli(command, trace)[0] == 1
        assert cli(command, "/dev/null")[0] == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable(cli, tmp_path, trace):
    trace.chmod(0)
    assert "Permission denied" in cli("extract", trace, "-o", tmp_path / "f.zst")[1]


def test_output_exists(cli, tmp_path, trace):
    out = tmp_path / "f.zst"
    out.write_bytes(b"precious")
    code, line, _ = cli("extract", trace, "-o", out)
    assert code == 1 and "--force" in line and out.read_bytes() == b"precious"
    assert cli("extract", trace, "-o", out, "--force", "--quiet")[0] == 0
    assert cli("verify", out)[0] == 0


def test_output_that_must_not_be_replaced(cli, tmp_path, trace):
    text = trace.read_bytes()
    code, line, _ = cli("extract", trace, "-o", trace, "--force")
    assert code == 1 and "is the input" in line and trace.read_bytes() == text
    code, line, _ = cli("extract", trace, "-o", "/dev/null", "--force")
    assert code == 1 and "replaced" in line and not Path("/dev/null").is_file()
    with pytest.raises(tracekit.TracekitError, match="replaced"):
        tracekit.extract(trace, tmp_path, force=True)


def test_usage(cli, tmp_path, trace):
    feats = tmp_path / "f.zst"
    assert cli("extract", trace, "-o", feats, "--line-bytes", "63")[0] == 2
    assert cli("extract", trace, "-o", feats, "--chunk-rows", "1")[0] == 2
    code, line, _ = cli("extract", trace, "-o", feats, "--start", "100000")
    assert code == 2 and "before row 100000" in line
    assert cli("extract", trace, "-o", feats, "--quiet")[0] == 0
    code, line, _ = cli("dump", feats, "--columns", "nope")
    assert code == 2 and "no column 'nope'" in line
    assert cli("dump", feats, "--rows", "x")[0] == 2
    none = ["extract", str(trace), "-o", str(feats), "--count", "0"]
    for args in (["frobnicate"], [], ["extract"], none):
        with pytest.raises(SystemExit) as e:
            main(args)
        assert e.value.code == 2


def test_missing_column(tmp_path, trace):
    tracekit.extract(trace, tmp_path / "f.zst")
    with tracekit.open(tmp_path / "f.zst") as f:
        with pytest.raises(KeyError, match="no column 'nope'"):
            f["nope"]
        with pytest.raises(tracekit.UsageError, match="no feature set 'nope'"):
            f.features("nope")
    trace.write_text(synthetic.text(1, 300, blocks=False))
    tracekit.extract(trace, tmp_path / "g.zst")
    with tracekit.open(tmp_path / "g.zst") as f:
        for ask in (lambda: f["retire"], lambda: f.targets(), lambda: f.clock_ps):
            with pytest.raises(tracekit.TracekitError, match="no row of the trace has times"):
                ask()


# ---- compressed inputs


@pytest.mark.parametrize("kind", PACK)
def test_damaged_compression(cli, tmp_path, kind):
    data = PACK[kind](synthetic.text(2, 4000).encode())
    path, out = tmp_path / f"t.{kind}", tmp_path / "f.zst"
    for cut in (3, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        code, line, _ = cli("extract", path, "-o", out)
        assert code == 1 and f"t.{kind}" in line
        assert "cut short" in line or "no trace" in line
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 0x55
    path.write_bytes(damaged)
    code, line, _ = cli("extract", path, "-o", out)
    assert code == 1 and re.search(r"byte \d+: damaged", line)
    path.write_bytes(data + b"trailing garbage")
    code, line, _ = cli("extract", path, "-o", out)
    assert code == 1 and re.search(rf"byte {len(data)}: what follows", line)
    path.write_bytes(data + b"\0" * 4000)  # tape padding
    assert cli("extract", path, "-o", out, "--quiet")[0] == 0


# ---- what can be survived: the rows, the count, and --strict


def survivable() -> dict[str, tuple[str, str]]:
    """Anomaly -> (trace, the same trace without it)."""
    text = synthetic.text(3, 400)
    lines = text.splitlines(keepends=True)
    at = next(
        i for i in range(len(lines) // 2, len(lines)) if lines[i].startswith("O3PipeView:fetch")
    )
    whole = "".join(lines[:at])

    def into_block(line: str) -> str:
        return "".join([*lines[: at + 3], line, *lines[at + 3 :]])

    return {
        "other_line": (
            "".join([*lines[:at], "info: Entering event queue @ 0\n", *lines[at:]]),
            text,
        ),
        "unknown_stage": (into_block("O3PipeView:thread:5:0\n"), text),
        "malformed_line": ("".join([*lines[:at], "O3PipeView:fetch:12x\n", *lines[at:]]), text),
        "stray_stage_line": ("".join([*lines[:at], "O3PipeView:issue:7\n", *lines[at:]]), text),
        "incomplete_block": (whole + "".join(lines[at : at + 3]), whole),
        "cut_line": (whole + lines[at][:20], whole),
        "overlong_line": ("".join([*lines[:at], "x" * 70000 + "\n", *lines[at:]]), text),
        "unknown_op_class": (text.replace(" : MemRead :", " : MemPeek :"), ""),
        "unknown_flag": (text.replace("IsLoad", "IsLaden"), ""),
        "block_without_exec": (
            "".join([*lines[:at], _lone_block(10**7), *lines[at:]]),
            text,
        ),
    }


def _exec_line(tick: int, seq: int) -> str:
    shown = "0x400000    : add   x1, x2, x3 : IntAlu :"
    return f"{tick}: system.cpu: {shown}   FetchSeq={seq}  flags=(IsInteger)\n"


def _lone_block(seq: int) -> str:
    stages = "".join(
        f"O3PipeView:{s}:{9000}\n" for s in ("decode", "rename", "dispatch", "issue", "complete")
    )
    return (
        f"O3PipeView:fetch:8000:0x00400000:0:{seq}:  nop\n{stages}O3PipeView:retire:9500:store:0\n"
    )


@pytest.mark.parametrize("kind", survivable())
def test_survived(cli, tmp_path, kind):
    text, reference = survivable()[kind]
    if reference:
        same_as(tmp_path / "t", text, reference, **{kind: 1})
    path, out = tmp_path / "t", tmp_path / "out.zst"
    path.write_text(text)
    assert cli("extract", path, "-o", out, "--quiet")[0] == 0
    code, _, shown = cli("info", out)
    assert code == 0 and kind in shown
    code, line, _ = cli("extract", path, "-o", tmp_path / "strict.zst", "--strict")
    assert code == 1 and kind.replace("_", " ") in line and "--strict" in line


def test_anomaly_offsets(tmp_path):
    lines = synthetic.text(4, 200).splitlines(keepends=True)
    at = next(i for i in range(100, len(lines)) if lines[i].startswith("O3PipeView:fetch"))
    want = len("".join(lines[:at]))
    result = extract_rows(tmp_path / "t", "".join([*lines[:at], "hello\n", *lines[at:]]))
    assert result.anomalies["other_line"] == {"count": 1, "first_offset": want}
    lone = _lone_block(10**7)
    result = extract_rows(tmp_path / "t", "".join([*lines[:at], lone, *lines[at:], lone]))
    assert result.anomalies == {"block_without_exec": {"count": 2, "first_offset": want}}
    blocks = [_lone_block(seq) for seq in range(1, 100)]
    result = extract_rows(tmp_path / "t", "".join([*blocks, blocks[50]]))
    at = len("".join(blocks))
    assert result.anomalies == {"late_block": {"count": 1, "first_offset": at}}
    first = _lone_block(1)
    result = extract_rows(tmp_path / "t", first + "".join(lines))
    assert result.anomalies == {"block_without_exec": {"count": 1, "first_offset": 0}}


def test_late_exec_lines(tmp_path):
    """Exec lines that begin after 65,536 blocks cannot be joined any more."""
    o3 = "".join(_lone_block(seq) for seq in range(1, (1 << 16) + 10))
    result = extract_rows(tmp_path / "t", o3 + _exec_line(9999, 5))
    assert result.rows == (1 << 16) + 9
    assert {k: a["count"] for k, a in result.anomalies.items()} == {"exec_line_after_blocks": 1}


@pytest.mark.parametrize("seed", range(6))
def test_cut_anywhere(tmp_path, seed):
    """Every cut leaves the rows before it."""
    text = synthetic.text(seed, 60)
    want = gem5_text.read(text)
    rng = np.random.default_rng(seed)
    for cut in rng.integers(200, len(text), 25).tolist():
        result = extract_rows(tmp_path / "t", text[:cut])
        rows = columns(tmp_path / "feats.zst")
        assert rows["pc"] == [r["pc"] for r in want][: result.rows]
        whole = text[: text.rfind("\n", 0, cut) + 1]
        assert result.rows == len(gem5_text.read(whole))


@pytest.mark.parametrize("seed", range(4))
def test_guest_output_splits_lines(tmp_path, seed):
    """Standard output holds the guest's text, too: other lines are counted, split ones are lost
    alone."""
    rng = np.random.default_rng(seed)
    lines = synthetic.text(seed, 300).splitlines(keepends=True)
    out, split = [], 0
    for line in lines:
        if rng.random() < 0.02 and not line.startswith("O3"):
            k = int(rng.integers(1, len(line) - 1))
            out += [line[:k], "Hello, world: 100%\n", line[k:]]
            split += 1
        else:
            out.append(line)
    result = extract_rows(tmp_path / "t", "".join(out))
    assert len(gem5_text.read("".join(lines))) - split <= result.rows <= len(lines)
    counted = sum(a["count"] for a in result.anomalies.values())
    assert counted >= split > 0


# ---- dialects


def test_crlf(tmp_path):
    text = synthetic.text(5, 300)
    same_as(tmp_path / "t", text.replace("\n", "\r\n"), text)
    o3 = synthetic.text(5, 300, exec_lines=False)
    same_as(tmp_path / "t", o3.replace("\n", "\r\n"), o3)


def test_fmt_flag(tmp_path):
    text = synthetic.text(6, 300)
    flagged = _BLOCK_LINE.sub("O3PipeView: O3PipeView:", text).replace(
        ": system.cpu:", ": ExecEnable: system.cpu:"
    )
    same_as(tmp_path / "t", flagged, text)


def test_bare_retire_and_load_word(tmp_path):
    o3 = synthetic.text(7, 300, exec_lines=False)
    same_as(tmp_path / "t", o3.replace(":store:0\n", ":load:0\n"), o3)
    same_as(tmp_path / "t", re.sub(r"(retire:\d+):store:0\n", r"\1\n", o3), o3)


NAX = (
    "O3PipeView:fetch:{t}:0x{pc:016x}:0:{seq}:{text}\nO3PipeView:decode:{t}\nO3PipeView:rename:{t}\n"
    "O3PipeView:dispatch:{d}\nO3PipeView:issue:{d}\nO3PipeView:complete:{r}\nO3PipeView:retire:{r}:store:{s}\n"
)


def test_naxriscv(tmp_path):
    """Verilator's trace: committed instructions, seq counts commits, a store when it leaves its
    queue."""
    program = [
        (0x80000000, "auipc   t0, 0x0"),
        (0x80000004, "sd      t0, 0(sp)"),
        (0x80000008, "ld      a0, 0(sp)"),
    ]
    blocks = []
    for seq in range(90):
        pc, text = program[seq % 3]
        t = 2000 + 10 * seq
        late = 5 if text.startswith("sd") else 0
        s = t + 90 if late else 0
        blocks.append(
            (seq + late, NAX.format(t=t, d=t + 20, r=t + 40, s=s, pc=pc, seq=seq, text=text))
        )
    result = extract_rows(tmp_path / "t", "".join(b for _, b in sorted(blocks, key=lambda b: b[0])))
    assert result.rows == 90 and not result.anomalies
    with tracekit.open(tmp_path / "feats.zst") as f:
        assert f["pc"].tolist() == [program[i % 3][0] for i in range(90)]
        assert f.index["arch"] == "riscv"
        assert f["store"].tolist() == [2000 + 10 * i + 90 if i % 3 == 1 else 0 for i in range(90)]
        assert int(f.targets("ticks").sum()) == 890


def test_boom(tmp_path):
    """BOOM's printf: a line a stage, in no order, numbers padded with blanks, no mark for a
    squash."""
    rng = np.random.default_rng(1)
    lines, want = [], []
    for seq in range(1, 200):
        t, squashed = 1000 + 10 * seq, rng.random() < 0.2
        pc = 0x80000000 + 4 * (seq % 8)
        lines.append(
            (
                seq,
                f"{seq:10d}; O3PipeView:fetch:{t:10d}:0x{pc:010x}:0:{seq:10d}:addi    a0, a0, 1\n",
            )
        )
        for k, s in enumerate(("decode", "rename", "dispatch", "issue", "complete")):
            lines.append((seq + k + rng.random(), f"{seq:10d}; O3PipeView:{s}: {t + k:10d}\n"))
        if not squashed:
            lines.append(
                (seq + 9 * rng.random(), f"{seq:10d}; O3PipeView:retire: {t + 9:10d}:store: 0\n")
            )
            want.append((pc, t + 9))
    text = "".join(line for _, line in sorted(lines, key=lambda x: x[0]))
    result = extract_rows(tmp_path / "t", text)
    assert result.rows == len(want) and not result.anomalies
    assert result.stats["squashed"] == 199 - len(want)
    with tracekit.open(tmp_path / "feats.zst") as f:
        assert list(zip(f["pc"].tolist(), f["retire"].tolist(), strict=True)) == want


def test_hostile_cpu_names(tmp_path):
    names = ("../../up", "a/b", "-", "..", "c" * 3000)
    text = "".join(
        synthetic.text(i, 50, blocks=False).replace("system.cpu:", f"{n}:")
        for i, n in enumerate(names)
    )
    folder = tmp_path / "in" / "deep"
    folder.mkdir(parents=True)
    (folder / "t").write_text(text)
    result = tracekit.extract(folder / "t", folder / "feats.zst")
    assert len(result.outputs) == len(names)
    assert all(Path(o.path).parent == folder for o in result.outputs)
    assert {p.name for p in tmp_path.iterdir()} == {"in"}


def test_too_many_cpus(tmp_path):
    text = "".join(
        synthetic.text(1, 2, blocks=False).replace("system.cpu:", f"cpu{i}:") for i in range(400)
    )
    path = tmp_path / "t"
    path.write_text(text)
    result = tracekit.extract(path, tmp_path / "out.zst")
    assert len(result.outputs) == 256
    assert result.anomalies["line_of_too_many_cpus"]["count"] >= 144


def test_one_pc_with_many_texts(tmp_path):
    """Code that changes at one place all the time must not make the search for it quadratic."""
    line = (
        "{t:7d}: system.cpu: 0x400000    :   mov   x1, #{t:<12d} : IntAlu :   flags=(IsInteger)\n"
    )
    n = 40000
    result = extract_rows(tmp_path / "t", "".join(line.format(t=t) for t in range(n)))
    assert result.rows == n
    with tracekit.open(tmp_path / "feats.zst") as f:
        assert [f.statics.disassembly[i].split("#")[1] for i in f["static_id"]] == [
            str(t) for t in range(n)
        ]


# ---- the machine


def run(*args: object, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tracekit", *(str(a) for a in args)]
    env = {**os.environ, "PYTHONPATH": str(Path(tracekit.__file__).parent.parent)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, env=env, **options)


def test_full_disk(tmp_path, trace):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    p = run("extract", trace, "-o", tmp_path / "f.zst", preexec_fn=limit)
    _, err = p.communicate()
    assert p.returncode == 1 and err.count(b"\n") == 1 and b"cannot write: File too large" in err
    assert {x.name for x in tmp_path.iterdir()} == {"trace.out"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["what-if none.zst --machine ns_8w", "what-if --no-such", "info"])
def test_a_full_standard_error_changes_no_exit_code(unbuffered, words) -> None:
    command = [sys.executable, "-m", "tracekit", *words.split()]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run(command, stderr=full, timeout=60, env=env).returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_standard_output(tmp_path, trace):
    tracekit.extract(trace, tmp_path / "f.zst")
    with Path("/dev/full").open("wb") as full:
        for args in (["dump", tmp_path / "f.zst"], ["info", tmp_path / "f.zst"]):
            p = subprocess.run(
                [sys.executable, "-m", "tracekit", *map(str, args)],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
            )
            assert p.returncode == 1 and p.stderr == b"tracekit: No space left on device\n"


def test_reader_goes_away(tmp_path, trace):
    tracekit.extract(trace, tmp_path / "f.zst")
    p = run("dump", tmp_path / "f.zst")
    assert p.stdout is not None and p.stderr is not None
    p.stdout.readline()
    p.stdout.close()
    assert p.wait(60) == 0 and p.stderr.read() == b""
    p.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_interrupted(tmp_path, number):
    """While a pipe brings nothing more; after SIGKILL only the temporary file is left."""
    out = tmp_path / "f.zst"
    default = lambda: [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGHUP, signal.SIGTERM)]  # noqa: E731
    p = run(
        "extract", "-", "-o", out, "--chunk-rows", "256", stdin=subprocess.PIPE, preexec_fn=default
    )
    assert p.stdin is not None
    p.stdin.write(synthetic.text(9, 12000).encode())
    p.stdin.flush()
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [x.suffix for x in tmp_path.iterdir()] == [".tmp"]
    p.send_signal(number)
    code = p.wait(60)
    err = p.stderr.read() if p.stderr else b""
    p.stdin.close()
    for f in (p.stdout, p.stderr):
        if f:
            f.close()
    assert not out.exists()
    if number == signal.SIGKILL:
        assert code == -9
        return
    assert list(tmp_path.iterdir()) == []
    assert code == 128 + number
    assert err.count(b"\n") == 1 and err.startswith(b"tracekit: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_jobs(tmp_path, number):
    """All processes of a terminal's job are told; one line, and nothing is left."""
    fifos, out = [tmp_path / "a", tmp_path / "b"], tmp_path / "out"
    for one in fifos:
        os.mkfifo(one)
    p = run(
        "extract", *fifos, "-o", f"{out}/", "--chunk-rows", "256", "--jobs", "2",
        start_new_session=True,
    )  # fmt: skip
    text = synthetic.text(9, 12000).encode()  # more than is read before rows are written
    with fifos[0].open("wb", 0) as a, fifos[1].open("wb", 0) as b:
        a.write(text)
        b.write(text)
        deadline = time.monotonic() + 60
        while len(list(out.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [x.suffix for x in out.iterdir()] == [".tmp"] * 2
        os.killpg(p.pid, number)
        _, err = p.communicate(timeout=60)
    assert p.returncode == 128 + number
    assert err.count(b"\n") == 1 and err.startswith(b"tracekit: "), err
    assert not out.exists()


def test_a_job_whose_process_is_killed(tmp_path):
    """Named, with the others' results kept; not waited for."""
    fifo, other, out = tmp_path / "a", tmp_path / "b", tmp_path / "out"
    os.mkfifo(fifo)
    other.write_text(synthetic.text(1, 300))
    p = run("extract", other, fifo, "-o", f"{out}/", "--jobs", "2")
    with fifo.open("wb", 0) as pipe:
        pipe.write(synthetic.text(9, 3000).encode())
        deadline = time.monotonic() + 60
        while not (out / "b.feats.zst").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        for task in Path("/proc").glob("[0-9]*"):  # who has the pipe open
            with contextlib.suppress(OSError):
                parent = int((task / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == p.pid and any(fd.resolve() == fifo for fd in (task / "fd").iterdir()):
                    os.kill(int(task.name), signal.SIGKILL)
        _, err = p.communicate(timeout=60)
    assert p.returncode == 1
    assert f"{fifo}: not extracted".encode() in err and b"Traceback" not in err
    assert (out / "b.feats.zst").exists() and not (out / "a.feats.zst").exists()


def test_jobs_say_nothing(tmp_path):
    paths = [tmp_path / f"t{k}" for k in range(5)]
    for k, one in enumerate(paths):
        one.write_text(synthetic.text(k, 300))
    p = run("extract", *paths, "-o", f"{tmp_path}/out/", "--jobs", "2", "--quiet")
    _, err = p.communicate(timeout=120)
    assert (p.returncode, err) == (0, b"")
    assert len(list((tmp_path / "out").iterdir())) == 5


def test_count_ends_a_pipe_early(tmp_path):
    """--count does not wait for what a slow pipe brings later."""
    p = run(
        "extract",
        "-",
        "-o",
        tmp_path / "f.zst",
        "--count",
        "300",
        "--chunk-rows",
        "256",
        stdin=subprocess.PIPE,
    )
    assert p.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        p.stdin.write(synthetic.text(9, 3000).encode())
        p.stdin.flush()
    assert p.wait(60) == 0
    for f in (p.stdin, p.stdout, p.stderr):
        with contextlib.suppress(BrokenPipeError):
            f.close()
    with tracekit.open(tmp_path / "f.zst") as f:
        assert len(f) == 300


def test_names_that_are_no_text(cli, tmp_path, trace):
    odd = tmp_path / "\udcff\nx"
    trace.rename(odd)
    code, line, _ = cli("extract", odd, "-o", tmp_path / "f.zst", "--strict", "--cpu", "zzz")
    assert code == 2 and "\\udcff" in line
    assert cli("extract", odd, "-o", tmp_path / "f.zst", "--quiet")[0] == 0
    assert cli("info", tmp_path / "f.zst")[0] == 0
    assert cli("info", "--json", tmp_path / "f.zst")[0] == 0
