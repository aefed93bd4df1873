"""Checkpoints of a training run: whole or not there, and only ever those of that very run."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError  # what torch.load(weights_only=True) raises
from typing import Any

from tracekit.errors import FormatError, UsageError
from tracekit.io.output import kept_folder, write_bytes


def write_checkpoint(torch: Any, place: Path, setup: Any, state: Mapping[str, Any]) -> None:
    """``state`` holds tensors, numbers, strings, and dicts and lists of them; ``setup`` names the
    run."""
    data = io.BytesIO()
    torch.save({"setup": setup, **state}, data)
    with kept_folder(place.parent):
        write_bytes(place, data.getbuffer(), force=True)


@contextmanager
def read_checkpoint(torch: Any, place: Path, setup: Any) -> Iterator[dict[str, Any]]:
    """What ``write_checkpoint`` was given.

    Raises UsageError where it is another run's, FormatError where it cannot be read or what the
    caller takes from it does not fit.
    """
    try:
        saved = torch.load(place, weights_only=True, map_location="cpu")
        if saved["setup"] != setup:
            raise UsageError(
                "the checkpoint is of another run", path=str(place), hint="use another folder"
            )
        yield saved
    except (KeyError, TypeError, RuntimeError, ValueError, EOFError, UnpicklingError) as e:
        raise FormatError(f"not a checkpoint of this version: {e}", path=str(place)) from None
