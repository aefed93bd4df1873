"""safetensors files: an 8-byte length, a JSON header, the tensors' bytes; nothing is executed."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, UsageError
from tracekit.io.files import parse_json, read_limited
from tracekit.io.output import replacing

__all__ = ["MAX_FILE", "read_safetensors", "write_safetensors"]

MAX_HEADER = 16 << 20
MAX_FILE = 1 << 30
MAX_RANK = 8
# BF16 has no NumPy type: it is read as uint16 and widened to float32.
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


def read_safetensors(path: str | Path, sha256: str | None = None) -> dict[str, NDArray[Any]]:
    """All tensors of a file by name, each an array of its own; bfloat16 becomes float32.

    Raises FormatError where the header's claims (sizes, offsets, shapes) do not fit the file, or
    where the file does not have the SHA-256 asked for.
    """
    path = Path(path)
    data = read_limited(path, MAX_FILE)
    if sha256 is not None and (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise FormatError(
            f"SHA-256 is {found}, the card says {sha256}",
            path=str(path),
            hint="the file was changed after the card was written",
        )
    if len(data) < 8:
        raise FormatError("not a safetensors file: shorter than 8 bytes", path=str(path))
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(MAX_HEADER, len(data) - 8):
        raise FormatError(f"header claims {length} bytes", path=str(path), offset=0)
    try:
        header = parse_json(data[8 : 8 + length])
    except ValueError as error:
        raise FormatError(f"header is not JSON: {error}", path=str(path), offset=8) from error
    if not isinstance(header, dict):
        raise FormatError("header is not a JSON object", path=str(path), offset=8)
    body = memoryview(data)[8 + length :]
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    tensors = {name: _view(name, entry, body, path) for name, entry in entries.items()}
    _refuse_overlaps(entries, path)
    return {name: _own(array, entries[name]["dtype"]) for name, array in tensors.items()}


def _refuse_overlaps(entries: Mapping[str, Any], path: Path) -> None:
    """Each byte belongs to one tensor, so that their copies are no larger than the file (bfloat16
    twice as large)."""
    places = [(*entry["data_offsets"], name) for name, entry in entries.items()]
    spans = sorted(p for p in places if p[0] < p[1])
    for (_, end, name), (begin, _, other) in itertools.pairwise(spans):
        if begin < end:
            raise FormatError(f"tensors {name!r} and {other!r} share bytes", path=str(path))


def _view(name: str, entry: Any, body: memoryview, path: Path) -> NDArray[Any]:
    """A tensor within the file's bytes, its claims checked."""

    def bad(why: str) -> FormatError:
        return FormatError(f"tensor {name!r}: {why}", path=str(path))

    if not isinstance(entry, dict):
        raise bad("its entry is not an object")
    kind, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(kind, str) or kind not in DTYPES:
        raise bad(f"dtype {kind!r} is not one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or len(shape) > MAX_RANK or not all(map(_is_size, shape)):
        raise bad(f"shape {str(shape)[:80]} is not a list of sizes")
    if not isinstance(span, list) or len(span) != 2 or not all(map(_is_size, span)):
        raise bad("data_offsets are not two sizes")
    begin, end = span
    count = 1
    for n in shape:
        count *= n  # Python integers: no overflow
    if not begin <= end <= len(body) or end - begin != count * DTYPES[kind].itemsize:
        raise bad(f"bytes {begin} to {end} do not fit shape {shape} of {kind}")
    return np.frombuffer(body[begin:end], DTYPES[kind]).reshape(shape)


def _own(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """Aligned and writable, so that the file's bytes can go."""
    if kind == "BF16":
        wide: NDArray[Any] = (array.astype(np.uint32) << 16).view(np.float32)
        return wide
    out: NDArray[Any] = array.copy()
    return out


def _is_size(n: Any) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MAX_FILE


def safetensors_bytes(tensors: Mapping[str, NDArray[Any]]) -> list[bytes]:
    """A file's content, in pieces: the tensors sorted by name, so that equal contents give equal
    bytes."""
    header: dict[str, Any] = {}
    chunks: list[bytes] = []
    offset = 0
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        little = array.dtype.newbyteorder("<") if array.dtype.itemsize > 1 else array.dtype
        if little not in NAMES:
            raise UsageError(f"tensor {name!r}: {array.dtype} has no safetensors type")
        raw = array.astype(little, copy=False).tobytes()
        header[name] = {
            "dtype": NAMES[little],
            "shape": list(tensors[name].shape),
            "data_offsets": [offset, offset + len(raw)],
        }
        chunks.append(raw)
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)) + text, *chunks]


def write_safetensors(path: str | Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write the tensors; a file that exists is replaced."""
    with replacing(path, force=True) as out:
        for piece in safetensors_bytes(tensors):
            out.write(piece)
