"""``verify`` notices every bit of a file that this version writes, whichever is flipped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracekit.errors import TracekitError
from tracekit.extraction import extract
from tracekit.store import frames
from tracekit.store.reader import TraceFile
from tracekit.store.verification import verify
from tracekit.store.writer import Writer

LACKEY = "".join(f"I  {0x401000 + 4 * k:08x},4\n" for k in range(7))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of seven rows with as few words around them as a file can have."""
    folder = tmp_path_factory.mktemp("flips")
    (folder / "t").write_text(LACKEY)
    extract(folder / "t", folder / "whole.zst", level="macro")
    with TraceFile(folder / "whole.zst") as f:
        writer = Writer(folder / "small.zst", {"tracekit": "0"})
        meta = f.index["chunks"][0]
        streams = {k: f.stream(place) for k, place in meta["streams"].items()}
        writer.chunk({**meta, "streams": streams})
        kept = {k: f.index[k] for k in ("arch", "cpu", "level", "anomalies", "bits")}
        origin = {"path": "", "bytes": 0, "xxh3_128": ""}
        own = {"options": {"line_bits": 6}, "input": origin, "source": {}}
        writer.finish(f.statics, {**kept, **own})
    path = folder / "small.zst"
    assert verify(path) == []
    assert path.stat().st_size <= 1500
    return path


def unnoticed(path: Path, begin: int, end: int) -> list[tuple[int, int]]:
    """(byte, bit) of the flips between two bytes of which ``verify`` finds nothing; the file is
    whole again behind it."""
    out = []
    fd = os.open(path, os.O_RDWR)
    try:
        for at in range(begin, end):
            (byte,) = os.pread(fd, 1, at)
            for bit in range(8):
                os.pwrite(fd, bytes([byte ^ 1 << bit]), at)
                if not verify(path):
                    out.append((at, bit))
            os.pwrite(fd, bytes([byte]), at)
    finally:
        os.close(fd)
    assert verify(path) == []
    return out


def test_every_bit_of_a_small_file(small: Path) -> None:
    assert unnoticed(small, 0, small.stat().st_size) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", [pytest.param(0, marks=pytest.mark.ci), *range(1, 8)])
def test_every_bit_of_a_golden_file(golden: Path, tmp_path: Path, part: int) -> None:
    path = tmp_path / "f.zst"
    path.write_bytes((golden / "feats-v1-checksum.zst").read_bytes())
    size = path.stat().st_size
    assert unnoticed(path, size * part // 8, size * (part + 1) // 8) == []


def remade(made: Path, path: Path, change: dict[str, Any], gap: bytes = b"") -> None:
    """``made`` with other values in its index and ``gap`` in front of it."""
    raw = made.read_bytes()
    at = len(raw) - frames.TRAILER_SIZE
    offset, size = frames.parse_trailer(raw[at:], "", 0)
    index = frames.parse_json(raw[offset : offset + size], frames.INDEX, "", 0)
    index = {k: v for k, v in {**index, **change}.items() if v is not None}
    frame = frames.json_frame(frames.INDEX, index)
    body = raw[:offset] + gap
    path.write_bytes(body + frame + frames.trailer_frame(len(body), len(frame)))


def test_the_checksum_is_of_the_whole(small: Path, tmp_path: Path) -> None:
    """Another byte between frames, or another head: no frame tells, the checksum does."""
    path = tmp_path / "f.zst"
    remade(small, path, {})
    assert verify(path) == []
    remade(small, path, {"xxh3_128": "0" * 32})
    assert verify(path) == [f"{path}: checksum of the file is wrong"]
    head = frames.json_frame(frames.HEAD, {"format": 1, "tracekit": "1"})
    raw = small.read_bytes()
    path.write_bytes(head + raw[len(head) :])
    assert verify(path) == [f"{path}: checksum of the file is wrong"]
    remade(small, path, {"xxh3_128": "0"})
    with pytest.raises(TracekitError, match="xxh3_128"):
        TraceFile(path)


def test_a_file_without_a_checksum(small: Path, tmp_path: Path) -> None:
    """As older versions wrote it: read, and what no frame holds is noticed all the same."""
    path = tmp_path / "f.zst"
    remade(small, path, {"xxh3_128": None})
    assert verify(path) == []
    with TraceFile(path) as f, TraceFile(small) as g:
        assert np.array_equal(f["pc"], g["pc"])
    remade(small, path, {"xxh3_128": None}, b"x")
    assert verify(path) == [f"{path}: bytes that no frame holds, or two, at byte {path_gap(small)}"]


def path_gap(made: Path) -> int:
    with TraceFile(made) as f:
        return f.index_offset


def test_damage_is_placed(small: Path, tmp_path: Path) -> None:
    """The checksum says that something is wrong, the frame's own what."""
    with TraceFile(small) as f:
        offset, size, _ = f.index["chunks"][0]["streams"]["bits"]
    raw = bytearray(small.read_bytes())
    raw[offset + size - 1] ^= 4
    path = tmp_path / "f.zst"
    path.write_bytes(raw)
    whole, frame = verify(path)
    assert whole.endswith("checksum of the file is wrong")
    assert "(column bits of the chunk at row 0)" in frame and f"{offset}" in frame


def test_reserved_bits_and_empty_frames(tmp_path: Path) -> None:
    """What zstd itself lets pass."""
    frame = frames.Compressor(1)(b"abc")
    assert frames.decompress(frame, 3, "x", 0) == b"abc"
    for bit in (0x08, 0x10):
        with pytest.raises(TracekitError):
            frames.decompress(frame[:4] + bytes([frame[4] | bit]) + frame[5:], 3, "x", 0)
    empty = frames.Compressor(1)(b"")
    assert frames.decompress(empty, 0, "x", 0) == b""
    for at in range(len(empty)):
        with pytest.raises(TracekitError):
            frames.decompress(empty[:at] + bytes([empty[at] ^ 1]) + empty[at + 1 :], 0, "x", 0)
