"""A few thousand of tests/damage.py's inputs: only errors of tracekit's own family come out."""

from __future__ import annotations

import random
from pathlib import Path

import damage
import pytest


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, damage.Reader]:
    found = damage.all_readers(tmp_path_factory.mktemp("samples"))
    return {f"{number} {reader.name}": reader for number, reader in enumerate(found)}


def test_only_own_errors(tmp_path: Path) -> None:
    done, found = damage.run(2000, 7, tmp_path / "kept")
    assert done == 2000
    assert not found, "\n".join(text for wrong in found.values() for text in wrong[:2])


def test_samples_are_whole(readers: dict[str, damage.Reader], tmp_path: Path) -> None:
    """What is damaged is right before: else its reader would see nothing but its first check."""
    wrong = []
    for number, (name, reader) in enumerate(readers.items()):
        place = tmp_path / str(number)
        place.mkdir()
        for file, content in (reader.beside or {}).items():
            (place / file).write_bytes(content)
        for data in reader.of:
            (place / reader.name).write_bytes(data)
            try:
                reader.read(place)
            except damage.TracekitError as e:
                wrong.append(f"{name}: {e}")
    assert not wrong, "\n".join(wrong)


def test_the_seed_decides(readers: dict[str, damage.Reader]) -> None:
    for reader in readers.values():
        a, b = ([damage.damaged(random.Random(5), reader) for _ in range(3)] for _ in range(2))
        assert a == b


def test_what_else_comes_out_is_found(tmp_path: Path) -> None:
    def wrong(_: Path) -> object:
        raise KeyError("x")

    def late(_: Path) -> object:
        while True:
            pass

    data = b"x"
    assert "KeyError" in str(damage.one_input(damage.Reader("r", [data], wrong), data, tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(damage, "PATIENCE", 1)
        found = damage.one_input(damage.Reader("r", [data], late), data, tmp_path)
    assert "TimeoutError" in str(found)
