"""What a task's inputs hold: a stamp that costs nothing to take, and the content's own mark."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import xxhash

from tracekit.errors import TracekitError
from tracekit.io.files import open_file
from tracekit.io.remote import remote_stamp, remote_url
from tracekit.text import shown

__all__ = ["Stamp", "content_of", "size_in", "stamps_of"]

#: Size and time of change, or what a store says of an object; of a folder those of its files.
Stamp = list[object]

_PIECE = 1 << 20
_AT_ONCE = 16


def _files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.rglob("*") if f.is_file())


def stamp_of(path: str) -> Stamp:
    """Changes where the content does, and sometimes where it does not.  `TracekitError` where there
    is no such input."""
    if (url := remote_url(path)) is not None:
        return remote_stamp(url)
    place = Path(path)
    try:
        if place.is_dir():
            return [[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in _files(place)]
        status = place.stat()
    except OSError as e:
        raise TracekitError(f"cannot open: {e.strerror}", path=path) from None
    return [status.st_size, status.st_mtime_ns]


def _stamp_or_error(path: str) -> Stamp | TracekitError:
    try:
        return stamp_of(path)
    except TracekitError as e:
        return e


def stamps_of(paths: Sequence[str]) -> list[Stamp | TracekitError]:
    """A stamp, or why there is none, of each; addresses are asked several at once."""
    if not any(remote_url(p) for p in paths):
        return [_stamp_or_error(p) for p in paths]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_stamp_or_error, paths))


def size_in(stamp: Stamp) -> int:
    """The bytes that a stamp tells; 0 where it does not."""
    if stamp and isinstance(stamp[0], list):
        return sum(int(f[1]) for f in stamp if isinstance(f, list))
    return int(stamp[0]) if stamp and isinstance(stamp[0], int) else 0


def content_of(path: str) -> str:
    """The same for the same bytes: a hash of them, or the store's own mark.  `TracekitError` where
    they cannot be read."""
    if (url := remote_url(path)) is not None:
        return "mark:" + ":".join(shown(str(x)) for x in remote_stamp(url))
    place, found = Path(path), xxhash.xxh3_128()
    for file in _files(place) if place.is_dir() else [place]:
        with open_file(file) as f:
            while data := f.read(_PIECE):
                found.update(data)
    return f"xxh3_128:{found.hexdigest()}"
