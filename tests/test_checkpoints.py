"""Checkpoints are read by a torch that no file makes run code, and from regular files alone."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.train.checkpoint import read_checkpoint, write_checkpoint


class Torch:
    """What read_checkpoint asks of torch."""

    def __init__(self, version: str) -> None:
        self.__version__ = version
        self.seen: list[bytes] = []

    def load(self, file: Any, *, weights_only: bool, map_location: str) -> dict[str, Any]:
        assert weights_only and map_location == "cpu"
        self.seen.append(file.read())
        return {"setup": 1, "epoch": 7}


@pytest.mark.parametrize("version", ["1.13.1", "2.5.1+cpu"])
def test_an_old_torch_reads_none(tmp_path: Path, version: str) -> None:
    (tmp_path / "c.pt").write_bytes(b"x")
    torch = Torch(version)
    with (
        pytest.raises(UsageError, match="cannot read a checkpoint safely"),
        read_checkpoint(torch, tmp_path / "c.pt", 1),
    ):
        pass
    assert not torch.seen


def test_only_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "c.pt").write_bytes(b"x")
    torch = Torch("2.10.0")
    with read_checkpoint(torch, tmp_path / "c.pt", 1) as saved:
        assert saved["epoch"] == 7 and torch.seen == [b"x"]
    with (
        pytest.raises(UsageError, match="another run"),
        read_checkpoint(torch, tmp_path / "c.pt", 2),
    ):
        pass
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with (
            pytest.raises(TracekitError, match="a file is needed"),
            read_checkpoint(torch, place, 1),
        ):
            pass
    assert len(torch.seen) == 2


@pytest.mark.parametrize("content", [b"", b"PK\3\4 cut", b"\x80\x02cos\nsystem\n(S'true'\ntR."])
def test_what_is_no_checkpoint(tmp_path: Path, content: bytes) -> None:
    """Among them a pickle that would call os.system."""
    torch = pytest.importorskip("torch")
    (tmp_path / "c.pt").write_bytes(content)
    with (
        pytest.raises(TracekitError, match="not a checkpoint"),
        read_checkpoint(torch, tmp_path / "c.pt", 1),
    ):
        pass


@pytest.mark.parametrize("kind", [IndexError, AssertionError, AttributeError, OSError, MemoryError])
def test_whatever_torch_raises_is_told(tmp_path: Path, kind: type[Exception]) -> None:
    class Raising(Torch):
        def load(self, file: Any, *, weights_only: bool, map_location: str) -> dict[str, Any]:
            raise kind("x\n" * 1000)

    (tmp_path / "c.pt").write_bytes(b"x")
    with (
        pytest.raises(FormatError, match=f"not a checkpoint of this version: {kind.__name__}"),
        read_checkpoint(Raising("2.10.0"), tmp_path / "c.pt", 1),
    ):
        pass


def test_damaged_checkpoints(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    place, net = tmp_path / "c.pt", torch.nn.Linear(4, 3)
    write_checkpoint(torch, place, {"a": 1}, {"net": net.state_dict(), "epoch": 3})
    good, r = place.read_bytes(), random.Random(5)
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for _change in range(r.choice((1, 2, 5))):
            data[r.randrange(len(data))] = r.randrange(256)
        place.write_bytes(data)
        try:
            with read_checkpoint(torch, place, {"a": 1}) as saved:
                net.load_state_dict(saved["net"])
        except TracekitError:
            refused += 1
    assert refused > 100
