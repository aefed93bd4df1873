"""Tasks and results as JSON: what travels between computers and lies in a run's folder."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from tracekit.errors import FormatError

__all__ = ["from_text", "to_text"]

_KEY = "array"
_KINDS = "biuf"


def _packed(value: object) -> object:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise TypeError(f"an array of {value.dtype}")
        a = np.ascontiguousarray(value)
        return {_KEY: [a.dtype.str, list(a.shape), base64.b64encode(a.tobytes()).decode()]}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} in a result")


def to_text(value: Any) -> str:
    """One line of JSON; arrays of numbers keep every bit."""
    return json.dumps(value, default=_packed, separators=(",", ":"))


def _unpacked(value: dict[str, Any]) -> Any:
    if value.keys() != {_KEY} or not isinstance(value[_KEY], list) or len(value[_KEY]) != 3:
        return value
    kind, shape, data = value[_KEY]
    dtype = np.dtype(str(kind))
    if dtype.kind not in _KINDS:
        raise ValueError(f"an array of {dtype}")
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape).copy()


def from_text(text: str, path: str = "") -> Any:
    """What `to_text` was given; `FormatError` where the text is none of its."""
    try:
        return json.loads(text, object_hook=_unpacked)
    except (ValueError, TypeError, RecursionError) as e:
        raise FormatError(f"no result of a task: {e}", path=path or None) from None
