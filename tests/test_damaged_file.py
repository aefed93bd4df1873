"""A feats.zst damaged in any way: right values or TracekitError, never a crash, a hang or much
memory."""

from __future__ import annotations

import contextlib
import copy
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.cli.main import main
from tracekit.errors import FormatError
from tracekit.store import frames

SLOW = settings(max_examples=150)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    (folder / "t").write_text(synthetic.text(11, 900))
    tracekit.extract(folder / "t", folder / "feats.zst", chunk_rows=256)
    return folder / "feats.zst"


def everything(path: Path) -> dict[str, bytes]:
    with tracekit.open(path) as f:
        out = {n: f[n].tobytes() for n in f.columns if f.timed or n not in tracekit.schema.STAGES}
        out |= {s: f.features(s).tobytes() for s in ("perfvec-ref", "perfvec", "neuroscalar")}
        out["statics"] = repr(list(f.statics)).encode()
        if f.timed:
            out["targets"] = f.targets("ticks").tobytes()
        return out


@pytest.fixture(scope="module")
def right(made) -> dict[str, bytes]:
    return everything(made)


def test_verify_has_a_line_for_each_file(made, tmp_path, capsys) -> None:
    """What is wrong with them goes to standard error."""
    pipe, cut = tmp_path / "pipe", tmp_path / "cut.zst"
    os.mkfifo(pipe)
    cut.write_bytes(made.read_bytes()[:-40])
    assert main(["verify", str(pipe), str(made), str(cut)]) == 1
    out, err = capsys.readouterr()
    assert out == f"{pipe}: 1 problem\n{made}: ok\n{cut}: 1 problem\n"
    assert f"{pipe}: is a pipe" in err and f"{cut}: " in err


def right_or_refused(path: Path, right: dict[str, bytes], refused: bool | None = None) -> None:
    """Reading gives the right values or TracekitError; verify, info and dump never raise anything
    else."""
    try:
        values = everything(path)
    except tracekit.TracekitError as e:
        assert str(path) in str(e)
        assert refused is not False
        assert main(["verify", str(path)]) == 1
    else:
        assert values == right
        assert refused is not True
    assert main(["info", str(path)]) in (0, 1)
    assert main(["dump", str(path), "--rows", ":3"]) in (0, 1)


@SLOW
@given(st.data())
def test_flipped_bytes(made, right, tmp_path_factory, data):
    raw = bytearray(made.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("x") / "f.zst"
    path.write_bytes(raw)
    right_or_refused(path, right)


@pytest.mark.parametrize("part", range(8))
def test_every_region(made, right, tmp_path, part):
    """A flip every few bytes: none goes by unnoticed."""
    raw = made.read_bytes()
    path = tmp_path / "f.zst"
    for at in range(part * 7, len(raw), 8 * 23):
        damaged = bytearray(raw)
        damaged[at] ^= 1 << part
        path.write_bytes(damaged)
        try:
            values = everything(path)
        except tracekit.TracekitError:
            continue
        assert values == right, at


@SLOW
@given(st.data())
def test_cut_or_padded(made, right, tmp_path_factory, data):
    raw = made.read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    path = tmp_path_factory.mktemp("x") / "f.zst"
    path.write_bytes(
        data.draw(st.sampled_from([raw[:at], raw[at:] if at else b"", raw + b"x" * (at + 1)]))
    )
    right_or_refused(path, right, refused=True)


def remade(made: Path, path: Path, index: Any, head: Any = None) -> None:
    """The file with another index (and head), all checksums right."""
    raw = made.read_bytes()
    at = len(raw) - frames.TRAILER_SIZE
    offset, _ = frames.parse_trailer(raw[at:], "", 0)
    frame = frames.json_frame(frames.INDEX, index)
    body = raw[:offset]
    if head is not None:
        size = int.from_bytes(raw[4:8], "little") + 8
        new = frames.json_frame(frames.HEAD, head)
        assert len(new) == size
        body = new + raw[size:offset]
    path.write_bytes(body + frame + frames.trailer_frame(offset, len(frame)))


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Every place in a JSON value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(p for k, v in inner for p in places(v, (*path, k)))]


HOSTILE = [
    *(
        None,
        True,
        -1,
        0,
        1,
        7,
        2**31,
        2**53 + 1,
        2**63,
        2**64,
        10**30,
        -(10**30),
        1.5,
        1e300,
        "",
        "x",
        "5",
    ),
    *([], {}, [1, 2, 3], {"a": 1}, [2**62, 2**62, 2**62], "\ud800", [[]], [None] * 8, [-1] * 8),
]


@SLOW
@given(st.data())
def test_hostile_index(made, right, tmp_path_factory, data):
    with tracekit.open(made) as f:
        index = copy.deepcopy(f.index)
    every = [p for p in places(index) if p]
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(every))
        at: Any = index
        try:
            for k in way:
                at = at[k]
            if data.draw(st.booleans()) and isinstance(at, dict):
                at.pop(last, None)
            else:
                at[last] = data.draw(st.sampled_from(HOSTILE))
        except (KeyError, IndexError, TypeError):
            continue  # the first change took the second one's place away
    path = tmp_path_factory.mktemp("x") / "f.zst"
    remade(made, path, index)
    for command in (["verify"], ["info"], ["info", "--json"], ["dump", "--rows", ":3"]):
        assert main([command[0], str(path), *command[1:]]) in (0, 1)
    try:
        everything(path)
    except tracekit.TracekitError as e:
        assert str(path) in str(e)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[" * 100000, b'{"rows": NaN}', b"1" * 5000, b"\xff\xfe", b"null"]
)
def test_index_that_is_no_index(made, tmp_path, text):
    raw = made.read_bytes()
    offset, _ = frames.parse_trailer(raw[-frames.TRAILER_SIZE :], "", 0)
    frame = frames.skippable(frames.INDEX, text)
    path = tmp_path / "f.zst"
    path.write_bytes(raw[:offset] + frame + frames.trailer_frame(offset, len(frame)))
    with pytest.raises(tracekit.FormatError, match=r"index|INDX"):
        tracekit.open(path)


@pytest.mark.parametrize(
    "head", [[], {}, {"format": 2, "tracekit": "9"}, {"format": "1"}, {"format": True}]
)
def test_head(made, tmp_path, head):
    raw = made.read_bytes()
    size = int.from_bytes(raw[4:8], "little") + 8
    path = tmp_path / "f.zst"
    path.write_bytes(frames.json_frame(frames.HEAD, head) + raw[size:])
    with pytest.raises(tracekit.FormatError, match="format"):
        tracekit.open(path)


def test_trailer_elsewhere(made, tmp_path):
    raw = made.read_bytes()
    for offset, size in (
        (0, 0),
        (2**63, 2**63),
        (2**64 - 1, 1),
        (0, len(raw) - frames.TRAILER_SIZE),
    ):
        path = tmp_path / "f.zst"
        path.write_bytes(raw[: -frames.TRAILER_SIZE] + frames.trailer_frame(offset, size))
        with pytest.raises(tracekit.FormatError):
            tracekit.open(path)


def test_sizes_that_are_only_claimed(made, tmp_path):
    """An index that claims gigabytes is refused before any memory is asked for."""
    with tracekit.open(made) as f:
        index = copy.deepcopy(f.index)
    index["statics"]["count"] = 1 << 24
    for name, (dtype, width) in tracekit.store.statics.ARRAYS.items():
        index["statics"]["streams"][name][2] = (1 << 24) * max(width, 1) * np.dtype(dtype).itemsize
    index["statics"]["streams"]["bytes_length"][2] = 1 << 24
    many = copy.deepcopy(index["chunks"][0])
    many["rows"] = 1 << 20
    index["chunks"] = [many]
    index["rows"] = 1 << 20
    path = tmp_path / "f.zst"
    remade(made, path, index)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = subprocess.run(
        [sys.executable, "-m", "tracekit", "verify", str(path)],
        capture_output=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"tracekit: ") and done.stderr.count(b"\n") == 1
    assert b"size of" in done.stderr


@SLOW
@given(st.binary(max_size=3000), st.integers(1, 2000))
def test_any_stream_bytes(made, data, rows):
    """The chunk decoder on any bytes: values within their ranges, or its own error."""
    with tracekit.open(made) as f:
        hot = f._hot
        n = len(f.statics)
        c = f.chunk(0)
        streams = {name: f.stream(p) for name, p in f.index["chunks"][0]["streams"].items()}
    core = tracekit._core
    try:
        wild = core.Chunk(hot, rows, data[: len(data) // 2], data[len(data) // 2 :])
        assert wild.static_id().max() < n
    except ValueError:
        pass
    tame = core.Chunk(hot, c.rows, streams["static_id"], streams["bits"])
    for decode in (tame.addr, tame.distance, tame.reuse, tame.window, tame.probability):
        with contextlib.suppress(ValueError):
            assert len(decode(data)) == c.rows
    for wild_streams in ([data] * 8, [data, *[streams[s] for s in tracekit.schema.STAGES[1:]]]):
        with contextlib.suppress(ValueError):
            tame.ticks(wild_streams, 2**63 - 1)


def test_an_index_of_too_many_values_is_refused() -> None:
    """Sixteen megabytes of empty lists would be 400 MB of objects."""
    body = b"[" + b"[]," * (frames.MAX_VALUES // 2 + 1) + b"1]"
    with pytest.raises(FormatError, match="more than 4194304 values"):
        frames.parse_json(frames.skippable(frames.INDEX, body), frames.INDEX, "x", 0)
