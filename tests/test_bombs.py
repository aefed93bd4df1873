"""Small files that decompress to much: an error or a right result, in little memory."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import synthetic
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.tks_blocks import code_block, varint

import tracekit
from tracekit import _core
from tracekit.errors import FormatError, TracekitError
from tracekit.inputs import archives, decompress, tks
from tracekit.inputs.decompress import PIECE, Members
from tracekit.inputs.tks import EPOCH
from tracekit.store import frames, statics

LIMIT = 512 << 20
# What wait4 gives would count the pages of the process that started it, too.
RUN = """
import sys
from tracekit.cli.main import main
try:
    code = main(sys.argv[1:])
finally:
    with open("/proc/self/status") as status:
        print(next(x for x in status if x.startswith("VmHWM:")), end="", file=sys.stderr)
sys.exit(code)
"""
SIZE = 640 << 20  # of what a bomb makes: more than LIMIT
MIB = 1 << 20


def run(*args: object) -> tuple[int, str, int]:
    """(exit status, standard error, peak resident bytes) of a command."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, args)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    said, _, peak = done.stderr.rpartition("VmHWM:")
    return done.returncode, said, int(peak.split()[0]) * 1024


def rle_frame(blocks: int, byte: bytes = b"\n", window: int = 17) -> bytes:
    """A zstd frame by hand: each block of four bytes makes 128 KiB."""
    head = b"\x28\xb5\x2f\xfd" + bytes([0, (window - 10) << 3])
    size = 1 << 17
    block = (size << 3 | 1 << 1).to_bytes(3, "little") + byte
    last = (size << 3 | 1 << 1 | 1).to_bytes(3, "little") + byte
    return head + block * (blocks - 1) + last


def deflated(head: bytes, size: int, make: Callable[[], object]) -> bytes:
    engine = make()
    out = [engine.compress(head)]  # type: ignore[attr-defined]
    block = (b"#" * 1023 + b"\n") * (MIB >> 10)
    out += [engine.compress(block) for _ in range(size // MIB)]  # type: ignore[attr-defined]
    return b"".join([*out, engine.flush()])  # type: ignore[attr-defined]


TEXT = synthetic.text(1, 60, blocks=False).encode()
BOMBS: dict[str, Callable[[], bytes]] = {
    "zst": lambda: zstandard.compress(TEXT) + rle_frame(SIZE >> 17),
    "zst with a long window": lambda: zstandard.compress(TEXT) + rle_frame(1 << 13, window=31),
    "zst of one segment": lambda: (
        zstandard.compress(TEXT)
        + b"\x28\xb5\x2f\xfd\xe0"
        + (1 << 30).to_bytes(8, "little")
        + rle_frame(1 << 13)[6:]
    ),
    "xz": lambda: deflated(TEXT, SIZE, lambda: lzma.LZMACompressor(preset=0)),
    "gz": lambda: deflated(TEXT, SIZE, lambda: zlib.compressobj(9, wbits=31)),
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.slow, pytest.mark.ci]) if k == "zst" else k for k in BOMBS],
)
def test_a_text_that_never_ends(tmp_path: Path, kind: str) -> None:
    (tmp_path / "bomb").write_bytes(BOMBS[kind]())
    code, said, peak = run("extract", tmp_path / "bomb", "-o", tmp_path / "f.zst", "--quiet")
    assert peak < LIMIT, f"{peak / MIB:.0f} MiB"
    if " " in kind:
        assert (code, said.count("\n")) == (1, 1) and "window of over 128 MiB" in said
    else:
        assert code == 0 and (tmp_path / "f.zst").exists()


def drmemtrace(record: bytes, count: int) -> tuple[bytes, bytes]:
    """(head, repeated tail) of a thread: a header, one instruction, and ``record`` without end."""
    entry = struct.Struct("<HHQ")
    head = entry.pack(25, 0, 4) + entry.pack(22, 4, 1) + entry.pack(24, 4, 1)
    return head + entry.pack(47, 4, 0x1000) + entry.pack(10, 4, 0x1000), record * count


@pytest.mark.parametrize("what", ["loads", "timestamps"])
@pytest.mark.parametrize("suffix", ["zip", "lz4", "gz", "zlib", "zst"])
def test_a_drmemtrace_of_one_instruction(tmp_path: Path, what: str, suffix: str) -> None:
    entry = struct.Struct("<HHQ")
    record = entry.pack(0, 8, 0x7000) if what == "loads" else entry.pack(28, 2, 12345)
    head, tail = drmemtrace(record, 1 << 16)
    rounds = 200 * MIB // len(tail)
    place = tmp_path / "trace"
    if suffix == "zip":
        with (
            zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as z,
            z.open("chunk.0", "w", force_zip64=True) as f,
        ):
            f.write(head)
            for _ in range(rounds):
                f.write(tail)
    else:
        if suffix == "lz4":
            engine = pytest.importorskip("lz4.frame").LZ4FrameCompressor()
            begin = engine.begin()
        elif suffix == "zst":
            engine, begin = zstandard.ZstdCompressor().compressobj(), b""
        else:
            engine, begin = zlib.compressobj(6, wbits=31 if suffix == "gz" else 15), b""
        with place.open("wb") as out:
            out.write(begin + engine.compress(head))
            for _ in range(rounds):
                out.write(engine.compress(tail))
            out.write(engine.flush())
    out_file = tmp_path / "f.zst"
    code, said, peak = run("extract", place, "-o", out_file, "--level", "macro")
    assert peak < LIMIT, f"{peak / MIB:.0f} MiB"
    assert code == 0, said
    if what == "loads":
        assert "over the limit of one instruction" in said


def test_lackey_of_one_instruction(tmp_path: Path) -> None:
    text = b"".join(b"I  %08x,4\n L 01ffe000,8\n" % (0x400000 + 4 * i) for i in range(9))
    with gzip.open(tmp_path / "bomb.gz", "wb", 1) as f:
        f.write(text)
        for _ in range(200):
            f.write(b" L 01ffe000,8\n" * (1 << 16))
    code, said, peak = run(
        "extract", tmp_path / "bomb.gz", "-o", tmp_path / "f.zst", "--level", "macro"
    )
    assert code == 0 and "over the limit of one instruction" in said
    assert peak < LIMIT, f"{peak / MIB:.0f} MiB"


def test_tensors_that_overlap(tmp_path: Path) -> None:
    entry = {"dtype": "U8", "shape": [MIB], "data_offsets": [0, MIB]}
    text = json.dumps({f"t{i}": entry for i in range(2000)}).encode()
    place = tmp_path / "m.safetensors"
    place.write_bytes(struct.pack("<Q", len(text)) + text + bytes(MIB))
    program = (
        "import sys; from tracekit.model import read_safetensors as r; import resource as m\n"
        "m.setrlimit(m.RLIMIT_AS, (1 << 30, 1 << 30)); r(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, place],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert "share bytes" in done.stderr


@pytest.mark.parametrize("rows", [8_000_000, 60_000_000])
def test_an_epoch_of_equal_rows(tmp_path: Path, rows: int) -> None:
    """One instruction millions of times, three bytes a row before compression."""
    place = tmp_path / "r.tks"
    fields = bytes([0, 1, 1]) + bytes(len(_core.EPOCH_FIELDS) - 3)
    head = bytes([EPOCH]) + varint(len(_core.EPOCH_FIELDS)) + fields + varint(rows) + varint(0)
    columns = [bytes(rows), b"\4" * rows, bytes(rows), b"", b""]
    payload = head + b"".join(varint(len(c)) + c for c in columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tks, "EXPANDED", 1 << 30)
        with tks.TksWriter(place, arch="x86", meta={}) as w:
            w.block(code_block(0, [(0x401000, b"\x90")]))
            w.block(payload)
            w.close({})
    with (
        pytest.raises(TracekitError, match="record shorter epochs"),
        tks.TksWriter(tmp_path / "o.tks", arch="x86", meta={}) as w,
    ):
        w.block(bytes([EPOCH]) + bytes(tks.EXPANDED))
    for command in (("info", place), ("hot", place), ("extract", place, "-o", tmp_path / "f.zst")):
        code, said, peak = run(*command, *(["--level", "macro"] * (command[0] == "extract")))
        assert peak < LIMIT, f"{command[0]}: {peak / MIB:.0f} MiB"
        assert code == (rows > 10_000_000), said
        assert code == 0 or "from few bytes" in said


@pytest.mark.parametrize("what", ["statics", "text", "targets"])
def test_a_feats_file_of_equal_bytes(tmp_path: Path, what: str) -> None:
    """Frames as small as zstd makes them, under right checksums: refused."""
    (tmp_path / "t").write_text(synthetic.text(3, 5000))
    tracekit.extract(tmp_path / "t", tmp_path / "f.zst")
    raw = (tmp_path / "f.zst").read_bytes()
    offset, _ = frames.parse_trailer(raw[-frames.TRAILER_SIZE :], "", 0)
    with tracekit.open(tmp_path / "f.zst") as f:
        index, rows = json.loads(json.dumps(f.index)), len(f)
    body = bytearray(raw[:offset])

    def bomb(size: int) -> list[int]:
        frame = zstandard.ZstdCompressor(write_checksum=True).compress(bytes(size))
        body.extend(frame)
        return [len(body) - len(frame), len(frame), size]

    if what == "statics":
        n = 1 << 24
        index["statics"] |= {"count": n, "forms": n}
        for name, (dtype, width) in statics.ARRAYS.items():
            index["statics"]["streams"][name] = bomb(n * max(width, 1) * np.dtype(dtype).itemsize)
        index["statics"]["streams"] |= {"form": bomb(4 * n), "bytes_length": bomb(n)}
    elif what == "text":
        index["statics"]["streams"]["disassembly"] = bomb(1 << 30)
    else:
        machines = [f"m{k}" for k in range(1 << 16)]
        block = {"kind": "u1", "cycles": bomb(rows * len(machines)), "far": bomb(0)}
        index["targets"] = {"machines": machines, "rows": rows, "dtype": "u2", "blocks": [block]}
    frame = frames.json_frame(frames.INDEX, index)
    place = tmp_path / "bomb.zst"
    place.write_bytes(bytes(body) + frame + frames.trailer_frame(len(body), len(frame)))
    assert place.stat().st_size < 1 << 21
    for command in (("info", place), ("verify", place), ("dump", place, "--rows", ":3")):
        code, said, peak = run(*command)
        assert peak < LIMIT, f"{command[0]}: {peak / MIB:.0f} MiB"
        assert (code, said.count("\n")) == (1, 1) and "from few bytes" in said


def test_an_archive_of_many_members(tmp_path: Path) -> None:
    place = tmp_path / "many.zip"
    entry = b"PK\1\2" + bytes(42)
    directory = entry * (archives.MAX_DIRECTORY // len(entry) + 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, len(directory), 4, 0)
    place.write_bytes(b"PK\3\4" + directory + end)
    with pytest.raises(FormatError, match="directory has over"):
        next(archives.chunks(place))


def test_vectors_of_small_entries(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    place = tmp_path / "v.bb"
    place.write_bytes((b"T" + b":1:400 :2:999 " * 100_000 + b"\n") * 20)
    code, said, peak = run("simpoints", place)
    assert code == 0 and peak < LIMIT, f"{said}: {peak / MIB:.0f} MiB"


# ---- pieces


@settings(max_examples=25)
@given(st.integers(0, 1 << 30), st.integers(1, 400_000), st.sampled_from(sorted(decompress.KINDS)))
def test_pieces_are_small_and_whole(seed: int, step: int, kind: str) -> None:
    r = random.Random(seed)
    few = 2000 * step  # random bytes: byte by byte, minutes go into long ones
    pack: Callable[[bytes], bytes] = {
        "gzip": lambda d: gzip.compress(d, r.randrange(1, 10)),
        "xz": lambda d: lzma.compress(d, preset=r.randrange(3)),
        "zstd": lambda d: zstandard.ZstdCompressor(
            level=r.randrange(1, 9),
            write_checksum=r.random() < 0.5,
            write_content_size=r.random() < 0.5,
        ).compress(d),
    }[kind]
    want, packed = b"", b""
    for _ in range(r.randrange(1, 4)):
        part = r.randbytes(r.randrange(min(200_000, few))) + bytes(r.randrange(1, 3 * PIECE))
        want += part
        packed += pack(part)
        if kind == "zstd" and r.random() < 0.5:
            skipped = r.randbytes(min(70_000, few))
            packed += b"\x53\x2a\x4d\x18" + struct.pack("<I", len(skipped)) + skipped
    packed += b"\0" * r.randrange(9) if kind != "zstd" else b""
    members, out = Members(kind, "x"), []
    for at in range(0, len(packed), step):
        out += members.feed(packed[at : at + step])
    members.finish()
    assert b"".join(out) == want
    assert max(map(len, out), default=0) <= 2 * PIECE
