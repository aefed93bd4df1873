"""Checkpoints of a training run: whole or not there, and only ever those of that very run."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.files import open_file
from tracekit.io.output import kept_folder, write_bytes


def write_checkpoint(torch: Any, place: Path, setup: Any, state: Mapping[str, Any]) -> None:
    """``state`` holds tensors, numbers, strings, and dicts and lists of them, ``ended`` among them
    where the run is over; ``setup`` names the run."""
    data = io.BytesIO()
    torch.save({"setup": setup, **state}, data)
    with kept_folder(place.parent):
        write_bytes(place, data.getbuffer(), force=True)


@contextmanager
def read_checkpoint(torch: Any, place: Path, setup: Any) -> Iterator[dict[str, Any]]:
    """What ``write_checkpoint`` was given.

    Raises UsageError where it is another run's or torch is too old, FormatError where it cannot be
    read or what the caller takes from it does not fit.
    """
    saved = _load(torch, place)
    try:
        if saved["setup"] != setup:
            raise UsageError(
                "the checkpoint is of another run",
                path=str(place),
                hint="use another folder, or --force to start over",
            )
        yield saved
    except (LookupError, TypeError, RuntimeError, ValueError, AttributeError, AssertionError) as e:
        raise _none(place, e) from None


def is_there(torch: Any, place: Path, setup: Any, force: bool) -> bool:
    """Whether there is a checkpoint; with ``force`` one of another run, or of one that has ended,
    is removed first."""
    if not place.exists():
        return False
    if force and not _is_unfinished(torch, place, setup):
        place.unlink()
        return False
    return True


def _is_unfinished(torch: Any, place: Path, setup: Any) -> bool:
    """Whether this very run began there and has not ended; False for a damaged checkpoint.

    Raises UsageError where torch is too old to tell.
    """
    try:
        saved = _load(torch, place)
    except FormatError:
        return False
    ours = isinstance(saved, dict) and saved.get("setup") == setup
    return ours and not saved.get("ended")


def _load(torch: Any, place: Path) -> Any:
    # Before 2.6 a file could make torch run code in spite of weights_only (CVE-2025-32434).
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        raise UsageError(
            f"torch {torch.__version__} cannot read a checkpoint safely", hint="torch 2.6 or newer"
        )
    try:
        with open_file(place) as file:
            return torch.load(file, weights_only=True, map_location="cpu")
    except TracekitError:
        raise
    except Exception as e:  # torch does not say which: of damaged files nearly any
        raise _none(place, e) from None


def _none(place: Path, error: Exception) -> FormatError:
    what = f"{type(error).__name__}: {error}"
    return FormatError(f"not a checkpoint of this version: {what[:300]}", path=str(place))
